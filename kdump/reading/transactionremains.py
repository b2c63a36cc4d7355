"""What damage left of the transactions of a log: batches, markers, and the gaps among them.

``kdump.reading.lostmarkers`` decides how those transactions ended that a gap touches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

from kdump.format.index import AbortedTxn
from kdump.reading.outcomes import ABORTED, COMMITTED


class LostOffsets(NamedTuple):
    """Offsets lost, inclusive. ``room``: how many of them may have been markers."""

    first: int
    last: int
    room: int


_FIRST: Final = attrgetter("first")
_LAST: Final = attrgetter("last")


class GapRange:
    """Successive gaps of a list, without a copy, as thousands of transactions may be open over thousands of gaps.

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

    def __getitem__(self, number: int) -> LostOffsets:
        return self._gaps[range(self._start, self._start + len(self))[number]]

    def __iter__(self) -> Iterator[LostOffsets]:
        return iter(self._gaps[self._start : self._start + len(self)])

    def end(self) -> None:
        """End the growing of the range."""
        self._stop = len(self._gaps)

    def between(self, after: int, before: int) -> GapRange:
        """The gaps that end after one offset and begin before another."""
        start, stop = self._start, self._start + len(self)
        start = bisect_right(self._gaps, after, start, stop, key=_LAST)
        return GapRange(self._gaps, start, max(start, bisect_left(self._gaps, before, start, stop, key=_FIRST)))

    def within(self, numbers: range) -> GapRange:
        """The gaps with these successive numbers in the list."""
        return GapRange(self._gaps, max(self._start, numbers.start), min(self._start + len(self), numbers.stop))


NO_GAPS: Final = GapRange([], 0, 0)


class RemainingMarker(NamedTuple):
    """A COMMIT or ABORT marker that is left."""

    offset: int
    epoch: int
    is_abort: bool

    @property
    def outcome(self) -> str:
        """What the marker makes of the transaction that it ends."""
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
        """The epoch of the last batch."""
        return self.batches[-1][1] if self.batches else self.epoch

    def see_batch(self, offset: int, epoch: int) -> bool:
        """Take the next batch of the producer. Returns whether ``batches`` keeps it."""
        newest = self.batches[-1][0] if self.batches else self.first_offset
        is_noted = epoch > self.newest_epoch or (bool(self.gaps) and newest < self.gaps[-1].first)
        if is_noted:
            self.batches.append((offset, epoch))
        return is_noted


class TransactionFollower:
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
        """Take a transaction that was open where the log begins."""
        # All that lies before the log may be lost.
        self._begin(producer_id, epoch, first_offset, 0)

    def batch(self, producer_id: int, epoch: int, offset: int) -> None:
        """Take the next batch of a transaction."""
        remains = self.open.get(producer_id)
        if remains is None:
            low = self._lost_since_marker(producer_id, offset)
            self._begin(producer_id, epoch, offset, low)
            self.begun[offset] = producer_id
        elif remains.see_batch(offset, epoch):
            self.begun[offset] = producer_id

    def marker(self, producer_id: int, marker: RemainingMarker) -> None:
        """Take the next marker."""
        self._newest_marker[producer_id] = marker.offset
        remains = self.open.pop(producer_id, None)
        if remains is None:
            return
        remains.end = marker
        remains.gaps.end()
        remains.with_room.end()
        if remains.gaps:
            self.touched.append(remains)
        elif marker.is_abort:
            self.aborted.append((marker.offset, producer_id, remains.first_offset))
        if marker.epoch == remains.newest_epoch:
            self._raises_epochs.discard(producer_id)
        elif not marker.is_abort:
            self._raises_epochs.add(producer_id)

    def gap(self, gap: LostOffsets) -> None:
        """Take the next gap."""
        self.gaps.append(gap)
        if gap.room:
            self.with_room.append(gap)

    def is_lost(self, offset: int) -> bool:
        """The offset lies in a gap."""
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
        """A transaction of the producer (None: of any producer) may begin at the offset."""
        if offset < since or self.is_lost(offset):
            return True
        return offset in self.begun and producer_id in (None, self.begun[offset])

    def _lost_since_marker(self, producer_id: int, offset: int) -> int:
        """The first offset lost after the newest marker of a producer.

        It is ``offset`` where none is lost, and 0 where no marker was seen.
        """
        newest = self._newest_marker.get(producer_id)
        if newest is None:
            return 0
        place = bisect_right(self.gaps, newest, key=lambda gap: gap.last)
        return self.gaps[place].first if place < len(self.gaps) else offset
