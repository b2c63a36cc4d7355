"""Two logs of one partition aligned by offset: which entries stand for the same place, and which of them are the same.

Followers copy a leader's batches byte for byte, so the CRCs tell. Source:
docs/spec/replicas.md#5-what-differs-between-healthy-replicas.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Offsets = NDArray[np.int64]
Mask = NDArray[np.bool_]


def aligned(ours: Offsets, theirs: Offsets) -> tuple[Offsets, Offsets]:
    """Numbers of the entries of two logs that end at the same offset, in the order of these offsets.

    The last offset is known of every entry, also of a legacy wrapper that was not looked into.

    Args:
        ours: last offsets of the entries of one log, shape (entries,).
        theirs: those of the other one.
    """
    if not (ours.size and theirs.size):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    # Where the logs are equal these are, but for where they begin. Sorting takes longer.
    lower = max(int(ours[0]), int(theirs[0]))
    shifts = [int(np.searchsorted(last, lower)) for last in (ours, theirs)]
    count = min(ours.size - shifts[0], theirs.size - shifts[1])
    mine, their = (last[shift : shift + count] for last, shift in zip((ours, theirs), shifts, strict=True))
    if np.array_equal(mine, their) and rises(ours) and rises(theirs):
        return np.arange(count) + shifts[0], np.arange(count) + shifts[1]
    _, mine, their = np.intersect1d(ours, theirs, return_indices=True)
    return mine, their


def are_same(ours: NDArray[np.void], theirs: NDArray[np.void]) -> Mask:
    """Which aligned rows are the same entry, leader epochs aside; shape (rows,).

    Both have the columns ``crc``, ``size`` and ``magic``. The CRCs must be right in both.
    """
    same: Mask = (ours["crc"] == theirs["crc"]) & (ours["size"] == theirs["size"]) & (ours["magic"] == theirs["magic"])
    return same


def rises(last: Offsets) -> bool:
    """The last offsets rise from entry to entry, as they do in a log without damage."""
    return bool((last[1:] > last[:-1]).all())
