"""What is done about transactions whose marker may lie in a gap: markers are made, batches are dropped, or nothing.

The log, and the files around it where they do not contradict it, give the evidence. What that means is decided in
``kdump.reading.lostmarkers``.

Source: docs/spec/repair.md#4-transactions-with-a-lost-end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import CONTROL, MAX_INT32
from kdump.format.index import AbortedTxn
from kdump.kafka.producers import ProducerState
from kdump.kafka.transactionends import Ending
from kdump.reading.transactionevidence import SegmentIndex, TransactionEvidence, are_valid
from kdump.reading.transactionremains import LostOffsets
from kdump.repair.salvage.draft import DraftTable
from kdump.repair.salvage.entry import Entry
from kdump.repair.salvage.later import ENDLESS, abort_markers
from kdump.repair.salvage.pieces import JudgedBefore, SalvageOptions, TouchedTransaction, TxnOutcome, TxnPolicy
from kdump.repair.salvage.placeholders import marker
from kdump.repair.salvage.siblingcontext import SiblingContext
from kdump.repair.salvage.table import BatchArrays
from kdump.repair.salvage.transactions import TouchedTransactions

_MARKERS: Final = {TxnPolicy.ABORT: True, TxnPolicy.COMMIT: False}
"""Whether the marker that a policy has made is an ABORT one."""
_SAME: Final = {TxnPolicy.ABORT: TxnOutcome.INFERRED_ABORTED, TxnPolicy.COMMIT: TxnOutcome.INFERRED_COMMITTED}


@dataclass(slots=True)
class ResolvedTransactions:
    """The transactions, markers that are made for them, owners of batches to drop, and ``RepairedLog.judged``."""

    transactions: list[TouchedTransaction] = field(default_factory=list)
    markers: list[Entry] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    judged: dict[tuple[int, int], JudgedBefore] = field(default_factory=dict)


_COORDINATED: Final = {
    Ending.COMMIT: (TxnOutcome.COMMITTED, False),
    Ending.ABORT: (TxnOutcome.ABORTED, True),
    Ending.TIMEOUT: (TxnOutcome.OPEN, None),
}
"""The outcome by what the coordinator would do, and whether the marker is an ABORT one; None: none is made."""


def decide(
    table: DraftTable,
    damaged: NDArray[np.void],
    gaps: Sequence[OffsetGap],
    around: SiblingContext,
    options: SalvageOptions,
) -> ResolvedTransactions:
    """Find the transactions that touch a gap, and what becomes of them.

    A marker that is proved to be lost is made again, whatever the policy.

    Args:
        table: the good batches.
        damaged: batches of the log whose CRC is wrong.
        gaps: rising.
        around: the files around the log.
        options: say what is done about those whose end is undecided.
    """
    policy = options.transactions
    endings = ResolvedTransactions()
    if not gaps:
        return endings
    lost = with_room(gaps, table, damaged, around)
    followed = TouchedTransactions(around.producers, around.judged, around.base_offset or 0, gaps)
    followed.see(table.rows, lost)
    if not followed.has_touched:
        return endings
    judged = list(followed.judged(gather(followed, table, around)))
    endings.judged = {key: JudgedBefore(is_left=False, until=until) for key, until in followed.judged_until.items()}
    free = _FreeOffsets(gaps)
    # Markers whose offsets are known come first, so that no other one takes these. Then those that must come earliest.
    judged.sort(key=lambda one: (not one.is_exact, one.lost_marker is None, one.gaps[-1].first))
    for touched in judged:
        is_abort, transaction = touched.lost_marker, touched.transaction
        if options.ending is not None and transaction.outcome in (TxnOutcome.UNKNOWN, TxnOutcome.INFERRED_OPEN):
            # No later marker or epoch of its producer is left, so it is the newest one.
            answer = options.ending(transaction.producer_id, transaction.producer_epoch)
            outcome, is_abort = _COORDINATED.get(answer.ending, (transaction.outcome, is_abort))
            transaction = replace(transaction, outcome=outcome, coordinator=str(answer))
        if transaction.outcome.is_undecided:
            done = policy
            if policy is TxnPolicy.DROP and transaction.first_offset < (around.base_offset or 0):
                # Its batches in earlier segments would stay, so that readers got a part of it.
                done = TxnPolicy.LEAVE
            elif policy is TxnPolicy.DROP:
                endings.dropped += _batches_of(transaction, table)
            # No marker is made where the next one does what the policy asks for.
            is_abort = None if transaction.outcome is _SAME.get(policy) else _MARKERS.get(policy)
            transaction = replace(transaction, done=done)
        offset = None if is_abort is None else free.take(gap.first for gap in touched.gaps)
        if is_abort is not None and offset is not None:
            endings.markers.append(marker(touched, offset, table, around, is_abort=is_abort))
        elif is_abort is not None:
            # More transactions than offsets in the gap.
            transaction = replace(transaction, done=TxnPolicy.LEAVE)
        if transaction.done is TxnPolicy.LEAVE:
            until = ENDLESS if transaction.outcome.is_undecided and policy not in _MARKERS else 0
            key = transaction.producer_id, transaction.first_offset
            endings.judged[key] = JudgedBefore(is_left=True, until=until)
        endings.transactions.append(transaction)
    return endings


def _batches_of(transaction: TouchedTransaction, table: DraftTable) -> list[int]:
    """Owners of the data batches of a transaction that lie before the gap."""
    rows = table.rows
    is_part = (rows["producer_id"] == transaction.producer_id) & (rows["attributes"] & CONTROL == 0)
    is_part &= (table.first >= transaction.first_offset) & (table.first < transaction.gap_offset)
    owners: list[int] = table.owner[is_part].tolist()
    return owners


class _FreeOffsets:
    """Lost offsets, which new batches may take."""

    def __init__(self, gaps: Sequence[OffsetGap]) -> None:
        self._gaps = gaps
        self._taken: set[int] = set()
        # Of each gap: all before it are taken.
        self._next = {first: first for first, _ in gaps}

    def take(self, offsets: Iterable[int]) -> int | None:
        """The first one of ``offsets``, and of those after each in its gap, that is free; None if none is left."""
        return next(filter(lambda found: found is not None, map(self._take, offsets)), None)

    def _take(self, offset: int) -> int | None:
        number = bisect_right(self._gaps, offset, key=itemgetter(0)) - 1
        if number < 0:
            return None
        first, last = self._gaps[number]
        begin = self._next[first] if offset == first else offset
        free = next((place for place in range(begin, last + 1) if place not in self._taken), None)
        if offset == first:
            self._next[first] = last + 1 if free is None else free + 1
        if free is not None:
            self._taken.add(free)
        return free


OffsetGap = tuple[int, int]
"""The offsets lost, first and last."""


def with_room(
    gaps: Sequence[OffsetGap], table: BatchArrays, damaged: NDArray[np.void], around: SiblingContext
) -> list[LostOffsets]:
    """How many of the lost offsets may have been markers.

    The others were records, because sequence numbers are missing there, or because a damaged header still names just
    these offsets for a batch of several records.

    Args:
        gaps: rising.
        table: the good batches.
        damaged: batches whose CRC is wrong.
        around: the files around the log.
    """
    first, last = np.array(gaps, np.int64).reshape(-1, 2).T
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
    """How many records are missing in each gap by sequence numbers. Those missing over several gaps are not counted."""
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
    """All evidence about the transactions of ``followed``, which has seen the log, and now follows what comes after."""
    base_offset = around.base_offset or 0
    end = ENDLESS if around.next_base is None else around.next_base
    index = _valid_index(around.aborted, table.rows, followed, base_offset)
    indexes = []
    is_compacted = _is_compacted(table, around)
    open_before = set(around.producers.ongoing.values()) if index else set()
    if index and (is_compacted or followed.agrees(index, base_offset, around.next_base, base_offset, open_before)):
        indexes.append(SegmentIndex(index, base_offset, min(end, max(around.flushed, index[-1].last_offset + 1))))
    indexes += followed.see_later(around.later.segments(around.following))
    return TransactionEvidence(indexes, map(around.later.snapshot, around.snapshots), is_compacted=is_compacted)


def _valid_index(
    entries: Sequence[AbortedTxn] | None, rows: NDArray[np.void], followed: TouchedTransactions, base_offset: int
) -> Sequence[AbortedTxn]:
    """The entries of a .txnindex; none where one has no ABORT marker among ``rows`` or where offsets are lost."""
    markers = set(abort_markers(rows))

    def is_there(producer_id: int, offset: int) -> bool:
        return (producer_id, offset) in markers or followed.is_lost(offset)

    return entries if entries and are_valid(entries, base_offset, is_there) else ()
