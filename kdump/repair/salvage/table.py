"""The columns of batches that salvage uses often, contiguous."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from kdump.format.index import OffsetEntry, TimeEntry
from kdump.verify.table import UNKNOWN_OFFSET, cleaned

Column = NDArray[np.int64]


@dataclass(frozen=True)
class BatchArrays:
    """Batches as columns, shape (batches,).

    ``rows`` is of ``verify.table.row_dtype``.
    """

    rows: NDArray[np.void]

    @cached_property
    def first(self) -> Column:
        """The first offset, as far as it is known: of a legacy wrapper that was not looked into it is the last."""
        # A v2 batch may have the same number for a damaged base offset.
        is_unknown = (self.rows["base_offset"] == UNKNOWN_OFFSET) & (self.rows["magic"] < 2)
        first: Column = np.where(is_unknown, self.rows["last_offset"], self.rows["base_offset"])
        return first

    @cached_property
    def last(self) -> Column:
        """The last offset."""
        return np.ascontiguousarray(self.rows["last_offset"])

    @cached_property
    def position(self) -> Column:
        """Where each begins in its file."""
        return np.ascontiguousarray(self.rows["position"])

    @cached_property
    def end(self) -> Column:
        """Where each ends in its file."""
        end: Column = self.rows["position"] + self.rows["size"]
        return end

    @cached_property
    def records(self) -> Column:
        """How many records each declares, 0 or more."""
        return np.maximum(self.rows["record_count"].astype(np.int64), 0)

    def copies(self, preferred: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which batches equal another one (offsets, size, CRC) that is ``preferred``, or else that comes before."""
        count = len(self)
        order = np.lexsort((np.arange(count), ~preferred, self.rows["size"], self.last, self.first, self.rows["crc"]))
        rows = self.rows[["crc", "base_offset", "last_offset", "size"]][order]
        copies = np.zeros(count, np.bool_)
        copies[order[1:]] = (rows[1:] == rows[:-1]) & ~preferred[order[1:]]
        return copies

    def duplicates(self) -> NDArray[np.bool_]:
        """Which batches equal another one."""
        copies = self.copies(np.zeros(len(self), np.bool_))
        return copies | self.copies(copies) if copies.any() else copies

    def others_at(self, numbers: Column, start: Column) -> Column:
        """How many other batches would overlap each of ``numbers`` if it began at ``start``."""
        own_first, own_last = self.first[numbers], self.last[numbers]
        end = start + own_last - own_first
        # The batches that begin up to the end, without those that end before the start.
        claims = np.searchsorted(self._by_first, end, side="right") - np.searchsorted(self._by_last, start)
        return claims - ((own_first <= end) & (own_last >= start))

    def is_gapless(self, least: int = 0) -> bool:
        """Whether no offsets are missing between neighbouring batches, and no records in them: nothing was compacted.

        ``least``: of how many pairs this must be seen.
        """
        is_side_by_side = self.position[1:] == self.end[:-1]
        goes_on = (self.first[1:] == self.last[:-1] + 1)[is_side_by_side]
        return goes_on.size >= least and bool(goes_on.all()) and not self.was_cleaned

    @cached_property
    def was_cleaned(self) -> bool:
        """Whether the log cleaner compacted one of them."""
        return bool(cleaned(self.rows, wrappers=True).any())

    @cached_property
    def _by_first(self) -> Column:
        return np.sort(self.first)

    @cached_property
    def _by_last(self) -> Column:
        return np.sort(self.last)

    def __len__(self) -> int:
        return int(self.rows.size)

    def moved(self, places: Mapping[int, int]) -> BatchArrays:
        """The batches with other first offsets: number to offset."""
        if not places:
            return self
        numbers = np.array(list(places), np.int64)
        shift = np.array(list(places.values()), np.int64) - self.first[numbers]
        rows = self.rows.copy()
        is_known = self.first[numbers] == rows["base_offset"][numbers]
        rows["base_offset"][numbers] += np.where(is_known, shift, 0)
        rows["last_offset"][numbers] += shift
        return BatchArrays(rows)

    def part(self, numbers: NDArray[np.int64] | NDArray[np.bool_] | slice) -> BatchArrays:
        """Some of the batches; numbers rise. If all are selected, nothing is copied."""
        if isinstance(numbers, np.ndarray):
            is_all = numbers.all() if numbers.dtype == np.bool_ else numbers.size == len(self)
            if is_all:
                return self
        return BatchArrays(self.rows[numbers])


def index_columns(entries: Sequence[OffsetEntry] | Sequence[TimeEntry]) -> tuple[Column, Column]:
    """Both fields of the entries of an index file, each of shape (entries,)."""
    fields = np.fromiter(chain.from_iterable(entries), np.int64, 2 * len(entries))
    return fields[::2], fields[1::2]
