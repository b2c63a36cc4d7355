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

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, NamedTuple

from kdump.format.index import AbortedTxn
from kdump.reading.outcomes import ABORTED, COMMITTED, OPEN

_NEVER: Final = 2**63
"""Above every offset."""


class LostOffsets(NamedTuple):
    """Offsets lost, inclusive. ``room``: how many of them may have been markers."""

    first: int
    last: int
    room: int


class RemainingMarker(NamedTuple):
    """A COMMIT or ABORT marker that is left."""

    offset: int
    epoch: int
    is_abort: bool

    @property
    def outcome(self) -> str:
        """What it makes of the transaction that it ends."""
        return ABORTED if self.is_abort else COMMITTED


@dataclass(slots=True)
class TransactionRemains:
    """What is left of a producer from the first batch of an open transaction to the next marker.

    Attributes:
        producer_id: its id.
        epoch: of the first batch.
        first_offset: of the first batch.
        low: the transaction began here or later: its first batch may be lost.
        batches: (first offset, epoch) of the first batch after each gap, and of each batch with a higher epoch.
        gaps: those after the first batch, rising.
        end: the marker; None where the log ends before.
        raises_epochs: the epochs of the producer rise with each marker (KIP-890).
    """

    producer_id: int
    epoch: int
    first_offset: int
    low: int
    batches: list[tuple[int, int]] = field(default_factory=list)
    gaps: list[LostOffsets] = field(default_factory=list)
    end: RemainingMarker | None = None
    raises_epochs: bool = False

    @property
    def newest_epoch(self) -> int:
        """Of its last batch."""
        return self.batches[-1][1] if self.batches else self.epoch

    def see_batch(self, offset: int, epoch: int) -> bool:
        """The next batch of the producer; whether ``batches`` has it."""
        newest = self.batches[-1][0] if self.batches else self.first_offset
        is_noted = epoch > self.newest_epoch or (bool(self.gaps) and newest < self.gaps[-1].first)
        if is_noted:
            self.batches.append((offset, epoch))
        return is_noted


class Follower:
    """Follows the transactions of a log, and notes those that a gap touches.

    Call ``batch``, ``marker`` and ``gap`` in offset order.

    Attributes:
        open: the open transactions by producer id.
        touched: those that have ended and that a gap touches.
        gaps: all of them so far.
        aborted: (producer id, first offset, offset of the marker) of aborted transactions that no gap touches.
        begun: the producer by the first offset of each transaction, and of the first batch after each gap.
    """

    def __init__(self) -> None:
        self.open: dict[int, TransactionRemains] = {}
        self.touched: list[TransactionRemains] = []
        self.gaps: list[LostOffsets] = []
        self.aborted: set[tuple[int, int, int]] = set()
        self.begun: dict[int, int] = {}
        self._raises_epochs: set[int] = set()
        self._newest_marker: dict[int, int] = {}

    def begin_before(self, producer_id: int, epoch: int, first_offset: int) -> None:
        """A transaction was open where the log begins."""
        # Of what lies before all may be lost.
        self.open[producer_id] = TransactionRemains(producer_id, epoch, first_offset, 0)

    def batch(self, producer_id: int, epoch: int, offset: int) -> None:
        """The next batch of a transaction."""
        stretch = self.open.get(producer_id)
        if stretch is None:
            low = self._lost_since_marker(producer_id, offset)
            self.open[producer_id] = TransactionRemains(
                producer_id, epoch, offset, low, raises_epochs=producer_id in self._raises_epochs
            )
            self.begun[offset] = producer_id
        elif stretch.see_batch(offset, epoch):
            self.begun[offset] = producer_id

    def marker(self, producer_id: int, marker: RemainingMarker) -> None:
        """The next marker."""
        self._newest_marker[producer_id] = marker.offset
        stretch = self.open.pop(producer_id, None)
        if stretch is None:
            return
        stretch.end = marker
        if stretch.gaps:
            self.touched.append(stretch)
        elif marker.is_abort:
            self.aborted.add((producer_id, stretch.first_offset, marker.offset))
        if marker.epoch == stretch.newest_epoch:
            self._raises_epochs.discard(producer_id)
        elif not marker.is_abort:
            self._raises_epochs.add(producer_id)

    def gap(self, gap: LostOffsets) -> None:
        """Offsets lost."""
        self.gaps.append(gap)
        for stretch in self.open.values():
            stretch.gaps.append(gap)

    def is_lost(self, offset: int) -> bool:
        """It lies in a gap."""
        place = bisect_right(self.gaps, offset, key=lambda gap: gap.first)
        return place > 0 and offset <= self.gaps[place - 1].last

    def agrees(
        self, index: Sequence[AbortedTxn], first: int, end: int | None, since: int, open_before: Set[int]
    ) -> bool:
        """Whether the log contradicts no entry of a .txnindex.

        Args:
            index: of a segment that was followed to its end.
            first: base offset of the segment.
            end: that of the next one, None where there is none.
            since: where the log begins that was followed.
            open_before: producers with a transaction open there.
        """
        begun = {(entry.producer_id, entry.last_offset): entry.first_offset for entry in index}
        for producer_id, begin, last in self.aborted:
            known = begun.get((producer_id, last))
            if not (first <= last and (end is None or last < end)):
                continue
            if known is None or not (known == begin or known < since or self.is_lost(known)):
                return False
        return all(self._may_be(entry, since, open_before) for entry in index)

    def _may_be(self, entry: AbortedTxn, since: int, open_before: Set[int]) -> bool:
        stable = entry.last_stable_offset
        if entry.first_offset < since and self.is_lost(entry.last_offset) and entry.producer_id not in open_before:
            # Nothing in the log confirms it.
            return False
        if entry.first_offset != entry.last_offset and not self._may_begin(
            entry.first_offset, since, entry.producer_id
        ):
            return False
        return stable == entry.last_offset + 1 or self._may_begin(stable, since)

    def _may_begin(self, offset: int, since: int, producer_id: int | None = None) -> bool:
        """A transaction of the producer, None: of any one, may begin here."""
        if offset < since or self.is_lost(offset):
            return True
        return offset in self.begun and producer_id in (None, self.begun[offset])

    def _lost_since_marker(self, producer_id: int, offset: int) -> int:
        """The first offset lost after the newest marker of a producer; ``offset`` where none is, 0 without a marker."""
        newest = self._newest_marker.get(producer_id)
        if newest is None:
            return 0
        place = bisect_right(self.gaps, newest, key=lambda gap: gap.last)
        return self.gaps[place].first if place < len(self.gaps) else offset


def are_sound(entries: Sequence[AbortedTxn], base_offset: int, is_there: Callable[[int, int], bool]) -> bool:
    """The entries of a .txnindex are as Kafka writes them: one with each marker, so that their offsets rise.

    ``is_there``: whether the ABORT marker of a producer is at an offset, or may be.
    """
    newest = base_offset - 1
    for entry in entries:
        is_in_order = newest < entry.last_offset >= entry.first_offset >= 0
        is_in_order &= 0 <= entry.last_stable_offset <= entry.last_offset + 1
        if not (is_in_order and is_there(entry.producer_id, entry.last_offset)):
            return False
        newest = entry.last_offset
    return True


class SegmentIndex(NamedTuple):
    """The entries of one .txnindex that agree with the log; every abort from ``first`` to before ``end`` is in it."""

    entries: Sequence[AbortedTxn]
    first: int
    end: int


class Snapshot(NamedTuple):
    """First offsets of the transactions open at ``offset`` by producer id; -1 for a producer without one."""

    offset: int
    open_from: Mapping[int, int]


class EndBounds(NamedTuple):
    """Offsets between which a transaction ended; ``_NEVER`` where nothing tells.

    Attributes:
        open_at: it was still open here.
        closed: just before this offset no transaction of its producer was open.
        over: just before this offset another one of its producer may have been open, but it was not.
    """

    open_at: int
    closed: int
    over: int


class TransactionEvidence:
    """What the other files say of the transactions.

    Args:
        indexes: of the segments, in offset order.
        snapshots: in offset order.
        is_compacted: the log cleaner may have removed batches.
    """

    def __init__(
        self, indexes: Iterable[SegmentIndex] = (), snapshots: Iterable[Snapshot] = (), *, is_compacted: bool = False
    ) -> None:
        self.is_compacted = is_compacted
        indexes = list(indexes)
        self._complete = [(index.first, index.end) for index in indexes]
        self._entries = [entry for index in indexes for entry in index.entries]
        self._by_producer: dict[int, list[AbortedTxn]] = {}
        for entry in self._entries:
            self._by_producer.setdefault(entry.producer_id, []).append(entry)
        self._snapshots = list(snapshots)

    def of(self, producer_id: int) -> Sequence[AbortedTxn]:
        """The aborted transactions of a producer."""
        return self._by_producer.get(producer_id, ())

    def is_complete(self, first: int, last: int) -> bool:
        """Every ABORT marker from ``first`` to ``last`` that ended a transaction has an entry."""
        number = bisect_right(self._complete, first, key=itemgetter(0)) - 1
        return number >= 0 and last < self._complete[number][1]

    def bounds(self, producer_id: int, low: int, start: int) -> EndBounds:
        """How long a transaction was open that began at ``low`` or later and not after ``start``."""
        open_at, closed, over = start, _NEVER, _NEVER
        for entry in self._entries:
            if entry.producer_id == producer_id:
                closed = min(closed, entry.first_offset) if entry.first_offset > start else closed
            elif entry.last_offset > start:
                stable = entry.last_stable_offset
                if stable > start:
                    over = min(over, entry.last_offset)
                elif stable == start:
                    open_at = max(open_at, entry.last_offset)
        for snapshot in self._snapshots:
            known = snapshot.open_from.get(producer_id)
            if known is None or snapshot.offset <= start:
                continue
            if known < 0 or known > start:
                closed = min(closed, snapshot.offset if known < 0 else known)
            elif known >= low:
                open_at = max(open_at, snapshot.offset)
        return EndBounds(open_at, closed, over)


class Ending(NamedTuple):
    """What became of one transaction.

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
    gaps: Sequence[LostOffsets]
    marker: int | None = None
    has_ended: bool = False


def endings(stretch: TransactionRemains, evidence: TransactionEvidence) -> Iterator[Ending]:
    """The transactions of a stretch; more than one where the evidence shows that another began after a gap."""
    low, start, epoch = stretch.low, stretch.first_offset, stretch.epoch
    while True:
        ending, ended = _Question(stretch, evidence, low, start, epoch).answer()
        yield ending
        if ended is None:
            return
        following = [one for one in stretch.batches if one[0] >= ended]
        if not following:
            return
        low, (start, epoch) = ended, following[0]


class _Question:
    """One transaction of a stretch: it began at ``low`` or later; ``start`` is the first offset of it that is left."""

    def __init__(
        self, stretch: TransactionRemains, evidence: TransactionEvidence, low: int, start: int, epoch: int
    ) -> None:
        self._stretch = stretch
        self._evidence = evidence
        self._low = low
        self._start = start
        self._epoch = epoch
        self._gaps = [gap for gap in stretch.gaps if gap.last > start]

    def answer(self) -> tuple[Ending, int | None]:
        """What became of it, and the offset from which on the next transaction may begin, None where none does."""
        end = self._stretch.end
        for entry in self._evidence.of(self._stretch.producer_id):
            if self._low <= entry.first_offset <= self._start < entry.last_offset:
                return self._aborted(entry)
        bounds = self._bounds()
        end_offset = _NEVER if end is None else end.offset
        gaps = self._gaps_between(bounds.open_at, min(bounds.closed, bounds.over, end_offset))
        is_not_aborted = all(self._evidence.is_complete(gap.first, gap.last) for gap in gaps)
        closed = self._closed_by(bounds, gaps)
        if closed is not None:
            is_clear = bool(gaps) and not self._batches_between(gaps[-1].last, closed)
            if is_clear and bounds.over < bounds.closed:
                # What lies between two gaps may belong to the transaction that goes on.
                is_clear = not self._batches_between(gaps[0].last, gaps[-1].first)
            outcome = COMMITTED if is_clear and is_not_aborted else None
            return self._ending(outcome, gaps, has_ended=True), closed
        if end is None:
            return self._ending(None if gaps else OPEN, gaps), None
        if not gaps or (is_not_aborted and not end.is_abort) or self._is_its_own(end, gaps):
            return self._ending(end.outcome, ()), None
        return self._ending(None, gaps), None

    def _aborted(self, entry: AbortedTxn) -> tuple[Ending, int | None]:
        """An entry names it: its marker is left, or lost in a gap."""
        for gap in self._gaps:
            if gap.first <= entry.last_offset <= gap.last:
                return self._ending(ABORTED, [gap], entry.last_offset, has_ended=True), entry.last_offset + 1
        return self._ending(ABORTED, ()), None

    def _bounds(self) -> EndBounds:
        """See Evidence.bounds; the batches and the next marker of the producer tell more."""
        stretch, end = self._stretch, self._stretch.end
        open_at, closed, over = self._evidence.bounds(stretch.producer_id, self._low, self._start)
        for offset, epoch in stretch.batches:
            if offset > self._start and epoch > self._epoch:
                closed = min(closed, offset)
            elif offset > self._start and stretch.raises_epochs:
                open_at = max(open_at, offset)
        if end is not None and (end.epoch > self._epoch + 1 or self._ends_nothing(end)):
            closed = min(closed, end.offset)
        if end is not None:
            # What is known of a time after the marker says nothing of the time before.
            closed, over = (_NEVER if offset > end.offset else offset for offset in (closed, over))
        return EndBounds(open_at, closed, over)

    def _gaps_between(self, after: int, before: int) -> list[LostOffsets]:
        """Those that may hold the marker."""
        return [gap for gap in self._gaps if gap.room and gap.last > after and gap.first < before]

    def _closed_by(self, bounds: EndBounds, gaps: Sequence[LostOffsets]) -> int | None:
        """An offset just before which the transaction, and no other, has ended; None where it need not have."""
        if bounds.closed <= bounds.over:
            return None if bounds.closed == _NEVER else bounds.closed
        # The next batch after the gap began another one.
        following = self._batches_between(gaps[-1].last, bounds.over) if gaps else []
        return min(following, default=bounds.over)

    def _ends_nothing(self, end: RemainingMarker) -> bool:
        """An ABORT marker that ended a transaction would have an entry."""
        if not end.is_abort or not self._evidence.is_complete(end.offset, end.offset):
            return False
        return all(entry.last_offset != end.offset for entry in self._evidence.of(self._stretch.producer_id))

    def _is_its_own(self, end: RemainingMarker, gaps: Sequence[LostOffsets]) -> bool:
        """By its epoch, or because the gaps cannot hold a marker and a record of the next transaction.

        A coordinator aborts what has no record in a partition, too, but commits nothing that has none. When it fences a
        producer it aborts with the next epoch, too, and never commits so.
        """
        if end.epoch == self._epoch + 1 and (self._stretch.raises_epochs or not end.is_abort):
            return True
        has_room = sum(gap.room for gap in gaps) > 1 or bool(self._batches_between(gaps[0].last, end.offset))
        return not (end.is_abort or has_room or self._evidence.is_compacted)

    def _batches_between(self, after: int, before: int) -> list[int]:
        """First offsets of batches of the producer that are left, as far as the stretch has them."""
        return [offset for offset, _ in self._stretch.batches if after < offset < before]

    def _ending(
        self, outcome: str | None, gaps: Sequence[LostOffsets], marker: int | None = None, *, has_ended: bool = False
    ) -> Ending:
        newest = max(self._batches_between(self._start, gaps[-1].first), default=self._start) if gaps else self._start
        after = [gap for gap in gaps if gap.last > newest]
        return Ending(self._start, self._epoch, outcome, after, marker, has_ended)
