"""What is done about transactions whose marker may lie in a gap: markers are made, batches dropped, or nothing.

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

from kdump.format.batch import CONTROL
from kdump.repair.draft import DraftTable
from kdump.repair.entry import Entry
from kdump.repair.pieces import TouchedTransaction, TxnOutcome, TxnPolicy
from kdump.repair.placeholders import marker
from kdump.repair.siblingcontext import SiblingContext
from kdump.repair.transactions import TouchedTransactions
from kdump.repair.txnevidence import OffsetGap, gather, with_room

_MARKERS: Final = {TxnPolicy.ABORT: True, TxnPolicy.COMMIT: False}
"""Whether the marker that a policy has made is an ABORT one."""
_SAME: Final = {TxnPolicy.ABORT: TxnOutcome.INFERRED_ABORTED, TxnPolicy.COMMIT: TxnOutcome.INFERRED_COMMITTED}


@dataclass(slots=True)
class ResolvedTransactions:
    """The transactions, the markers that are made for them, and the owners of batches to drop."""

    transactions: list[TouchedTransaction] = field(default_factory=list)
    markers: list[Entry] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)


def decide(
    table: DraftTable, damaged: NDArray[np.void], holes: Sequence[OffsetGap], around: SiblingContext, policy: TxnPolicy
) -> ResolvedTransactions:
    """Find the transactions that touch a gap, and what becomes of them.

    A marker that is proved to be lost is made again, whatever the policy.

    Args:
        table: the good batches.
        damaged: batches of the log whose CRC is wrong.
        holes: rising.
        around: the files around the log.
        policy: for those whose end is undecided.
    """
    endings = ResolvedTransactions()
    if not holes:
        return endings
    gaps = with_room(holes, table, damaged, around)
    followed = TouchedTransactions(around.producers, around.in_doubt, around.base_offset or 0)
    followed.see(table.rows, gaps)
    if not followed.has_touched:
        return endings
    judged = list(followed.judged(gather(followed, table, around)))
    free = _FreeOffsets(holes)
    # Markers whose offsets are known come first: no other one may take these. Then those that have to come earliest.
    judged.sort(key=lambda one: (not one.is_exact, one.lost_marker is None, one.gaps[-1].first))
    for touched in judged:
        is_abort, transaction = touched.lost_marker, touched.transaction
        if transaction.outcome.is_undecided:
            if policy is TxnPolicy.DROP:
                endings.dropped += _batches_of(transaction, table)
            # Nothing is to be made where the next marker does what the policy asks for.
            is_abort = None if transaction.outcome is _SAME.get(policy) else _MARKERS.get(policy)
            transaction = replace(transaction, done=policy)
        offset = None if is_abort is None else free.take(gap.first for gap in touched.gaps)
        if is_abort is not None and offset is not None:
            endings.markers.append(marker(touched, offset, table, around, is_abort=is_abort))
        elif is_abort is not None:
            # More transactions than offsets in the gap.
            transaction = replace(transaction, done=TxnPolicy.LEAVE)
        endings.transactions.append(transaction)
    return endings


def _batches_of(transaction: TouchedTransaction, table: DraftTable) -> list[int]:
    """Owners of the data batches of a transaction that lie before the hole."""
    rows = table.rows
    is_part = (rows["producer_id"] == transaction.producer_id) & (rows["attributes"] & CONTROL == 0)
    is_part &= (table.first >= transaction.first_offset) & (table.first < transaction.gap_offset)
    owners: list[int] = table.owner[is_part].tolist()
    return owners


class _FreeOffsets:
    """Lost offsets, which made batches may take."""

    def __init__(self, holes: Sequence[OffsetGap]) -> None:
        self._holes = holes
        # Of offsets that are taken: one after, up to which all are taken too.
        self._after: dict[int, int] = {}

    def take(self, offsets: Iterable[int]) -> int | None:
        """The first one of ``offsets``, and of those after each in its gap, that is free; None where none is left."""
        return next(filter(lambda found: found is not None, map(self._take, offsets)), None)

    def _take(self, offset: int) -> int | None:
        number = bisect_right(self._holes, offset, key=itemgetter(0)) - 1
        if number < 0 or offset > self._holes[number][1]:
            return None
        passed = []
        while offset in self._after:
            passed.append(offset)
            offset = self._after[offset]
        is_free = offset <= self._holes[number][1]
        # What was passed leads straight on from now on, so that many who ask for one offset do not walk far.
        self._after.update(dict.fromkeys((*passed, offset) if is_free else passed, offset + is_free))
        return offset if is_free else None
