"""What transaction indexes and producer snapshots tell about transactions whose marker may be lost.

Source: docs/spec/formats.md#6-indexes; TransactionIndex, AbortedTxn and ProducerStateManager (completeTxn,
lastStableOffset, takeSnapshot) of Kafka 4.3.1.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

from kdump.format.index import AbortedTxn
from kdump.reading.transactionremains import GapRange

NEVER: Final = 2**63
"""Above every offset."""
_FIRST_OFFSET: Final = attrgetter("first_offset")
_LAST_OFFSET: Final = attrgetter("last_offset")


def are_valid(entries: Sequence[AbortedTxn], base_offset: int, is_there: Callable[[int, int], bool]) -> bool:
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
    """The entries of a .txnindex that agree with the log: every abort from ``first`` to before ``end``."""

    entries: Sequence[AbortedTxn]
    first: int
    end: int


class Snapshot(NamedTuple):
    """First offsets of the transactions open at ``offset``, by producer id; -1 for a producer without one."""

    offset: int
    open_from: Mapping[int, int]


class EndBounds(NamedTuple):
    """Offsets between which a transaction ended; ``NEVER`` where nothing tells.

    Attributes:
        open_at: the transaction was still open here.
        closed: just before this offset no transaction of its producer was open.
        over: just before this offset the transaction was not open, but another one of its producer may have been.
    """

    open_at: int
    closed: int
    over: int


class TransactionEvidence:
    """What the files beside the logs say of the transactions.

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
            gaps = gaps.between(self._complete[number][1] - 1, NEVER)
        return True

    def bounds(self, producer_id: int, low: int, start: int) -> EndBounds:
        """Bounds of the end of a transaction that began at ``low`` or later, and not after ``start``."""
        of_producer = self._by_producer.get(producer_id, [])
        own = bisect_right(of_producer, start, key=_FIRST_OFFSET)
        closed = of_producer[own].first_offset if own < len(of_producer) else NEVER
        others = (entry for entry in self._with_stable.get(start, ()) if entry.producer_id != producer_id)
        open_at = max((entry.last_offset for entry in others), default=start)
        number = max(bisect_right(self._entries, start, key=_LAST_OFFSET), bisect_right(self._stable, start))
        if number < len(self._entries) and self._entries[number].producer_id == producer_id:
            number = self._next_of_other[number]
        over = self._entries[number].last_offset if number < len(self._entries) else NEVER
        for snapshot in self._snapshots[bisect_right(self._snapshots, start, key=itemgetter(0)) :]:
            known = snapshot.open_from.get(producer_id)
            if known is None:
                continue
            if known < 0 or known > start:
                # Later snapshots tell of later transactions.
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
    """For each entry, the number of the next entry of another producer; the number of entries where there is none."""
    following = [len(entries)] * len(entries)
    for number in range(len(entries) - 2, -1, -1):
        is_other = entries[number].producer_id != entries[number + 1].producer_id
        following[number] = number + 1 if is_other else following[number + 1]
    return following
