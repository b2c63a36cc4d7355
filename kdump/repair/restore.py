"""Base offsets and leader epochs, which no CRC covers, set back in the holes of a log where one value is left.

Evidence for a base offset: the batches on both sides leave exactly its room; the .index names it; the sequence numbers
of one producer account for every offset in between; nothing is between it and a good batch in a log without gaps; or
one flipped bit brings it into the room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import MAX_INT32
from kdump.format.index import OffsetEntry
from kdump.repair.chain import heaviest_chain
from kdump.repair.entry import Entry
from kdump.repair.misplaced import ADJACENT, NEIGHBOURS, ONE_BIT, one_bit_away
from kdump.repair.siblingcontext import SiblingContext
from kdump.repair.table import BatchArrays
from kdump.verify.table import BatchRow

_INDEXED: Final = "the .index has it at this position"
_SEQUENCES: Final = "the producer's sequence numbers account for every offset here"
_CHECKPOINT: Final = "leader-epoch-checkpoint has this epoch there"
_IMPLAUSIBLE_STEP: Final = 1 << 16
"""Leaders that did not follow one another so fast that no batch is between them."""
_LAST: Final = 2**63 - 1


class RoomIndex:
    """The .index of a log, asked about batches whose offset is in doubt.

    An entry names the last offset of its batch; brokers up to 1.1 named the first. Which it is the good batches show.

    Args:
        entries: of the .index.
        table: good batches in file order.
    """

    def __init__(self, entries: Sequence[OffsetEntry], table: BatchArrays) -> None:
        self._offsets = {entry.position: entry.offset for entry in entries}
        position, offset = np.array([(one.position, one.offset) for one in entries], np.int64).reshape(-1, 2).T
        place = np.searchsorted(table.position, position)
        place = np.minimum(place, max(0, len(table) - 1)) if len(table) else place[:0]
        is_there = table.position[place] == position[: place.size]
        place, offset = place[is_there], offset[: place.size][is_there]
        self._names_last = bool((offset == table.last[place]).any())
        self._names_first = bool((offset == table.first[place]).any())

    def first_offsets(self, entry: Entry) -> set[int]:
        """First offsets that the entry may have by the index; none where it does not have it."""
        offset = self._offsets.get(entry.row.position)
        if offset is None:
            return set()
        by_last, by_first = offset - entry.span + 1, offset
        if self._names_last != self._names_first:
            return {by_last if self._names_last else by_first}
        return {by_last, by_first}


@dataclass(frozen=True, slots=True)
class Room:
    """A hole between two good batches: what fits in it, and how far a base offset can be told.

    ``first`` to ``end`` (exclusive) are the offsets; ``end`` is None behind the last good batch where it is not known,
    but ``segment_end``, which the file name allows at most, is.
    ``taken``: (first, last) of offsets in between that batches from elsewhere have.
    """

    position: int
    stop: int
    first: int
    end: int | None
    before: BatchRow | None
    behind: BatchRow | None
    is_gapless: bool
    index: RoomIndex
    segment_end: int
    taken: Sequence[tuple[int, int]] = ()

    def has_place_for(self, entry: Entry) -> bool:
        """The offsets of ``entry`` are in the room, and free."""
        first, last = entry.first_offset, entry.row.last_offset
        is_inside = self.first <= first and last < self.limit
        return is_inside and not any(one[0] <= last and first <= one[1] for one in self.taken)

    @property
    def limit(self) -> int:
        """An end in any case."""
        return self.segment_end if self.end is None else min(self.end, self.segment_end)


def fit(entries: Sequence[Entry], room: Room) -> list[Entry]:
    """Those of the ``entries`` (in file order) that find a place in the room, in offset order, some with a new offset.

    An offset that fits is believed; the others are restored where one value is left.
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
        part = replace(room, stop=row.position, end=entry.first_offset, behind=row)
        result += [*_placed(left, part), entry]
        left = []
        room = replace(room, position=row.position + row.size, first=row.last_offset + 1, before=row)
    return result + _placed(left, room)


def _placed(entries: list[Entry], room: Room) -> list[Entry]:
    """Those of ``entries``, none of which has a possible offset, whose offset can be told."""
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
    before, behind, row = room.before, room.behind, entry.row
    if before is None or behind is None or room.end is None:
        return None
    same = {(one.producer_id, one.producer_epoch) for one in (before, behind, row)}
    if len(same) > 1 or min(row.producer_id, row.base_sequence, before.base_sequence, behind.base_sequence) < 0:
        return None
    missing = behind.base_sequence - before.last_sequence - 1 & MAX_INT32
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
    if room.behind is not None and room.end is not None and _are_adjacent(entries[number:], None, room.stop):
        found.add(room.end - sum(entry.span for entry in entries[number:]))
    return (found.pop(), ADJACENT) if len(found) == 1 else None


def _flipped(entry: Entry, room: Room) -> tuple[int, str] | None:
    """(first offset, why) where one flipped bit leaves one place in a room whose end is known."""
    if room.end is None:
        return None
    is_last = entry.row.magic < 2
    first = one_bit_away(entry.first_offset, entry.span, room.first, room.end, is_last=is_last)
    return None if first is None else (first, ONE_BIT)


def _are_adjacent(entries: Sequence[Entry], position: int | None, stop: int | None) -> bool:
    """The entries lie side by side in the file, from ``position`` on, or up to ``stop``."""
    ends = [entry.row.position + entry.row.size for entry in entries]
    starts = [entry.row.position for entry in entries]
    return starts[1:] == ends[:-1] and position in (None, starts[0]) and stop in (None, ends[-1])


def wrong_leader_epochs(rows: NDArray[np.void], around: SiblingContext) -> dict[int, tuple[int, str]]:
    """v2 batches with a leader epoch that cannot be right, where one value is left: number to (epoch, why).

    ``rows``: the batches of the result in offset order. The epochs on both sides leave one value where they are equal;
    else leader-epoch-checkpoint tells, where it agrees with the batches around. Behind the last batch none contradicts
    an epoch that is too high: there one flipped bit has to explain it.
    """
    numbers = np.flatnonzero(rows["magic"] >= 2)
    epoch = rows["leader_epoch"][numbers].astype(np.int64)
    if not epoch.size:
        return {}
    before = np.concatenate(([-1], epoch[:-1]))
    behind = np.concatenate((epoch[1:], [_LAST]))
    doubtful = np.flatnonzero((before <= behind) & ((epoch < before) | (epoch > behind)))
    found = {}
    last, told = int(epoch[-1]), around.epoch_of(int(rows["base_offset"][numbers[-1]]))
    if told is not None and before[-1] <= told and last - told >= _IMPLAUSIBLE_STEP and (last ^ told).bit_count() == 1:
        found[int(numbers[-1])] = told, _CHECKPOINT
    for place in doubtful.tolist():
        number, low, high = int(numbers[place]), int(before[place]), int(behind[place])
        told = around.epoch_of(int(rows["base_offset"][number]))
        if 0 < place < epoch.size - 1 and low == high:
            found[number] = low, "the batches on both sides have this epoch"
        elif told is not None and low <= told <= high and told != epoch[place]:
            found[number] = told, _CHECKPOINT
    return found
