"""Offset and time indexes against the batches of their log, as columns: 262,144 entries cost milliseconds.

Source: docs/spec/formats.md#63-entries-that-differ-and-are-still-valid for what is sound: zeros behind the entries,
entries of brokers up to 1.1 that name the FIRST offset of a batch, time index entries that name any record of their
batch. Brokers up to 3.8 index what was appended at once (a follower's fetch: many batches) by the position of its first
batch and the last offset of its last one. With LogAppendTime they index messages of magic 0, which have no timestamps,
by the time of the append (seen of 0.11.0.3 and 2.4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes, DamageError, Finding, Severity
from kdump.format.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, TXN_ENTRY_SIZE, parse_txn_index
from kdump.log.heads import LARGEST_ENTRY
from kdump.log.names import Kind
from kdump.verify.grouping import grouped
from kdump.verify.table import UNKNOWN_OFFSET

Column = NDArray[np.int64]

_OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_TXN_ENTRY: Final = np.dtype(
    {"names": ["producer", "offset"], "formats": [">i8"] * 2, "offsets": [2, 18], "itemsize": TXN_ENTRY_SIZE}
)
_LAYOUTS: Final = {Kind.INDEX: _OFFSET_ENTRY, Kind.TIME_INDEX: _TIME_ENTRY, Kind.TXN_INDEX: _TXN_ENTRY}
_LEAST_SPARSE: Final = 16 << 20
"""Bytes without an entry that no broker leaves: far above index.interval.bytes and what is fetched at once."""
_SPARSE_FACTOR: Final = 16
_DENSER: Final = 16
"""Times as many offsets a byte as in the log an index may claim."""
_NEAR: Final = 1 << 20
_FAR: Final = 16
"""A number that nothing else bears out is believed this many offsets after a log, or this many times those in it."""
_USUAL_RECORD: Final = 16
"""Bytes: hardly any log has smaller records, compressed."""


class IndexedBatches(Protocol):
    """The sound batches of one log in file order; every column is int64 of shape (batches,).

    ``base_offset`` of a legacy wrapper whose records were not read is UNKNOWN_OFFSET. ``verify.table`` makes them.
    """

    @property
    def position(self) -> Column:
        """Where each begins in the file, rising."""

    @property
    def end(self) -> Column:
        """Where each ends in the file."""

    @property
    def base_offset(self) -> Column:
        """First offset."""

    @property
    def last_offset(self) -> Column:
        """Last offset."""

    @property
    def max_timestamp(self) -> Column:
        """Largest timestamp (ms), -1 for none."""


class _NoBatches:
    """The columns of no batches."""

    position = end = base_offset = last_offset = max_timestamp = np.zeros(0, np.int64)


class IndexedLog:
    """A log as its indexes see it.

    Args:
        base_offset: of the file name.
        size: bytes of the log.
        batches: its sound batches.
        holes: (position, end) of what is no sound batch, rising; entries that lead there are not the index's fault.
        is_legacy: all batches are of magic 0 or 1.
        next_base: base offset of the next segment, None for the last one, or where that is not known.
    """

    def __init__(
        self,
        base_offset: int,
        size: int,
        batches: IndexedBatches,
        holes: Sequence[tuple[int, int]] = (),
        *,
        is_legacy: bool = False,
        next_base: int | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.size = size
        self.is_legacy = is_legacy
        self.next_base = next_base
        self.position = np.ascontiguousarray(batches.position, np.int64)
        self.end = np.ascontiguousarray(batches.end, np.int64)
        self.last = np.ascontiguousarray(batches.last_offset, np.int64)
        self.max_timestamp = np.ascontiguousarray(batches.max_timestamp, np.int64)
        # Where only the last offset is known, the others are held to lie between it and the batch before.
        self.first = np.where(batches.base_offset == UNKNOWN_OFFSET, self.last, batches.base_offset)
        self.has_gaps = bool(holes)
        extents = np.array(holes, np.int64).reshape(-1, 2)
        self._gap_start, self._gap_end = extents[:, 0], extents[:, 1]
        self._by_last = np.argsort(self.last, kind="stable")
        # The last offset of the batch before each.
        first = max(base_offset - 1, UNKNOWN_OFFSET)
        self.before = np.concatenate((np.array([first], np.int64), self.last[:-1]))[: self.last.size]

    @classmethod
    def empty(cls, base_offset: int) -> IndexedLog:
        """A log without batches."""
        return cls(base_offset, 0, _NoBatches())

    @property
    def end_offset(self) -> int:
        """The largest offset, base - 1 for a log without batches."""
        return int(self.last.max()) if self.last.size else self.base_offset - 1

    def batch_at(self, position: Column) -> tuple[Column, NDArray[np.bool_]]:
        """Number of the batch that begins at each position, and whether one does (else the number means nothing)."""
        if not self.position.size:
            return np.zeros(position.size, np.int64), np.zeros(position.size, np.bool_)
        number = np.minimum(np.searchsorted(self.position, position), self.position.size - 1)
        return number, self.position[number] == position

    def batch_of(self, offset: Column) -> tuple[Column, NDArray[np.bool_]]:
        """Number of the batch that holds each offset, and whether one does (else the number of one near by)."""
        if not self.last.size:
            return np.zeros(offset.size, np.int64), np.zeros(offset.size, np.bool_)
        rank = np.searchsorted(self.last, offset, sorter=self._by_last)
        number = self._by_last[np.minimum(rank, self.last.size - 1)]
        return number, self.holds(number, offset)

    def holds(self, number: Column, offset: Column) -> NDArray[np.bool_]:
        """Whether each offset lies in the batch of that number; a wrapper begins behind the batch before it."""
        first = np.where(self.first[number] == self.last[number], self.before[number] + 1, self.first[number])
        return np.asarray((np.minimum(first, self.first[number]) <= offset) & (offset <= self.last[number]))

    def in_gap(self, position: Column) -> NDArray[np.bool_]:
        """Whether each position lies in a hole."""
        if not self.has_gaps:
            return np.zeros(position.size, np.bool_)
        number = np.searchsorted(self._gap_start, position, side="right") - 1
        return np.asarray((number >= 0) & (position < self._gap_end[number]))


def check_offset_index(data: bytes, log: IndexedLog) -> Iterator[Finding]:
    """What is wrong with an .index; positions are those of the entries in the index."""
    yield from _check_size(data, OFFSET_ENTRY_SIZE)
    offset, position = _entries(Kind.INDEX, data, log.base_offset)
    relative = offset - log.base_offset
    unordered = (relative <= _before(relative, -1)) | (position <= _before(position, -1))
    yield from _findings(
        unordered,
        OFFSET_ENTRY_SIZE,
        Codes.INDEX_ORDER,
        lambda i: f"offset {offset[i]}, position {position[i]}" + _after(i, offset, position),
    )
    number, begins = log.batch_at(position)
    beyond = _tail((position >= log.size) & (offset > log.end_offset))
    beyond = _believed(beyond, offset, position, log, offset_index_end)
    yield from _beyond(beyond, offset, log, OFFSET_ENTRY_SIZE)
    lost = ~begins & ~beyond & ~log.in_gap(position)
    yield from _findings(
        lost, OFFSET_ENTRY_SIZE, Codes.INDEX_ENTRY, lambda i: _where(int(offset[i]), int(position[i]), log)
    )
    if not log.position.size:
        return
    is_last = offset == log.last[number]
    later = begins & (offset > log.last[number]) & _names_later_batch(offset, position, log)
    wrong = begins & ~is_last & ~later & ((offset != log.first[number]) & _is_no_first_offset(number, offset, log))
    wrong |= begins & (offset <= log.before[number])
    # A first batch is never indexed: an entry of zeros in front of real ones was not written by a broker.
    wrong[:1] |= position[:1] == 0
    yield from _findings(
        wrong & ~lost,
        OFFSET_ENTRY_SIZE,
        Codes.INDEX_ENTRY,
        lambda i: (
            f"offset {offset[i]}, but the batch at {position[i]} holds {log.first[number[i]]}..{log.last[number[i]]}"
        ),
    )
    yield from _later(later & ~wrong & ~unordered)
    yield from _sparse(position[begins & ~wrong], log)


def check_time_index(data: bytes, log: IndexedLog, *, is_closed: bool = False) -> Iterator[Finding]:
    """What is wrong with a .timeindex.

    Args:
        data: the file.
        log: its log.
        is_closed: nothing is appended to the segment any more, so the last entry has the largest timestamp.
    """
    yield from _check_size(data, TIME_ENTRY_SIZE)
    offset, timestamp = _entries(Kind.TIME_INDEX, data, log.base_offset)
    relative = offset - log.base_offset
    yield from _findings(
        (timestamp <= _before(timestamp, -1)) | (relative < _before(relative, 0)),
        TIME_ENTRY_SIZE,
        Codes.INDEX_ORDER,
        lambda i: f"timestamp {timestamp[i]}, offset {offset[i]}" + _after(i, timestamp, offset),
    )
    beyond = _believed(_tail(offset > log.end_offset), timestamp, offset, log, time_index_end)
    yield from _beyond(beyond, offset, log, TIME_ENTRY_SIZE)
    number, held = log.batch_of(offset)
    if not log.has_gaps:
        yield from _findings(
            ~held & ~beyond, TIME_ENTRY_SIZE, Codes.TIME_INDEX_ENTRY, lambda i: f"no batch holds offset {offset[i]}"
        )
    if not log.position.size:
        return
    largest = np.maximum.accumulate(log.max_timestamp)
    of_append = held & (largest[number] < 0) & (offset == log.last[number])
    yield from _of_append(of_append)
    yield from _findings(
        held & ~of_append & ((log.max_timestamp[number] != timestamp) | (largest[number] > timestamp)),
        TIME_ENTRY_SIZE,
        Codes.TIME_INDEX_ENTRY,
        lambda i: (
            f"timestamp {timestamp[i]} for offset {offset[i]}, whose batch has at most {log.max_timestamp[number[i]]}, "
            f"those up to it {largest[number[i]]}"
        ),
    )
    # 0 without an entry too: an entry of timestamp 0 for the first offset looks like the zeros behind the entries.
    indexed = int(timestamp.max()) if timestamp.size else 0
    if is_closed and indexed < largest[-1]:
        yield Finding(
            Codes.TIME_INDEX_SHORT,
            f"the last entry has timestamp {indexed}, the log {largest[-1]}",
            timestamp.size * TIME_ENTRY_SIZE,
        )


def without_appended(data: bytes, kind: Kind, log: IndexedLog, size: int) -> bytes:
    """An index file of a log that has grown: without the last entries that are of what was appended.

    Args:
        data: the file; one of no kind of index has no such entries.
        kind: of the file.
        log: as it was looked at.
        size: bytes of the log when the file had been read. A broker writes to the log first, so an entry of the .index
            that leads behind these is no such one.
    """
    layout = _LAYOUTS[kind]
    first, second = _columns(data, layout)
    used = _used(first, second)[0].size
    entries = np.frombuffer(data, layout, used)
    base_offset = 0 if kind is Kind.TXN_INDEX else log.base_offset
    is_appended = entries["offset"].astype(np.int64) + base_offset > log.end_offset
    if kind is Kind.INDEX:
        is_appended &= entries["position"] < size
    kept = used - np.count_nonzero(_tail(is_appended))
    # What is left of an entry that is just being written goes too.
    return data[: kept * layout.itemsize] if kept < used or len(data) % layout.itemsize else data


def is_near(offset: int, start: int, end: int) -> bool:
    """``offset`` lies not so far after a log of ``start`` to ``end`` (exclusive) that it is garbage more likely."""
    return offset - end <= max(_NEAR, _FAR * (end - start))


def offset_index_end(offset: Column, position: Column, log: IndexedLog) -> int | None:
    """After the last offset of an .index, when all its entries are such as a broker makes for this log; else None.

    They rise, in steps that batches and index.interval.bytes allow; one that leads into a sound batch leads to its
    start and names no offset before it; and elsewhere no more offsets come to a byte than in the log, by far.
    """
    if not offset.size:
        return None
    has_batches = bool(log.position.size)
    step = np.diff(offset, prepend=(int(log.first[0]) if has_batches else log.base_offset) - 1)
    distance = np.diff(position, prepend=0)
    is_right = (step > 0) & (distance > 0) & (distance <= LARGEST_ENTRY)
    density = 1 / _USUAL_RECORD
    is_inside = np.zeros(offset.size, np.bool_)
    if has_batches:
        order = np.argsort(log.position, kind="stable")
        place = np.searchsorted(log.position[order], position, side="right") - 1
        number = order[np.maximum(place, 0)]
        is_inside = (place >= 0) & (position < log.end[number])
        is_right &= ~is_inside | ((position == log.position[number]) & (offset >= log.first[number]))
        density = max((int(log.last[-1] - log.first[0]) + 1) / int((log.end - log.position).sum()), density)
    is_right &= is_inside | (step <= _DENSER * density * distance)
    return int(offset[-1]) + 1 if is_right.all() else None


def time_index_end(timestamp: Column, offset: Column, log: IndexedLog) -> int | None:
    """After the last offset of a .timeindex that rises and has the right timestamps of batches in the log; else None.

    It says less than an .index: not where in the file an offset is.
    """
    if not offset.size:
        return None
    is_rising = (timestamp > _before(timestamp, -1)) & (offset >= _before(offset, log.base_offset))
    number, held = log.batch_of(offset)
    is_wrong = held & (log.max_timestamp[number] != timestamp) if log.position.size else held
    if not is_rising.all() or is_wrong.any() or not is_near(int(offset[-1]), log.base_offset, log.end_offset + 1):
        return None
    return int(offset[-1]) + 1


def index_end(kind: Kind, data: bytes, log: IndexedLog) -> int | None:
    """After the last offset that an index file names, when it is to be believed; None when not, or without an entry.

    One with zeros behind its entries is in use: where a follower truncates its log, the entries of what it took away
    stay in the file until the segment is closed (AbstractIndex.truncateToEntries).
    """
    if kind is Kind.TXN_INDEX:
        return _txn_index_end(data, log)
    offset, other = _entries(kind, data, log.base_offset)
    if offset.size < len(data) // _ENTRY_SIZES[kind]:
        return None
    if kind is Kind.INDEX:
        return offset_index_end(offset, other, log)
    return time_index_end(other, offset, log)


def indexed_end(kind: Kind, data: bytes, base_offset: int) -> int:
    """After the largest offset that an index file names, garbage or not; the base offset without an entry."""
    if kind is Kind.TXN_INDEX:
        try:
            return max((entry.last_offset + 1 for entry in parse_txn_index(data)), default=base_offset)
        except DamageError:
            return base_offset
    offset, _ = _entries(kind, data, base_offset)
    return int(offset.max(initial=base_offset - 1)) + 1


_ENTRY_SIZES: Final = {Kind.INDEX: OFFSET_ENTRY_SIZE, Kind.TIME_INDEX: TIME_ENTRY_SIZE}


def _txn_index_end(data: bytes, log: IndexedLog) -> int | None:
    """After the last ABORT marker of a .txnindex whose entries are all possible and rise from the base; else None."""
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


def _entries(kind: Kind, data: bytes, base_offset: int) -> tuple[Column, Column]:
    """Offsets of the used entries of an .index or a .timeindex, and their positions or timestamps."""
    if kind is Kind.INDEX:
        relative, other = _used(*_columns(data, _OFFSET_ENTRY))
    else:
        other, relative = _used(*_columns(data, _TIME_ENTRY))
    return relative + base_offset, other


def _columns(data: bytes, dtype: np.dtype[np.void]) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Both fields of the whole entries."""
    entries = np.frombuffer(data, dtype, len(data) // dtype.itemsize)
    first, second = dtype.names or ()
    return entries[first], entries[second]


def _believed(
    beyond: NDArray[np.bool_], first: Column, second: Column, log: IndexedLog, end_of: Callable[..., int | None]
) -> NDArray[np.bool_]:
    """``beyond`` where offsets may be lost after this log and the index is to be believed; else nothing of it.

    An index of garbage knows of no offsets, and none are lost where the next segment goes on at the end of this one.
    """
    is_followed = log.next_base is not None and log.next_base <= log.end_offset + 1
    if beyond.any() and (is_followed or end_of(first, second, log) is None):
        return np.zeros(beyond.size, np.bool_)
    return beyond


def _check_size(data: bytes, entry_size: int) -> Iterator[Finding]:
    rest = len(data) % entry_size
    if rest:
        message = f"{len(data)} bytes are no multiple of {entry_size}"
        yield Finding(Codes.INDEX, message, len(data) - rest, rest)


def _used(first: NDArray[np.generic], second: NDArray[np.generic]) -> tuple[Column, Column]:
    """Both fields up to the zeros that a live or killed broker leaves behind the entries, as int64."""
    filled = np.flatnonzero((first != 0) | (second != 0))
    used = int(filled[-1]) + 1 if filled.size else 0
    return first[:used].astype(np.int64), second[:used].astype(np.int64)


def _before(column: Column, least: int) -> Column:
    """Shape (entries,): the value of the entry before; ``least`` in front of the first."""
    return np.concatenate((np.array([least], np.int64), column[:-1]))[: column.size]


def _tail(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Only the run of true values at the end of ``mask``."""
    return np.asarray(np.logical_and.accumulate(mask[::-1])[::-1])


def _names_later_batch(offset: Column, position: Column, log: IndexedLog) -> NDArray[np.bool_]:
    """Whether each offset is the last one of a batch before the position of the next entry."""
    number, held = log.batch_of(offset)
    following = np.append(position[1:], log.size)
    return np.asarray(held & (log.last[number] == offset) & (log.position[number] < following))


def _is_no_first_offset(number: Column, offset: Column, log: IndexedLog) -> NDArray[np.bool_]:
    """Whether an offset is not one that a legacy wrapper may have had first."""
    return np.asarray(~((log.first[number] == log.last[number]) & log.holds(number, offset)))


def _after(entry: int, *columns: Column) -> str:
    return " after " + ", ".join(str(column[entry - 1]) for column in columns) if entry else ""


def _where(offset: int, position: int, log: IndexedLog) -> str:
    place = f"behind the log's {log.size} bytes" if position >= log.size else "where no batch begins"
    return f"offset {offset} leads to position {position}, {place}"


def _beyond(beyond: NDArray[np.bool_], offset: Column, log: IndexedLog, entry_size: int) -> Iterator[Finding]:
    if not beyond.any():
        return
    first = int(beyond.argmax())
    yield Finding(
        Codes.INDEX_BEYOND_LOG,
        f"{beyond.size - first} entries up to offset {offset.max()}, and the log ends with {log.end_offset}",
        first * entry_size,
        (beyond.size - first) * entry_size,
        first_offset=log.end_offset + 1,
        last_offset=_bounded(int(offset[first:].max()), log.next_base),
    )


def _bounded(offset: int, next_base: int | None) -> int:
    """What follows in the next segment is not lost."""
    return offset if next_base is None else min(offset, next_base - 1)


def _later(later: NDArray[np.bool_]) -> Iterator[Finding]:
    if later.any():
        message = f"{np.count_nonzero(later)} entries name the last offset of a batch behind the one they lead to"
        yield Finding(Codes.INDEX_LATER_BATCH, message, int(later.argmax()) * OFFSET_ENTRY_SIZE)


def _of_append(of_append: NDArray[np.bool_]) -> Iterator[Finding]:
    if of_append.any():
        message = f"{np.count_nonzero(of_append)} entries have a time, and messages without timestamps"
        yield Finding(Codes.TIME_INDEX_ENTRY, message, int(of_append.argmax()) * TIME_ENTRY_SIZE, graded=Severity.INFO)


def _sparse(position: Column, log: IndexedLog) -> Iterator[Finding]:
    """The longest stretch without an entry, if it is far longer than the others.

    A batch is indexed when more than an interval lies between the batch indexed last and it; so the last batch that
    is not indexed tells how long the interval is at least, however large the batches are.
    """
    indexed = np.searchsorted(log.position, position)
    indexed = np.unique(np.append(indexed[indexed < log.position.size], 0))
    following = np.append(indexed[1:], log.position.size)
    interval = log.position[following - 1] - log.position[indexed]
    longest = int(interval.argmax())
    others = np.delete(interval, longest)
    usual = int(np.median(others)) if others.size else 0
    if interval[longest] > max(_LEAST_SPARSE, _SPARSE_FACTOR * usual):
        start = int(log.position[indexed[longest]])
        message = f"no entry for the {interval[longest]} bytes behind position {start} of the log"
        yield Finding(Codes.INDEX_SPARSE, message, longest * OFFSET_ENTRY_SIZE)


def _findings(
    mask: NDArray[np.bool_], entry_size: int, code: Codes, describe: Callable[[int], str]
) -> Iterator[Finding]:
    return grouped(np.flatnonzero(mask), entry_size, code, describe)
