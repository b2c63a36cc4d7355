"""Transactions of a mended log: those that contradict themselves, and those whose end may lie in a gap.

What evidence says of the second kind is in ``kdump.scan.lostmarkers``.

Source: shared/spec/recovery.md rules 7 to 9; KIP-98, KIP-360.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.checks.table import BatchRow, row_at
from kdump.format import control
from kdump.format.batch import CONTROL, TRANSACTIONAL
from kdump.kafka.producers import ProducerStates
from kdump.mend.pieces import TouchedTransaction, TxnOutcome
from kdump.scan.lostmarkers import Ending, Evidence, Gap, Marker, Stretch, endings
from kdump.scan.outcomes import ABORTED

_END_TXN: Final = (control.ABORT, control.COMMIT)


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
    open_before = [number for number, state in producers.by_id.items() if state.txn_first_offset is not None]
    in_txn = np.union1d(rows["producer_id"][is_in_txn], np.array(open_before, np.int64))
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
            if row.marker_type in _END_TXN:
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
    """A transaction that was open where a gap begins, and what its marker is made of where one is to be made.

    ``offsets``: where a marker that is made may be, each standing for those after it in its gap too. ``lost_marker``:
    whether the marker that a gap held is an ABORT one; None: none is known to be lost. ``is_exact``: it was at just
    this offset.
    """

    transaction: TouchedTransaction
    marker_epoch: int
    coordinator_epoch: int
    timestamp: int
    offsets: Sequence[int]
    lost_marker: bool | None
    is_exact: bool


@dataclass(slots=True)
class _Open:
    """An open transaction, and what its marker is made of."""

    stretch: Stretch
    coordinator_epoch: int
    timestamps: list[tuple[int, int]]
    """(offset, ms) of the last batch before each gap, and of the newest one; -1 for the offset of the first."""


class TouchedTransactions:
    """Follows the transactions of a log over its gaps.

    Call ``see`` for its rows, ``see_gap`` for each gap in its place, both in offset order, and ``judged`` at last.

    Args:
        producers: before the first row.
        in_doubt: (producer id, first offset) of transactions that may have ended in a gap before the log.
        base_offset: of the log.
    """

    def __init__(
        self, producers: ProducerStates, in_doubt: Set[tuple[int, int]] = frozenset(), base_offset: int = 0
    ) -> None:
        self._open: dict[int, _Open] = {}
        self._coordinator_epochs: dict[int, int] = {}
        self._raises_epochs: set[int] = set()
        self._touched: list[_Open] = []
        self._gaps: list[Gap] = []
        self._own_gaps: Set[Gap] = frozenset()
        self._newest_marker: dict[int, int] = {}
        self._is_over = False
        self.aborted: set[tuple[int, int, int]] = set()
        """(producer id, first offset, offset of the marker) of aborted transactions that no gap touches."""
        for producer_id, state in producers.by_id.items():
            self._coordinator_epochs[producer_id] = max(0, state.coordinator_epoch)
            if state.txn_first_offset is not None:
                # Of what lies before the log all may be lost.
                self._begin(producer_id, state.epoch, state.txn_first_offset, state.timestamp, 0)
                if (producer_id, state.txn_first_offset) in in_doubt:
                    gap = Gap(state.txn_first_offset, base_offset - 1, base_offset - state.txn_first_offset)
                    self._open[producer_id].stretch.gaps.append(gap)

    def end_log(self) -> None:
        """The log is over: what follows lies in other segments. Transactions that begin there are not followed."""
        self._is_over = True
        self._own_gaps = frozenset(self._gaps)

    @property
    def has_touched(self) -> bool:
        """A transaction touches a gap of the log."""
        return bool(self._gaps) and (bool(self._touched) or self.is_waiting)

    @property
    def is_waiting(self) -> bool:
        """A transaction that touches a gap is open."""
        return any(one.stretch.gaps for one in self._open.values())

    def see(self, rows: NDArray[np.void], gaps: Sequence[Gap]) -> None:
        """Batches in offset order, and the gaps before, between and after them."""
        pending = list(reversed(gaps))
        for row in _transactional(rows):
            while pending and pending[-1].first <= row.base_offset:
                self.see_gap(pending.pop())
            self._see_row(row)
        while pending:
            self.see_gap(pending.pop())

    def see_gap(self, gap: Gap) -> None:
        """Offsets lost."""
        self._gaps.append(gap)
        for one in self._open.values():
            one.stretch.gaps.append(gap)

    def judged(self, evidence: Evidence) -> Iterator[Touched]:
        """All that touched a gap of the log and have not ended in one elsewhere, those that are still open last."""
        still_open = [one for one in self._open.values() if one.stretch.gaps]
        for one in (*self._touched, *still_open):
            for ending in endings(one.stretch, evidence):
                touched = [gap for gap in one.stretch.gaps if gap.last > ending.first_offset and gap in self._own_gaps]
                gaps = [gap for gap in ending.gaps if gap in self._own_gaps]
                if touched and (gaps or not ending.gaps):
                    yield _touched(one, ending, gaps or touched)

    def _begin(self, producer_id: int, epoch: int, first_offset: int, timestamp: int, low: int) -> None:
        stretch = Stretch(producer_id, epoch, first_offset, low, raises_epochs=producer_id in self._raises_epochs)
        coordinator_epoch = self._coordinator_epochs.get(producer_id, 0)
        self._open[producer_id] = _Open(stretch, coordinator_epoch, [(-1, timestamp)])

    def _lost_since_marker(self, producer_id: int, offset: int) -> int:
        """The first offset lost after the newest marker of a producer; ``offset`` where none is, 0 without a marker."""
        newest = self._newest_marker.get(producer_id)
        if newest is None:
            return 0
        place = bisect_right(self._gaps, newest, key=lambda gap: gap.last)
        return self._gaps[place].first if place < len(self._gaps) else offset

    def _see_row(self, row: BatchRow) -> None:
        one = self._open.get(row.producer_id)
        if not row.is_control:
            if one is None and self._is_over:
                return
            if one is None:
                low = self._lost_since_marker(row.producer_id, row.base_offset)
                self._begin(row.producer_id, row.producer_epoch, row.base_offset, row.max_timestamp, low)
                return
            one.stretch.see_batch(row.base_offset, row.producer_epoch)
            if not one.stretch.gaps or one.timestamps[-1][0] > one.stretch.gaps[-1].last:
                one.timestamps.pop()
            one.timestamps.append((row.base_offset, row.max_timestamp))
        elif row.marker_type in _END_TXN:
            self._coordinator_epochs[row.producer_id] = row.coordinator_epoch
            self._newest_marker[row.producer_id] = row.base_offset
            if one is not None:
                self._end(one, Marker(row.base_offset, row.producer_epoch, row.marker_type == control.ABORT))
                del self._open[row.producer_id]

    def _end(self, one: _Open, marker: Marker) -> None:
        stretch = one.stretch
        stretch.end = marker
        if stretch.gaps:
            self._touched.append(one)
        elif marker.is_abort:
            self.aborted.add((stretch.producer_id, stretch.first_offset, marker.offset))
        if marker.epoch == stretch.newest_epoch:
            self._raises_epochs.discard(stretch.producer_id)
        elif not marker.is_abort:
            self._raises_epochs.add(stretch.producer_id)


def _touched(one: _Open, ending: Ending, gaps: Sequence[Gap]) -> Touched:
    """``gaps``: those of the log that may hold the marker; where none does, those that the transaction touches."""
    stretch, end = one.stretch, one.stretch.end
    is_decided = ending.outcome is not None
    is_lost = is_decided and ending.has_ended
    transaction = TouchedTransaction(
        stretch.producer_id,
        ending.epoch,
        ending.first_offset,
        gaps[0].first,
        _outcome(ending, stretch),
        ends_at=None if end is None or (is_decided and not is_lost) else end.offset,
    )
    before = [timestamp for offset, timestamp in one.timestamps if offset < gaps[0].first]
    return Touched(
        transaction,
        ending.epoch + stretch.raises_epochs,
        one.coordinator_epoch,
        before[-1],
        [gap.first for gap in gaps] if ending.marker is None else [ending.marker],
        (ending.outcome == ABORTED) if is_lost else None,
        ending.marker is not None,
    )


def _outcome(ending: Ending, stretch: Stretch) -> TxnOutcome:
    if ending.outcome is not None:
        return TxnOutcome(ending.outcome)
    if ending.has_ended:
        return TxnOutcome.INFERRED_ENDED
    if stretch.end is not None:
        return TxnOutcome.INFERRED_ABORTED if stretch.end.is_abort else TxnOutcome.INFERRED_COMMITTED
    goes_on = any(offset > ending.first_offset for offset, _ in stretch.batches)
    return TxnOutcome.INFERRED_OPEN if goes_on else TxnOutcome.UNKNOWN


def _transactional(rows: NDArray[np.void]) -> Iterator[BatchRow]:
    """The batches of transactions and their markers."""
    wanted = (rows["producer_id"] >= 0) & (rows["magic"] >= 2) & (rows["attributes"] & (TRANSACTIONAL | CONTROL) != 0)
    for number in np.flatnonzero(wanted).tolist():
        yield row_at(rows, number)
