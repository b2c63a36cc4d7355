"""What the segments after a damaged one tell about its transactions.

A partition may have many damaged segments, each with transactions that end far after it. So each later segment is read
once, whatever number of damaged ones need it. Only what an open transaction needs is kept of it: the gaps, and of each
producer the first marker, the first batch after each gap before that, and batches with a higher epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
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
from kdump.reading.transactionremains import LostOffsets, RemainingMarker
from kdump.verify.table import BatchRow, first_offset, read_rows, row_at

END_TXN: Final = (control.ABORT, control.COMMIT)
ENDLESS: Final = 2**63 - 1
"""Above every offset."""
_NO_EPOCH: Final = -(1 << 15) - 1
"""Below every epoch."""


class LaterIndex(NamedTuple):
    """A .txnindex that keeps Kafka's rules.

    ``unproved``: offsets of ABORT markers in it that are neither in the segment nor lost in it.
    """

    known: SegmentIndex
    unproved: Sequence[int]


class LaterEvent(NamedTuple):
    """The marker of a producer, or the first offset and the epoch of one of its batches."""

    producer_id: int
    seen: RemainingMarker | tuple[int, int]


class LaterSegment(NamedTuple):
    """What a segment has for transactions open before it; ``txn_index``: None if its .txnindex says nothing."""

    events: Sequence[LaterEvent | LostOffsets]
    txn_index: LaterIndex | None


class LaterSegments:
    """The segments and snapshots of one partition, as far as they were read."""

    def __init__(self) -> None:
        self._segments: dict[str, LaterSegment] = {}
        self._snapshots: dict[str, Snapshot] = {}

    def snapshot(self, path: str) -> Snapshot:
        """One producer snapshot; one that cannot be read is empty."""
        if path not in self._snapshots:
            open_from = {entry.producer_id: entry.current_txn_first_offset for entry in read_snapshot(path)}
            self._snapshots[path] = Snapshot(base_of(path), open_from)
        return self._snapshots[path]

    def segments(self, paths: Sequence[str]) -> Iterator[LaterSegment]:
        """Some segments, the last of the partition among them, each when it is asked for.

        Bytes of a segment that cannot be read count as lost.
        """
        for path, following in zip_longest(paths, paths[1:]):
            if path not in self._segments:
                self._segments[path] = _read(path, None if following is None else base_of(following))
            yield self._segments[path]


def _read(path: str, next_base: int | None) -> LaterSegment:
    base_offset = base_of(path)
    events: list[LaterEvent | LostOffsets] = []
    aborts: set[tuple[int, int]] = set()
    ended: set[int] = set()
    # The newest epoch of each producer since the last gap.
    epochs: dict[int, int] = {}
    for item in _rows_and_gaps(path, base_offset, next_base):
        if isinstance(item, LostOffsets):
            events.append(item)
            epochs.clear()
            continue
        aborts.update(abort_markers(item))
        for row in transactional(item):
            producer_id = row.producer_id
            if producer_id in ended:
                continue
            if not row.is_control:
                if row.producer_epoch > epochs.get(producer_id, _NO_EPOCH):
                    epochs[producer_id] = row.producer_epoch
                    events.append(LaterEvent(producer_id, (row.base_offset, row.producer_epoch)))
            elif row.marker_type in END_TXN:
                ended.add(producer_id)
                marker = RemainingMarker(row.base_offset, row.producer_epoch, row.marker_type == control.ABORT)
                events.append(LaterEvent(producer_id, marker))
    gaps = [event for event in events if isinstance(event, LostOffsets)]
    return LaterSegment(events, _later_index(path, base_offset, next_base, aborts, gaps))


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
