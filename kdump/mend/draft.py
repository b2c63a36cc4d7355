"""A mended log in the making: batches of the log that stay as they are, by columns, and the few others, one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.checks.table import row_dtype
from kdump.mend.entry import Entry
from kdump.mend.pieces import Dropped, Lost, Origin, Piece
from kdump.mend.restore import first_offsets
from kdump.mend.survey import Survey

Column = NDArray[np.int64]

_WRONG_CRC = "the CRC is wrong"
_MOST_EXTENTS = 10_000
"""Dropped extents that are told apart; more of them are one up to the next that is kept."""


class Table(NamedTuple):
    """All batches of a draft in offset order.

    ``owner``, shape (batches,): the number in the survey of a batch that stays as it is; ``-1 - n`` for entry n.
    """

    rows: NDArray[np.void]
    owner: Column


@dataclass(slots=True)
class Draft:
    """``kept``: numbers in the survey, in offset order; ``entries``: the others, in any order."""

    survey: Survey
    path: str
    size: int
    kept: Column
    entries: list[Entry]

    def table(self) -> Table:
        """Bulk and entries together."""
        rows, owner = self.survey.rows[self.kept], self.kept
        if self.entries:
            others = np.array([tuple(entry.row) for entry in self.entries], row_dtype())
            rows = np.concatenate((rows, others))
            owner = np.concatenate((owner, -1 - np.arange(len(self.entries))))
            order = np.argsort(first_offsets(rows), kind="stable")
            rows, owner = rows[order], owner[order]
        return Table(rows, owner)

    def drop(self, owners: Iterable[int]) -> None:
        """Take out what ``owner`` names."""
        gone = set(owners)
        self.kept = self.kept[~np.isin(self.kept, np.array([one for one in gone if one >= 0], np.int64))]
        self.entries = [entry for number, entry in enumerate(self.entries) if -1 - number not in gone]

    def replace(self, entries: dict[int, Entry]) -> None:
        """Put each entry in the place of what its key, an ``owner``, names."""
        self.drop(entries)
        self.entries += entries.values()

    def lost(self, table: Table, base_offset: int, end_offset: int | None) -> list[Lost]:
        """Offsets without batches where bytes of the log are missing from the result too.

        Args:
            table: of this draft.
            base_offset: where the log begins.
            end_offset: behind the last offset it had, None where that is not known.
        """
        rows = table.rows
        if not rows.size:
            whole = end_offset is not None and end_offset > base_offset
            return [Lost(base_offset, (end_offset or 0) - 1, is_held=False)] if whole else []
        first, last = first_offsets(rows), rows["last_offset"]
        at, end = self._extents(table)
        # Between two batches that lie side by side in the log nothing was.
        is_side_by_side = np.concatenate(([at[0] == 0], (end[:-1] == at[1:]) & (end[:-1] >= 0)))
        begin = np.concatenate(([base_offset], last[:-1] + 1))
        found = [
            Lost(int(begin[number]), int(first[number]) - 1, is_held=False)
            for number in np.flatnonzero((begin < first) & ~is_side_by_side)
        ]
        if end_offset is not None and end_offset > last[-1] + 1:
            found.append(Lost(int(last[-1]) + 1, end_offset - 1, is_held=False))
        return found

    def _extents(self, table: Table) -> tuple[Column, Column]:
        """Where each batch begins and ends in the log; -1 for what is not from it."""
        at, end = table.rows["position"].copy(), table.rows["position"] + table.rows["size"]
        for number in np.flatnonzero(table.owner < 0).tolist():
            entry = self.entries[-1 - int(table.owner[number])]
            if entry.path != self.path:
                at[number] = end[number] = -1
        return at, end

    def pieces(self, table: Table) -> Iterator[Piece]:
        """The batches in offset order, with as few pieces as there can be."""
        rows, owner = table
        if not rows.size:
            return
        first = first_offsets(rows)
        at, end = rows["position"], rows["position"] + rows["size"]
        is_plain = owner >= 0
        starts = np.flatnonzero(np.concatenate(([True], ~(is_plain[1:] & is_plain[:-1] & (end[:-1] == at[1:])))))
        ends = np.append(starts[1:], rows.size)
        records = np.add.reduceat(rows["record_count"].astype(np.int64), starts)
        for start, stop, count in zip(starts.tolist(), ends.tolist(), records.tolist(), strict=True):
            entry = self.entries[-1 - int(owner[start])] if owner[start] < 0 else None
            yield Piece(
                Origin.KEPT if entry is None else entry.origin,
                self.path if entry is None else entry.path,
                int(at[start]),
                int((end[start:stop] - at[start:stop]).sum()),
                () if entry is None else tuple((change.at, change.data) for change in entry.changes),
                b"" if entry is None else entry.data,
                int(first[start]),
                int(rows["last_offset"][stop - 1]),
                stop - start,
                int(count),
            )

    def dropped(self, table: Table, reasons: dict[int, str]) -> Iterator[Dropped]:
        """What of the log is not in the result, in file order.

        ``reasons``: why, by the number in the survey, of good batches.
        """
        at, end = self._extents(table)
        order = np.argsort(at, kind="stable")
        at, end = at[order], np.maximum.accumulate(end[order])
        stops = np.append(at, self.size)
        starts = np.concatenate(([0], np.maximum(end, 0)))
        for hole in np.flatnonzero(starts < stops).tolist():
            yield from self._hole(int(starts[hole]), int(stops[hole]), reasons)

    def _hole(self, start: int, stop: int, reasons: dict[int, str]) -> Iterator[Dropped]:
        survey = self.survey
        rows = survey.rows
        ends = rows["position"] + rows["size"]
        first, last = np.searchsorted(ends, start, side="right"), np.searchsorted(rows["position"], stop)
        items: list[tuple[int, int, str, int | None]] = [
            (
                int(rows["position"][number]),
                int(ends[number]),
                reasons.get(number) or survey.faults.get(number) or _WRONG_CRC,
                number if rows["is_valid"][number] else None,
            )
            for number in range(int(first), int(last))
        ]
        items += [
            (gap.position, gap.end, gap.reason.value.title, None)
            for gap in survey.gaps
            if gap.position < stop and gap.end > start
        ]
        return _merged(rows, sorted(items, key=lambda item: item[:2]), start, stop)


def _merged(
    rows: NDArray[np.void], items: list[tuple[int, int, str, int | None]], start: int, stop: int
) -> Iterator[Dropped]:
    """The items between ``start`` and ``stop``, clipped; those side by side with one reason are one."""
    current: Dropped | None = None
    for begin, end, reason, number in items:
        begin, end = max(begin, start), min(end, stop)  # noqa: PLW2901
        if begin >= end:
            continue
        found = Dropped(begin, end - begin, None, None, 0, 0, reason)
        if number is not None:
            row = rows[number]
            base, last = int(first_offsets(rows[number : number + 1])[0]), int(row["last_offset"])
            found = Dropped(begin, end - begin, base, last, 1, max(0, int(row["record_count"])), reason)
        start = end
        if current is not None and current.reason == reason and (current.batches > 0) == (found.batches > 0):
            current = Dropped(
                current.position,
                current.length + found.length,
                _least(current.first_offset, found.first_offset),
                _most(current.last_offset, found.last_offset),
                current.batches + found.batches,
                current.records + found.records,
                reason,
            )
            continue
        if current is not None:
            yield current
        current = found
    if current is not None:
        yield current


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _most(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)
