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

from kdump.checks.table import row_at
from kdump.codes import Codes, KdumpError
from kdump.format.batch import MAGIC_OFFSET
from kdump.log.candidates import find_candidates
from kdump.log.heads import LARGEST_ENTRY
from kdump.log.source import Source
from kdump.mend.correct import corrected, proved, rewrapped
from kdump.mend.entry import Entry
from kdump.mend.pieces import Origin
from kdump.mend.restore import Room
from kdump.mend.survey import Survey, examine
from kdump.wire.compression import DEFAULT_LIMIT

_BUDGET: Final = 1 << 28
_BUDGET_PER_BYTE: Final = 4
_HOPELESS: Final = frozenset({Codes.ZERO_FILL, Codes.UNREADABLE})
"""Gaps in which no entry begins at the start."""


class HoleReader:
    """Reads the holes of one log.

    Args:
        source: the log.
        found: what it holds.
        correct: flip one bit back where that explains a wrong CRC.
        limit: most bytes that one batch may decompress to.
    """

    def __init__(self, source: Source, found: Survey, *, correct: bool, limit: int = DEFAULT_LIMIT) -> None:
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
        for position, number in self._items(room, ignored):
            if position < at:
                continue
            at = position
            if number is not None and self._survey.is_good[number]:
                yield Entry(row_at(self._survey.table.rows, number), Origin.KEPT, self._source.path)
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
            while at < room.stop and (entry := self._made_whole(at, end, room)) is not None:
                yield entry
                at, end = entry.row.position + entry.row.size, None
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

    def _made_whole(self, position: int, end: int | None, room: Room) -> Entry | None:
        """The entry at ``position``; ``end`` is where it ends by its length, if its framing holds."""
        path = self._source.path
        stops = [] if end is None else [min(end, room.stop)]
        stops.append(min(room.stop, position + LARGEST_ENTRY))
        for stop in dict.fromkeys(stops):
            data = self._read(position, stop)
            if data is None:
                continue
            entry = proved(data, position, path, is_whole=stop in (end, room.stop), limit=self._limit)
            if entry is None and stop == end and self._correct:
                entry = corrected(data, position, path, self._limit)
            if entry is not None:
                return entry
        return None

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
        found = find_candidates(data, MAGIC_OFFSET + 1, len(data))
        is_sound = found.sound(data)
        last = max(own, room.first - 1)
        for start, end in zip(found.start[is_sound].tolist(), found.end[is_sound].tolist(), strict=True):
            inner, fault = examine(data[start:end], row.position + start, self._limit)
            entry = Entry(inner, Origin.KEPT, path)
            if fault is None and last < entry.first_offset and inner.last_offset < room.limit:
                yield entry
                last = inner.last_offset

    def _read(self, position: int, stop: int) -> memoryview | None:
        if not self._spend(stop - position):
            return None
        try:
            return memoryview(self._source.read(position, stop - position))
        except KdumpError:
            return None

    def _spend(self, cost: int) -> bool:
        if cost > self._budget:
            return False
        self._budget -= cost
        return True
