"""Transactions that begin at one offset, as whoever reads a snapshot sees them.

A snapshot does not say which of them came later: its reader takes the one that the file has last
(docs/spec/startup.md#rule-20-from-a-snapshot).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

from kdump.kafka.producers import map_bucket


class ReadMap(NamedTuple):
    """A hash map whose producers were written to a snapshot, which was read: those with a place before ``end``."""

    capacity: int
    end: int


class SharedFirstOffset:
    """The producers whose open transactions begin at one offset."""

    def __init__(self, producer_ids: Iterable[int]) -> None:
        self._producer_ids = dict.fromkeys(producer_ids)
        # By the capacities of the maps, the producers by rank, and those that are still to be added. One that has
        # gone or has another rank by now is put right when it is the least; a rank only grows.
        self._heaps: dict[tuple[int, ...], tuple[list[tuple[int, ...]], list[int]]] = {}

    def __bool__(self) -> bool:
        return bool(self._producer_ids)

    def add(self, producer_id: int) -> None:
        """Add a producer."""
        self._producer_ids[producer_id] = None
        for _, added in self._heaps.values():
            added.append(producer_id)

    def remove(self, producer_id: int) -> None:
        """Remove a producer, if it is there."""
        self._producer_ids.pop(producer_id, None)

    def last(self, maps: Sequence[ReadMap], places: Mapping[int, int]) -> int:
        """The producer that comes last in the newest snapshot.

        Args:
            maps: the one that it was written from, and before it those that were larger than all after them.
            places: numbers of the producers that rise in the order in which they were first seen.
        """
        key = tuple(each.capacity for each in maps)
        if key not in self._heaps:
            # The number of producers may go up and down across a limit: then two serve in turn.
            self._heaps = dict([*self._heaps.items()][-1:])
            self._heaps[key] = [_rank(producer_id, maps, places) for producer_id in self._producer_ids], []
            heapify(self._heaps[key][0])
        heap, added = self._heaps[key]
        for producer_id in added:
            if producer_id in self._producer_ids:
                heappush(heap, _rank(producer_id, maps, places))
        added.clear()
        while True:
            producer_id = heap[0][-1]
            if producer_id not in self._producer_ids:
                heappop(heap)
            elif heap[0] == (rank := _rank(producer_id, maps, places)):
                return producer_id
            else:
                heapreplace(heap, rank)


def _rank(producer_id: int, maps: Sequence[ReadMap], places: Mapping[int, int]) -> tuple[int, ...]:
    """The least comes last: each map was filled in the order of the one before it, and with new producers then."""
    place = places[producer_id]
    buckets = [-map_bucket(producer_id, capacity) if place < end else -capacity for capacity, end in reversed(maps)]
    return *buckets, -place, producer_id
