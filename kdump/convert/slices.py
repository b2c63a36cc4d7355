"""Parts of a log: which records are in the requested ranges, and which markers a part needs besides those.

Source: KIP-98. A reader of committed records takes the outcome of a transaction from its end marker, and waits at the
first record of a transaction without one. So a part of a log also gets the marker of each transaction that has records
in it, at its own offset, wherever the marker is in the source. Then such a reader gets the records that it gets from
the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes, DamageError
from kdump.convert.conversion import Conversion
from kdump.fast.encoded import EncodedEntries
from kdump.fast.entries import Entries, LargeEntry
from kdump.fast.headers import native_column
from kdump.fast.recordtable import RecordGroups
from kdump.format.batch import (
    ATTRIBUTES_LOW_BYTE,
    CONTROL,
    HEADER_SIZE,
    MAGIC,
    MAGIC_OFFSET,
    TRANSACTIONAL,
    BatchHeader,
    parse_header,
)
from kdump.log.names import parse_file_name
from kdump.log.opening import open_source
from kdump.log.partition import segments_after, segments_around
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.reading.masks import within
from kdump.reading.outcomes import ABORTED
from kdump.reading.transactionreader import TransactionReader
from kdump.reading.transactions import AbortedRanges, indexed_aborts, marked_outcome
from kdump.verify.validentries import read_batch


@dataclass(frozen=True, slots=True)
class Selected:
    """``rows``: a mask of shape (rows,), None for all. The other arrays have the shape (groups,)."""

    rows: NDArray[np.bool_] | None
    kept: NDArray[np.int64]
    """Number of selected records in each group."""
    is_whole: NDArray[np.bool_]
    """Whether the whole group is in the ranges, including offsets that have no record any more."""

    def with_whole(self, groups: RecordGroups, is_added: NDArray[np.bool_]) -> Selected:
        """These groups, and all of some others; ``is_added``: shape (groups,)."""
        if not is_added.any():
            return self
        rows = None if self.rows is None else self.rows | np.repeat(is_added, groups.rows)
        return Selected(rows, np.where(is_added, groups.rows, self.kept), self.is_whole | is_added)


def select(groups: RecordGroups, conversion: Conversion) -> Selected:
    """Apply the ranges. As in ``dump``, magic 0 has no timestamps and is in no range of times."""
    offsets, times, table = conversion.offsets, conversion.times, groups.table
    if not conversion.selects:
        return Selected(None, groups.rows, np.ones(groups.count, np.bool_))
    rows = within(offsets, table.offset)
    if not times.is_open:
        rows &= within(times, table.timestamp) & np.repeat(groups.magic > 0, groups.rows)
    kept = np.diff(np.append(0, np.cumsum(rows, dtype=np.int64))[groups.bounds])
    return _selected(groups, conversion, rows, kept)


def select_large(entry: LargeEntry, conversion: Conversion) -> Selected:
    """Apply the ranges to an entry whose records come in pieces; its mask is not kept."""
    if not conversion.selects:
        return select(entry.groups, conversion)
    kept = sum(int(select(piece, conversion).kept.sum()) for piece in entry.pieces())
    return _selected(entry.groups, conversion, None, np.array([kept]))


def selected_pieces(entry: LargeEntry, conversion: Conversion) -> Iterator[RecordGroups]:
    """The selected records of an entry in order, in groups of one or more."""
    for piece in entry.pieces():
        rows = select(piece, conversion).rows
        part = piece if rows is None else piece.select_rows(rows)
        if part.table.rows:
            yield part


def _selected(
    groups: RecordGroups, conversion: Conversion, rows: NDArray[np.bool_] | None, kept: NDArray[np.int64]
) -> Selected:
    offsets, times = conversion.offsets, conversion.times
    is_whole = (kept == groups.rows) & ((kept > 0) | times.is_open)
    if groups.headers is not None:
        base_offset = native_column(groups.headers, "base_offset")
        last_offset = base_offset + native_column(groups.headers, "last_offset_delta")
        is_whole &= within(offsets, base_offset) & within(offsets, last_offset)
    return Selected(rows, kept, is_whole)


def selected_groups(groups: RecordGroups, selected: Selected, numbers: NDArray[np.intp]) -> RecordGroups:
    """The selected records of some groups: their ``numbers``, rising, one or more."""
    first, last = int(numbers[0]), int(numbers[-1]) + 1
    part = groups.between(first, last)
    if selected.rows is not None:
        part = part.select_rows(selected.rows[int(groups.bounds[first]) : int(groups.bounds[last])])
    is_wanted = np.zeros(part.count, np.bool_)
    is_wanted[numbers - first] = True
    return part.select(is_wanted)


class EndMarker(NamedTuple):
    """The end marker of a transaction, outside the ranges."""

    offset: int
    producer_id: int
    producer_epoch: int
    outcome: str

    @property
    def control_type(self) -> str:
        """The type, as records of a dump name it."""
        return "ABORT" if self.outcome == ABORTED else "COMMIT"


class SliceTransactions:
    """Follows the transactions with records in a part of a log, entry by entry of one segment.

    Args:
        path: of the segment.
        conversion: its ranges.
        reader: follows the transactions of the partition; None: the source is a stream, which has no later segments.
        is_alone: nothing else of the partition is converted. Then the markers after the segment go with it.

    ``added``: the markers outside the ranges that were taken. ``left_open``: (producer id, first offset) of
    transactions without an end, if these may be kept.
    """

    def __init__(self, path: str, conversion: Conversion, reader: TransactionReader | None, *, is_alone: bool) -> None:
        self._path = path
        self._conversion = conversion
        self._reader = reader
        self._is_alone = is_alone
        self._last_offset = -1
        self.added: list[EndMarker] = []
        self.left_open: list[tuple[int, int]] = []

    @cached_property
    def _aborted(self) -> AbortedRanges:
        """The transaction index of the segment; empty if it cannot be read."""
        aborted = AbortedRanges()
        if self._reader is not None:
            aborted.add(indexed_aborts(self._path))
        return aborted

    @cached_property
    def open_before(self) -> dict[int, int]:
        """The open transactions whose records in the part come from earlier segments.

        Their first offsets in the part, by producer id.
        """
        first, base = self._conversion.offsets.first or 0, _base_offset(self._path)
        if self._reader is None or self._is_alone or base is None or first >= base:
            return {}
        is_open = self._reader.open_before(self._path)
        if not is_open:
            return {}
        found: dict[int, int] = {}
        around = segments_around(self._path)
        before = around[: around.index(self._path)]
        for segment in before[_holding(before, max(first, min(is_open.values()))) :]:
            for header, batch in _transactional_batches(segment):
                producer_id = header.producer_id
                if (
                    not header.is_control
                    and producer_id not in found
                    and header.base_offset >= is_open.get(producer_id, header.base_offset + 1)
                ):
                    kept = self._first_kept(batch)
                    if kept is not None:
                        found[producer_id] = kept
        return found

    @cached_property
    def _open(self) -> dict[int, int]:
        """The open transactions after the last entry that was read; first offsets by producer id."""
        return dict(self.open_before)

    def needed(self, entries: Entries, is_kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of the next batches are markers outside the ranges that the part needs; shape (batches,).

        ``is_kept``: whether the batch, or some of its records, is in the ranges; shape (batches,).
        """
        headers = entries.groups.headers
        assert headers is not None
        is_needed = np.zeros(is_kept.size, np.bool_)
        attributes = native_column(headers, "attributes")
        for number in np.flatnonzero(attributes & TRANSACTIONAL).tolist():
            start, end = entries.bounds[number : number + 2].tolist()
            header = parse_header(entries.data, start)
            if not attributes[number] & CONTROL:
                if is_kept[number]:
                    self._open.setdefault(header.producer_id, header.base_offset)
                continue
            if header.producer_id not in self._open:
                continue
            outcome = marked_outcome(header, entries.data[start:end])
            if outcome is not None:
                first = self._open.pop(header.producer_id)
                if self._aborted.has_lost_marker(header.producer_id, first, header.base_offset):
                    self.left_open.append((header.producer_id, first))
                if not is_kept[number]:
                    is_needed[number] = True
                    self._add(header, outcome)
        self._last_offset = int(entries.extents(slice(-1, None))[1][0])
        return is_needed

    def finish(self) -> Iterator[EncodedEntries]:
        """The markers in later segments that are written with this one.

        Raises:
            DamageError: SLICE_OPEN: a transaction has no end, and must not be kept.
            KdumpError: a later segment cannot be read.
        """
        ends = {producer_id: self._end(producer_id, first) for producer_id, first in self._open.items()}
        self.left_open += ((producer_id, self._open[producer_id]) for producer_id, end in ends.items() if end is None)
        if self.left_open and not self._conversion.keep_open:
            raise _without_end(self.left_open)
        wanted = {end for end in ends.values() if end is not None}
        if not (wanted and self._is_alone):
            return
        after = segments_after(self._path)
        for segment in after[_holding(after, min(wanted)) :]:
            for header, batch in _transactional_batches(segment):
                if header.is_control and header.base_offset in wanted:
                    outcome = marked_outcome(header, batch)
                    assert outcome is not None
                    wanted.remove(header.base_offset)
                    self._add(header, outcome)
                    extents = (header.base_offset, header.last_offset, header.max_timestamp)
                    yield EncodedEntries.join(MAGIC, [bytes(batch)], *(np.array([value]) for value in extents))
            if not wanted:
                return

    def notes(self) -> Iterator[str]:
        """Notes about the part: a line each."""
        if self.added:
            marker = self.added[0]
            count = "1 transaction marker" if len(self.added) == 1 else f"{len(self.added):,} transaction markers"
            yield (
                f"{count} from outside of the part added, so that readers of committed records see the same: first "
                f"{marker.control_type} of producer {marker.producer_id} at offset {marker.offset}"
            )
        if self.left_open:
            yield f"{_named(self.left_open)} is without an end marker: readers of committed records wait there"

    def _end(self, producer_id: int, offset: int) -> int | None:
        if self._reader is None:
            return None
        end = self._reader.of(self._path).end(producer_id, offset)
        # A marker before this offset was not taken: it is damaged or out of order.
        return None if end is None or end <= self._last_offset else end

    def _add(self, header: BatchHeader, outcome: str) -> None:
        self.added.append(EndMarker(header.base_offset, header.producer_id, header.producer_epoch, outcome))

    def _first_kept(self, batch: memoryview) -> int | None:
        """The base offset of what is kept of a batch; None: nothing, also if the batch cannot be read."""
        try:
            groups = read_batch(batch, self._conversion.limit).groups
        except DamageError:
            return None
        selected = select(groups, self._conversion)
        if selected.is_whole[0]:
            return parse_header(batch).base_offset
        assert selected.rows is not None
        return int(groups.table.offset[selected.rows][0]) if selected.kept[0] else None


def _holding(segments: list[str], offset: int) -> int:
    """The number of the segment that may contain an offset."""
    bases = map(_base_offset, segments)
    return max((number for number, base in enumerate(bases) if base is not None and base <= offset), default=0)


def _base_offset(path: str) -> int | None:
    name = parse_file_name(path)
    return None if name is None else name.base_offset


def _transactional_batches(path: str) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The valid transactional batches of a segment, including markers."""
    with open_source(path) as source:
        for chunk in ResyncWalk(source).items():
            if not isinstance(chunk, CheckedChunk):
                continue
            damaged, data = set(chunk.damaged), chunk.data
            for number, (start, end) in enumerate(chunk.entries()):
                is_batch = data[start + MAGIC_OFFSET] == MAGIC and end - start >= HEADER_SIZE
                if is_batch and data[start + ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL and number not in damaged:
                    yield parse_header(data, start), data[start:end]


def _named(transactions: list[tuple[int, int]]) -> str:
    """Transactions (producer id, first offset) as text: the first of them, and how many more."""
    first, producer_id = min((offset, producer_id) for producer_id, offset in transactions)
    others = f" (and {len(transactions) - 1:,} more)" if len(transactions) > 1 else ""
    return f"the transaction of producer {producer_id} with records from offset {first} on{others}"


def _without_end(transactions: list[tuple[int, int]]) -> DamageError:
    return DamageError(
        Codes.SLICE_OPEN,
        f"{_named(transactions)} has no end marker in the source: readers of committed records would wait there "
        "(--open-transactions keep writes the part all the same)",
    )
