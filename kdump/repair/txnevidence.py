"""What the log and the files around it say of the transactions that touch a gap.

Nothing is believed that contradicts the log. What the files mean is in ``kdump.reading.lostmarkers``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import MAX_INT32
from kdump.format.index import AbortedTxn
from kdump.kafka.producers import ProducerState
from kdump.reading.lostmarkers import LostOffsets, SegmentIndex, TransactionEvidence, are_sound
from kdump.repair.later import ENDLESS, LaterTransactions, abort_markers
from kdump.repair.siblingcontext import SiblingContext
from kdump.repair.table import BatchArrays
from kdump.repair.transactions import TouchedTransactions

OffsetGap = tuple[int, int]
"""The offsets lost, first and last."""


def with_room(
    holes: Sequence[OffsetGap], table: BatchArrays, damaged: NDArray[np.void], around: SiblingContext
) -> list[LostOffsets]:
    """How many of the offsets lost may have been markers.

    The others were records: of producers whose sequence numbers are missing there, or of a batch of several records
    whose header still has just these offsets.

    Args:
        holes: rising.
        table: the good batches.
        damaged: batches whose CRC is wrong.
        around: the files around the log.
    """
    first, last = np.array(holes, np.int64).reshape(-1, 2).T
    room = last - first + 1
    if not _is_compacted(table, around):
        records = _missing_records(first, table.rows, around)
        room -= np.where(records <= room, records, 0)
    batches = damaged[(damaged["magic"] >= 2) & (damaged["last_offset"] > damaged["base_offset"])]
    for batch_first, batch_last in zip(batches["base_offset"].tolist(), batches["last_offset"].tolist(), strict=True):
        room[(first == batch_first) & (last == batch_last)] = 0
    return [LostOffsets(*one) for one in zip(first.tolist(), last.tolist(), room.tolist(), strict=True)]


def _is_compacted(table: BatchArrays, around: SiblingContext) -> bool:
    return around.was_cleaned or table.was_cleaned


def _missing_records(gap_first: NDArray[np.int64], rows: NDArray[np.void], around: SiblingContext) -> NDArray[np.int64]:
    """How many records are missing in each gap by sequence numbers; those missing over several gaps are left out."""
    missing = np.zeros(gap_first.size, np.int64)
    rows = rows[(rows["magic"] >= 2) & (rows["producer_id"] >= 0) & (rows["base_sequence"] >= 0)]
    rows = rows[np.argsort(rows["producer_id"], kind="stable")]
    producer, epoch = rows["producer_id"], rows["producer_epoch"]
    sequence, offset = rows["base_sequence"].astype(np.int64), rows["base_offset"]
    next_sequence = (sequence + rows["last_offset"] - offset + 1) & MAX_INT32
    next_offset = rows["last_offset"] + 1
    is_next = producer[1:] == producer[:-1]
    # A producer begins each epoch with sequence 0.
    expected = np.where(epoch[1:] == epoch[:-1], next_sequence[:-1], 0)
    count = np.where(is_next, (sequence[1:] - expected) & MAX_INT32, 0)
    jumps = np.flatnonzero(count).tolist()
    found = [(int(next_offset[number]), int(offset[number + 1]), int(count[number])) for number in jumps]
    for number in np.flatnonzero(np.concatenate(([True], ~is_next))[: producer.size]).tolist():
        state = around.producers.by_id.get(int(producer[number]), ProducerState())
        if state.last_sequence >= 0 or around.base_offset == 0:
            known = (state.last_sequence + 1) & MAX_INT32 if state.epoch == epoch[number] else 0
            found.append((state.last_offset + 1, int(offset[number]), int(sequence[number]) - known & MAX_INT32))
    for after, before, records in found:
        start, stop = np.searchsorted(gap_first, (after, before)).tolist()
        if stop - start == 1 and records <= MAX_INT32 // 2:
            missing[start] += records
    return missing


def gather(followed: TouchedTransactions, table: BatchArrays, around: SiblingContext) -> TransactionEvidence:
    """All evidence of the transactions that ``followed`` has seen up to the end of the log; it sees what is after."""
    base_offset = around.base_offset or 0
    end = ENDLESS if around.next_base is None else around.next_base
    index = _valid_index(around.aborted, table.rows, followed, base_offset)
    indexes = []
    is_compacted = _is_compacted(table, around)
    open_before = set(around.producers.ongoing.values())
    if index and (is_compacted or followed.agrees(index, base_offset, around.next_base, base_offset, open_before)):
        indexes.append(SegmentIndex(index, base_offset, min(end, max(around.flushed, index[-1].last_offset + 1))))
    later = around.later or LaterTransactions(around.following)
    indexes += followed.see_later(later, len(around.following))
    return TransactionEvidence(indexes, map(later.snapshot, around.snapshots), is_compacted=is_compacted)


def _valid_index(
    entries: Sequence[AbortedTxn] | None, rows: NDArray[np.void], followed: TouchedTransactions, base_offset: int
) -> Sequence[AbortedTxn]:
    """The entries of a .txnindex; none where one has no ABORT marker among ``rows`` or where offsets are lost."""
    markers = set(abort_markers(rows))

    def is_there(producer_id: int, offset: int) -> bool:
        return (producer_id, offset) in markers or followed.is_lost(offset)

    return entries if entries and are_sound(entries, base_offset, is_there) else ()
