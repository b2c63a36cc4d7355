"""Which offsets a segment can hold: what its name and the next segment's allow, unless the batches say otherwise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import MAX_INT32
from kdump.repair.siblingcontext import SiblingContext
from kdump.repair.table import BatchArrays


def in_range(table: BatchArrays, around: SiblingContext) -> NDArray[np.bool_]:
    """Which of the good batches ``table`` (in file order) have offsets that one segment can hold, shape (batches,).

    The name of the next segment is believed. So is its own, unless batches that it cannot hold go on where the batch
    beside them in the file ends, and the segment before does not have their offsets, or no batch fits it: then the 2^31
    offsets count that hold the most records.
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
    """Which batches lie in the 2^31 offsets, from the start of one on, that hold the most records of ``possible``."""
    order = np.flatnonzero(possible)
    order = order[np.argsort(table.first[order], kind="stable")]
    starts = table.first[order]
    total = np.concatenate(([0], np.cumsum(table.records[order])))
    upto = np.searchsorted(starts, starts + MAX_INT32, side="right")
    start = int(starts[np.argmax(total[upto] - total[:-1])])
    return np.asarray((table.first >= start) & (table.last - start <= MAX_INT32))
