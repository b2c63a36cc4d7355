"""A repaired log in the making.

Most batches stay as they are: they are columns of the inventory. The few others are entries, one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.repair.salvage.entry import Entry
from kdump.repair.salvage.inventory import Inventory
from kdump.repair.salvage.pieces import Dropped, LogPiece, Lost, PieceOrigin
from kdump.repair.salvage.table import BatchArrays, Column
from kdump.verify.missing import MANY_GAPS
from kdump.verify.table import row_dtype

_WRONG_CRC: Final = "the CRC is wrong"


@dataclass(frozen=True)
class DraftTable(BatchArrays):
    """All batches of a draft in offset order.

    ``owner``, shape (batches,): the number in the inventory of a batch that stays as it is; ``-1 - n`` for entry n.
    ``is_ours``: the batch comes from the log, so its position is one there.
    """

    owner: Column
    is_ours: NDArray[np.bool_]

    @cached_property
    def leader_epoch(self) -> Column:
        """The newest leader epoch up to each batch; -1 before the first that has one."""
        return np.maximum.accumulate(self.rows["leader_epoch"].astype(np.int64))


_Extent = tuple[int, int, str, int | None]
"""Bytes of the log that are not in the result: position, end, why, and the number of the entry if it is a good one."""


class Draft:
    """What the result consists of so far.

    Args:
        inventory: what the log holds.
        path: the log.
        size: its bytes.
    """

    def __init__(self, inventory: Inventory, path: str, size: int) -> None:
        self._inventory = inventory
        self._path = path
        self._size = size
        self._is_kept = np.zeros(len(inventory.table), np.bool_)
        self._is_moved = np.zeros(len(inventory.table), np.bool_)
        self._is_elsewhere = np.zeros(len(inventory.table), np.bool_)
        self._explained: list[tuple[int, int]] = []
        self._entries: list[Entry] = []
        self._table: DraftTable | None = None

    def keep(self, numbers: Column, *, is_moved: bool = False) -> None:
        """Take in batches of the inventory; ``is_moved``: they are out of order."""
        self._is_kept[numbers] = True
        self._is_moved[numbers] |= is_moved
        self._table = None

    def add(self, entries: Iterable[Entry]) -> None:
        """Take in others."""
        self._entries += entries
        self._table = None

    def pass_over(self, numbers: Column) -> None:
        """Batches of the inventory that are copies of others: nothing is lost with them."""
        self._is_elsewhere[numbers] = True

    def explain(self, first: int, last: int) -> None:
        """These offsets never had a batch, or the log cleaner took it: a replica has nothing there."""
        self._explained.append((first, last))

    def drop(self, owners: Iterable[int]) -> None:
        """Take out what ``owner`` names."""
        gone = set(owners)
        self._is_kept[[owner for owner in gone if owner >= 0]] = False
        self._entries = [entry for number, entry in enumerate(self._entries) if -1 - number not in gone]
        self._table = None

    def replace(self, entries: Mapping[int, Entry]) -> None:
        """Put each entry in the place of what its key, an ``owner``, names."""
        self.drop(entries)
        self.add(entries.values())

    @property
    def entries(self) -> list[Entry]:
        """Those that were added; entry n is owner ``-1 - n``."""
        return self._entries

    @property
    def table(self) -> DraftTable:
        """All batches as columns."""
        if self._table is None:
            self._table = self._make_table()
        return self._table

    def _make_table(self) -> DraftTable:
        owner = np.flatnonzero(self._is_kept)
        rows = self._inventory.table.rows if owner.size == self._is_kept.size else self._inventory.table.rows[owner]
        is_ours = np.ones(owner.size, np.bool_)
        if self._entries:
            others = np.array([tuple(entry.row) for entry in self._entries], row_dtype())
            rows = np.concatenate((rows, others))
            owner = np.concatenate((owner, -1 - np.arange(len(self._entries))))
            is_ours = np.concatenate((is_ours, [entry.path == self._path for entry in self._entries]))
        if self._entries or self._is_moved.any():
            order = np.argsort(BatchArrays(rows).first, kind="stable")
            rows, owner, is_ours = rows[order], owner[order], is_ours[order]
        return DraftTable(rows, owner, is_ours)

    def losses(self, base_offset: int, end_offset: int | None, *, with_gaps: bool = False) -> tuple[Lost, ...]:
        """Offsets without batches where bytes of the log are missing from the result too.

        Args:
            base_offset: where the log begins.
            end_offset: after the last offset it had, None if that is not known.
            with_gaps: also where no bytes are missing, if such gaps are so few that the log was hardly compacted.
        """
        table = self.table
        expected = np.concatenate(([base_offset], table.last[:-1] + 1))[: len(table)]
        # Nothing was ever between two batches that lie side by side in the log.
        is_ours = np.concatenate(([True], table.is_ours))
        is_whole = is_ours[1:] & is_ours[:-1]
        stop = table.position
        start = np.concatenate(([0], table.end))[:-1]
        is_whole &= (start <= stop) & (self._found_elsewhere(stop) - self._found_elsewhere(start) == stop - start)
        is_missing = expected < table.first
        for first, last in self._explained:
            is_missing &= (expected < first) | (table.first > last + 1)
        if with_gaps and np.count_nonzero(is_missing & is_whole) < MANY_GAPS and not table.was_cleaned:
            is_whole[:] = False
        is_lost = is_missing & ~is_whole
        bounds = zip(expected[is_lost].tolist(), table.first[is_lost].tolist(), strict=True)
        end = int(table.last[-1]) + 1 if len(table) else base_offset
        is_told = any(first <= end and end_offset <= last + 1 for first, last in self._explained if end_offset)
        after = [(end, end_offset)] if end_offset is not None and end_offset > end and not is_told else []
        return tuple(Lost(first, stop - 1, is_held=False) for first, stop in chain(bounds, after))

    def bytes_after(self) -> int:
        """How many bytes of the log lie after the last batch of the result, copies not counted."""
        ours = self.table.part(self.table.is_ours)
        end = int(ours.end.max(initial=0))
        start, stop = self._found_elsewhere(np.array([end, self._size])).tolist()
        return int(self._size - end - (stop - start))

    def _found_elsewhere(self, position: Column) -> Column:
        """How many bytes before each position belong to batches that the result holds elsewhere."""
        table = self._inventory.table
        numbers = np.flatnonzero(self._is_elsewhere | self._is_moved)
        total = np.concatenate(([0], np.cumsum(table.end[numbers] - table.position[numbers])))
        found: Column = total[np.searchsorted(table.position[numbers], position)]
        return found

    def pieces(self, rolls: Sequence[int] = ()) -> Iterator[LogPiece]:
        """The batches in offset order, with as few pieces as there can be; one begins at each of the ``rolls``."""
        table = self.table
        if not len(table):
            return
        source, sources = self._sources(table)
        goes_on = (source[1:] == source[:-1]) & (source[1:] < len(sources)) & (table.end[:-1] == table.position[1:])
        is_start = np.concatenate(([True], ~goes_on))
        is_start[np.minimum(np.searchsorted(table.first, np.array(rolls, np.int64)), len(table) - 1)] = True
        starts = np.flatnonzero(is_start)
        stops = np.append(starts[1:], len(table))
        records = np.add.reduceat(table.records, starts)
        for start, stop, count in zip(starts.tolist(), stops.tolist(), records.tolist(), strict=True):
            owner = int(table.owner[start])
            entry = self._entries[-1 - owner] if owner < 0 else None
            origin, path = (entry.origin, entry.path) if entry else sources[source[start]]
            position = int(table.position[start])
            yield LogPiece(
                origin,
                path,
                position,
                int(table.end[stop - 1]) - position,
                tuple((change.at, change.data) for change in entry.changes) if entry else (),
                entry.data if entry else b"",
                int(table.first[start]),
                int(table.last[stop - 1]),
                stop - start,
                count,
            )

    def _sources(self, table: DraftTable) -> tuple[Column, list[tuple[PieceOrigin, str | None]]]:
        """Where each batch comes from, as a number in the list; a larger number for a batch that is its own piece."""
        sources: list[tuple[PieceOrigin, str | None]] = [
            (PieceOrigin.KEPT, self._path),
            (PieceOrigin.MOVED, self._path),
        ]
        source = np.zeros(len(table), np.int64)
        source[table.owner >= 0] = self._is_moved[table.owner[table.owner >= 0]]
        own = np.iinfo(np.int64).max
        for place in np.flatnonzero(table.owner < 0).tolist():
            entry = self._entries[-1 - int(table.owner[place])]
            key = entry.origin, entry.path
            if entry.changes or entry.path is None:
                source[place] = own
                continue
            if key not in sources:
                sources.append(key)
            source[place] = sources.index(key)
        return source, sources

    def dropped(self, reasons: Mapping[int, str]) -> Iterator[Dropped]:
        """What of the log is not in the result, in file order.

        ``reasons``: why, by the number in the inventory, of good batches.
        """
        ours = self.table.part(self.table.is_ours)
        order = np.argsort(ours.position, kind="stable")
        # Entries whose CRCs are right may overlap.
        starts = np.concatenate(([0], np.maximum.accumulate(ours.end[order])))
        stops = np.append(ours.position[order], self._size)
        for gap in np.flatnonzero(starts < stops).tolist():
            yield from _merged(self._extents(int(starts[gap]), int(stops[gap]), reasons))

    def _extents(self, start: int, stop: int, reasons: Mapping[int, str]) -> Iterator[Dropped]:
        """What lies from ``start`` to ``stop``, cut there, without overlaps."""
        inventory, table = self._inventory, self._inventory.table
        first = int(np.searchsorted(table.end, start, side="right"))
        found: list[_Extent] = [
            (
                int(table.position[number]),
                int(table.end[number]),
                reasons.get(number) or inventory.faults.get(number) or _WRONG_CRC,
                number if table.rows["is_valid"][number] else None,
            )
            for number in range(first, int(np.searchsorted(table.position, stop)))
        ]
        found += [(gap.position, gap.end, gap.reason.value.title, None) for gap in inventory.gaps_in(start, stop)]
        for begin, end, reason, number in sorted(found, key=lambda extent: extent[:2]):
            position, length = max(begin, start), min(end, stop) - max(begin, start)
            if length <= 0:
                continue
            start = position + length
            if number is None:
                yield Dropped(position, length, None, None, 0, 0, reason)
            else:
                offsets = int(table.first[number]), int(table.last[number])
                yield Dropped(position, length, *offsets, 1, int(table.records[number]), reason)


def _merged(extents: Iterator[Dropped]) -> Iterator[Dropped]:
    """Join extents side by side that have the same reason."""
    for _, group in groupby(extents, lambda one: (one.reason, one.batches > 0)):
        parts = list(group)
        first, last = parts[0], parts[-1]
        if first is last:
            # Its offsets are those of its header, in whatever order they are there.
            yield first
            continue
        offsets = [offset for one in parts for offset in (one.first_offset, one.last_offset) if offset is not None]
        yield replace(
            first,
            length=last.position + last.length - first.position,
            first_offset=min(offsets, default=None),
            last_offset=max(offsets, default=None),
            batches=sum(one.batches for one in parts),
            records=sum(one.records for one in parts),
        )
