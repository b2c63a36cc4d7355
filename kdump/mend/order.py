"""Good batches that lie elsewhere than their offsets belong: put in order where they clearly fit."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from kdump.mend.restore import first_offsets


def fitting(rows: NDArray[np.void], taken: NDArray[np.void], *, strictly: bool) -> list[int]:
    """Numbers of the batches that fill a place between those taken.

    That the place is free does not suffice, the offset may be what is wrong. Either the batch goes on where one that is
    taken, or another such, ends or begins. Or, not ``strictly``, bytes are missing at that place; or it is the one
    before or behind what the batch lies beside: two were swapped. Of two that claim the same offsets the earlier one
    in the file is taken.

    Args:
        rows: batches that are out of order, in file order.
        taken: the batches that the log is known to hold, in offset order.
        strictly: see above.
    """
    first, last = first_offsets(rows), rows["last_offset"]
    numbers = np.arange(first.size)
    upwards, downwards = np.lexsort((numbers, first)).tolist(), np.lexsort((numbers, -first)).tolist()
    places = _Places(taken)
    beside = np.searchsorted(taken["position"], rows["position"]).tolist() if not strictly else []
    chosen: list[int] = []
    left = set(numbers.tolist())
    for order in (upwards, downwards):
        for number in order:
            if number not in left:
                continue
            begin, end = int(first[number]), int(last[number])
            place = places.find(begin, end)
            if place is None:
                left.discard(number)
            elif places.is_next(place, begin, end) or (not strictly and places.is_likely(begin, beside[number])):
                places.take(place, begin, end)
                chosen.append(number)
                left.discard(number)
    return sorted(chosen)


class _Places:
    """The offsets that are taken, and the places between them."""

    def __init__(self, taken: NDArray[np.void]) -> None:
        self._starts = first_offsets(taken).tolist()
        self._ends = taken["last_offset"].tolist()
        self._original = list(self._starts)
        end = taken["position"] + taken["size"]
        # has_hole[n]: bytes lie between batch n - 1 and batch n that are neither.
        self._has_hole = np.concatenate(([False], end[:-1] != taken["position"][1:], [False])).tolist()

    def find(self, begin: int, end: int) -> int | None:
        """Number of the place that is free from ``begin`` to ``end``, None where one of these offsets is taken."""
        place = bisect_left(self._starts, begin)
        if place and self._ends[place - 1] >= begin:
            return None
        if place < len(self._starts) and self._starts[place] <= end:
            return None
        return place

    def is_next(self, place: int, begin: int, end: int) -> bool:
        """What is taken on one side ends or begins there."""
        is_behind = place > 0 and self._ends[place - 1] == begin - 1
        return is_behind or (place < len(self._starts) and self._starts[place] == end + 1)

    def is_likely(self, begin: int, beside: int) -> bool:
        """Between two batches between which bytes are missing, or one of which lies at number ``beside``."""
        place = bisect_left(self._original, begin)
        is_between = 0 < place < len(self._original)
        return is_between and (self._has_hole[place] or abs(place - beside) == 1)

    def take(self, place: int, begin: int, end: int) -> None:
        """The place is taken from ``begin`` to ``end``."""
        self._starts.insert(place, begin)
        self._ends.insert(place, end)
