"""Where a log can be cut, so that each byte range is read as a walk over the whole log would read it.

A range owns the entries and gaps that start in it. It begins at a position that a walk from the start of the log most
probably reaches: ``PROOF`` bytes of entries with right CRCs follow one another up to there, or all entries since the
start of the log are valid. A payload may hold as many. So a range counts only if the walk over the one before it gets
there (``Extent.is_missed``). The search for such a position begins at a lead, where an entry is said to start: an entry
of the .index, if the batch at its position has a right CRC and its offset (the batch's last one; brokers up to 1.1
stored its first). Where no such entry is near, the lengths of all entries are followed.

A range in which there is no such position is empty: the range before it goes on to the next one, or to the end of the
log. So no entry is read twice, and none is left out. Whether there is one depends on the bytes in and shortly before
the range only, and not much more is read to find out, whatever they hold.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from operator import attrgetter
from typing import Final, NamedTuple, Self, TypeVar

from kdump.codes import Codes, KdumpError
from kdump.format.batch import HEADER_SIZE, LENGTH_OFFSET, LOG_OVERHEAD, MAGIC_OFFSET, MIN_ENTRY_LENGTH
from kdump.format.index import OffsetEntry
from kdump.log.gaps import Gap
from kdump.log.heads import LARGEST_ENTRY, is_valid_entry, read_head
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.source import Source
from kdump.log.walk import DEFAULT_CHUNK_SIZE, Chunk, Walk

FoundT = TypeVar("FoundT")
NO_OFFSET: Final = -1
PROOF: Final = 1 << 20
"""Bytes of valid entries that must lead to a cut: the largest batch that a broker takes by default."""
_PROOF_CHUNK: Final = 1 << 18
_MOST_SPLITS: Final = 1 << 12
"""Parts of one log at most."""
_LARGEST_LOG: Final = 1 << 31
"""Bytes that a log of a broker never exceeds (Kafka's ``FileRecords`` counts them with an int32)."""
_MOST_SPLITS_BEYOND: Final = 64
"""Parts of a larger log at most: a sparse file can have 2**63 bytes, which cost nobody anything."""
_MOST_READ: Final = 2
"""How many times the bytes of a range and of a proof may be read where leads turn out wrong."""
_LEAST_COST: Final = 1 << 12
"""Bytes that a look at a lead counts at least."""
_LEAST_AHEAD: Final = 1 << 12
"""Bytes read at least to follow lengths; more where several entries begin in them."""
_LENGTH: Final = struct.Struct(">i")


@dataclass(slots=True)
class Extent:
    """A byte range: a valid entry begins at ``start`` and at ``end``, or ``end`` is the end of the log.

    0 begins any log.

    Attributes:
        previous_offset: the offset of the entry before ``start`` if that has magic 0 or 1, else -1. A wrapper does not
            say where its offsets begin, the entry before it does.
        end_offset: the same for ``end``.
        shown: entries and gaps that start before this position are left out.
        later: the ends of the ranges after this one, rising. Where the walk misses ``end``, the next one becomes it.
        is_missed: once the items are exhausted, the walk did not go from a valid entry to the one at ``end``. So a walk
            over the whole log does not either, and the range that begins there is false.
    """

    start: int
    end: int
    previous_offset: int = NO_OFFSET
    end_offset: int = NO_OFFSET
    shown: int = 0
    later: Sequence[int] = ()
    is_missed: bool = field(default=False, compare=False)

    def items(self, source: Source, chunk_size: int = DEFAULT_CHUNK_SIZE) -> Iterator[CheckedChunk | Gap]:
        """The entries and gaps that start in the range, as ``ResyncWalk.items`` gives them.

        The last may end after ``end``.
        """
        if self.start >= self.end:
            return
        walk = ResyncWalk(source, start=self.start, chunk_size=chunk_size)
        source.stop = self.end
        later = iter(self.later)
        follows_valid = True
        for item in walk.items():
            if isinstance(item, Gap):
                while item.position >= self.end:
                    if (end := next(later, None)) is None:
                        self.is_missed = True
                        return
                    self.end = end
                if item.position >= self.shown:
                    yield item
                follows_valid = False
                continue
            starts, position, damaged = item.starts, item.position, item.damaged
            first = bisect_left(starts, self.shown - position) if position < self.shown else 0
            while position + starts[-1] >= self.end:
                last = bisect_left(starts, self.end - position)
                if last:
                    follows_valid = last - 1 not in damaged
                self.is_missed = position + starts[last] != self.end or not follows_valid
                end = next(later, None) if self.is_missed else None
                if end is None:
                    if first < last:
                        yield _some(item, first, last)
                    return
                self.end, self.is_missed = end, False
            if first < len(starts):
                yield _some(item, first, len(starts)) if first else item
            follows_valid = damaged[-1:] != [len(starts) - 1]
        # The last of them is the end of the log.
        self.end = self.later[-1] if self.later else self.end
        self.is_missed = self.end < (source.size or 0)


def _some(chunk: CheckedChunk, first: int, last: int) -> CheckedChunk:
    """Entries ``first`` to ``last`` (exclusive) of a chunk."""
    bounds = chunk.bounds(first, last)
    damaged = [number - first for number in chunk.damaged if first <= number < last]
    return CheckedChunk(chunk.data, chunk.position, bounds[:-1], bounds[-1], damaged)


class FalseCutError(KdumpError):
    """The log was cut where no entry of it begins."""

    @classmethod
    def of(cls, extent: Extent) -> Self:
        """The error of a range whose end was missed."""
        what = "the log was cut here, in a payload or in damage; a splitBytes of its size reads it in one task"
        return cls(Codes.UNREADABLE, what, position=extent.end)


class LogCuts:
    """Finds where a log can be cut. It remembers the last cut, and how far the lengths of entries were followed.

    Args:
        index: the entries of the .index beside the log, positions rising; none: lengths are followed.
    """

    def __init__(self, index: Sequence[OffsetEntry]) -> None:
        self._index = index
        self._lengths = _Lengths()
        self._last: tuple[int, _ExtentPosition] | None = None

    def extent(self, source: Source, first: int, last: int) -> Extent:
        """Where to read what starts at file positions ``first`` to ``last`` (exclusive), a part by ``split_starts``.

        Every process finds the same ranges: each ends where the next one begins that is not empty.

        Args:
            source: the log, of the same size each time.
            first: 0 begins the log.
            last: the size of the file, or more, ends it.

        Raises:
            KdumpError: the file cannot be read.
        """
        start = self._cut(source, first, last)
        if start is None:
            return Extent(last, last)
        size = source.size or 0
        following = (begin for begin in (*split_starts(size, last - first), size) if last <= begin)
        cuts = (self._cut(source, begin, end) for begin, end in pairwise(following))
        end = next((cut for cut in cuts if cut is not None), _ExtentPosition(size))
        return Extent(start.position, end.position, start.previous_offset, end.previous_offset)

    def start(self, source: Source, first: int, last: int) -> int | None:
        """Where the extent of ``first`` to ``last`` starts; None where it is empty. Raises as ``extent``."""
        cut = self._cut(source, first, last)
        return None if cut is None else cut.position

    def _cut(self, source: Source, first: int, last: int) -> _ExtentPosition | None:
        if first <= 0:
            return _ExtentPosition(0)
        if self._last is not None and self._last[0] == first:
            return self._last[1]
        cut = _Search(source, self._index, self._lengths, first, min(last, source.size or 0)).found()
        if cut is not None:
            self._last = first, cut
        return cut


def split_starts(size: int, split_bytes: int) -> list[int]:
    """Where the parts of a log of ``size`` bytes begin. Each has ``split_bytes``, or more where these were too many.

    The last one may be a tenth larger: brokers roll a segment a little after its size, and the rest is not worth a part
    of its own.
    """
    split_bytes = max(split_bytes, size // (_MOST_SPLITS if size <= _LARGEST_LOG else _MOST_SPLITS_BEYOND))
    starts = list(range(0, size, split_bytes))
    if len(starts) > 1 and 10 * (size - starts[-2]) <= 11 * split_bytes:
        starts.pop()
    return starts


def leads(source: Source, index: Sequence[OffsetEntry], position: int) -> Iterator[int]:
    """Positions at which entries start according to the .index, from ``position`` backwards, without 0."""
    for entry in reversed(index[: _count_up_to(index, position)]):
        if entry.position and _look(source, entry)[0]:
            yield entry.position


class _ExtentPosition(NamedTuple):
    """A position in a file, with the offset of the entry before it; see Extent."""

    position: int
    previous_offset: int = NO_OFFSET


class _Search:
    """The search for the first proven position at ``first`` or later, before ``last``."""

    def __init__(self, source: Source, index: Sequence[OffsetEntry], lengths: _Lengths, first: int, last: int) -> None:
        self._source = source
        self._index = index
        self._lengths = lengths
        self._first = first
        self._last = last
        self._left = _MOST_READ * (last - first + PROOF)
        """Bytes that may still be read for leads that turn out wrong."""

    def found(self) -> _ExtentPosition | None:
        """The position; None where there is none."""
        begin = self._first - PROOF
        lead = self._lead_up_to(begin)
        if lead is None:
            lead = self._indexed_after(begin)
        while lead is not None:
            # A walk from the start of the log begins at 0, which needs no proof.
            least = max(self._first, lead + PROOF if lead else 0)
            if least >= self._last:
                break
            end, is_reached = self._follow(lead, least)
            if is_reached:
                return end if end.position < self._last else None
            self._left -= max(end.position - lead, _LEAST_COST)
            if self._left <= 0:
                break
            lead = self._indexed_after(end.position)
            if lead is None:
                lead = self._lengths.after(self._source, end.position)
        return None

    def _lead_up_to(self, position: int) -> int | None:
        """The last lead up to ``position``, if it is near."""
        if position <= 0:
            return 0
        near = position - PROOF
        number = _count_up_to(self._index, position)
        lead = self._first_true(takewhile(lambda entry: entry.position >= near, reversed(self._index[:number])))
        if lead is None:
            lead = self._lengths.up_to(self._source, position)
        # An entry may be larger than what lies between two entries of an .index.
        return lead if lead >= position - LARGEST_ENTRY else None

    def _indexed_after(self, position: int) -> int | None:
        """The first lead in the .index after ``position``."""
        number = _count_up_to(self._index, position)
        return self._first_true(takewhile(lambda entry: entry.position < self._last, self._index[number:]))

    def _first_true(self, entries: Iterable[OffsetEntry]) -> int | None:
        for entry in entries:
            if self._left <= 0:
                break
            is_true, size = _look(self._source, entry)
            if is_true:
                return entry.position
            self._left -= max(size, _LEAST_COST)
        return None

    def _follow(self, start: int, least: int) -> tuple[_ExtentPosition, bool]:
        """Follow valid entries from ``start`` on to the first one at ``least`` or later.

        Returns:
            That position and True, or where the last valid entry before it ends and False.
        """
        previous_offset = NO_OFFSET
        walk = Walk(self._source, start=start, limit=least + LARGEST_ENTRY, chunk_size=_PROOF_CHUNK)
        for chunk in _readable(walk.chunks(), self._source):
            for begin, end in chunk.entries():
                position = chunk.position + begin
                if not is_valid_entry(chunk.data, begin, end):
                    return _ExtentPosition(position), False
                if position >= least:
                    return _ExtentPosition(position, previous_offset), True
                previous_offset = _legacy_offset(chunk, begin)
        return _ExtentPosition(walk.position), False


def _legacy_offset(chunk: Chunk, start: int) -> int:
    """The offset of an entry of magic 0 or 1, else NO_OFFSET."""
    is_legacy = chunk.data[start + MAGIC_OFFSET] in (0, 1)
    return int.from_bytes(chunk.data[start : start + LENGTH_OFFSET], "big", signed=True) if is_legacy else NO_OFFSET


def _readable(found: Iterator[FoundT], source: Source) -> Iterator[FoundT]:
    """What is found before the first byte that cannot be read."""
    try:
        yield from found
    except KdumpError:
        if not source.can_skip_errors:
            raise


def _count_up_to(index: Sequence[OffsetEntry], position: int) -> int:
    """How many entries have a position up to this one."""
    return bisect_right(index, position, key=attrgetter("position"))


def _look(source: Source, entry: OffsetEntry) -> tuple[bool, int]:
    """Whether an entry of an .index is true, and how many bytes of the log had to be read.

    It is if the batch at its position has a right CRC, and its last offset (1.1 and before: first) is the entry's.
    """
    try:
        raw = source.read(entry.position, HEADER_SIZE)
        head = read_head(raw, 0, len(raw), entry.position)
        if head is None or not head.is_plausible or head.length > LARGEST_ENTRY:
            return False, len(raw)
        if entry.offset not in (head.offset, head.last_offset):
            return False, len(raw)
        raw = source.read(entry.position, head.end - entry.position)
    except KdumpError:
        if not source.can_skip_errors:
            raise
        return False, 0
    return entry.position + len(raw) == head.end and is_valid_entry(memoryview(raw), 0, len(raw)), len(raw)


class _Lengths:
    """Positions by the lengths of all entries from the start of the log, up to the first wrong one.

    It remembers how far it has followed them.
    """

    def __init__(self) -> None:
        self._followed = 0

    def up_to(self, source: Source, position: int) -> int:
        """The last position up to ``position``, which is 0 or more."""
        last = self._followed if self._followed <= position else 0
        for place in _readable(_places(source, last), source):
            if place > position:
                break
            last = place
        self._followed = last
        return last

    def after(self, source: Source, position: int) -> int | None:
        """The first position after ``position``, which is one of them; None where there is none."""
        return next(_readable(_places(source, position), source), None)


def _places(source: Source, start: int) -> Iterator[int]:
    """Where entries begin and end by their lengths after ``start``, where one begins. Large ones are not read."""
    position = start
    block, base, ahead, found = b"", start, _LEAST_AHEAD, 0
    while True:
        at = position - base
        if at + LOG_OVERHEAD > len(block):
            ahead = min(2 * ahead, DEFAULT_CHUNK_SIZE) if found > 1 else _LEAST_AHEAD
            block, base, at, found = source.read(position, ahead), position, 0, 0
            if len(block) < LOG_OVERHEAD:
                return
        (length,) = _LENGTH.unpack_from(block, at + LENGTH_OFFSET)
        position += LOG_OVERHEAD + length
        found += 1
        if length < MIN_ENTRY_LENGTH or position > (source.size or 0):
            return
        yield position
