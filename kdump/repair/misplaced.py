"""Batches whose base offset contradicts others, set back before it costs one of them.

Base offsets are under no CRC. Of two batches that contradict each other the chain keeps the one with more records,
which may be the wrong one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.repair.siblingcontext import SiblingContext
from kdump.repair.table import BatchArrays, Column

NEIGHBOURS: Final = "the only offset that its neighbours leave"
ONE_BIT: Final = "one flipped bit away, and the only such offset that its neighbours leave"
ADJACENT: Final = "the batch beside it ends or begins there, and the log has no gaps"
IMPLAUSIBLE_GAP: Final = 1 << 16
"""Offsets that are not missing between two batches of a log that else has no gaps."""
ENOUGH_PAIRS: Final = 3
"""Batches side by side from which on it shows whether a log has gaps."""
_LAST: Final = 2**63 - 1
_TELLING_BITS: Final = range(16, 63)


def misplaced(table: BatchArrays, around: SiblingContext) -> dict[int, tuple[int, str]]:
    """Batches that have another offset than the others leave them: number to (first offset, why).

    ``table``: good batches in file order.
    """
    if not len(table):
        return {}
    between = _between_neighbours(table, around)
    table = table.moved(between)
    jumps = _jumps(table, around)
    beside = _told_by_one_side(table.moved(jumps), around)
    found = {number: (first, ONE_BIT) for number, first in jumps.items()}
    found |= {number: (first, ADJACENT) for number, first in beside.items()}
    return _if_gapless(table, found) | {number: (first, NEIGHBOURS) for number, first in between.items()}


def _if_gapless(table: BatchArrays, found: dict[int, tuple[int, str]]) -> dict[int, tuple[int, str]]:
    """Those of ``found`` that one flipped bit explains, all if it shows that the log has no gaps; none if it has."""
    others = np.ones(len(table), np.bool_)
    others[list(found)] = False
    rest = table.part(others)
    if not found or not rest.is_gapless():
        return {}
    if rest.is_gapless(ENOUGH_PAIRS):
        return found
    return {number: told for number, told in found.items() if _changed_bits(table, number, told[0]) == 1}


def _between_neighbours(table: BatchArrays, around: SiblingContext) -> dict[int, int]:
    """Batches whose neighbours in the file leave them exactly one base offset, which is another: number to offset."""
    first, last = table.first, table.last
    before = _ends_before(table, around, _LAST)
    behind = np.append(first[1:], -1 if around.next_base is None else around.next_base)
    span = last - first + 1
    wanted = (behind - before == span) & (first != before) & (before >= 0) & (span > 0)
    return _wrong(table, np.flatnonzero(wanted), before)


def _wrong(table: BatchArrays, numbers: Column, told: Column) -> dict[int, int]:
    """Those of ``numbers`` that are not just out of order, and whose told first offset is free: number to it."""
    if not numbers.size:
        return {}
    # Of a batch that is there twice one is where it should not be.
    numbers = numbers[~table.duplicates()[numbers]]
    first, last = table.first, table.last
    # A batch whose own offsets are free, and go on where another one ends or begins, may just be out of order.
    is_at_home = (table.others_at(numbers, first[numbers]) == 0) & (
        np.isin(first[numbers] - 1, last) | np.isin(last[numbers] + 1, first)
    )
    # Two in a row, and each was judged by the other.
    is_judged = np.diff(numbers) > 1
    is_alone = np.append(True, is_judged) & np.append(is_judged, True)
    numbers = numbers[(table.others_at(numbers, told[numbers]) == 0) & ~is_at_home & is_alone]
    return dict(zip(numbers.tolist(), told[numbers].tolist(), strict=True))


def _told_by_one_side(table: BatchArrays, around: SiblingContext) -> dict[int, int]:
    """Batches that contradict others, where one that they lie beside leaves them a free place: number to offset.

    The others are right, or can be set right: that one batch jumps ahead says nothing of those behind it.
    """
    first, last = table.first, table.last
    span = last - first + 1
    before, lowest = _ends_before(table, around, 0), _lowest_after(table)
    beside_after = np.append(first[1:], _LAST) - span
    is_at_start = around.base_offset is not None and bool(table.position[0] == 0)
    has_before = np.append(is_at_start, table.end[:-1] == table.position[1:])
    has_after = np.append(has_before[1:], False)
    told = np.where(has_before, before, np.where(has_after, beside_after, first))
    is_told = (told != first) & (~(has_before & has_after) | (before == beside_after))
    is_possible = (span > 0) & (before >= 0) & (told >= before) & (told <= lowest - span)
    found = _wrong(table, np.flatnonzero(is_told & _is_contrary(table, table) & is_possible), told)
    is_contrary = _is_contrary(table, table.moved(found))
    return {number: place for number, place in found.items() if is_contrary[number]}


def _is_contrary(table: BatchArrays, others: BatchArrays) -> NDArray[np.bool_]:
    """Whether each batch of ``table`` is out of order among the ``others``: the same with other offsets."""
    highest = np.append(-1, np.maximum.accumulate(others.last)[:-1])
    return np.asarray((table.last >= _lowest_after(others)) | (table.first <= highest))


def _jumps(table: BatchArrays, around: SiblingContext) -> dict[int, int]:
    """Batches that jump far ahead, where one flipped bit explains it: number to first offset.

    The bit leaves one place in front of all that follow in the file; behind the last one nothing says what does, so
    that has to go on where the one before it ends.
    """
    first, last = table.first, table.last
    before, lowest = _ends_before(table, around, _LAST), _lowest_after(table)
    is_doubtful = (lowest < first) & (lowest - before > last - first)
    is_doubtful[-1] = around.next_base is None
    found: dict[int, int] = {}
    for number in np.flatnonzero(is_doubtful & (first - before >= IMPLAUSIBLE_GAP)).tolist():
        start, span = int(first[number]), int(last[number] - first[number]) + 1
        low = int(before[number])
        if number - 1 in found:
            low += found[number - 1] - int(first[number - 1])
        high = low + span if number == len(table) - 1 else int(lowest[number])
        place = one_bit_away(start, span, low, high, is_last=_stores_last(table, number))
        if place is not None:
            found[number] = place
    return found


def one_bit_away(first: int, span: int, low: int, high: int, *, is_last: bool) -> int | None:
    """The first offset, ``low`` to ``high - span``, if exactly one flipped bit of the stored offset brings it there.

    A low bit may do so by chance where batches are out of order.

    Args:
        first: the first offset as it is stored.
        span: how many offsets the batch has.
        low: the lowest offset it can have.
        high: the end of its offsets at most, exclusive.
        is_last: its last offset is stored instead, as in a legacy wrapper.
    """
    ahead = span - 1 if is_last else 0
    firsts = ((first + ahead ^ 1 << bit) - ahead for bit in _TELLING_BITS)
    possible = [place for place in firsts if low <= place and place + span <= high]
    return possible[0] if len(possible) == 1 else None


def _changed_bits(table: BatchArrays, number: int, first: int) -> int:
    """How many bits of the stored offset of a batch another first offset changes."""
    old = int(table.first[number])
    ahead = int(table.last[number]) - old if _stores_last(table, number) else 0
    return (old + ahead ^ first + ahead).bit_count()


def _stores_last(table: BatchArrays, number: int) -> bool:
    return bool(table.rows["magic"][number] < 2)


def _ends_before(table: BatchArrays, around: SiblingContext, default: int) -> Column:
    """Where the batch before each ends, exclusive; in front of the first one what the file name says, or a default."""
    return np.append(default if around.base_offset is None else around.base_offset, table.last[:-1] + 1)


def _lowest_after(table: BatchArrays) -> Column:
    """The lowest first offset of all that follow each in the file."""
    return np.append(np.minimum.accumulate(table.first[:0:-1])[::-1], _LAST)
