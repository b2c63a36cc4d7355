"""What the segments after a damaged one tell about its transactions.

A partition may have many damaged segments, each with transactions that end far after it. So each later segment is read
once, whatever number of damaged ones need it. Only what an open transaction needs is kept of it: the gaps, and for each
producer a few batches and markers. From the first batch after a gap on, all open transactions of a producer need the
same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.codes import KdumpError
from kdump.format import control
from kdump.format.batch import CONTROL, TRANSACTIONAL
from kdump.log import gaps as bytegaps
from kdump.log.names import base_of
from kdump.log.opening import open_source
from kdump.log.resync import ResyncWalk
from kdump.log.siblings import read_snapshot, read_txn_index
from kdump.reading.transactionevidence import SegmentIndex, Snapshot, are_valid
from kdump.reading.transactionremains import LostOffsets, RemainingMarker, TransactionRemains
from kdump.verify.table import BatchRow, first_offset, read_rows, row_at

END_TXN: Final = (control.ABORT, control.COMMIT)
ENDLESS: Final = 2**63 - 1
"""Above every offset."""


class LaterIndex(NamedTuple):
    """A .txnindex that keeps Kafka's rules.

    ``unproved``: offsets of ABORT markers in it that are neither in the segment nor lost in it.
    """

    known: SegmentIndex
    unproved: Sequence[int]


class LaterEnd(NamedTuple):
    """The marker that ends a transaction after the log, and the number of gaps between the log and the marker."""

    transaction: TransactionRemains
    marker: RemainingMarker
    gaps_before: int


class Followed(NamedTuple):
    """What comes after a log: the ends of its transactions in their order, the lost offsets, and the valid indexes."""

    ends: Sequence[LaterEnd]
    gaps: Sequence[LostOffsets]
    indexes: Sequence[LaterIndex]


@dataclass(slots=True)
class _LaterProducer:
    """A producer in the later segments: its batches and markers, each with its place. Places rise.

    ``batches``: (offset, epoch), up to the first marker in each segment. ``noted``: those of them that matter to a
    transaction which has been open since an earlier gap.
    """

    batch_places: list[int] = field(default_factory=list)
    batches: list[tuple[int, int]] = field(default_factory=list)
    noted_places: list[int] = field(default_factory=list)
    noted: list[tuple[int, int]] = field(default_factory=list)
    marker_places: list[int] = field(default_factory=list)
    markers: list[RemainingMarker] = field(default_factory=list)

    def see_batch(self, place: int, batch: tuple[int, int], *, segment: int, gap: int) -> None:
        """``segment`` and ``gap``: the places where the segment begins, and of the last gap."""
        if self.marker_places and self.marker_places[-1] >= segment:
            return
        is_first = not self.batches or self.batch_places[-1] < max(segment, gap)
        if is_first or batch[1] > self.batches[-1][1]:
            self.batch_places.append(place)
            self.batches.append(batch)
            if not self.noted or self.noted_places[-1] < gap or batch[1] > self.noted[-1][1]:
                self.noted_places.append(place)
                self.noted.append(batch)

    def see_marker(self, place: int, marker: RemainingMarker, *, segment: int) -> None:
        """``segment``: the place where the segment begins."""
        if not self.marker_places or self.marker_places[-1] < segment:
            self.marker_places.append(place)
            self.markers.append(marker)

    def end(self, place: int) -> tuple[int, RemainingMarker] | None:
        """The first marker from a place on, and its place."""
        number = bisect_left(self.marker_places, place)
        return (self.marker_places[number], self.markers[number]) if number < len(self.markers) else None

    def show(self, remains: TransactionRemains, start: int, gap: int, stop: int) -> None:
        """Show a transaction the batches from ``start`` up to ``stop``; ``gap``: the place of the first gap there."""
        number = bisect_left(self.batch_places, start)
        while number < len(self.batches) and self.batch_places[number] < min(gap, stop):
            remains.see_batch(*self.batches[number])
            number += 1
        remains.batches += self.noted[bisect_left(self.noted_places, gap) : bisect_left(self.noted_places, stop)]


class LaterTransactions:
    """The segments and snapshots of one partition, as far as they were read.

    Args:
        paths: of the logs, in offset order.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        self._snapshots: dict[str, Snapshot] = {}
        self._begin(len(paths))

    def snapshot(self, path: str) -> Snapshot:
        """One producer snapshot; one that cannot be read is empty."""
        known = self._snapshots.get(path)
        if known is None:
            open_from = {entry.producer_id: entry.current_txn_first_offset for entry in read_snapshot(path)}
            known = self._snapshots[path] = Snapshot(base_of(path), open_from)
        return known

    def follow(self, transactions: Sequence[TransactionRemains], count: int) -> Followed:
        """Follow open transactions over the last ``count`` segments, up to the one in which the last of them ends.

        Bytes of a segment that cannot be read count as lost.

        Args:
            transactions: those that are open before, at most one for each producer. They get the batches after it.
            count: of segments.
        """
        first = len(self._paths) - count
        if not self._first <= first <= self._first + len(self._segments):
            self._begin(first)
        start = self._segments[first - self._first] if first < self._first + len(self._segments) else self._place
        waiting = {one.producer_id for one in transactions if self._end(one, start) is None}
        while waiting and self._first + len(self._segments) < len(self._paths):
            waiting -= self._read()
        ends = [(one, self._end(one, start)) for one in transactions]
        known = sorted((end[0], number) for number, (_, end) in enumerate(ends) if end is not None)
        # The segments after the last end do not matter.
        stop = self._place if len(known) < len(ends) else known[-1][0] + 1 if known else start
        after = bisect_left(self._segments, stop)
        stop = self._segments[after] if after < len(self._segments) else self._place
        begin = bisect_left(self._gap_places, start)
        gap = self._gap_places[begin] if begin < len(self._gaps) else self._place
        for remains, end in ends:
            place = self._place if end is None else end[0]
            if remains.producer_id in self._producers:
                self._producers[remains.producer_id].show(remains, start, gap, place)
        return Followed(
            [
                LaterEnd(transactions[number], end[1], bisect_left(self._gap_places, place) - begin)
                for place, number in known
                if (end := ends[number][1]) is not None
            ],
            self._gaps[begin : bisect_left(self._gap_places, stop)],
            [index for index in self._indexes[first - self._first : after] if index is not None],
        )

    def _begin(self, first: int) -> None:
        """Nothing was read before the segment number ``first``."""
        self._first = first
        self._place = 0
        self._segments: list[int] = []
        self._indexes: list[LaterIndex | None] = []
        self._gap_places: list[int] = []
        self._gaps: list[LostOffsets] = []
        self._producers: dict[int, _LaterProducer] = {}

    def _end(self, remains: TransactionRemains, start: int) -> tuple[int, RemainingMarker] | None:
        producer = self._producers.get(remains.producer_id)
        return None if producer is None else producer.end(start)

    def _read(self) -> set[int]:
        """Read the next segment: the producers with a marker in it."""
        number = self._first + len(self._segments)
        path, following = self._paths[number], self._paths[number + 1 : number + 2]
        segment, base_offset, next_base = self._place, base_of(path), base_of(following[0]) if following else None
        self._segments.append(segment)
        aborts: set[tuple[int, int]] = set()
        ended: set[int] = set()
        for item in _rows_and_gaps(path, base_offset, next_base):
            if isinstance(item, LostOffsets):
                self._gap_places.append(self._place)
                self._gaps.append(item)
                self._place += 1
            else:
                aborts.update(abort_markers(item))
                ended.update(self._see_rows(item, segment))
        # Each segment has a place of its own.
        self._place += 1
        gaps = self._gaps[bisect_left(self._gap_places, segment) :]
        self._indexes.append(_later_index(path, base_offset, next_base, aborts, gaps))
        return ended

    def _see_rows(self, rows: NDArray[np.void], segment: int) -> Iterator[int]:
        """Gives the producers of the markers; ``segment``: the place where the segment begins."""
        gap = self._gap_places[-1] if self._gap_places else -1
        for row in transactional(rows):
            producer = self._producers.get(row.producer_id)
            if producer is None:
                producer = self._producers[row.producer_id] = _LaterProducer()
            if not row.is_control:
                batch = row.base_offset, row.producer_epoch
                producer.see_batch(self._place, batch, segment=segment, gap=gap)
            elif row.marker_type in END_TXN:
                marker = RemainingMarker(row.base_offset, row.producer_epoch, row.marker_type == control.ABORT)
                producer.see_marker(self._place, marker, segment=segment)
                yield row.producer_id
            self._place += 1


def _later_index(
    path: str, base_offset: int, next_base: int | None, aborts: set[tuple[int, int]], gaps: Iterable[LostOffsets]
) -> LaterIndex | None:
    """The .txnindex of a segment, None if it says nothing.

    Args:
        path: of the segment.
        base_offset: of the segment.
        next_base: of the next one, None if there is none.
        aborts: (producer id, offset) of the ABORT markers in it.
        gaps: the offsets lost in it, rising.
    """
    entries = read_txn_index(path)
    if not entries or not are_valid(entries, base_offset, lambda producer_id, offset: True):
        return None
    unproved = []
    rest = iter(gaps)
    gap = next(rest, None)
    for entry in entries:
        while gap is not None and gap.last < entry.last_offset:
            gap = next(rest, None)
        is_lost = gap is not None and gap.first <= entry.last_offset
        if not is_lost and (entry.producer_id, entry.last_offset) not in aborts:
            unproved.append(entry.last_offset)
    end = entries[-1].last_offset + 1 if next_base is None else next_base
    return LaterIndex(SegmentIndex(entries, base_offset, end), unproved)


def _rows_and_gaps(path: str, base_offset: int, next_base: int | None) -> Iterator[NDArray[np.void] | LostOffsets]:
    """The good batches of a segment, and the offsets lost between them, in offset order."""
    expected = base_offset
    is_after_gap = False
    try:
        with open_source(path) as source:
            for item in ResyncWalk(source).items():
                if isinstance(item, bytegaps.Gap):
                    is_after_gap = True
                    continue
                rows = read_rows(item, is_after_gap)
                is_after_gap = not rows["is_valid"][-1]
                rows = rows[rows["is_valid"]]
                for part in np.split(rows, np.flatnonzero(rows["is_after_gap"])):
                    if not part.size:
                        continue
                    start = first_offset(row_at(part, 0))
                    if part["is_after_gap"][0] and start > expected:
                        yield _wide(expected, start - 1)
                    yield part
                    expected = max(expected, int(part["last_offset"][-1]) + 1)
    except KdumpError:
        is_after_gap = True
    end = ENDLESS if next_base is None else next_base
    if is_after_gap and end > expected:
        yield _wide(expected, end - 1)


def _wide(first: int, last: int) -> LostOffsets:
    return LostOffsets(first, last, last - first + 1)


def abort_markers(rows: NDArray[np.void]) -> Iterator[tuple[int, int]]:
    """(producer id, offset) of the ABORT markers."""
    is_abort = (rows["marker_type"] == control.ABORT) & (rows["producer_id"] >= 0)
    return zip(rows["producer_id"][is_abort].tolist(), rows["base_offset"][is_abort].tolist(), strict=True)


def transactional(rows: NDArray[np.void]) -> Iterator[BatchRow]:
    """The batches of transactions and their markers."""
    wanted = (rows["producer_id"] >= 0) & (rows["magic"] >= 2) & (rows["attributes"] & (TRANSACTIONAL | CONTROL) != 0)
    return (row_at(rows, number) for number in np.flatnonzero(wanted).tolist())
