"""The batch table of a whole segment. The files beside the log are checked against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdump.log.gaps import Gap
from kdump.log.resync import ResyncWalk
from kdump.log.source import Source
from kdump.verify.indexedlog import IndexedLog
from kdump.verify.segment import Rows
from kdump.verify.siblings import EpochRange
from kdump.verify.table import cleaned, first_offset, read_rows, row_at


class BatchTable:
    """The rows of a segment, with the columns that the checks of its siblings need."""

    def __init__(self) -> None:
        self._parts: list[Rows] = []
        self.count = 0
        self.first_offset: int | None = None
        self.last_offset: int | None = None

    def add(self, rows: Rows) -> None:
        """Add the next rows in file order."""
        if not len(rows):
            return
        self._parts.append(rows)
        self.count += len(rows)
        if self.first_offset is None:
            self.first_offset = first_offset(row_at(rows, 0))
        self.last_offset = int(rows["last_offset"][-1])

    def log_view(
        self, base_offset: int, size: int, gaps: list[tuple[int, int]], next_base: int | None = None
    ) -> IndexedLog:
        """The valid batches as the indexes see them; for the arguments see IndexedLog."""
        parts = _chosen(self._parts, lambda rows: rows["is_valid"])
        is_legacy = all(bool((rows["magic"] < 2).all()) for rows in parts)
        return IndexedLog(
            base_offset, size, _TableColumns(parts), sorted(gaps), is_legacy=is_legacy, next_base=next_base
        )

    def was_cleaned(self, base_offset: int) -> bool:
        """Whether the log cleaner compacted the segment: some batch shows it, or a gap before the first batch."""
        return (self.first_offset or 0) > base_offset or any(bool(cleaned(rows).any()) for rows in self._parts)

    def epochs(self) -> Iterator[EpochRange]:
        """Runs of batches of magic 2 with the same leader epoch."""
        parts = _chosen(self._parts, lambda rows: rows["is_valid"] & (rows["leader_epoch"] >= 0))
        epoch, base_offset, last_offset = (
            _column(parts, name) for name in ("leader_epoch", "base_offset", "last_offset")
        )
        if not epoch.size:
            return
        starts = [0, *(np.flatnonzero(epoch[1:] != epoch[:-1]) + 1).tolist()]
        ends = [start - 1 for start in (*starts[1:], epoch.size)]
        for start, end in zip(starts, ends, strict=True):
            yield EpochRange(int(epoch[start]), int(base_offset[start]), int(last_offset[end]))


def read_table(source: Source) -> BatchTable:
    """Read the rows of a whole log. Raises KdumpError if it cannot be read."""
    rows = BatchTable()
    for item in ResyncWalk(source).items():
        if not isinstance(item, Gap):
            rows.add(read_rows(item, is_after_gap=False))
    return rows


def _chosen(parts: Sequence[Rows], choose: Callable[[Rows], NDArray[np.bool_]]) -> list[Rows]:
    """The rows that ``choose`` marks, in the same parts."""
    chosen = ((rows, choose(rows)) for rows in parts)
    return [rows if mask.all() else rows[mask] for rows, mask in chosen]


def _column(parts: Sequence[Rows], name: str) -> NDArray[np.int64]:
    """A column of all rows. There may be a million of them, so they are not joined with all their columns."""
    return np.concatenate([np.empty(0, np.int64), *(rows[name] for rows in parts)])


@dataclass(frozen=True, slots=True)
class _TableColumns:
    """The columns of ``verify.indexedlog.IndexedBatches``."""

    parts: Sequence[Rows]

    @property
    def position(self) -> NDArray[np.int64]:
        """See IndexedBatches."""
        return _column(self.parts, "position")

    @property
    def end(self) -> NDArray[np.int64]:
        """See IndexedBatches."""
        return self.position + _column(self.parts, "size")

    @property
    def base_offset(self) -> NDArray[np.int64]:
        """See IndexedBatches."""
        return _column(self.parts, "base_offset")

    @property
    def last_offset(self) -> NDArray[np.int64]:
        """See IndexedBatches."""
        return _column(self.parts, "last_offset")

    @property
    def max_timestamp(self) -> NDArray[np.int64]:
        """See IndexedBatches."""
        return _column(self.parts, "max_timestamp")
