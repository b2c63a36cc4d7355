"""Transactions of a repaired log: those that contradict themselves, and those whose end may lie in a gap.

What the evidence means for the second kind is decided in ``kdump.reading.lostmarkers``.

Source: docs/spec/recovery.md#2-the-walk-over-the-entries (rules 7 to 9); KIP-98, KIP-360.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.format import control
from kdump.format.batch import CONTROL, TRANSACTIONAL
from kdump.kafka.producers import ProducerState, ProducerStates
from kdump.reading.lostmarkers import TransactionEnd, ends_of
from kdump.reading.outcomes import ABORTED
from kdump.reading.transactionevidence import SegmentIndex, TransactionEvidence
from kdump.reading.transactionremains import (
    GapRange,
    LostOffsets,
    RemainingMarker,
    TransactionFollower,
    TransactionRemains,
)
from kdump.repair.salvage.later import END_TXN, ENDLESS, LaterSegment, transactional
from kdump.repair.salvage.pieces import JudgedBefore, TouchedTransaction, TxnOutcome
from kdump.verify.table import BatchRow, row_at

_NOT_JUDGED: Final = JudgedBefore(is_left=False, until=0)


def contradictions(rows: NDArray[np.void], producers: ProducerStates) -> list[int]:
    """Numbers of the batches to drop so that no plain batch of a producer lies inside its open transaction.

    Recovery fails on such a batch. A producer writes either always in transactions or never. The kind with more records
    is believed. So either the plain batches in transactions are dropped, or the transactions that hold them.

    Args:
        rows: the batches in offset order.
        producers: before the first of them.
    """
    is_data = (rows["producer_id"] >= 0) & (rows["magic"] >= 2) & (rows["attributes"] & CONTROL == 0)
    is_in_txn = is_data & (rows["attributes"] & TRANSACTIONAL != 0)
    plain = np.unique(rows["producer_id"][is_data & ~is_in_txn])
    open_before = {number for number in plain.tolist() if _is_open(producers, number)}
    mixed = plain[np.isin(plain, rows["producer_id"][is_in_txn]) | np.isin(plain, list(open_before))]
    if not mixed.size:
        return []
    numbers = np.flatnonzero(np.isin(rows["producer_id"], mixed) & (rows["magic"] >= 2))
    order = numbers[np.argsort(rows["producer_id"][numbers], kind="stable")].tolist()
    dropped: list[int] = []
    for producer_id, group in groupby(order, lambda number: int(rows["producer_id"][number])):
        dropped += _contradicting(rows, list(group), is_open=producer_id in open_before)
    return sorted(dropped)


def _is_open(producers: ProducerStates, producer_id: int) -> bool:
    state = producers.by_id.get(producer_id)
    return state is not None and state.txn_first_offset is not None


def _contradicting(rows: NDArray[np.void], numbers: list[int], *, is_open: bool) -> list[int]:
    """Those of one producer; where a transaction ``is_open`` before them, that one cannot be dropped."""
    plain: list[int] = []
    broken: list[int] = []
    transaction: list[int] = []
    records = {True: 0, False: 0}
    began_before = is_open
    for number in numbers:
        row = row_at(rows, number)
        if row.is_control:
            if row.marker_type in END_TXN:
                is_open = began_before = False
                transaction = []
            continue
        records[row.is_transactional] += row.record_count
        if row.is_transactional:
            is_open = True
            transaction.append(number)
        elif is_open:
            plain.append(number)
            broken += transaction
            transaction = []
    return plain if began_before or records[True] >= records[False] else broken


@dataclass(frozen=True, slots=True)
class Touched:
    """A transaction that was open where a gap begins, and what a new marker for it is made of.

    ``gaps``: where a new marker may be. ``lost_marker``: whether the marker that a gap held was an ABORT one; None:
    none is known to be lost. ``is_exact``: it was at just this offset.
    """

    transaction: TouchedTransaction
    marker_epoch: int
    coordinator_epoch: int
    timestamp: int
    gaps: GapRange
    lost_marker: bool | None
    is_exact: bool


@dataclass(slots=True)
class _Written:
    """What the marker of a transaction is made of; ``timestamps``: (offset, ms) of the batches that a gap follows."""

    coordinator_epoch: int
    timestamps: list[tuple[int, int]]


class TouchedTransactions(TransactionFollower):
    """Follows the transactions of a log over its gaps.

    Call ``see`` for its rows and gaps, ``see_later`` for the segments after it, and ``judged`` at last.

    Args:
        producers: before the first row.
        judged: see SiblingContext.
        base_offset: of the log.
        gaps: the offsets lost, rising.
    """

    def __init__(
        self,
        producers: ProducerStates,
        judged: Mapping[tuple[int, int], JudgedBefore],
        base_offset: int,
        gaps: Sequence[tuple[int, int]],
    ) -> None:
        super().__init__()
        self._written: dict[tuple[int, int], _Written] = {}
        self._producers = producers
        self._judged_before = judged
        self._coordinator_epochs: dict[int, int] = {}
        # Thousands may be open of which the gaps tell nothing new. They are followed from their first batch or marker
        # in the log on. Of those for which there was no place before, as many are looked at as find one now.
        room = sum(last - first + 1 for first, last in gaps)
        touchable = []
        first_left = base_offset
        for first_offset, producer_id in producers.ongoing.items():
            before = judged.get((producer_id, first_offset), _NOT_JUDGED)
            if before.is_left and first_offset < first_left:
                first_left = first_offset
            if before.until <= gaps[-1][1] and (room > 0 or not before.is_left):
                touchable.append(producer_id)
                room -= before.is_left
        if first_left < base_offset:
            self.gap(LostOffsets(first_left, base_offset - 1, base_offset - first_left))
        self._before = len(self.gaps), len(self.with_room)
        self._own_gaps = self._own_with_room = range(0)
        self.judged_until: dict[tuple[int, int], int] = {}
        self._seen: set[int] = set()
        for producer_id in touchable:
            self._take_over(producer_id)

    @property
    def has_touched(self) -> bool:
        """Whether a transaction touches a gap of the log."""
        return len(self.gaps) > self._before[0] and (bool(self.touched) or self.is_waiting)

    @property
    def is_waiting(self) -> bool:
        """Whether a transaction that touches a gap is open."""
        return any(remains.gaps for remains in self.open.values())

    def see(self, rows: NDArray[np.void], gaps: Sequence[LostOffsets]) -> None:
        """Batches in offset order, and the gaps before, between and after them."""
        pending = list(reversed(gaps))
        for row in transactional(rows):
            while pending and pending[-1].first <= row.base_offset:
                self.gap(pending.pop())
            self._see_row(row)
        while pending:
            self.gap(pending.pop())

    def see_later(self, segments: Iterable[LaterSegment]) -> list[SegmentIndex]:
        """Follow what touches a gap over the segments after the log, up to the one in which the last of them ends.

        Gives the .txnindex files of these segments that agree with them.
        """
        self._own_gaps = range(self._before[0], len(self.gaps))
        self._own_with_room = range(self._before[1], len(self.with_room))
        self.open = {producer_id: remains for producer_id, remains in self.open.items() if remains.gaps}
        waiting = set(self.open)
        indexes = []
        following = iter(segments)
        while waiting and (segment := next(following, None)) is not None:
            for event in segment.events:
                if isinstance(event, LostOffsets):
                    self.gap(event)
                elif event.producer_id not in waiting:
                    continue
                elif isinstance(event.seen, RemainingMarker):
                    waiting.discard(event.producer_id)
                    self.marker(event.producer_id, event.seen)
                else:
                    self.open[event.producer_id].see_batch(*event.seen)
            indexes.append(segment.txn_index)
        return [one.known for one in indexes if one is not None and all(map(self.is_lost, one.unproved))]

    def judged(self, evidence: TransactionEvidence) -> Iterator[Touched]:
        """All that touched a gap of the log, and did not end in a gap elsewhere; those that are open come last.

        ``judged_until`` gets those of all, see JudgedBefore.
        """
        own_end = self.gaps[self._own_gaps[-1]].last if self._own_gaps else -1
        for remains in (*self.touched, *(remains for remains in self.open.values() if remains.gaps)):
            for ending in takewhile(lambda one: one.first_offset < own_end, ends_of(remains, evidence)):
                touched = remains.gaps.within(self._own_gaps).between(ending.first_offset, ENDLESS)
                gaps = ending.gaps.within(self._own_with_room)
                key = remains.producer_id, ending.first_offset
                self.judged_until[key] = ending.gaps[0].first if ending.gaps else ENDLESS
                if touched and (gaps or not ending.gaps):
                    written = self._written[remains.producer_id, remains.first_offset]
                    yield _touched(remains, written, ending, gaps or touched)

    def _take_over(self, producer_id: int) -> None:
        """Follow the transaction of a producer that is open before the log, once."""
        state = self._producers.by_id.get(producer_id)
        if producer_id in self._seen or state is None or state.txn_first_offset is None:
            return
        self._seen.add(producer_id)
        self.begin_before(producer_id, state.epoch, state.txn_first_offset)
        if self._judged_before.get((producer_id, state.txn_first_offset), _NOT_JUDGED).is_left:
            self.open[producer_id].gaps = GapRange(self.gaps)
            self.open[producer_id].with_room = GapRange(self.with_room)
        self._note(producer_id, -1, state.timestamp)

    def _see_row(self, row: BatchRow) -> None:
        self._take_over(row.producer_id)
        if not row.is_control:
            self.batch(row.producer_id, row.producer_epoch, row.base_offset)
            self._note(row.producer_id, row.base_offset, row.max_timestamp)
        elif row.marker_type in END_TXN:
            self._coordinator_epochs[row.producer_id] = row.coordinator_epoch
            is_abort = row.marker_type == control.ABORT
            self.marker(row.producer_id, RemainingMarker(row.base_offset, row.producer_epoch, is_abort))

    def _note(self, producer_id: int, offset: int, timestamp: int) -> None:
        """The newest batch of the open transaction of a producer."""
        remains = self.open[producer_id]
        key = producer_id, remains.first_offset
        if key not in self._written:
            self._written[key] = _Written(self._coordinator_epoch(producer_id), [])
        timestamps = self._written[key].timestamps
        if timestamps and (not remains.gaps or timestamps[-1][0] > remains.gaps[-1].last):
            timestamps.pop()
        timestamps.append((offset, timestamp))

    def _coordinator_epoch(self, producer_id: int) -> int:
        """That of its newest marker; 0 without one."""
        before = self._producers.by_id.get(producer_id, ProducerState())
        return self._coordinator_epochs.get(producer_id, max(0, before.coordinator_epoch))


def _touched(remains: TransactionRemains, written: _Written, ending: TransactionEnd, gaps: GapRange) -> Touched:
    """``gaps``: those of the log that may hold the marker; where none does, those that the transaction touches."""
    end = remains.end
    is_decided = ending.outcome is not None
    is_lost = is_decided and ending.has_ended
    transaction = TouchedTransaction(
        remains.producer_id,
        ending.epoch,
        ending.first_offset,
        gaps[0].first,
        _outcome(ending, remains),
        ends_at=None if end is None or (is_decided and not is_lost) else end.offset,
    )
    following = bisect_left(written.timestamps, gaps[0].first, key=itemgetter(0))
    return Touched(
        transaction,
        ending.epoch + remains.raises_epochs,
        written.coordinator_epoch,
        written.timestamps[following - 1][1],
        gaps if ending.marker is None else GapRange([LostOffsets(ending.marker, ending.marker, 1)]),
        (ending.outcome == ABORTED) if is_lost else None,
        ending.marker is not None,
    )


def _outcome(ending: TransactionEnd, remains: TransactionRemains) -> TxnOutcome:
    if ending.outcome is not None:
        return TxnOutcome(ending.outcome)
    if ending.has_ended:
        return TxnOutcome.INFERRED_ENDED
    if remains.end is not None:
        return TxnOutcome.INFERRED_ABORTED if remains.end.is_abort else TxnOutcome.INFERRED_COMMITTED
    goes_on = any(offset > ending.first_offset for offset, _ in remains.batches)
    return TxnOutcome.INFERRED_OPEN if goes_on else TxnOutcome.UNKNOWN
