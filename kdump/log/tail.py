"""The newest whole entry of a log that may still be written.

An entry that the end of the file cuts may be a write in progress. What follows its header is its payload then, which
may hold whole batches itself (Kafka bytes stored in Kafka). So valid entries after it show that it is damaged only if
their offsets continue after its last one, or if nothing more is written (``is_settled``). The same holds for an entry
with a wrong CRC as long as the next entry is not whole.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple

from kdump.codes import KdumpError
from kdump.format.batch import HEADER_SIZE, parse_header
from kdump.format.index import OffsetEntry
from kdump.log.gaps import Gap
from kdump.log.heads import LARGEST_ENTRY, SMALLEST_ENTRY, Head, is_valid_entry, read_head
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.source import Source

NO_EPOCH: Final = -1
"""The leader epoch of entries before magic 2."""


class TailEntry(NamedTuple):
    """A valid entry: file positions of its start and end, its CRC, its last offset, its leader epoch."""

    start: int
    end: int
    crc: int
    last_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TailBounds:
    """Which entries are meant. None: no bound.

    ``position``: entries that end there or before; ``offset``: those with lower offsets; ``epoch``: those of this
    leader epoch or earlier ones.
    """

    position: int | None = None
    offset: int | None = None
    epoch: int | None = None


def entry_at(source: Source, position: int) -> TailEntry | None:
    """The entry that the header at ``position`` describes, valid or not; None where there is no whole header."""
    data = source.read(position, HEADER_SIZE)
    head = read_head(data, 0, len(data), position)
    return None if head is None or (head.magic >= 2 and len(data) < HEADER_SIZE) else _entry(head, data, 0)


def newest_entry(
    source: Source, floor: int, bounds: TailBounds, index: Sequence[OffsetEntry], *, is_settled: bool, take_one: bool
) -> TailEntry | None:
    """The last valid entry within bounds that starts at ``floor`` or after; None where there is none.

    Args:
        source: a log.
        floor: where an entry starts.
        bounds: the entries that are meant.
        index: of the .index, to begin near the end; none: all from ``floor`` on is read.
        is_settled: nothing more is written to this file.
        take_one: where no entry is within bounds, the first valid one is given.

    Raises:
        KdumpError: the file cannot be read.
    """
    for lead in _leads(source, floor, bounds, index):
        is_last = lead == floor
        found = _newest(source, lead, bounds, is_settled=is_settled, take_one=take_one and is_last)
        if found is not None or is_last:
            return found
    return None


def _leads(source: Source, floor: int, bounds: TailBounds, index: Sequence[OffsetEntry]) -> Iterator[int]:
    """Where entries start, from near the bounds backwards to ``floor``."""
    target = source.size or 0
    if bounds.position is not None:
        target = min(target, bounds.position)
    if bounds.offset is not None and index:
        number = bisect_left(index, bounds.offset, key=lambda entry: entry.offset)
        target = min(target, index[number - 1].position if number else 0)
    # The index has no epochs: they are searched from the start.
    if bounds.epoch is None:
        for entry in reversed(index[: bisect_right(index, target, key=attrgetter("position"))]):
            if entry.position <= floor:
                break
            if _is_true(source, entry):
                yield entry.position
    yield floor


def _is_true(source: Source, entry: OffsetEntry) -> bool:
    """Whether an entry begins where the .index says, with a right CRC and the offset that the .index says.

    That is the last offset of a batch; brokers up to 1.1 stored its first one.
    """
    try:
        head = _head(source, entry.position)
        if head is None or not head.is_plausible or head.length > LARGEST_ENTRY:
            return False
        if entry.offset not in (head.offset, head.last_offset):
            return False
        raw = source.read(entry.position, head.end - entry.position)
    except KdumpError:
        if not source.can_skip_errors:
            raise
        return False
    return entry.position + len(raw) == head.end and is_valid_entry(memoryview(raw), 0, len(raw))


def _newest(source: Source, start: int, bounds: TailBounds, *, is_settled: bool, take_one: bool) -> TailEntry | None:
    newest: TailEntry | None = None
    if not is_settled and _is_blank(source, start):
        return None
    for item in ResyncWalk(source, start=start).items():
        if isinstance(item, Gap):
            if not is_settled and _may_be_written(source, item):
                break
            continue
        count = _within(item, bounds)
        newest = _last_valid(item, range(count - 1, -1, -1)) or newest
        if count < len(item.starts):
            if newest is not None or not take_one:
                break
            newest = _last_valid(item, range(count, len(item.starts)))
            if newest is not None:
                break
        if not is_settled and _is_blank(source, item.position + item.end):
            break
    return newest


def _within(chunk: CheckedChunk, bounds: TailBounds) -> int:
    """How many entries are within the bounds, from the first on: ends, offsets and epochs rise."""
    count = len(chunk.starts)
    if bounds.position is not None:
        count = bisect_right((*chunk.starts[1:], chunk.end), bounds.position - chunk.position, 0, count)
    if bounds.offset is not None:
        count = bisect_left(chunk.starts, bounds.offset, 0, count, key=lambda start: _at(chunk, start).last_offset)
    if bounds.epoch is not None:
        count = bisect_right(chunk.starts, bounds.epoch, 0, count, key=lambda start: _at(chunk, start).epoch)
    return count


def _last_valid(chunk: CheckedChunk, numbers: range) -> TailEntry | None:
    """The first valid entry among ``numbers``."""
    damaged = set(chunk.damaged)
    return next((_at(chunk, chunk.starts[number]) for number in numbers if number not in damaged), None)


def _at(chunk: CheckedChunk, start: int) -> TailEntry:
    data = chunk.data[start : start + HEADER_SIZE]
    head = read_head(bytes(data), 0, len(data), chunk.position + start)
    assert head is not None, "a walk gives no entry without a header"
    return _entry(head, data, 0)


def _entry(head: Head, data: bytes | memoryview, start: int) -> TailEntry:
    epoch = parse_header(data, start).partition_leader_epoch if head.magic >= 2 else NO_EPOCH
    return TailEntry(head.position, head.end, head.crc, head.last_offset, epoch)


def _is_blank(source: Source, position: int) -> bool:
    """Zeros where an entry would start: a preallocated file, not written yet."""
    data = source.read(position, SMALLEST_ENTRY)
    return bool(data) and not any(data)


def _may_be_written(source: Source, gap: Gap) -> bool:
    """Whether the entry that begins the gap, or the entry after it, ends after the file.

    What was found in the gap may then be payload: a wrong CRC does not mean that the length is wrong.
    """
    if gap.overlaps:
        return False
    head = _head(source, gap.position)
    if head is None or not head.is_plausible or gap.continue_at == head.last_offset + 1:
        return False
    size = source.size or 0
    following = _head(source, head.end)
    return head.end > size or following is None or (following.is_plausible and following.end > size)


def _head(source: Source, position: int) -> Head | None:
    data = source.read(position, HEADER_SIZE)
    return read_head(data, 0, len(data), position)
