"""The outcomes of the transactions in a log: committed, aborted, or open.

Source: KIP-98; docs/spec/formats.md#32-control-records, docs/spec/formats.md#6-indexes. The markers of a producer end
its transactions in order, so the first marker of the producer after a batch decides the outcome of the batch. A
transaction index names aborted transactions whose marker is lost. Where damage may have taken a marker,
``kdump.reading.lostmarkers`` decides. A transaction that it cannot decide counts as open.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple, TypeVar

from kdump.codes import DamageError, KdumpError
from kdump.format import control
from kdump.format import record as v2
from kdump.format.batch import (
    ATTRIBUTES_LOW_BYTE,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    TRANSACTIONAL,
    BatchHeader,
    batch_crc,
    parse_header,
)
from kdump.format.index import AbortedTxn, parse_txn_index
from kdump.format.snapshot import parse_snapshot
from kdump.log import gaps as bytegaps
from kdump.log.names import Kind, base_of, sibling
from kdump.log.opening import open_source, read_whole
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.siblings import read_snapshot, read_txn_index
from kdump.log.source import Source
from kdump.reading.lostmarkers import ends_of
from kdump.reading.outcomes import ABORTED, COMMITTED, OPEN, Outcomes
from kdump.reading.transactionevidence import SegmentIndex, Snapshot, TransactionEvidence, are_valid
from kdump.reading.transactionremains import LostOffsets, RemainingMarker, TransactionFollower, TransactionRemains

_OFFSET: Final = struct.Struct(">q")
_LENGTH: Final = struct.Struct(">i")
_LENGTH_OFFSET: Final = 8
_LARGEST_REPAIRED: Final = 1 << 24
"""The largest batch (bytes) whose wrong length is repaired."""
_NO_END: Final = 2**63
_Placed = TypeVar("_Placed", tuple[int, int], tuple[int, str])
"""Something at an offset."""


class _Judged(NamedTuple):
    """A transaction that a gap touches: its first offset, its end, and its outcome (None: unknown)."""

    first_offset: int
    end: int
    outcome: str | None


class _JudgedTransactions:
    """Those of each producer in offset order. ``first_undecided``: (first offset, producer id), None without one."""

    def __init__(self) -> None:
        self._of_producers: dict[int, list[_Judged]] = {}
        self.first_undecided: tuple[int, int] | None = None

    def add(self, producer_id: int, one: _Judged) -> None:
        """Add the next one of a producer."""
        self._of_producers.setdefault(producer_id, []).append(one)
        if one.outcome is None:
            self.first_undecided = least(self.first_undecided, (one.first_offset, producer_id))

    def at(self, producer_id: int, offset: int) -> _Judged | None:
        """The one that a producer's batch at ``offset`` belongs to."""
        found = self._of_producers.get(producer_id, ())
        number = bisect_right(found, offset, key=itemgetter(0)) - 1
        return found[number] if number >= 0 and offset < found[number].end else None


class OpenTransactions:
    """Which transactions are open after each segment. Segments have numbers from 1 on; 0: before the first one."""

    def __init__(self) -> None:
        self._segment = 0
        # Of each transaction that is open (producer id, first offset): the segment where it began. These rise.
        self._since: dict[tuple[int, int], int] = {}
        # Those that ended in a later segment than they began: the transaction, and both segments.
        self._ended: list[tuple[tuple[int, int], int, int]] = []

    def next_segment(self) -> None:
        """What follows is in the next segment."""
        self._segment += 1

    def begin(self, producer_id: int, first_offset: int) -> None:
        """A transaction begins."""
        self._since[producer_id, first_offset] = self._segment

    def end(self, producer_id: int, first_offset: int) -> None:
        """An open transaction ends."""
        since = self._since.pop((producer_id, first_offset))
        if since < self._segment:
            self._ended.append(((producer_id, first_offset), since, self._segment))

    def is_any_still(self, segment: int) -> bool:
        """Whether one that was open after a segment still is."""
        return next(iter(self._since.values()), self._segment + 1) <= segment

    def first_still(self, segment: int) -> tuple[int, int] | None:
        """(first offset, producer id) of the first one that was open after a segment and still is; None without one."""
        still = [(first, producer_id) for (producer_id, first), since in self._since.items() if since <= segment]
        return min(still, default=None)

    def after(self, segment: int) -> dict[int, int]:
        """First offsets of those that were open after a segment, by producer id."""
        ended = (one for one, since, end in self._ended if since <= segment < end)
        return dict([*ended, *(one for one, since in self._since.items() if since <= segment)])


class _ReadSegment(NamedTuple):
    """A segment that was read; ``next_base`` is that of the one after it, None for the last one."""

    path: str
    base_offset: int
    next_base: int | None


class AbortedRanges:
    """The aborted transactions in the indexes of some segments: first offset, and offset of the marker."""

    def __init__(self) -> None:
        self._of_producers: dict[int, list[tuple[int, int]]] = {}

    def add(self, entries: Iterable[AbortedTxn]) -> None:
        """Take entries of the index of one segment."""
        found: dict[int, list[tuple[int, int]]] = {}
        for txn in entries:
            found.setdefault(txn.producer_id, []).append((txn.last_offset, txn.first_offset))
        _merge(self._of_producers, found)

    def transaction(self, producer_id: int, offset: int) -> tuple[int, int] | None:
        """(first offset, offset of the marker) of the producer's first transaction that ends at ``offset`` or later."""
        known = self._of_producers.get(producer_id, ())
        number = bisect_left(known, offset, key=itemgetter(0))
        return known[number][::-1] if number < len(known) else None

    def has_lost_marker(self, producer_id: int, offset: int, marker: int) -> bool:
        """The transaction of a producer's batch at ``offset`` ended with a lost marker, before the one at ``marker``.

        An index entry shows it: either one that covers the batch and ends before ``marker``, or one that ends at
        ``marker`` and begins after the batch.
        """
        ends_before = self.transaction(producer_id, offset)
        ends_there = self.transaction(producer_id, marker)
        return (ends_before is not None and ends_before[0] <= offset and ends_before[1] < marker) or (
            ends_there is not None and ends_there[1] == marker and ends_there[0] > offset
        )


class Transactions(Outcomes):
    """The markers of some segments of one partition, read in offset order."""

    def __init__(self) -> None:
        self._markers: dict[int, list[tuple[int, str]]] = {}
        # Those of the segment that is being read.
        self._new_markers: dict[int, list[tuple[int, str]]] = {}
        self._aborted = AbortedRanges()
        self._followed = TransactionFollower()
        self._segments: list[_ReadSegment] = []
        self._open_before: frozenset[int] = frozenset()
        self.opened = OpenTransactions()
        self.end_offset = 0
        """After the last valid batch."""
        self._is_after_damage = False
        self._damaged: set[tuple[int, int]] = set()
        self._snapshots: list[Snapshot] = []
        self._indexes: list[SegmentIndex | None] = []
        self._settled = _JudgedTransactions()
        self._settled_count = 0
        self._judged: _JudgedTransactions | None = None

    @property
    def open_transactions(self) -> frozenset[tuple[int, int]]:
        """(producer id, first offset) of those that no marker read so far ends."""
        return frozenset((producer_id, one.first_offset) for producer_id, one in self._followed.open.items())

    @property
    def first_undecided(self) -> tuple[int, int] | None:
        """(first offset, producer id) of the first one whose marker may be lost, so that its outcome is unknown."""
        waiting = self._waiting()
        return least(self._settled.first_undecided, waiting.first_undecided)

    def read_segment(self, path: str, next_base: int | None = None) -> None:
        """Read the next segment: transactional headers and markers, also after damage, and its transaction index.

        KdumpError when the log cannot be read. A damaged or missing index is ignored.

        Args:
            path: the log.
            next_base: base offset of the segment after it, None where there is none.
        """
        segment = _ReadSegment(path, base_of(path), next_base)
        if not self._segments:
            self.end_offset = segment.base_offset
        self._segments.append(segment)
        self.opened.next_segment()
        self._judged = None
        try:
            with open_source(path) as source:
                # A wrong length may lead past markers to bytes that only look like an entry, so all CRCs are checked.
                for item in ResyncWalk(source).items():
                    if isinstance(item, CheckedChunk):
                        self._see_chunk(item)
                    elif not item.overlaps:
                        self._see_gap(source, item)
        finally:
            _merge(self._markers, self._new_markers)
            self._new_markers = {}
        self._aborted.add(filter(self._may_begin, indexed_aborts(path)))

    def read_snapshot(self, path: str) -> bool:
        """Begin with the transactions that were open at the segment ``path``. False without a valid snapshot."""
        try:
            producers = parse_snapshot(read_whole(sibling(path, Kind.SNAPSHOT)))
        except KdumpError:
            return False
        for producer in producers:
            first = producer.current_txn_first_offset
            if first >= 0:
                self._followed.begin_before(producer.producer_id, producer.producer_epoch, first)
        self._open_before = frozenset(self._followed.open)
        for producer_id, first in self.open_transactions:
            self.opened.begin(producer_id, first)
        return True

    def end(self, producer_id: int, offset: int) -> int | None:
        """Offset of the marker that ends the transaction of a producer's batch at ``offset``.

        None: there is no marker, or it is lost.
        """
        markers = self._markers.get(producer_id, [])
        judged = self._over_gap(producer_id, offset)
        if judged is not None:
            number = bisect_left(markers, judged.end, key=itemgetter(0))
            is_left = markers[number : number + 1] == [(judged.end, judged.outcome)]
            return judged.end if is_left else None
        following = bisect_right(markers, offset, key=itemgetter(0))
        if following == len(markers) or self._aborted.has_lost_marker(producer_id, offset, markers[following][0]):
            return None
        return markers[following][0]

    def outcome(self, producer_id: int, offset: int) -> str:
        """See Outcomes."""
        judged = self._over_gap(producer_id, offset)
        if judged is not None:
            return judged.outcome or OPEN
        markers = self._markers.get(producer_id, [])
        following = bisect_right(markers, offset, key=itemgetter(0))
        marker_offset, outcome = markers[following] if following < len(markers) else (None, OPEN)
        aborted = self._aborted.transaction(producer_id, offset)
        if aborted is not None:
            first, last = aborted
            # An index entry ends at the marker. It counts only where that marker is lost: the log tells more.
            is_lost = first <= offset and (marker_offset is None or last < marker_offset)
            # A marker in between would have ended the transaction of the entry.
            if is_lost and bisect_right(markers, first, key=itemgetter(0)) == following:
                return ABORTED
        return outcome

    def _over_gap(self, producer_id: int, offset: int) -> _Judged | None:
        """The transaction of a producer's batch at ``offset``, where a gap touches it."""
        waiting = self._waiting()
        return self._settled.at(producer_id, offset) or waiting.at(producer_id, offset)

    def _waiting(self) -> _JudgedTransactions:
        """Transactions over gaps that a later segment may decide. All others are settled first."""
        if self._judged is None:
            self._settle()
            self._judged = _JudgedTransactions()
            still_open = (remains for remains in self._followed.open.values() if remains.gaps)
            self._judge([*self._followed.touched[self._settled_count :], *still_open], self._judged)
        return self._judged

    def _settle(self) -> None:
        """Judge the transactions that ended before the newest segment. No later segment tells more about them."""
        newest = self._segments[-1].base_offset if self._segments else 0
        touched = self._followed.touched
        start = stop = self._settled_count
        while stop < len(touched) and (end := touched[stop].end) is not None and end.offset < newest:
            stop += 1
        self._judge(touched[start:stop], self._settled)
        self._settled_count = stop

    def _judge(self, transactions: Sequence[TransactionRemains], judged: _JudgedTransactions) -> None:
        if not transactions:
            return
        evidence = self._evidence()
        for remains in transactions:
            found = list(ends_of(remains, evidence))
            stop = _NO_END if remains.end is None else remains.end.offset
            ends = [*(ending.first_offset for ending in found[1:]), stop]
            for ending, end in zip(found, ends, strict=True):
                judged.add(remains.producer_id, _Judged(ending.first_offset, end, ending.outcome))

    def _evidence(self) -> TransactionEvidence:
        """The evidence of the files beside the logs."""
        for segment in self._segments[len(self._snapshots) :]:
            open_from = {entry.producer_id: entry.current_txn_first_offset for entry in read_snapshot(segment.path)}
            self._snapshots.append(Snapshot(segment.base_offset, open_from))
        # What is lost at the end of the newest segment is known only after the next one was read.
        for segment in self._segments[len(self._indexes) : -1]:
            self._indexes.append(self._valid_index(segment))
        indexes = [*self._indexes, *map(self._valid_index, self._segments[-1:])]
        return TransactionEvidence([index for index in indexes if index is not None], self._snapshots)

    def _valid_index(self, segment: _ReadSegment) -> SegmentIndex | None:
        """The .txnindex of a segment; None where it is empty, malformed, or contradicts the logs."""
        path, base_offset, next_base = segment
        index = read_txn_index(path) or []
        since = self._segments[0].base_offset
        if not index or not are_valid(index, base_offset, self._may_be_aborted):
            return None
        if not self._followed.agrees(index, base_offset, next_base, since, self._open_before):
            return None
        return SegmentIndex(index, base_offset, index[-1].last_offset + 1 if next_base is None else next_base)

    def _may_begin(self, txn: AbortedTxn) -> bool:
        """Whether the log may hold the first batch of an aborted transaction, as far as it was read."""
        since = self._segments[0].base_offset
        return txn.first_offset < since or self._followed.begun.get(txn.first_offset) == txn.producer_id

    def _may_be_aborted(self, producer_id: int, offset: int) -> bool:
        """The ABORT marker of a producer is at an offset, or lost there."""
        markers = self._markers.get(producer_id, [])
        number = bisect_left(markers, offset, key=itemgetter(0))
        return markers[number : number + 1] == [(offset, ABORTED)] or self._followed.is_lost(offset)

    def _see_chunk(self, chunk: CheckedChunk) -> None:
        data = chunk.data
        if chunk.damaged or self._is_after_damage:
            self._see_damaged_chunk(chunk)
            return
        start = end = 0
        for start, end in chunk.entries():
            if data[start + MAGIC_OFFSET] == 2 and data[start + ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL:
                self._see(data, start, end)
        if end:
            self.end_offset = _offsets(data, start)[1] + 1

    def _see_damaged_chunk(self, chunk: CheckedChunk) -> None:
        """Take a chunk with damage, and the offsets that are lost between its valid entries."""
        data = chunk.data
        damaged = frozenset(chunk.damaged)
        for number, (start, end) in enumerate(chunk.entries()):
            offsets = _offsets(data, start)
            if number in damaged:
                self._is_after_damage = True
                self._damaged.add(offsets)
                continue
            self._see_lost(offsets[0])
            if data[start + MAGIC_OFFSET] == 2 and data[start + ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL:
                self._see(data, start, end)
            self.end_offset = offsets[1] + 1

    def _see_gap(self, source: Source, gap: bytegaps.Gap) -> None:
        """Take bytes that are no entry. If only their length is wrong, which no CRC covers, they are a batch."""
        batch = bytearray(source.read(gap.position, gap.length)) if gap.length <= _LARGEST_REPAIRED else bytearray()
        if len(batch) == gap.length >= HEADER_SIZE and batch[MAGIC_OFFSET] == 2:
            _LENGTH.pack_into(batch, _LENGTH_OFFSET, len(batch) - LOG_OVERHEAD)
            header = parse_header(batch)
            if header.crc == batch_crc(memoryview(batch)):
                self._see_lost(header.base_offset)
                if header.is_transactional:
                    self._see(memoryview(batch), 0, len(batch))
                self.end_offset = header.last_offset + 1
                return
        self._is_after_damage = True

    def _see_lost(self, offset: int) -> None:
        """A valid entry begins at ``offset``. After damage, the offsets before it are lost."""
        if self._is_after_damage and offset > self.end_offset:
            first, last = self.end_offset, offset - 1
            # A batch of several records is no marker.
            is_batch = last > first and (first, last) in self._damaged
            self._followed.gap(LostOffsets(first, last, 0 if is_batch else last - first + 1))
        self._is_after_damage = False
        self._damaged.clear()

    def _see(self, data: memoryview, start: int, end: int) -> None:
        if end - start < HEADER_SIZE:
            return
        header = parse_header(data, start)
        producer_id = header.producer_id
        remains = self._followed.open.get(producer_id)
        if not header.is_control:
            # Most batches change nothing.
            if remains is None or remains.gaps or header.producer_epoch > remains.epoch:
                self._followed.batch(producer_id, header.producer_epoch, header.base_offset)
            if remains is None:
                self.opened.begin(producer_id, header.base_offset)
            return
        outcome = marked_outcome(header, data[start:end])
        if outcome is not None:
            self._new_markers.setdefault(producer_id, []).append((header.base_offset, outcome))
            self._followed.marker(
                producer_id, RemainingMarker(header.base_offset, header.producer_epoch, outcome == ABORTED)
            )
            if remains is not None:
                self.opened.end(producer_id, remains.first_offset)


def indexed_aborts(path: str) -> list[AbortedTxn]:
    """The entries of the transaction index of segment ``path``; none of a damaged or missing index."""
    try:
        return parse_txn_index(read_whole(sibling(path, Kind.TXN_INDEX)))
    except (KdumpError, ValueError):
        return []


def least(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[int, int] | None:
    """The lesser of two; None counts as none."""
    return min((found for found in (one, other) if found is not None), default=None)


def marked_outcome(header: BatchHeader, batch: memoryview) -> str | None:
    """The outcome that a control batch (header included) gives a transaction; None: it is no marker."""
    try:
        marker = next(iter(v2.read_records(header, batch)), None)
        kind = None if marker is None else control.parse_type(marker.key)
    except DamageError:
        return None
    return {control.ABORT: ABORTED, control.COMMIT: COMMITTED}.get(kind)  # type: ignore[arg-type]


def _merge(known: dict[int, list[_Placed]], found: Mapping[int, Iterable[_Placed]]) -> None:
    """Add to the sorted lists what was found for each key, in any order. Mostly it comes after what is known."""
    for key, added in found.items():
        placed = known.setdefault(key, [])
        before = len(placed)
        placed += sorted(added)
        if before and placed[before] < placed[before - 1]:
            placed.sort()


def _offsets(data: memoryview, start: int) -> tuple[int, int]:
    """(first, last) offset of an entry. A legacy entry has only one offset."""
    if data[start + MAGIC_OFFSET] == 2:
        header = parse_header(data, start)
        return header.base_offset, header.last_offset
    (offset,) = _OFFSET.unpack_from(data, start)
    return offset, offset
