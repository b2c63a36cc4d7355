"""Which marker ended a transaction, where offsets are lost and a marker may be among them.

A transaction that was open where a gap begins may have ended in it. Then the next marker of its producer that is left
ends a later transaction, and says nothing of this one. Only evidence tells the two apart:

- a .txnindex entry is an aborted transaction: (producer, first offset, offset of its ABORT marker). Its first offset
  also shows that no transaction of the producer was open just before. A complete index without an entry for a
  transaction shows that it was not aborted;
- the last stable offset of an entry is the first offset of the oldest transaction of another producer that was open at
  the marker: what began before had ended, and that one had not;
- a producer snapshot names the first offset of the transaction that is open at its offset, or says that none is;
- a rise of the producer's epoch ends what was open. Since KIP-890 every marker has the epoch after that of its
  transaction, and each epoch has one transaction;
- sequence numbers, and headers of damaged batches, tell how many of the offsets lost were records: a gap full of them
  holds no marker.

Source: KIP-98, KIP-890; TransactionIndex, AbortedTxn and ProducerStateManager (completeTxn, lastStableOffset,
takeSnapshot) of Kafka 4.3.1.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

from kdump.format.index import AbortedTxn
from kdump.reading.outcomes import ABORTED, COMMITTED, OPEN
from kdump.reading.transactionevidence import NEVER, EndBounds, TransactionEvidence
from kdump.reading.transactionremains import NO_GAPS, GapRange, LostOffsets, RemainingMarker, TransactionRemains


class TransactionEnd(NamedTuple):
    """How one transaction ended.

    Attributes:
        first_offset: the first one of it that is left.
        epoch: of its batches.
        outcome: COMMITTED, ABORTED or OPEN; None where the evidence does not decide.
        gaps: those that may hold its marker, after its last batch; none: it is not lost.
        marker: the exact offset of the marker in a gap; None where only the gaps are known, or nothing.
        has_ended: it ended before the next marker that is left, whatever its outcome.
    """

    first_offset: int
    epoch: int
    outcome: str | None
    gaps: GapRange
    marker: int | None = None
    has_ended: bool = False


def ends_of(remains: TransactionRemains, evidence: TransactionEvidence) -> Iterator[TransactionEnd]:
    """The transactions of some remains: more than one where the evidence shows that another began after a gap."""
    low, start, epoch = remains.low, remains.first_offset, remains.epoch
    while True:
        transaction, ended = _EndSearch(remains, evidence, low, start, epoch).answer()
        yield transaction
        if ended is None:
            return
        following = bisect_left(remains.batches, ended, key=itemgetter(0))
        if following == len(remains.batches):
            return
        low, (start, epoch) = ended, remains.batches[following]


class _EndSearch:
    """Looks for the end of one transaction, which began at ``low`` or later. Its first batch left is at ``start``."""

    def __init__(
        self, remains: TransactionRemains, evidence: TransactionEvidence, low: int, start: int, epoch: int
    ) -> None:
        self._remains = remains
        self._evidence = evidence
        self._low = low
        self._start = start
        self._epoch = epoch

    def answer(self) -> tuple[TransactionEnd, int | None]:
        """What became of it, and the offset from which on the next transaction may begin, None where none does."""
        end = self._remains.end
        entry = self._evidence.aborted(self._remains.producer_id, self._low, self._start)
        if entry is not None:
            return self._aborted(entry)
        bounds = self._bounds()
        end_offset = NEVER if end is None else end.offset
        gaps = self._remains.with_room.between(bounds.open_at, min(bounds.closed, bounds.over, end_offset))
        is_not_aborted = self._evidence.is_complete(gaps)
        closed = self._closed_by(bounds, gaps)
        if closed is not None:
            is_clear = bool(gaps) and not self._batches_between(gaps[-1].last, closed)
            if is_clear and bounds.over < bounds.closed:
                # What lies between two gaps may belong to the transaction that goes on.
                is_clear = not self._batches_between(gaps[0].last, gaps[-1].first)
            outcome = COMMITTED if is_clear and is_not_aborted else None
            return self._end(outcome, gaps, has_ended=True), closed
        if end is None:
            return self._end(None if gaps else OPEN, gaps), None
        if not gaps or (is_not_aborted and not end.is_abort) or self._is_its_own(end, gaps):
            return self._end(end.outcome, NO_GAPS), None
        return self._end(None, gaps), None

    def _aborted(self, entry: AbortedTxn) -> tuple[TransactionEnd, int | None]:
        """An entry names it: its marker is left, or lost in a gap."""
        gaps = self._remains.gaps.between(max(self._start, entry.last_offset - 1), entry.last_offset + 1)
        if gaps:
            return self._end(ABORTED, gaps, entry.last_offset, has_ended=True), entry.last_offset + 1
        return self._end(ABORTED, NO_GAPS), None

    def _bounds(self) -> EndBounds:
        """The bounds from the other files, made narrower by the producer's batches and its next marker."""
        remains, end = self._remains, self._remains.end
        open_at, closed, over = self._evidence.bounds(remains.producer_id, self._low, self._start)
        batches = remains.batches
        following = bisect_right(batches, self._start, key=itemgetter(0))
        risen = bisect_right(batches, self._epoch, following, key=itemgetter(1))
        if risen < len(batches):
            closed = min(closed, batches[risen][0])
        if remains.raises_epochs and risen > following:
            open_at = max(open_at, batches[risen - 1][0])
        if end is not None and (end.epoch > self._epoch + 1 or self._ends_nothing(end)):
            closed = min(closed, end.offset)
        if end is not None:
            # What is known of a time after the marker says nothing of the time before.
            closed, over = (NEVER if offset > end.offset else offset for offset in (closed, over))
        return EndBounds(open_at, closed, over)

    def _closed_by(self, bounds: EndBounds, gaps: GapRange) -> int | None:
        """An offset just before which the transaction, and no other, has ended; None where it need not have."""
        if bounds.closed <= bounds.over:
            return None if bounds.closed == NEVER else bounds.closed
        # The next batch after the gap began another one.
        following = self._batches_between(gaps[-1].last, bounds.over) if gaps else range(0)
        return self._remains.batches[following[0]][0] if following else bounds.over

    def _ends_nothing(self, end: RemainingMarker) -> bool:
        """An ABORT marker that ended a transaction would have an entry."""
        if not end.is_abort or not self._evidence.is_complete(GapRange([LostOffsets(end.offset, end.offset, 1)])):
            return False
        return not self._evidence.is_abort(self._remains.producer_id, end.offset)

    def _is_its_own(self, end: RemainingMarker, gaps: GapRange) -> bool:
        """By its epoch, or because the gaps cannot hold a marker and a record of the next transaction.

        A coordinator aborts what has no record in a partition, too, but commits nothing that has none. When it fences a
        producer it aborts with the next epoch, too, and never commits so.
        """
        if end.epoch == self._epoch + 1 and (self._remains.raises_epochs or not end.is_abort):
            return True
        has_room = len(gaps) > 1 or gaps[0].room > 1 or bool(self._batches_between(gaps[0].last, end.offset))
        return not (end.is_abort or has_room or self._evidence.is_compacted)

    def _batches_between(self, after: int, before: int) -> range:
        """Numbers of batches of the producer that are left, as far as the remains hold them."""
        batches = self._remains.batches
        return range(
            bisect_right(batches, after, key=itemgetter(0)),
            bisect_left(batches, before, key=itemgetter(0)),
        )

    def _end(
        self, outcome: str | None, gaps: GapRange, marker: int | None = None, *, has_ended: bool = False
    ) -> TransactionEnd:
        newest = self._start
        if gaps and (before := self._batches_between(self._start, gaps[-1].first)):
            newest = self._remains.batches[before[-1]][0]
        return TransactionEnd(self._start, self._epoch, outcome, gaps.between(newest, NEVER), marker, has_ended)
