"""Good batches that lie elsewhere than their offsets belong: put in order where they clearly fit."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.repair.chain import heaviest_chain
from kdump.repair.table import BatchArrays, Column

_NO_LIMIT: Final = 2**63 - 1
_BITS: Final = np.int64(1) << np.arange(62)
_IMPLAUSIBLE_GAP: Final = 1 << 16
"""Offsets behind the end of a log at which a batch that is out of order is hardly its last."""


def fitting(others: BatchArrays, taken: BatchArrays, *, strictly: bool) -> Column:
    """Numbers of the batches that fill a place between those taken.

    That the place is free does not suffice, the offset may be what is wrong. Either the batch goes on where one that is
    taken, or another such, ends or begins. Or, not ``strictly``, bytes are missing at that place; or it is the one
    before or behind what the batch lies beside: two were swapped. Of those that claim the same offsets they are taken
    that hold the most records, then the earlier ones in the file.

    Args:
        others: batches that are out of order, in file order.
        taken: the batches that the log is known to hold, in offset order.
        strictly: see above.
    """
    # Free: as many are taken that begin up to its end as end before it begins.
    place = np.searchsorted(taken.last, others.first)
    free = np.flatnonzero(place == np.searchsorted(taken.first, others.last, side="right"))
    by_offset = free[np.lexsort((free, others.first[free]))]
    chosen = by_offset[heaviest_chain(others.first[by_offset], others.last[by_offset], others.records[by_offset])]
    is_certain = np.zeros(chosen.size, np.bool_)
    if not strictly:
        is_certain = _are_likely(others, taken, chosen, place[chosen])
    # Runs that go on from one another, and whether one in them is taken or certain.
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

    They belong beside what they lie beside, or where bytes are missing; and no flipped bit in the offset explains it.
    """
    order = np.argsort(taken.position, kind="stable")
    beside = np.searchsorted(taken.position[order], others.position[chosen])
    # Bytes are missing in front of a batch of this number; behind the last one they may be any.
    has_hole = np.concatenate((taken.position[:1] > 0, taken.end[:-1] != taken.position[1:], [True]))
    last = np.concatenate(([-1], taken.last))
    first = np.concatenate((taken.first, [_NO_LIMIT]))
    is_near = others.first[chosen] - last[place] < _IMPLAUSIBLE_GAP
    is_swapped = has_hole[place] | (np.abs(place - beside) == 1)
    span = others.last[chosen] - others.first[chosen]
    flipped = others.first[chosen][:, None] ^ _BITS
    is_flip = (flipped > last[beside][:, None]) & (flipped + span[:, None] < first[beside][:, None])
    return np.asarray(is_swapped & ((place < len(taken)) | is_near) & ~is_flip.any(axis=1))
