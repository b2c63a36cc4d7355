"""Which records of some entries are in the requested ranges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdump.convert.conversion import Conversion
from kdump.fast.entries import LargeEntry
from kdump.fast.headers import native_column
from kdump.fast.recordtable import RecordGroups
from kdump.reading.masks import within


@dataclass(frozen=True, slots=True)
class Selected:
    """``rows``: a mask of shape (rows,), None for all. The other arrays have the shape (groups,)."""

    rows: NDArray[np.bool_] | None
    kept: NDArray[np.int64]
    """Number of selected records in each group."""
    is_whole: NDArray[np.bool_]
    """Whether the whole group is in the ranges, including offsets that have no record any more."""

    def with_whole(self, groups: RecordGroups, is_added: NDArray[np.bool_]) -> Selected:
        """These groups, and all of some others; ``is_added``: shape (groups,)."""
        if not is_added.any():
            return self
        rows = None if self.rows is None else self.rows | np.repeat(is_added, groups.rows)
        return Selected(rows, np.where(is_added, groups.rows, self.kept), self.is_whole | is_added)


def select(groups: RecordGroups, conversion: Conversion) -> Selected:
    """Apply the ranges. As in ``dump``, magic 0 has no timestamps and is in no range of times."""
    offsets, times, table = conversion.offsets, conversion.times, groups.table
    if not conversion.selects:
        return Selected(None, groups.rows, np.ones(groups.count, np.bool_))
    rows = within(offsets, table.offset)
    if not times.is_open:
        rows &= within(times, table.timestamp) & np.repeat(groups.magic > 0, groups.rows)
    kept = np.diff(np.append(0, np.cumsum(rows, dtype=np.int64))[groups.bounds])
    return _selected(groups, conversion, rows, kept)


def select_large(entry: LargeEntry, conversion: Conversion) -> Selected:
    """Apply the ranges to an entry whose records come in pieces; its mask is not kept."""
    if not conversion.selects:
        return select(entry.groups, conversion)
    kept = sum(int(select(piece, conversion).kept.sum()) for piece in entry.pieces())
    return _selected(entry.groups, conversion, None, np.array([kept]))


def selected_pieces(entry: LargeEntry, conversion: Conversion) -> Iterator[RecordGroups]:
    """The selected records of an entry in order, in groups of one or more."""
    for piece in entry.pieces():
        rows = select(piece, conversion).rows
        part = piece if rows is None else piece.select_rows(rows)
        if part.table.rows:
            yield part


def _selected(
    groups: RecordGroups, conversion: Conversion, rows: NDArray[np.bool_] | None, kept: NDArray[np.int64]
) -> Selected:
    offsets, times = conversion.offsets, conversion.times
    is_whole = (kept == groups.rows) & ((kept > 0) | times.is_open)
    if groups.headers is not None:
        base_offset = native_column(groups.headers, "base_offset")
        last_offset = base_offset + native_column(groups.headers, "last_offset_delta")
        is_whole &= within(offsets, base_offset) & within(offsets, last_offset)
    return Selected(rows, kept, is_whole)


def selected_groups(groups: RecordGroups, selected: Selected, numbers: NDArray[np.intp]) -> RecordGroups:
    """The selected records of some groups: their ``numbers``, rising, one or more."""
    first, last = int(numbers[0]), int(numbers[-1]) + 1
    part = groups.between(first, last)
    if selected.rows is not None:
        part = part.select_rows(selected.rows[int(groups.bounds[first]) : int(groups.bounds[last])])
    is_wanted = np.zeros(part.count, np.bool_)
    is_wanted[numbers - first] = True
    return part.select(is_wanted)
