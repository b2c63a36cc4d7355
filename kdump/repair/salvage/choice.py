"""Which good batches of a log are kept, where they contradict one another or lie at another place.

Base offsets are under no CRC: if the first of two batches won, one flipped bit would cost all that follows. So the
strictly rising chain with the most records is kept. Batches outside of it are put where they clearly fit.

Source: docs/spec/repair.md#2-which-batches-salvage-keeps (most records; ties: the earlier).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import MAX_INT32
from kdump.repair.salvage.siblingcontext import SiblingContext
from kdump.repair.salvage.table import BatchArrays, Column


def in_range(table: BatchArrays, around: SiblingContext) -> NDArray[np.bool_]:
    """Which of the good batches ``table`` (in file order) have offsets that one segment can hold, shape (batches,).

    The name of the next segment is believed. The segment's own name is believed, too, unless no batch fits it, or
    batches outside its range continue the batch beside them and the segment before does not have their offsets. Then
    the 2^31 offsets with the most records are the range.
    Source: docs/spec/repair.md#2-which-batches-salvage-keeps,
    docs/spec/recovery.md#rule-3-the-offset-range-of-a-segment.
    """
    first, last = table.first, table.last
    possible = (first >= 0) & (first <= last) & (last - first <= MAX_INT32)
    base = around.base_offset
    if base is not None:
        fits = possible & (first >= base) & (last - base <= MAX_INT32)
        if fits.any():
            goes_on = first[1:] == last[:-1] + 1
            is_vouched = np.concatenate((goes_on, [False])) | np.concatenate(([False], goes_on))
            possible &= fits | (is_vouched & (first >= around.end_before))
    if around.next_base is not None and (base is None or base < around.next_base):
        possible &= last < around.next_base
    if possible.any() and last[possible].max() - first[possible].min() > MAX_INT32:
        possible &= _fullest(table, possible)
    return possible


def _fullest(table: BatchArrays, possible: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which batches lie in the 2^31 offsets with the most records of ``possible``; a batch begins at the first one."""
    order = np.flatnonzero(possible)
    order = order[np.argsort(table.first[order], kind="stable")]
    starts = table.first[order]
    total = np.concatenate(([0], np.cumsum(table.records[order])))
    upto = np.searchsorted(starts, starts + MAX_INT32, side="right")
    start = int(starts[np.argmax(total[upto] - total[:-1])])
    return np.asarray((table.first >= start) & (table.last - start <= MAX_INT32))


def heaviest_chain(first: Column, last: Column, records: Column) -> Column:
    """Numbers of the batches of the chain, rising.

    In the chain each batch begins after the last offset of the one before. Of the chains with the most records it is
    one with the most batches, because empty ones cost nothing. Of those it takes the earlier batch where they differ,
    compared from the end. O(n log n); a log in order costs a few vector operations.

    Args:
        first: first offset of each batch in file order, shape (batches,).
        last: last offset, not below the first.
        records: how many records each holds, 0 or more.
    """
    if not first.size:
        return np.empty(0, np.int64)
    # No batch on one side of a cut contradicts one on the other side, so each side is decided alone.
    highest = np.maximum.accumulate(last)
    lowest = np.minimum.accumulate(first[::-1])[::-1]
    cuts = np.flatnonzero(np.concatenate(([True], highest[:-1] < lowest[1:], [True])))
    is_alone = np.diff(cuts) == 1
    parts = [cuts[:-1][is_alone]]
    for start, end in zip(cuts[:-1][~is_alone].tolist(), cuts[1:][~is_alone].tolist(), strict=True):
        parts.append(_tangled(first[start:end], last[start:end], records[start:end]) + start)
    return np.sort(np.concatenate(parts))


def _tangled(first: Column, last: Column, records: Column) -> Column:
    """The chain of batches between two cuts; neighbours that every chain keeps or drops together count as one."""
    unit = _units(first, last)
    starts = np.flatnonzero(np.diff(unit, prepend=-1))
    ends = np.append(starts[1:], unit.size) - 1
    # Records first, then batches.
    weight = np.add.reduceat(records * (records.size + 1) + 1, starts)
    chosen = _search(first[starts], last[ends], weight)
    return np.flatnonzero(np.isin(unit, chosen))


def _units(first: Column, last: Column) -> Column:
    """Number of the unit of each batch, rising from 0.

    A batch and the next one in the file form one unit where no other batch has offsets in or between the two: every
    chain with one of them can take the other, too.
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


_NO_LIMIT: Final = 2**63 - 1
_BITS: Final = np.int64(1) << np.arange(62)
_IMPLAUSIBLE_GAP: Final = 1 << 16
"""A batch that is out of order and this many offsets after the end of the log is hardly its last one."""


def fitting(others: BatchArrays, taken: BatchArrays, *, strictly: bool) -> Column:
    """Numbers of the batches that fill a place between those taken.

    A free place is not enough, because the offset itself may be wrong. One of these must hold, too:

    - The batch continues a taken one, or one like it, or is continued by it.
    - Unless ``strictly``: bytes are missing at that place.
    - Unless ``strictly``: the place is next to where the batch lies, so that two batches were swapped.

    Of batches that claim the same offsets those with the most records are taken, then the earlier ones in the file.

    Args:
        others: batches that are out of order, in file order.
        taken: the batches that the log is known to hold, in offset order.
        strictly: only the first reason counts.
    """
    # A place is free where no taken batch begins before its end and ends after its start.
    place = np.searchsorted(taken.last, others.first)
    free = np.flatnonzero(place == np.searchsorted(taken.first, others.last, side="right"))
    by_offset = free[np.lexsort((free, others.first[free]))]
    chosen = by_offset[heaviest_chain(others.first[by_offset], others.last[by_offset], others.records[by_offset])]
    is_certain = np.zeros(chosen.size, np.bool_)
    if not strictly:
        is_certain = _are_likely(others, taken, chosen, place[chosen])
    # Batches that continue one another are a run; a run stays where one of its batches is taken or certain.
    first, last = (
        np.concatenate((taken.first, others.first[chosen])),
        np.concatenate((taken.last, others.last[chosen])),
    )
    order = np.argsort(first, kind="stable")
    run = np.cumsum(np.concatenate(([True], first[order][1:] != last[order][:-1] + 1)))
    is_firm = np.concatenate((np.ones(taken.first.size, np.bool_), is_certain))[order]
    firm_runs = np.unique(run[is_firm])
    kept = order[np.isin(run, firm_runs)] - taken.first.size
    return np.sort(chosen[kept[kept >= 0]])


def _are_likely(others: BatchArrays, taken: BatchArrays, chosen: Column, place: Column) -> NDArray[np.bool_]:
    """Which of ``chosen``, that fit before number ``place`` of those taken, were swapped with others.

    Their place is next to where they lie, or bytes are missing there; and no flipped bit explains the offset.
    """
    order = np.argsort(taken.position, kind="stable")
    beside = np.searchsorted(taken.position[order], others.position[chosen])
    # Whether bytes are missing in front of each batch; after the last one nobody knows.
    has_gap = np.concatenate((taken.position[:1] > 0, taken.end[:-1] != taken.position[1:], [True]))
    last = np.concatenate(([-1], taken.last))
    first = np.concatenate((taken.first, [_NO_LIMIT]))
    is_near = others.first[chosen] - last[place] < _IMPLAUSIBLE_GAP
    is_swapped = has_gap[place] | (np.abs(place - beside) == 1)
    span = others.last[chosen] - others.first[chosen]
    is_likely = is_swapped & ((place < len(taken)) | is_near)
    low, high = last[beside], first[beside] - span
    # A bit at a time: a column of all of them would take a kilobyte for each batch.
    for bit in _BITS:
        flipped = others.first[chosen] ^ bit
        is_likely &= (flipped <= low) | (flipped >= high)
    return np.asarray(is_likely)
