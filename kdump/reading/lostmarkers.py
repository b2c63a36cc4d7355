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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple, overload

from kdump.format.index import AbortedTxn
from kdump.reading.outcomes import ABORTED, COMMITTED, OPEN

_NEVER: Final = 2**63
"""Above every offset."""
_FIRST_OFFSET: Final = attrgetter("first_offset")
_LAST_OFFSET: Final = attrgetter("last_offset")


class LostOffsets(NamedTuple):
    """Offsets lost, inclusive. ``room``: how many of them may have been markers."""

    first: int
    last: int
    room: int


_FIRST: Final = attrgetter("first")
_LAST: Final = attrgetter("last")


class GapRange(Sequence[LostOffsets]):
    """Successive gaps of a list, without a copy: thousands of transactions may be open over thousands of gaps.

    Args:
        gaps: in offset order.
        start: number of the first one.
        stop: number of the first one after the range; None: the range grows with the list.
    """

    __slots__ = ("_gaps", "_start", "_stop")

    def __init__(self, gaps: list[LostOffsets], start: int = 0, stop: int | None = None) -> None:
        self._gaps = gaps
        self._start = start
        self._stop = stop

    def __len__(self) -> int:
        return max(0, (len(self._gaps) if self._stop is None else self._stop) - self._start)

    @overload
    def __getitem__(self, number: int) -> LostOffsets: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[LostOffsets]: ...
    def __getitem__(self, number: int | slice) -> LostOffsets | Sequence[LostOffsets]:
        places = range(self._start, self._start + len(self))[number]
        return self._gaps[places] if isinstance(places, int) else [self._gaps[place] for place in places]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GapRange) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    def end(self) -> None:
        """The range does not grow any more."""
        self._stop = len(self._gaps)

    def between(self, after: int, before: int) -> GapRange:
        """The gaps that end after one offset and begin before another."""
        start, stop = self._start, self._start + len(self)
        start = bisect_right(self._gaps, after, start, stop, key=_LAST)
        return GapRange(self._gaps, start, max(start, bisect_left(self._gaps, before, start, stop, key=_FIRST)))

    def within(self, numbers: range) -> GapRange:
        """Those with these successive numbers in the list."""
        return GapRange(self._gaps, max(self._start, numbers.start), min(self._start + len(self), numbers.stop))


_NO_GAPS: Final = GapRange([], 0, 0)


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
        gaps: those after the first batch and before the marker.
        with_room: those of them that may hold a marker.
        batches: (first offset, epoch) of the first batch after each gap, and of each batch with a higher epoch.
        end: the marker; None where the log ends before.
        raises_epochs: the epochs of the producer rise with each marker (KIP-890).
    """

    producer_id: int
    epoch: int
    first_offset: int
    low: int
    gaps: GapRange
    with_room: GapRange
    batches: list[tuple[int, int]] = field(default_factory=list)
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
        with_room: those of them that may hold a marker.
        aborted: (offset of the marker, producer id, first offset) of aborted transactions that no gap touches.
        begun: the producer by the first offset of each transaction, and of the first batch after each gap.
    """

    def __init__(self) -> None:
        self.open: dict[int, TransactionRemains] = {}
        self.touched: list[TransactionRemains] = []
        self.gaps: list[LostOffsets] = []
        self.with_room: list[LostOffsets] = []
        self.aborted: list[tuple[int, int, int]] = []
        self.begun: dict[int, int] = {}
        self._raises_epochs: set[int] = set()
        self._newest_marker: dict[int, int] = {}

    def begin_before(self, producer_id: int, epoch: int, first_offset: int) -> None:
        """A transaction was open where the log begins."""
        # Of what lies before all may be lost.
        self._begin(producer_id, epoch, first_offset, 0)

    def batch(self, producer_id: int, epoch: int, offset: int) -> None:
        """The next batch of a transaction."""
        stretch = self.open.get(producer_id)
        if stretch is None:
            low = self._lost_since_marker(producer_id, offset)
            self._begin(producer_id, epoch, offset, low)
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
        stretch.gaps.end()
        stretch.with_room.end()
        if stretch.gaps:
            self.touched.append(stretch)
        elif marker.is_abort:
            self.aborted.append((marker.offset, producer_id, stretch.first_offset))
        if marker.epoch == stretch.newest_epoch:
            self._raises_epochs.discard(producer_id)
        elif not marker.is_abort:
            self._raises_epochs.add(producer_id)

    def gap(self, gap: LostOffsets) -> None:
        """Offsets lost."""
        self.gaps.append(gap)
        if gap.room:
            self.with_room.append(gap)

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
        start = bisect_left(self.aborted, first, key=itemgetter(0))
        stop = len(self.aborted) if end is None else bisect_left(self.aborted, end, key=itemgetter(0))
        for last, producer_id, begin in self.aborted[start:stop]:
            known = begun.get((producer_id, last))
            if known is None or not (known == begin or known < since or self.is_lost(known)):
                return False
        return all(self._may_be(entry, since, open_before) for entry in index)

    def _begin(self, producer_id: int, epoch: int, offset: int, low: int) -> None:
        self.open[producer_id] = TransactionRemains(
            producer_id,
            epoch,
            offset,
            low,
            GapRange(self.gaps, len(self.gaps)),
            GapRange(self.with_room, len(self.with_room)),
            raises_epochs=producer_id in self._raises_epochs,
        )

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
        # The last stable offset of a log never falls.
        self._stable = list(accumulate((entry.last_stable_offset for entry in self._entries), max))
        self._with_stable: dict[int, list[AbortedTxn]] = {}
        self._by_producer: dict[int, list[AbortedTxn]] = {}
        for entry in self._entries:
            self._by_producer.setdefault(entry.producer_id, []).append(entry)
            self._with_stable.setdefault(entry.last_stable_offset, []).append(entry)
        self._next_of_other = _next_of_other(self._entries)
        self._snapshots = list(snapshots)

    def aborted(self, producer_id: int, low: int, start: int) -> AbortedTxn | None:
        """The entry of a producer's transaction that began at ``low`` or later and was open at ``start``."""
        entry = self._first_entry_after(producer_id, start)
        return entry if entry is not None and low <= entry.first_offset <= start else None

    def is_abort(self, producer_id: int, offset: int) -> bool:
        """An entry names the marker of a producer at ``offset``."""
        entry = self._first_entry_after(producer_id, offset - 1)
        return entry is not None and entry.last_offset == offset

    def is_complete(self, gaps: GapRange) -> bool:
        """Every ABORT marker that was in one of the gaps and ended a transaction has an entry."""
        while gaps:
            number = bisect_right(self._complete, gaps[0].first, key=itemgetter(0)) - 1
            if number < 0 or gaps[0].last >= self._complete[number][1]:
                return False
            gaps = gaps.between(self._complete[number][1] - 1, _NEVER)
        return True

    def bounds(self, producer_id: int, low: int, start: int) -> EndBounds:
        """How long a transaction was open that began at ``low`` or later and not after ``start``."""
        of_producer = self._by_producer.get(producer_id, [])
        own = bisect_right(of_producer, start, key=_FIRST_OFFSET)
        closed = of_producer[own].first_offset if own < len(of_producer) else _NEVER
        others = (entry for entry in self._with_stable.get(start, ()) if entry.producer_id != producer_id)
        open_at = max((entry.last_offset for entry in others), default=start)
        number = max(bisect_right(self._entries, start, key=_LAST_OFFSET), bisect_right(self._stable, start))
        if number < len(self._entries) and self._entries[number].producer_id == producer_id:
            number = self._next_of_other[number]
        over = self._entries[number].last_offset if number < len(self._entries) else _NEVER
        for snapshot in self._snapshots[bisect_right(self._snapshots, start, key=itemgetter(0)) :]:
            known = snapshot.open_from.get(producer_id)
            if known is None:
                continue
            if known < 0 or known > start:
                # Those after it tell of later transactions.
                closed = min(closed, snapshot.offset if known < 0 else known)
                break
            if known >= low:
                open_at = max(open_at, snapshot.offset)
        return EndBounds(open_at, closed, over)

    def _first_entry_after(self, producer_id: int, offset: int) -> AbortedTxn | None:
        """The entry of a producer's first ABORT marker after ``offset``."""
        entries = self._by_producer.get(producer_id, [])
        number = bisect_right(entries, offset, key=_LAST_OFFSET)
        return entries[number] if number < len(entries) else None


def _next_of_other(entries: Sequence[AbortedTxn]) -> list[int]:
    """For each entry the number of the first one after it of another producer; the number of entries: there is none."""
    following = [len(entries)] * len(entries)
    for number in range(len(entries) - 2, -1, -1):
        is_other = entries[number].producer_id != entries[number + 1].producer_id
        following[number] = number + 1 if is_other else following[number + 1]
    return following


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
    gaps: GapRange
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
        following = bisect_left(stretch.batches, ended, key=itemgetter(0))
        if following == len(stretch.batches):
            return
        low, (start, epoch) = ended, stretch.batches[following]


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

    def answer(self) -> tuple[Ending, int | None]:
        """What became of it, and the offset from which on the next transaction may begin, None where none does."""
        end = self._stretch.end
        entry = self._evidence.aborted(self._stretch.producer_id, self._low, self._start)
        if entry is not None:
            return self._aborted(entry)
        bounds = self._bounds()
        end_offset = _NEVER if end is None else end.offset
        gaps = self._stretch.with_room.between(bounds.open_at, min(bounds.closed, bounds.over, end_offset))
        is_not_aborted = self._evidence.is_complete(gaps)
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
            return self._ending(end.outcome, _NO_GAPS), None
        return self._ending(None, gaps), None

    def _aborted(self, entry: AbortedTxn) -> tuple[Ending, int | None]:
        """An entry names it: its marker is left, or lost in a gap."""
        gaps = self._stretch.gaps.between(max(self._start, entry.last_offset - 1), entry.last_offset + 1)
        if gaps:
            return self._ending(ABORTED, gaps, entry.last_offset, has_ended=True), entry.last_offset + 1
        return self._ending(ABORTED, _NO_GAPS), None

    def _bounds(self) -> EndBounds:
        """See Evidence.bounds; the batches and the next marker of the producer tell more."""
        stretch, end = self._stretch, self._stretch.end
        open_at, closed, over = self._evidence.bounds(stretch.producer_id, self._low, self._start)
        batches = stretch.batches
        following = bisect_right(batches, self._start, key=itemgetter(0))
        risen = bisect_right(batches, self._epoch, following, key=itemgetter(1))
        if risen < len(batches):
            closed = min(closed, batches[risen][0])
        if stretch.raises_epochs and risen > following:
            open_at = max(open_at, batches[risen - 1][0])
        if end is not None and (end.epoch > self._epoch + 1 or self._ends_nothing(end)):
            closed = min(closed, end.offset)
        if end is not None:
            # What is known of a time after the marker says nothing of the time before.
            closed, over = (_NEVER if offset > end.offset else offset for offset in (closed, over))
        return EndBounds(open_at, closed, over)

    def _closed_by(self, bounds: EndBounds, gaps: GapRange) -> int | None:
        """An offset just before which the transaction, and no other, has ended; None where it need not have."""
        if bounds.closed <= bounds.over:
            return None if bounds.closed == _NEVER else bounds.closed
        # The next batch after the gap began another one.
        following = self._batches_between(gaps[-1].last, bounds.over) if gaps else range(0)
        return self._stretch.batches[following[0]][0] if following else bounds.over

    def _ends_nothing(self, end: RemainingMarker) -> bool:
        """An ABORT marker that ended a transaction would have an entry."""
        if not end.is_abort or not self._evidence.is_complete(GapRange([LostOffsets(end.offset, end.offset, 1)])):
            return False
        return not self._evidence.is_abort(self._stretch.producer_id, end.offset)

    def _is_its_own(self, end: RemainingMarker, gaps: GapRange) -> bool:
        """By its epoch, or because the gaps cannot hold a marker and a record of the next transaction.

        A coordinator aborts what has no record in a partition, too, but commits nothing that has none. When it fences a
        producer it aborts with the next epoch, too, and never commits so.
        """
        if end.epoch == self._epoch + 1 and (self._stretch.raises_epochs or not end.is_abort):
            return True
        has_room = len(gaps) > 1 or gaps[0].room > 1 or bool(self._batches_between(gaps[0].last, end.offset))
        return not (end.is_abort or has_room or self._evidence.is_compacted)

    def _batches_between(self, after: int, before: int) -> range:
        """Numbers of batches of the producer that are left, as far as the stretch has them."""
        batches = self._stretch.batches
        return range(
            bisect_right(batches, after, key=itemgetter(0)),
            bisect_left(batches, before, key=itemgetter(0)),
        )

    def _ending(
        self, outcome: str | None, gaps: GapRange, marker: int | None = None, *, has_ended: bool = False
    ) -> Ending:
        newest = self._start
        if gaps and (before := self._batches_between(self._start, gaps[-1].first)):
            newest = self._stretch.batches[before[-1]][0]
        return Ending(self._start, self._epoch, outcome, gaps.between(newest, _NEVER), marker, has_ended)
