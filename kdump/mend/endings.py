"""What is done about transactions whose marker may lie in a hole: markers are made, batches dropped, or nothing.

Source: issue 7 point 5.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from kdump.format.batch import CONTROL
from kdump.mend.draft import DraftTable
from kdump.mend.entry import Entry
from kdump.mend.hold import aborted
from kdump.mend.pieces import TouchedTransaction, TxnPolicy
from kdump.mend.surroundings import Surroundings
from kdump.mend.transactions import TouchedTransactions, trusted

Hole = tuple[int, int]
"""The offsets lost, first and last."""


@dataclass(slots=True)
class Endings:
    """The transactions, the markers that are made for them, and the owners of batches to drop."""

    transactions: list[TouchedTransaction] = field(default_factory=list)
    markers: list[Entry] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)


def decide(table: DraftTable, holes: Sequence[Hole], around: Surroundings, policy: TxnPolicy) -> Endings:
    """Find the transactions that touch a hole, and what becomes of them.

    An ABORT marker that the .txnindex knows and the log lost is made again where it was, whatever the policy.

    Args:
        table: the good batches.
        holes: rising.
        around: the files around the log.
        policy: for those whose end is undecided.
    """
    endings = Endings()
    if not holes:
        return endings
    evidence = around.aborted or ()
    followed = TouchedTransactions(around.producers, evidence if trusted(evidence, table.rows, holes) else ())
    followed.see(table.rows, holes)
    followed.see_following(around.later, around.following)
    free = _FreeOffsets(holes)
    for touched in followed.finish():
        transaction, marker = touched.transaction, touched.lost_marker
        if transaction.outcome.is_undecided:
            if policy is TxnPolicy.DROP:
                endings.dropped += _batches_of(transaction, table)
            elif policy is TxnPolicy.ABORT:
                marker = transaction.hole_offset
            transaction = replace(transaction, done=policy)
        offset = None if marker is None else free.take(marker)
        if offset is not None:
            endings.markers.append(aborted(touched, offset, table, around))
        elif marker is not None:
            # More transactions than offsets in the hole.
            transaction = replace(transaction, done=TxnPolicy.LEAVE)
        endings.transactions.append(transaction)
    return endings


def _batches_of(transaction: TouchedTransaction, table: DraftTable) -> list[int]:
    """Owners of the data batches of a transaction that lie before the hole."""
    rows = table.rows
    is_part = (rows["producer_id"] == transaction.producer_id) & (rows["attributes"] & CONTROL == 0)
    is_part &= (table.first >= transaction.first_offset) & (table.first < transaction.hole_offset)
    owners: list[int] = table.owner[is_part].tolist()
    return owners


class _FreeOffsets:
    """Lost offsets, which made batches may take."""

    def __init__(self, holes: Sequence[Hole]) -> None:
        self._holes = holes
        # Of offsets that are taken: one behind, up to which all are taken too.
        self._behind: dict[int, int] = {}

    def take(self, offset: int) -> int | None:
        """``offset``, or the next one of its hole that is free; None where none is left."""
        number = bisect_right(self._holes, offset, key=itemgetter(0)) - 1
        if number < 0 or offset > self._holes[number][1]:
            return None
        passed = []
        while offset in self._behind:
            passed.append(offset)
            offset = self._behind[offset]
        is_free = offset <= self._holes[number][1]
        # What was passed leads straight on from now on, so that many who ask for one offset do not walk far.
        self._behind.update(dict.fromkeys((*passed, offset) if is_free else passed, offset + is_free))
        return offset if is_free else None
