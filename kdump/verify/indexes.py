"""Offset and time indexes against the batches of their log, as columns: 262,144 entries cost milliseconds.

Source: docs/spec/formats.md#63-entries-that-differ-and-are-still-valid for what is valid: zeros after the entries,
entries of brokers up to 1.1 that name the FIRST offset of a batch, time index entries that name any record of their
batch. Brokers up to 3.8 index what was appended at once (a follower's fetch: many batches) by the position of its first
batch and the last offset of its last one. With LogAppendTime they index messages of magic 0, which have no timestamps,
by the time of the append (seen with 0.11.0.3 and 2.4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes, DamageError, Finding, Severity
from kdump.format.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, TXN_ENTRY_SIZE, parse_txn_index
from kdump.log.heads import LARGEST_ENTRY
from kdump.log.names import Kind
from kdump.verify.indexedlog import Column, IndexedLog, NamedPlaces

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_TXN_ENTRY: Final = np.dtype(
    {"names": ["producer", "offset"], "formats": [">i8"] * 2, "offsets": [2, 18], "itemsize": TXN_ENTRY_SIZE}
)
_LAYOUTS: Final = {Kind.INDEX: _OFFSET_ENTRY, Kind.TIME_INDEX: _TIME_ENTRY, Kind.TXN_INDEX: _TXN_ENTRY}
_OTHERS: Final = {Kind.INDEX: "position", Kind.TIME_INDEX: "timestamp"}
_LEAST_SPARSE: Final = 16 << 20
"""More bytes without an entry than any broker leaves: far above index.interval.bytes and the size of a fetch."""
_SPARSE_FACTOR: Final = 16
_DENSER: Final = 16
"""An index may claim so many times as many offsets per byte as its log has."""
_NEAR: Final = 1 << 20
_FAR: Final = 16
"""An unconfirmed offset is believed up to this many offsets after a log, or this many times those in the log."""
_USUAL_RECORD: Final = 16
"""Bytes. Hardly any log has smaller records, even compressed."""


MOST_FINDINGS: Final = 8
"""Findings per code and file; the last one counts the entries that are left."""


def grouped(
    numbers: Sequence[int] | NDArray[np.intp], entry_size: int, code: Codes, describe: Callable[[int], str]
) -> Iterator[Finding]:
    """A finding per entry for the first few, the last of which counts the others.

    Args:
        numbers: of the entries, rising.
        entry_size: bytes of an entry.
        code: what is wrong.
        describe: returns what is wrong with the entry of a number.
    """
    for place, number in enumerate(numbers):
        left = len(numbers) - place - 1
        message = f"entry {number}: {describe(int(number))}"
        position = int(number) * entry_size
        if place == MOST_FINDINGS - 1 and left:
            extent = (int(numbers[-1]) + 1) * entry_size - position
            yield Finding(code, f"{message}; and {left} more entries", position, extent)
            return
        yield Finding(code, message, position, entry_size)


class IndexColumns:
    """The entries of an .index or a .timeindex; the columns have the shape (entries,).

    Args:
        offset: of each entry, any integers; relative to the base offset.
        other: the position in the log (.index) or the timestamp (.timeindex) of each.
        base_offset: 0 where the offsets are not relative.
    """

    def __init__(self, offset: NDArray[Any], other: NDArray[Any], base_offset: int = 0) -> None:
        self._relative = offset
        self._base_offset = base_offset
        self.offset: Column = offset.astype(np.int64) + np.array([base_offset])
        self.other: Column = other.astype(np.int64)

    @classmethod
    def of_file(cls, kind: Kind, data: bytes, base_offset: int) -> IndexColumns:
        """The entries of an index file (INDEX or TIME_INDEX) up to the zeros after them.

        A running or killed broker leaves such zeros.
        """
        layout = _LAYOUTS[kind]
        entries = np.frombuffer(data, layout, used_count(data, layout.itemsize))
        return cls(entries["offset"], entries[_OTHERS[kind]], base_offset)

    def __len__(self) -> int:
        return self.offset.size

    def entry(self, number: int) -> tuple[int, int]:
        """The offset, and the position or timestamp, of an entry."""
        return int(self.offset[number]), int(self.other[number])

    def largest_offset(self, first: int = 0) -> int:
        """The largest offset from the entry ``first`` on, base - 1 without one."""
        return self._base_offset + int(self._relative[first:].max(initial=-1))

    def before(self, offset: int, other: int) -> tuple[Column, Column]:
        """The offset and the position or timestamp before each entry; before the first one these."""
        return _shifted(offset, self.offset), _shifted(other, self.other)

    def other_after(self, last: int) -> Column:
        """The position or timestamp after each entry; after the last one ``last``."""
        return _shifted(last, self.other[::-1])[::-1]


def _shifted(first: int, column: Column) -> Column:
    """A value, and after it the column without its last one."""
    return np.append(np.array([first], np.int64), column)[: column.size]


def named_places(index: bytes, time_index: bytes, base_offset: int) -> NamedPlaces:
    """The places of a log that its .index and its .timeindex name."""
    entries = IndexColumns.of_file(Kind.INDEX, index, base_offset)
    times = IndexColumns.of_file(Kind.TIME_INDEX, time_index, base_offset)
    return NamedPlaces(np.sort(entries.other), np.sort(np.concatenate((entries.offset, times.offset))))


def used_count(data: bytes, entry_size: int) -> int:
    """The number of whole entries up to the zeros at the end."""
    whole = len(data) - len(data) % entry_size
    used = len((data if whole == len(data) else data[:whole]).rstrip(b"\0"))
    return -(-used // entry_size)


def check_offset_index(data: bytes, log: IndexedLog) -> Iterator[Finding]:
    """Check an .index; the positions of the findings are those of its entries."""
    if not data and log.size <= _LEAST_SPARSE:
        return
    yield from _check_size(data, OFFSET_ENTRY_SIZE)
    entries = IndexColumns.of_file(Kind.INDEX, data, log.base_offset)
    is_indexed = np.zeros(log.position.size, np.bool_)
    unordered, beyond, astray, later, wrong = _offset_masks(entries, log, is_indexed)
    yield from _findings(
        unordered,
        OFFSET_ENTRY_SIZE,
        Codes.INDEX_ORDER,
        lambda i: "offset {}, position {}".format(*entries.entry(i)) + _after(entries.entry(i - 1) if i else ()),
    )
    beyond = _believed(_tail(beyond), entries, log, offset_index_end)
    yield from _beyond(beyond, entries, log, OFFSET_ENTRY_SIZE)
    lost = astray & ~beyond
    yield from _findings(lost, OFFSET_ENTRY_SIZE, Codes.INDEX_ENTRY, lambda i: _where(*entries.entry(i), log))
    if not log.position.size:
        return
    if len(entries) and entries.entry(0)[1] == 0:
        # A first batch is never indexed: no broker writes an entry of zeros before real ones.
        wrong[0] = True
    yield from _findings(
        wrong & ~lost, OFFSET_ENTRY_SIZE, Codes.INDEX_ENTRY, lambda i: _other_batch(*entries.entry(i), log)
    )
    yield from _later(later & ~wrong & ~unordered)
    yield from _sparse(is_indexed, log)


def _offset_masks(
    entries: IndexColumns, log: IndexedLog, is_indexed: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], ...]:
    """What there is to say of the entries of an .index; each of shape (entries,).

    They are out of order; they lead beyond the end of the log and name offsets there; they lead to no batch; they name
    the last offset of a later batch; they name an offset that is not of their batch. ``is_indexed``: the batches to
    which right entries lead are marked in it.
    """
    offset, position = entries.offset, entries.other
    offset_before, position_before = entries.before(log.base_offset - 1, -1)
    unordered = (offset <= offset_before) | (position <= position_before)
    number, begins = log.batch_at(position)
    beyond = (position >= log.size) & (offset > log.end_offset)
    astray = ~begins & ~log.in_gap(position)
    if not log.position.size:
        return unordered, beyond, astray, begins, begins
    is_last = offset == log.last[number]
    later = begins & (offset > log.last[number]) & _names_later_batch(entries, log)
    wrong = begins & ~is_last & ~later & ((offset != log.first[number]) & _is_no_first_offset(number, offset, log))
    wrong |= begins & (offset <= log.last_before[number])
    is_indexed[number[begins & ~wrong]] = True
    return unordered, beyond, astray, later, wrong


def check_time_index(data: bytes, log: IndexedLog, *, is_closed: bool = False) -> Iterator[Finding]:
    """Check a .timeindex.

    Args:
        data: the file.
        log: its log.
        is_closed: nothing is appended to the segment any more, so its last entry has the largest timestamp.
    """
    yield from _check_size(data, TIME_ENTRY_SIZE)
    entries = IndexColumns.of_file(Kind.TIME_INDEX, data, log.base_offset)
    masks = _time_masks(entries, log)
    if np.array(masks).any():
        yield from _time_findings(*masks, entries=entries, log=log)
    # 0 also without an entry: an entry of timestamp 0 for the first offset looks like the zeros after the entries.
    if is_closed and log.position.size and (indexed := int(entries.other.max(initial=0))) < log.largest[-1]:
        yield Finding(
            Codes.TIME_INDEX_SHORT,
            f"the last entry has timestamp {indexed}, the log {log.largest[-1]}",
            len(entries) * TIME_ENTRY_SIZE,
        )


def _time_findings(
    unordered: NDArray[np.bool_],
    beyond: NDArray[np.bool_],
    elsewhere: NDArray[np.bool_],
    of_append: NDArray[np.bool_],
    wrong: NDArray[np.bool_],
    *,
    entries: IndexColumns,
    log: IndexedLog,
) -> Iterator[Finding]:
    """The findings of ``_time_masks``."""

    def timed(number: int) -> str:
        offset, timestamp = entries.entry(number)
        return f"timestamp {timestamp}, offset {offset}"

    yield from _findings(
        unordered,
        TIME_ENTRY_SIZE,
        Codes.INDEX_ORDER,
        lambda i: timed(i) + _after(reversed(entries.entry(i - 1)) if i else ()),
    )
    beyond = _believed(_tail(beyond), entries, log, time_index_end)
    yield from _beyond(beyond, entries, log, TIME_ENTRY_SIZE)
    if not log.has_gaps:
        yield from _findings(
            elsewhere & ~beyond,
            TIME_ENTRY_SIZE,
            Codes.TIME_INDEX_ENTRY,
            lambda i: f"no batch holds offset {entries.entry(i)[0]}",
        )
    if log.position.size:
        yield from _of_append(of_append)
        yield from _findings(
            wrong, TIME_ENTRY_SIZE, Codes.TIME_INDEX_ENTRY, lambda i: _other_time(*entries.entry(i), log)
        )


def _time_masks(entries: IndexColumns, log: IndexedLog) -> tuple[NDArray[np.bool_], ...]:
    """What there is to say of the entries of a .timeindex; each of shape (entries,).

    They are out of order; they name offsets after the end of the log; they name offsets of no batch; they have the time
    of an append; they have a timestamp that is not of their batch.
    """
    offset, timestamp = entries.offset, entries.other
    offset_before, timestamp_before = entries.before(log.base_offset, -1)
    unordered = (timestamp <= timestamp_before) | (offset < offset_before)
    number, held = log.batch_of(offset)
    beyond = offset > log.end_offset
    if not log.position.size:
        return unordered, beyond, ~held, held, held
    of_append = held & (log.largest[number] < 0) & (offset == log.last[number])
    wrong = held & ~of_append & ((log.max_timestamp[number] != timestamp) | (log.largest[number] > timestamp))
    return unordered, beyond, ~held, of_append, wrong


def without_appended(data: bytes, kind: Kind, log: IndexedLog, size: int) -> bytes:
    """An index file of a log that has grown, without its last entries for the batches that were appended.

    Args:
        data: the file. A file that is no index has no such entries.
        kind: of the file.
        log: as it was read.
        size: bytes of the log after the file was read. A broker writes to the log first, so an entry of the .index that
            leads beyond them is a fault.
    """
    layout = _LAYOUTS[kind]
    used = used_count(data, layout.itemsize)
    entries = np.frombuffer(data, layout, used)
    base_offset = 0 if kind is Kind.TXN_INDEX else log.base_offset
    is_appended = entries["offset"] > log.end_offset - base_offset
    if kind is Kind.INDEX:
        is_appended &= entries["position"] < size
    kept = used - np.count_nonzero(_tail(is_appended))
    # The rest of an entry that is just being written goes too.
    return data[: kept * layout.itemsize] if kept < used or len(data) % layout.itemsize else data


def is_near(offset: int, start: int, end: int) -> bool:
    """Whether ``offset`` is so near after a log of ``start`` to ``end`` (exclusive) that it is hardly garbage."""
    return offset - end <= max(_NEAR, _FAR * (end - start))


def offset_index_end(entries: IndexColumns, log: IndexedLog) -> int | None:
    """The end offset that an .index claims, if a broker could have made all its entries for this log; else None.

    They rise in steps that batches and index.interval.bytes allow. An entry that leads into a valid batch leads to its
    start and names no offset before it. Elsewhere the offsets per byte stay near those of the log.
    """
    if not len(entries):
        return None
    has_batches = bool(log.position.size)
    offset, position = entries.offset, entries.other
    offset_before, position_before = entries.before((int(log.first[0]) if has_batches else log.base_offset) - 1, 0)
    step, distance = offset - offset_before, position - position_before
    is_right = (step > 0) & (distance > 0) & (distance <= LARGEST_ENTRY)
    is_inside = np.zeros(offset.size, np.bool_)
    density = 1 / _USUAL_RECORD
    if has_batches:
        density = max((int(log.last[-1]) - int(log.first[0]) + 1) / int(log.total[-1]), density)
        order = np.argsort(log.position, kind="stable")
        place = np.searchsorted(log.position[order], position, side="right") - 1
        number = order[np.maximum(place, 0)]
        is_inside = (place >= 0) & (position < log.end[number])
        is_right &= ~is_inside | ((position == log.position[number]) & (offset >= log.first[number]))
    is_right &= is_inside | (step <= _DENSER * density * distance)
    return entries.entry(-1)[0] + 1 if is_right.all() else None


def time_index_end(entries: IndexColumns, log: IndexedLog) -> int | None:
    """The end offset that a .timeindex claims, if it rises and has the right timestamps of batches; else None.

    It proves less than an .index: it does not tell where in the file an offset is.
    """
    if not len(entries):
        return None
    last_offset, _ = entries.entry(-1)
    if not is_near(last_offset, log.base_offset, log.end_offset + 1):
        return None
    offset_before, timestamp_before = entries.before(log.base_offset, -1)
    number, held = log.batch_of(entries.offset)
    is_other = held & (log.max_timestamp[number] != entries.other) if log.position.size else held
    is_right = (entries.other > timestamp_before) & (entries.offset >= offset_before) & ~is_other
    return last_offset + 1 if is_right.all() else None


def index_end(kind: Kind, data: bytes, log: IndexedLog) -> int | None:
    """The end offset that an index file claims, if it can be believed; None if not, or without an entry.

    A file with zeros after its entries is in use. If a follower truncates its log, the entries of what it cut stay in
    the file until the segment is closed (AbstractIndex.truncateToEntries). But it truncates between batches: where the
    log ends in damage, more than that happened.
    """
    if kind is Kind.TXN_INDEX:
        return _txn_index_end(data, log)
    entries = IndexColumns.of_file(kind, data, log.base_offset)
    if len(entries) < len(data) // _LAYOUTS[kind].itemsize and not log.ends_in_damage:
        return None
    return offset_index_end(entries, log) if kind is Kind.INDEX else time_index_end(entries, log)


def indexed_end(kind: Kind, data: bytes, base_offset: int) -> int:
    """The end offset that an index file claims, garbage or not; the base offset without an entry."""
    if kind is Kind.TXN_INDEX:
        try:
            return max((entry.last_offset + 1 for entry in parse_txn_index(data)), default=base_offset)
        except DamageError:
            return base_offset
    return IndexColumns.of_file(kind, data, base_offset).largest_offset() + 1


def _txn_index_end(data: bytes, log: IndexedLog) -> int | None:
    """The end offset by the last ABORT marker of a .txnindex, if its entries are possible and rise; else None."""
    try:
        entries = parse_txn_index(data)
    except DamageError:
        return None
    last_offset = log.base_offset - 1
    for entry in entries:
        is_possible = 0 <= entry.first_offset <= entry.last_offset and entry.last_stable_offset <= entry.last_offset + 1
        if entry.version or entry.producer_id < 0 or not is_possible or entry.last_offset <= last_offset:
            return None
        last_offset = entry.last_offset
    return last_offset + 1 if entries else None


def _believed(
    beyond: NDArray[np.bool_],
    entries: IndexColumns,
    log: IndexedLog,
    end_of: Callable[[IndexColumns, IndexedLog], int | None],
) -> NDArray[np.bool_]:
    """``beyond`` if offsets may be lost after this log and the index can be believed; else all False.

    An index of garbage proves nothing, and no offsets are lost where the next segment begins at the end of this one.
    """
    is_followed = log.next_base is not None and log.next_base <= log.end_offset + 1
    if beyond.any() and (is_followed or end_of(entries, log) is None):
        return np.zeros(beyond.size, np.bool_)
    return beyond


def _check_size(data: bytes, entry_size: int) -> Iterator[Finding]:
    rest = len(data) % entry_size
    if rest:
        message = f"{len(data)} bytes are no multiple of {entry_size}"
        yield Finding(Codes.INDEX, message, len(data) - rest, rest)


def _tail(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """``mask`` with only its last run of true values."""
    return np.asarray(np.logical_and.accumulate(mask[::-1])[::-1])


def _names_later_batch(entries: IndexColumns, log: IndexedLog) -> NDArray[np.bool_]:
    """Whether each offset is the last one of some batch before the position of the next entry."""
    number, held = log.batch_of(entries.offset)
    is_before = log.position[number] < entries.other_after(log.size)
    return np.asarray(held & (log.last[number] == entries.offset) & is_before)


def _is_no_first_offset(number: Column, offset: Column, log: IndexedLog) -> NDArray[np.bool_]:
    """Whether each offset cannot be the first one of a legacy wrapper."""
    return np.asarray(~((log.first[number] == log.last[number]) & log.holds(number, offset)))


def _after(fields: Iterable[int]) -> str:
    """Names the entry before, if there is one."""
    text = ", ".join(map(str, fields))
    return text and f" after {text}"


def _where(offset: int, position: int, log: IndexedLog) -> str:
    place = f"after the log's {log.size} bytes" if position >= log.size else "where no batch begins"
    return f"offset {offset} leads to position {position}, {place}"


def _other_batch(offset: int, position: int, log: IndexedLog) -> str:
    (number,), _ = log.batch_at(np.array([position]))
    return f"offset {offset}, but the batch at {position} holds {log.first[number]}..{log.last[number]}"


def _other_time(offset: int, timestamp: int, log: IndexedLog) -> str:
    (number,), _ = log.batch_of(np.array([offset]))
    return (
        f"timestamp {timestamp} for offset {offset}, whose batch has at most {log.max_timestamp[number]}, "
        f"those up to it {log.largest[number]}"
    )


def _beyond(beyond: NDArray[np.bool_], entries: IndexColumns, log: IndexedLog, entry_size: int) -> Iterator[Finding]:
    if not beyond.any():
        return
    first = int(beyond.argmax())
    yield Finding(
        Codes.INDEX_BEYOND_LOG,
        f"{beyond.size - first} entries up to offset {entries.largest_offset()}, and the log ends with "
        f"{log.end_offset}",
        first * entry_size,
        (beyond.size - first) * entry_size,
        first_offset=log.end_offset + 1,
        last_offset=_bounded(entries.largest_offset(first), log.next_base),
    )


def _bounded(offset: int, next_base: int | None) -> int:
    """``offset``, or the last one before the next segment: what that segment contains is not lost."""
    return offset if next_base is None else min(offset, next_base - 1)


def _later(later: NDArray[np.bool_]) -> Iterator[Finding]:
    if later.any():
        message = f"{np.count_nonzero(later)} entries name the last offset of a batch after the one they lead to"
        yield Finding(Codes.INDEX_LATER_BATCH, message, int(later.argmax()) * OFFSET_ENTRY_SIZE)


def _of_append(of_append: NDArray[np.bool_]) -> Iterator[Finding]:
    if of_append.any():
        message = f"{np.count_nonzero(of_append)} entries have a time, and messages without timestamps"
        yield Finding(Codes.TIME_INDEX_ENTRY, message, int(of_append.argmax()) * TIME_ENTRY_SIZE, graded=Severity.INFO)


def _sparse(is_indexed: NDArray[np.bool_], log: IndexedLog) -> Iterator[Finding]:
    """The longest byte range without an entry, if it is far longer than the others.

    A batch is indexed when more than an interval lies between it and the batch indexed last. So the last batch without
    an entry tells how long the interval is at least, however large the batches are.

    Args:
        is_indexed: whether an entry leads to each batch, shape (batches,).
        log: has these batches.
    """
    is_indexed[0] = True
    indexed = np.flatnonzero(is_indexed)
    interval = np.append(log.position_before[indexed[1:]], log.position[-1]) - log.position[indexed]
    longest = int(interval.argmax())
    others = np.delete(interval, longest)
    usual = int(np.median(others)) if others.size else 0
    if interval[longest] > max(_LEAST_SPARSE, _SPARSE_FACTOR * usual):
        start = int(log.position[indexed[longest]])
        message = f"no entry for the {interval[longest]} bytes after position {start} of the log"
        yield Finding(Codes.INDEX_SPARSE, message, longest * OFFSET_ENTRY_SIZE)


def _findings(
    mask: NDArray[np.bool_], entry_size: int, code: Codes, describe: Callable[[int], str]
) -> Iterator[Finding]:
    return grouped(mask.nonzero()[0], entry_size, code, describe)
