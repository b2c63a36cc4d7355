"""The strictly increasing chain of batches that holds the most records.

Base offsets are under no CRC: where batches contradict one another, "the first wins" would let one flipped bit cost all
that follows. Source: docs/spec/repair.md#2-which-batches-salvage-keeps (most records; ties: the earlier).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]


def heaviest_chain(first: Column, last: Column, records: Column) -> Column:
    """Numbers of the batches of the chain, rising.

    In the chain each batch begins behind the last offset of the one before. Among chains with the most records it is
    one with the most batches (empty ones cost nothing), among those the one that takes the earlier batch at the first
    place from the end at which they differ. O(n log n); a log in order costs a few vector operations.

    Args:
        first: first offset of each batch in file order, shape (batches,).
        last: last offset, not below the first.
        records: how many records each holds, 0 or more.
    """
    if not first.size:
        return np.empty(0, np.int64)
    # Nothing before a cut reaches behind it, nothing behind it comes before: both sides choose for themselves.
    highest = np.maximum.accumulate(last)
    lowest = np.minimum.accumulate(first[::-1])[::-1]
    cuts = np.flatnonzero(np.concatenate(([True], highest[:-1] < lowest[1:], [True])))
    is_alone = np.diff(cuts) == 1
    parts = [cuts[:-1][is_alone]]
    for start, end in zip(cuts[:-1][~is_alone].tolist(), cuts[1:][~is_alone].tolist(), strict=True):
        parts.append(_tangled(first[start:end], last[start:end], records[start:end]) + start)
    return np.sort(np.concatenate(parts))


def _tangled(first: Column, last: Column, records: Column) -> Column:
    """The same for a stretch that has no cut; neighbours that no chain takes apart count as one."""
    unit = _units(first, last)
    starts = np.flatnonzero(np.diff(unit, prepend=-1))
    ends = np.append(starts[1:], unit.size) - 1
    # Records first, then batches.
    weight = np.add.reduceat(records * (records.size + 1) + 1, starts)
    chosen = _search(first[starts], last[ends], weight)
    return np.flatnonzero(np.isin(unit, chosen))


def _units(first: Column, last: Column) -> Column:
    """Number of the unit of each batch, rising from 0.

    A batch and the next one in the file form one when no other batch has offsets in or between the two: every chain
    with one of them can take the other too.
    """
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    # is_free[r]: all batches of lower rank end before the batch of rank r begins.
    highest = np.maximum.accumulate(last[order])
    is_free = np.concatenate(([True], highest[:-1] < first[order][1:], [True]))
    joined = np.zeros(first.size, np.bool_)
    place = rank[:-1]
    joined[1:] = (rank[1:] == place + 1) & is_free[place] & is_free[place + 1]
    joined[1:] &= is_free[np.minimum(place + 2, first.size)]
    return np.cumsum(~joined) - 1


def _search(first: Column, last: Column, weight: Column) -> Column:
    """The heaviest chain by dynamic programming: a Fenwick tree of the best chain up to each last offset."""
    count = first.size
    ends = np.unique(last)
    # Chains that end before a batch begins: places 1 to ``below`` of the tree.
    below = np.searchsorted(ends, first).tolist()
    place = (np.searchsorted(ends, last) + 1).tolist()
    best = [0] * (ends.size + 1)
    owner = [-1] * (ends.size + 1)
    before = [-1] * count
    total, newest = 0, -1
    size = int(ends.size)
    for number, own in enumerate(weight.tolist()):
        heaviest, previous = 0, -1
        at = below[number]
        while at:
            if best[at] > heaviest or (best[at] == heaviest and owner[at] < previous):
                heaviest, previous = best[at], owner[at]
            at &= at - 1
        before[number] = previous
        heaviest += own
        if heaviest > total:
            total, newest = heaviest, number
        at = place[number]
        while at <= size:
            if heaviest > best[at]:
                best[at], owner[at] = heaviest, number
            at += at & -at
    chosen = []
    while newest >= 0:
        chosen.append(newest)
        newest = before[newest]
    return np.array(chosen[::-1], np.int64)
