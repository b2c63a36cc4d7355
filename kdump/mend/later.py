"""What the segments after a damaged one say of its transactions: each is read once, however many before it ask.

A partition may have many damaged segments, each with transactions whose end lies far after it. Of a segment only
that is kept which a transaction that is open before it can note: gaps, and of each producer a few batches up to its
first marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.checks.table import BatchRow, first_offset, read_columns, row_at
from kdump.codes import KdumpError
from kdump.format import control
from kdump.format.batch import CONTROL, TRANSACTIONAL
from kdump.format.index import AbortedTxn
from kdump.log import gaps as bytegaps
from kdump.log.names import parse_file_name
from kdump.log.resync import ResyncWalk
from kdump.log.siblings import read_snapshot, read_txn_index
from kdump.log.source import open_source
from kdump.scan.lostmarkers import Gap, Marker, SegmentIndex, Snapshot, are_sound

END_TXN: Final = (control.ABORT, control.COMMIT)
ENDLESS: Final = 2**63 - 1
"""Above every offset."""


class Event(NamedTuple):
    """Something in a segment; ``order`` rises with its place.

    ``producer_id``, ``epoch`` and ``offset``: of a batch. ``marker``, ``gap``: it is one.
    """

    order: int
    producer_id: int
    epoch: int
    offset: int
    marker: Marker | None = None
    gap: Gap | None = None


@dataclass(frozen=True, slots=True)
class LaterSegment:
    """What a segment says of the transactions that are open before it."""

    gaps: Sequence[Event]
    """The offsets lost."""
    producers: Mapping[int, Sequence[Event]]
    """Of each producer, up to its first marker: the batches that a Stretch may note, and that marker."""
    index: SegmentIndex | None
    """The .txnindex, where its entries are as Kafka writes them."""
    unproved: Sequence[int]
    """Offsets of the ABORT markers in it that are neither in the segment nor lost in it."""


@dataclass(slots=True)
class _Reading:
    """A segment that is read."""

    gaps: list[Event] = field(default_factory=list)
    producers: dict[int, list[Event]] = field(default_factory=dict)
    aborts: set[tuple[int, int]] = field(default_factory=set)
    order: int = 0

    def see_gap(self, gap: Gap) -> None:
        self.order += 1
        self.gaps.append(Event(self.order, -1, -1, gap.first, gap=gap))

    def see_rows(self, rows: NDArray[np.void]) -> None:
        self.aborts.update(abort_markers(rows))
        for row in transactional(rows):
            self.order += 1
            known = self.producers.get(row.producer_id, ())
            newest = known[-1] if known else None
            if newest is not None and newest.marker is not None:
                continue
            event = Event(self.order, row.producer_id, row.producer_epoch, row.base_offset)
            if row.is_control:
                if row.marker_type not in END_TXN:
                    continue
                marker = Marker(row.base_offset, row.producer_epoch, row.marker_type == control.ABORT)
                event = event._replace(marker=marker)
            elif newest is not None and row.producer_epoch <= newest.epoch and not self._is_gap_after(newest.order):
                continue
            self.producers.setdefault(row.producer_id, []).append(event)

    def _is_gap_after(self, order: int) -> bool:
        return bool(self.gaps) and self.gaps[-1].order > order


class LaterTransactions:
    """The segments and snapshots of one partition that were read."""

    def __init__(self) -> None:
        self._segments: dict[tuple[str, str | None], LaterSegment] = {}
        self._snapshots: dict[str, Snapshot] = {}

    def segment(self, path: str, following: str | None) -> LaterSegment:
        """One segment.

        Args:
            path: the log; what cannot be read of it is lost.
            following: the next one, None where there is none.
        """
        known = self._segments.get((path, following))
        if known is None:
            next_base = None if following is None else base_of(following)
            known = self._segments[path, following] = _read(path, next_base)
        return known

    def snapshot(self, path: str) -> Snapshot:
        """One producer snapshot; one that cannot be read says nothing."""
        known = self._snapshots.get(path)
        if known is None:
            open_from = {entry.producer_id: entry.current_txn_first_offset for entry in read_snapshot(path)}
            known = self._snapshots[path] = Snapshot(base_of(path), open_from)
        return known


def _read(path: str, next_base: int | None) -> LaterSegment:
    reading, base_offset = _Reading(), base_of(path)
    for item in _rows_and_gaps(path, base_offset, next_base):
        if isinstance(item, Gap):
            reading.see_gap(item)
        else:
            reading.see_rows(item)
    entries = read_txn_index(path)
    if not entries or not are_sound(entries, base_offset, lambda producer_id, offset: True):
        return LaterSegment(reading.gaps, reading.producers, None, ())
    end = entries[-1].last_offset + 1 if next_base is None else next_base
    index = SegmentIndex(entries, base_offset, end)
    return LaterSegment(reading.gaps, reading.producers, index, list(_unproved(entries, reading)))


def _unproved(entries: Iterable[AbortedTxn], reading: _Reading) -> Iterator[int]:
    """See LaterSegment."""
    gaps = iter(reading.gaps)
    event = next(gaps, None)
    for entry in entries:
        while event is not None and event.gap is not None and event.gap.last < entry.last_offset:
            event = next(gaps, None)
        is_lost = event is not None and event.offset <= entry.last_offset
        if not is_lost and (entry.producer_id, entry.last_offset) not in reading.aborts:
            yield entry.last_offset


def _rows_and_gaps(path: str, base_offset: int, next_base: int | None) -> Iterator[NDArray[np.void] | Gap]:
    """The good batches of a segment, and the offsets lost between them, in offset order."""
    expected = base_offset
    is_behind_hole = False
    try:
        with open_source(path) as source:
            for item in ResyncWalk(source).items():
                if isinstance(item, bytegaps.Gap):
                    is_behind_hole = True
                    continue
                rows = read_columns(item, is_behind_hole)
                is_behind_hole = not rows["is_valid"][-1]
                rows = rows[rows["is_valid"]]
                for part in np.split(rows, np.flatnonzero(rows["is_behind_hole"])):
                    if not part.size:
                        continue
                    start = first_offset(row_at(part, 0))
                    if part["is_behind_hole"][0] and start > expected:
                        yield _wide(expected, start - 1)
                    yield part
                    expected = max(expected, int(part["last_offset"][-1]) + 1)
    except KdumpError:
        is_behind_hole = True
    end = ENDLESS if next_base is None else next_base
    if is_behind_hole and end > expected:
        yield _wide(expected, end - 1)


def _wide(first: int, last: int) -> Gap:
    return Gap(first, last, last - first + 1)


def abort_markers(rows: NDArray[np.void]) -> Iterator[tuple[int, int]]:
    """(producer id, offset) of the ABORT markers."""
    is_abort = (rows["marker_type"] == control.ABORT) & (rows["producer_id"] >= 0)
    return zip(rows["producer_id"][is_abort].tolist(), rows["base_offset"][is_abort].tolist(), strict=True)


def transactional(rows: NDArray[np.void]) -> Iterator[BatchRow]:
    """The batches of transactions and their markers."""
    wanted = (rows["producer_id"] >= 0) & (rows["magic"] >= 2) & (rows["attributes"] & (TRANSACTIONAL | CONTROL) != 0)
    return (row_at(rows, number) for number in np.flatnonzero(wanted).tolist())


def base_of(path: str) -> int:
    """The base offset in a file name, 0 without one."""
    name = parse_file_name(path)
    return 0 if name is None or name.base_offset is None else name.base_offset
