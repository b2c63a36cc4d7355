"""Restores base offsets and leader epochs, which no CRC covers, where only one value is possible.

A base offset is restored where

- the batches on both sides leave exactly enough offsets for the batch,
- the .index names it,
- the sequence numbers of one producer account for every offset in between,
- the batch lies directly beside a good one in a log without gaps, or
- one flipped bit explains it.

Batches that contradict others are restored first. Else the chain would keep, of two that contradict each other, the
one with more records, which may be the wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import MAX_INT32
from kdump.format.index import OffsetEntry
from kdump.repair.salvage.choice import heaviest_chain
from kdump.repair.salvage.entry import Entry
from kdump.repair.salvage.siblingcontext import SiblingContext
from kdump.repair.salvage.table import BatchArrays, Column, index_columns
from kdump.verify.table import BatchRow

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
    """Those of ``found`` that one flipped bit explains; in a log without gaps all of them, in one with gaps none."""
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
    after = np.append(first[1:], -1 if around.next_base is None else around.next_base)
    span = last - first + 1
    wanted = (after - before == span) & (first != before) & (before >= 0) & (span > 0)
    return _wrong(table, np.flatnonzero(wanted), before)


def _wrong(table: BatchArrays, numbers: Column, told: Column) -> dict[int, int]:
    """Those of ``numbers`` that are not only out of order, and whose new first offset is free: number to offset."""
    if not numbers.size:
        return {}
    # Of two equal batches one is at a wrong place.
    numbers = numbers[~table.duplicates()[numbers]]
    first, last = table.first, table.last
    # A batch may only be out of order where its own offsets are free, and continue another batch.
    is_at_home = (table.others_at(numbers, first[numbers]) == 0) & (
        np.isin(first[numbers] - 1, last) | np.isin(last[numbers] + 1, first)
    )
    # Of two batches in a row each was judged by the other.
    is_judged = np.diff(numbers) > 1
    is_alone = np.append(True, is_judged) & np.append(is_judged, True)
    numbers = numbers[(table.others_at(numbers, told[numbers]) == 0) & ~is_at_home & is_alone]
    return dict(zip(numbers.tolist(), told[numbers].tolist(), strict=True))


def _told_by_one_side(table: BatchArrays, around: SiblingContext) -> dict[int, int]:
    """Batches that contradict others, where the one beside them leaves a free place: number to offset.

    The other batches are right, or are restored too: one batch that jumps ahead proves nothing about those after it.
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
    """Whether each batch of ``table`` is out of order among ``others``, the same batches with other offsets."""
    highest = np.append(-1, np.maximum.accumulate(others.last)[:-1])
    return np.asarray((table.last >= _lowest_after(others)) | (table.first <= highest))


def _jumps(table: BatchArrays, around: SiblingContext) -> dict[int, int]:
    """Batches that jump far ahead, where one flipped bit explains it: number to first offset.

    Without the flipped bit the batch fits before all that follow it in the file. Nothing follows the last batch, so it
    has to continue the one before.
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
    """The offset after the batch before each; for the first one that of the file name, or a default."""
    return np.append(default if around.base_offset is None else around.base_offset, table.last[:-1] + 1)


def _lowest_after(table: BatchArrays) -> Column:
    """The lowest first offset of all that follow each in the file."""
    return np.append(np.minimum.accumulate(table.first[:0:-1])[::-1], _LAST)


_INDEXED: Final = "the .index has it at this position"
_SEQUENCES: Final = "the producer's sequence numbers account for every offset here"
_CHECKPOINT: Final = "leader-epoch-checkpoint has this epoch there"
_IMPLAUSIBLE_STEP: Final = 1 << 16
"""Leader epochs never rise by so much from one batch to the next."""


class RoomIndex:
    """The .index of a log, asked about batches whose offset is not certain.

    An entry names the last offset of its batch; brokers up to 1.1 named the first. The good batches show which.

    Args:
        entries: of the .index; their positions rise.
        table: good batches in file order.
    """

    def __init__(self, entries: Sequence[OffsetEntry], table: BatchArrays) -> None:
        offset, position = index_columns(entries)
        self._offset, self._position = offset, position
        place = np.searchsorted(table.position, position)
        place = np.minimum(place, max(0, len(table) - 1)) if len(table) else place[:0]
        is_there = table.position[place] == position[: place.size]
        place, offset = place[is_there], offset[: place.size][is_there]
        self._names_last = bool((offset == table.last[place]).any())
        self._names_first = bool((offset == table.first[place]).any())

    def first_offsets(self, entry: Entry) -> set[int]:
        """First offsets that the entry may have by the index; none where it does not have it."""
        number = int(np.searchsorted(self._position, entry.row.position))
        if number == self._position.size or self._position[number] != entry.row.position:
            return set()
        offset = int(self._offset[number])
        by_last, by_first = offset - entry.span + 1, offset
        if self._names_last != self._names_first:
            return {by_last if self._names_last else by_first}
        return {by_last, by_first}


@dataclass(frozen=True, slots=True)
class Room:
    """A gap between two good batches, and what is known of the offsets in it.

    ``first`` to ``end`` (exclusive) are the offsets. After the last good batch ``end`` may be None: not known.
    ``segment_end``: the end of the offsets that the file name allows. ``taken``: (first, last) of offsets in between
    that batches from other places have.
    """

    position: int
    stop: int
    first: int
    end: int | None
    before: BatchRow | None
    after: BatchRow | None
    is_gapless: bool
    index: RoomIndex
    segment_end: int
    taken: Sequence[tuple[int, int]] = ()

    def has_place_for(self, entry: Entry) -> bool:
        """Whether the offsets of ``entry`` are in the room, and free."""
        first, last = entry.first_offset, entry.row.last_offset
        is_inside = self.first <= first and last < self.limit
        return is_inside and not any(one[0] <= last and first <= one[1] for one in self.taken)

    @property
    def limit(self) -> int:
        """The end of the offsets, or that of the segment where it is not known."""
        return self.segment_end if self.end is None else min(self.end, self.segment_end)


def fit(entries: Sequence[Entry], room: Room) -> list[Entry]:
    """Those of the ``entries`` (in file order) that fit in the room, in offset order, some with a restored offset.

    An offset that fits is believed. The others are restored where only one value is possible.
    """
    inside = [entry for entry in entries if room.has_place_for(entry)]
    columns = np.array([(one.first_offset, one.row.last_offset, one.row.record_count) for one in inside], np.int64)
    chosen = heaviest_chain(*columns.reshape(-1, 3).T)
    kept = {id(inside[number]) for number in chosen.tolist()}
    result: list[Entry] = []
    left: list[Entry] = []
    for entry in entries:
        if id(entry) not in kept:
            left.append(entry)
            continue
        row = entry.row
        part = replace(room, stop=row.position, end=entry.first_offset, after=row)
        result += [*_placed(left, part), entry]
        left = []
        room = replace(room, position=row.position + row.size, first=row.last_offset + 1, before=row)
    return result + _placed(left, room)


def _placed(entries: list[Entry], room: Room) -> list[Entry]:
    """Those of ``entries`` whose offset can be restored; none of them has a possible one."""
    entries = [entry for entry in entries if entry.can_move]
    if not entries or room.taken:
        return []
    if room.end is not None and sum(entry.span for entry in entries) == room.end - room.first:
        return _in_a_row(entries, room.first, NEIGHBOURS)
    placed: list[Entry] = []
    first = room.first
    for number, entry in enumerate(entries):
        found = _told_offset(entry, room) or _beside(entries, number, room) or _flipped(entry, room)
        if found is not None and first <= found[0] and found[0] + entry.span <= room.limit:
            placed.append(entry.moved(*found))
            first = found[0] + entry.span
    return placed


def _in_a_row(entries: list[Entry], first: int, why: str) -> list[Entry]:
    placed = []
    for entry in entries:
        placed.append(entry.moved(first, why))
        first += entry.span
    return placed


def _told_offset(entry: Entry, room: Room) -> tuple[int, str] | None:
    """(first offset, why) by the index or by sequence numbers."""
    firsts = room.index.first_offsets(entry)
    possible = [first for first in firsts if room.first <= first and first + entry.span <= room.limit]
    if len(possible) == 1:
        return possible[0], _INDEXED
    before, after, row = room.before, room.after, entry.row
    if before is None or after is None or room.end is None:
        return None
    same = {(one.producer_id, one.producer_epoch) for one in (before, after, row)}
    if len(same) > 1 or min(row.producer_id, row.base_sequence, before.base_sequence, after.base_sequence) < 0:
        return None
    missing = after.base_sequence - before.last_sequence - 1 & MAX_INT32
    if missing != room.end - room.first:
        return None
    return room.first + (row.base_sequence - before.last_sequence - 1 & MAX_INT32), _SEQUENCES


def _beside(entries: list[Entry], number: int, room: Room) -> tuple[int, str] | None:
    """(first offset, why) where nothing but entries lies between the entry and one side of the room."""
    if not room.is_gapless:
        return None
    found = set()
    if room.before is not None and _are_adjacent(entries[: number + 1], room.position, None):
        found.add(room.first + sum(entry.span for entry in entries[:number]))
    if room.after is not None and room.end is not None and _are_adjacent(entries[number:], None, room.stop):
        found.add(room.end - sum(entry.span for entry in entries[number:]))
    return (found.pop(), ADJACENT) if len(found) == 1 else None


def _flipped(entry: Entry, room: Room) -> tuple[int, str] | None:
    """(first offset, why) where one flipped bit explains it, in a room whose end is known."""
    if room.end is None:
        return None
    is_last = entry.row.magic < 2
    first = one_bit_away(entry.first_offset, entry.span, room.first, room.end, is_last=is_last)
    return None if first is None else (first, ONE_BIT)


def _are_adjacent(entries: Sequence[Entry], position: int | None, stop: int | None) -> bool:
    """Whether the entries are neighbours in the file, from ``position`` on, or up to ``stop``."""
    ends = [entry.row.position + entry.row.size for entry in entries]
    starts = [entry.row.position for entry in entries]
    return starts[1:] == ends[:-1] and position in (None, starts[0]) and stop in (None, ends[-1])


def wrong_leader_epochs(rows: NDArray[np.void], around: SiblingContext) -> dict[int, tuple[int, str]]:
    """v2 batches with an impossible leader epoch, where only one value is possible: number to (epoch, why).

    The value is that of the batches on both sides where these agree. Else it is that of leader-epoch-checkpoint, where
    the batches around do not contradict it. No batch follows the last one to contradict an epoch that is too high, so
    there one flipped bit has to explain it.

    Args:
        rows: the batches of the result in offset order.
        around: the files around the log.
    """
    numbers = np.flatnonzero(rows["magic"] >= 2)
    epoch = rows["leader_epoch"][numbers].astype(np.int64)
    if not epoch.size:
        return {}
    before = np.concatenate(([-1], epoch[:-1]))
    after = np.concatenate((epoch[1:], [_LAST]))
    doubtful = np.flatnonzero((before <= after) & ((epoch < before) | (epoch > after)))
    found = {}
    last, told = int(epoch[-1]), around.epoch_of(int(rows["base_offset"][numbers[-1]]))
    if told is not None and before[-1] <= told and last - told >= _IMPLAUSIBLE_STEP and (last ^ told).bit_count() == 1:
        found[int(numbers[-1])] = told, _CHECKPOINT
    for place in doubtful.tolist():
        number, low, high = int(numbers[place]), int(before[place]), int(after[place])
        told = around.epoch_of(int(rows["base_offset"][number]))
        if 0 < place < epoch.size - 1 and low == high:
            found[number] = low, "the batches on both sides have this epoch"
        elif told is not None and low <= told <= high and told != epoch[place]:
            found[number] = told, _CHECKPOINT
    return found
