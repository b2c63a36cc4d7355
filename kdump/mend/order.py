"""Good batches that lie elsewhere than their offsets belong: put in order where they clearly fit."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]


def fitting(first: Column, last: Column, taken_first: Column, taken_last: Column) -> list[int]:
    """Numbers of the batches that fill a place between those taken and go on where one of them, or another such, ends.

    A batch that only happens to be free is not taken: its offset may be what is wrong. Of two that claim the same
    offsets the earlier one in the file is.

    Args:
        first: first offsets of batches that are out of order, in file order.
        last: their last offsets.
        taken_first: first offsets of the batches that the log is known to hold, rising.
        taken_last: their last offsets.
    """
    starts, ends = taken_first.tolist(), taken_last.tolist()
    numbers = np.arange(first.size)
    upwards, downwards = np.lexsort((numbers, first)).tolist(), np.lexsort((numbers, -first)).tolist()
    chosen: list[int] = []
    left = set(range(first.size))
    for order in (upwards, downwards):
        for number in order:
            if number not in left:
                continue
            begin, end = int(first[number]), int(last[number])
            place = bisect_left(starts, begin)
            before = ends[place - 1] if place else None
            behind = starts[place] if place < len(starts) else None
            if (before is not None and before >= begin) or (behind is not None and behind <= end):
                left.discard(number)
            elif before == begin - 1 or behind == end + 1:
                starts.insert(place, begin)
                ends.insert(place, end)
                chosen.append(number)
                left.discard(number)
    return sorted(chosen)
