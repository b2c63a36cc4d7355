"""What can be had out of a hole: the bytes between two batches of the chain.

In a hole lie batches with an impossible offset, batches with a wrong CRC or wrong contents, and bytes without framing.
Where something starts, an entry is looked for that its own CRC proves. What is spent in vain stays in proportion to
the size of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes, KdumpError
from kdump.log.candidates import find_candidates
from kdump.log.heads import LARGEST_ENTRY
from kdump.log.source import Source
from kdump.repair.correct import corrected, proved
from kdump.repair.entry import Entry
from kdump.repair.inventory import Inventory, examine
from kdump.repair.pieces import PieceOrigin
from kdump.repair.restore import Room
from kdump.repair.wrappers import rewrapped
from kdump.verify.table import row_at
from kdump.wire.compression import DEFAULT_LIMIT

_BUDGET: Final = 1 << 28
_BUDGET_PER_BYTE: Final = 4
_HOPELESS: Final = frozenset({Codes.ZERO_FILL, Codes.UNREADABLE})
"""Gaps in which no entry begins at the start."""


class GapReader:
    """Reads the holes of one log.

    Args:
        source: the log.
        found: what it holds.
        correct: flip one bit back where that explains a wrong CRC.
        limit: most bytes that one batch may decompress to.
    """

    def __init__(self, source: Source, found: Inventory, *, correct: bool, limit: int = DEFAULT_LIMIT) -> None:
        self._source = source
        self._survey = found
        self._correct = correct
        self._limit = limit
        self._budget = _BUDGET + _BUDGET_PER_BYTE * (source.size or 0)

    def entries(self, room: Room, ignored: NDArray[np.bool_]) -> Iterator[Entry]:
        """Entries that begin in the hole, in file order.

        ``ignored``: by number in the survey, batches that are not wanted.
        """
        at = room.position
        items = self._items(room, ignored)
        entry_starts = {position for position, number in items if number is not None} | {room.stop}
        starts = {position for position, _ in items} | {room.stop}
        for position, number in items:
            if position < at:
                continue
            at = position
            if number is not None and self._survey.is_good[number]:
                yield Entry(row_at(self._survey.table.rows, number), PieceOrigin.KEPT, self._source.path)
                at = int(self._survey.table.end[number])
                continue
            if number is not None and self._survey.table.rows["is_valid"][number]:
                found = list(self._inside(number, room))
                yield from found
                at = max(
                    [int(self._survey.table.end[number]), *(entry.row.position + entry.row.size for entry in found)]
                )
                continue
            end = int(self._survey.table.end[number]) if number is not None else None
            # Behind an entry whose length was wrong another one may follow that is no item of its own.
            is_framed = end in entry_starts
            begin = at
            while at < room.stop and (entry := self._made_whole(at, end, room, is_framed=is_framed)) is not None:
                yield entry
                at, end, is_framed = entry.row.position + entry.row.size, None, False
            if at == begin and not is_framed:
                # Its length may be wrong, too; the room tells payload from batches that it swallowed.
                stop = min((start for start in starts if start > position), default=room.stop)
                found = list(self._valid_within(position, min(stop, position + LARGEST_ENTRY), room.first, room))
                yield from found
                at = max([at, *(entry.row.position + entry.row.size for entry in found)])
            at = max(at, position + 1)

    def _items(self, room: Room, ignored: NDArray[np.bool_]) -> list[tuple[int, int | None]]:
        """(position, number of the entry, None for a gap) of what begins in the hole."""
        position = self._survey.table.position
        first, last = np.searchsorted(position, (room.position, room.stop))
        numbers = np.flatnonzero(~ignored[first:last]) + first
        items: list[tuple[int, int | None]] = list(zip(position[numbers].tolist(), numbers.tolist(), strict=True))
        items += [
            (gap.position, None)
            for gap in self._survey.gaps_in(room.position, room.stop)
            if gap.reason not in _HOPELESS and gap.position >= room.position
        ]
        return sorted(items, key=lambda item: item[0])

    def _made_whole(self, position: int, end: int | None, room: Room, *, is_framed: bool) -> Entry | None:
        """The entry at ``position``.

        ``end``: where it ends by its length, None where it cannot; ``is_framed``: something begins there.
        """
        path = self._source.path
        if end is not None and end <= room.stop:
            data = self._read(position, end)
            entry = data and proved(data, position, path, is_whole=True, limit=self._limit)
            if data and not entry and self._correct:
                entry = corrected(data, position, path, self._limit)
            if entry or is_framed:
                return entry or None
        stop = min(room.stop, position + LARGEST_ENTRY)
        data = self._read(position, stop) if self._spend(stop - position) else None
        return None if data is None else proved(data, position, path, is_whole=stop == room.stop, limit=self._limit)

    def _inside(self, number: int, room: Room) -> Iterator[Entry]:
        """What can be had of a batch with a right CRC and wrong contents.

        A wrapper whose offset is wrong; or batches inside, which a length swallowed. These come behind the batch's own
        offsets, where payload hardly would.
        """
        row = row_at(self._survey.table.rows, number)
        path = self._source.path
        data = self._read(row.position, row.position + row.size)
        if data is None:
            return
        entry = rewrapped(data, row.position, path, self._limit)
        if entry is not None:
            yield entry
            return
        own = row.last_offset if row.last_offset < room.limit else room.first - 1
        yield from self._valid_within(row.position, row.position + row.size, max(own + 1, room.first), room)

    def _valid_within(self, position: int, stop: int, first: int, room: Room) -> Iterator[Entry]:
        """Good entries that begin behind ``position`` and have offsets of the room from ``first`` on, rising."""
        # Entries may reach behind the stop, which is where something else was taken to begin.
        end = min(room.stop, stop + LARGEST_ENTRY)
        data = self._read(position, end) if self._spend(end - position) else None
        if data is None:
            return
        found = find_candidates(data, 1, len(data))
        is_sound = found.sound(data) & (found.start < stop - position)
        for start, behind in zip(found.start[is_sound].tolist(), found.end[is_sound].tolist(), strict=True):
            row, fault = examine(data[start:behind], position + start, self._limit)
            entry = Entry(row, PieceOrigin.KEPT, self._source.path)
            if fault is None and first <= entry.first_offset and row.last_offset < room.limit:
                yield entry
                first = row.last_offset + 1

    def _read(self, position: int, stop: int) -> memoryview | None:
        try:
            return memoryview(self._source.read(position, stop - position))
        except KdumpError:
            return None

    def _spend(self, cost: int) -> bool:
        if cost > self._budget:
            return False
        self._budget -= cost
        return True
