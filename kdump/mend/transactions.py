"""Transactions of a mended log: those that contradict themselves, and those whose end may lie in a hole.

Source: shared/spec/recovery.md rules 7 to 9; KIP-98, KIP-360; KIP-890 (with it the epoch rises with each transaction,
and the marker has the new one).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from kdump.checks.table import BatchRow, row_at
from kdump.format import control
from kdump.format.batch import CONTROL, TRANSACTIONAL
from kdump.format.index import AbortedTxn
from kdump.kafka.producers import ProducerStates
from kdump.mend.later import END_TXN, LaterTransactions, transactional
from kdump.mend.pieces import TouchedTransaction, TxnOutcome


def contradictions(rows: NDArray[np.void], producers: ProducerStates) -> list[int]:
    """Numbers of the batches to drop so that no plain batch of a producer lies inside its open transaction.

    Recovery fails on such a batch. A producer writes in transactions always or never: what it wrote most of its records
    as is believed. So the plain batches in transactions are dropped, or the transactions that hold them.

    Args:
        rows: the batches in offset order.
        producers: before the first of them.
    """
    is_data = (rows["producer_id"] >= 0) & (rows["magic"] >= 2) & (rows["attributes"] & CONTROL == 0)
    is_in_txn = is_data & (rows["attributes"] & TRANSACTIONAL != 0)
    open_before = {number for number, state in producers.by_id.items() if state.txn_first_offset is not None}
    in_txn = np.union1d(rows["producer_id"][is_in_txn], np.array(list(open_before), np.int64))
    mixed = np.intersect1d(in_txn, rows["producer_id"][is_data & ~is_in_txn])
    if not mixed.size:
        return []
    numbers = np.flatnonzero(np.isin(rows["producer_id"], mixed) & (rows["magic"] >= 2))
    order = numbers[np.argsort(rows["producer_id"][numbers], kind="stable")].tolist()
    dropped: list[int] = []
    for producer_id, group in groupby(order, lambda number: int(rows["producer_id"][number])):
        dropped += _contradicting(rows, list(group), is_open=producer_id in open_before)
    return sorted(dropped)


def _contradicting(rows: NDArray[np.void], numbers: list[int], *, is_open: bool) -> list[int]:
    """The same for the batches of one producer; a transaction ``is_open`` before them cannot be dropped."""
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
    """A transaction that was open where a hole begins, and what its marker is made of where one is to be made.

    ``lost_marker``: the offset of its ABORT marker, which the .txnindex knows and the log has lost.
    """

    transaction: TouchedTransaction
    coordinator_epoch: int
    timestamp: int
    lost_marker: int | None = None


@dataclass(slots=True)
class _Open:
    """An open transaction. ``touched``: the first offset lost behind its first batch; ``hole``: behind its last."""

    producer_id: int
    epoch: int
    first_offset: int
    coordinator_epoch: int
    timestamp: int
    touched: int | None = None
    hole: int | None = None

    def ended(self, outcome: TxnOutcome, lost_marker: int | None = None) -> Touched:
        hole = self.touched if self.hole is None else self.hole
        assert hole is not None
        transaction = TouchedTransaction(self.producer_id, self.epoch, self.first_offset, hole, outcome)
        return Touched(transaction, self.coordinator_epoch, self.timestamp, lost_marker)


class TouchedTransactions:
    """Follows the transactions of a log over its holes.

    Call ``see`` for its rows, ``see_following`` for those of the segments behind, ``finish``.

    Args:
        producers: before the first row.
        aborted: the .txnindex, where it can be trusted.
    """

    def __init__(self, producers: ProducerStates, aborted: Sequence[AbortedTxn]) -> None:
        self._open: dict[int, _Open] = {}
        self._coordinator_epochs: dict[int, int] = {}
        self._aborted = {(entry.producer_id, entry.first_offset): entry.last_offset for entry in aborted}
        self._found: list[Touched] = []
        for producer_id, state in producers.by_id.items():
            self._coordinator_epochs[producer_id] = max(0, state.coordinator_epoch)
            if state.txn_first_offset is not None:
                self._begin(producer_id, state.epoch, state.txn_first_offset, state.timestamp)

    def see(self, rows: NDArray[np.void], holes: Sequence[tuple[int, int]]) -> None:
        """The log: its batches in offset order, and the offsets lost, (first, last) rising."""
        pending = list(reversed(holes))
        for row in _transactional(rows):
            while pending and pending[-1][0] <= row.base_offset:
                self._see_hole(*pending.pop())
            self._see_row(row)
        while pending:
            self._see_hole(*pending.pop())

    def see_following(self, later: LaterTransactions, paths: Sequence[str]) -> None:
        """The segments after this one, ``paths``, as long as something is to be known of them."""
        waiting = {producer_id for producer_id, one in self._open.items() if one.touched is not None}
        start = later.start(paths)
        ended: list[tuple[int, Touched]] = []
        fresh: Iterable[int] | None = sorted(waiting)
        while waiting and fresh is not None:
            for producer_id in waiting.intersection(fresh):
                one = self._open[producer_id]
                end = later.end(producer_id, one.epoch, start)
                if end.order is None:
                    continue
                _go_on(one, end.timestamp)
                outcome = TxnOutcome.INFERRED_ENDED if end.marker is None else self._outcome(one, end.marker)
                ended.append((end.order, one.ended(outcome)))
                del self._open[producer_id]
                waiting.discard(producer_id)
            fresh = later.read_next(paths, start) if waiting else None
        for producer_id in waiting:
            one = self._open[producer_id]
            _go_on(one, later.end(producer_id, one.epoch, start).timestamp)
        self._found += [touched for _, touched in sorted(ended, key=itemgetter(0))]

    def finish(self) -> list[Touched]:
        """All that touched a hole, those that are still open last."""
        for one in self._open.values():
            if one.hole is not None:
                self._found.append(one.ended(TxnOutcome.UNKNOWN))
            elif one.touched is not None:
                self._found.append(one.ended(TxnOutcome.INFERRED_OPEN))
        self._open.clear()
        return self._found

    def _begin(self, producer_id: int, epoch: int, first_offset: int, timestamp: int) -> None:
        coordinator_epoch = self._coordinator_epochs.get(producer_id, 0)
        self._open[producer_id] = _Open(producer_id, epoch, first_offset, coordinator_epoch, timestamp)

    def _see_hole(self, first: int, last: int) -> None:
        for one in list(self._open.values()):
            one.touched = first if one.touched is None else one.touched
            one.hole = first if one.hole is None else one.hole
            marker = self._aborted.get((one.producer_id, one.first_offset))
            if marker is not None and first <= marker <= last:
                self._found.append(one.ended(TxnOutcome.ABORTED, marker))
                del self._open[one.producer_id]

    def _see_row(self, row: BatchRow) -> None:
        one = self._open.get(row.producer_id)
        if row.is_control:
            if row.marker_type in END_TXN:
                self._coordinator_epochs[row.producer_id] = row.coordinator_epoch
                if one is not None:
                    self._end(one, row)
                    del self._open[row.producer_id]
        elif one is None:
            self._begin(row.producer_id, row.producer_epoch, row.base_offset, row.max_timestamp)
        elif row.producer_epoch > one.epoch:
            if one.touched is not None:
                self._found.append(one.ended(TxnOutcome.INFERRED_ENDED))
            self._begin(row.producer_id, row.producer_epoch, row.base_offset, row.max_timestamp)
        else:
            _go_on(one, row.max_timestamp)

    def _end(self, one: _Open, row: BatchRow) -> None:
        """A marker of its producer came."""
        if one.touched is not None:
            self._found.append(one.ended(self._outcome(one, row)))

    def _outcome(self, one: _Open, row: BatchRow) -> TxnOutcome:
        """What the first marker of its producer after the gap says."""
        is_abort = row.marker_type == control.ABORT
        known = self._aborted.get((one.producer_id, one.first_offset)) == row.base_offset
        if row.producer_epoch == one.epoch + 1 or known:
            return TxnOutcome.ABORTED if is_abort else TxnOutcome.COMMITTED
        if row.producer_epoch == one.epoch:
            # A marker in the hole and another transaction of the epoch behind it would look the same.
            return TxnOutcome.INFERRED_ABORTED if is_abort else TxnOutcome.INFERRED_COMMITTED
        return TxnOutcome.INFERRED_ENDED


def _go_on(one: _Open, timestamp: int | None) -> None:
    """The last batch of it after a gap, None: there is none."""
    if timestamp is not None:
        one.timestamp = timestamp
        one.hole = None


def trusted(aborted: Sequence[AbortedTxn], rows: NDArray[np.void], holes: Sequence[tuple[int, int]]) -> bool:
    """Whether each entry of a .txnindex has its ABORT marker among ``rows``, or where offsets are lost.

    ``holes``: (first, last) offset lost, rising and apart.
    """
    is_abort = (rows["marker_type"] == control.ABORT) & (rows["producer_id"] >= 0)
    markers = set(zip(rows["producer_id"][is_abort].tolist(), rows["base_offset"][is_abort].tolist(), strict=True))

    def is_lost(offset: int) -> bool:
        number = bisect_right(holes, offset, key=itemgetter(0)) - 1
        return number >= 0 and offset <= holes[number][1]

    return all((entry.producer_id, entry.last_offset) in markers or is_lost(entry.last_offset) for entry in aborted)


def _transactional(rows: NDArray[np.void]) -> Iterator[BatchRow]:
    """The batches of transactions and their markers."""
    return (row_at(rows, number) for number in transactional(rows))
