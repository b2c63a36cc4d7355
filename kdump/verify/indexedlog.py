"""The batches of a log as columns, arranged for questions about its index files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.verify.table import UNKNOWN_OFFSET

Column = NDArray[np.int64]


class LogColumns(NamedTuple):
    """The valid batches of one log in file order; shapes (batches,).

    ``position`` and ``end``: where each begins and ends in the file, rising. ``base_offset`` of a legacy wrapper whose
    records were not read is UNKNOWN_OFFSET. ``max_timestamp``: ms, -1 for none.
    """

    position: Column
    end: Column
    base_offset: Column
    last_offset: Column
    max_timestamp: Column


class IndexedLog:
    """A log as its indexes see it.

    Args:
        base_offset: of the file name.
        size: bytes of the log.
        batches: its valid batches.
        gaps: (position, end) of all that is no valid batch, rising. Index entries may lead there.
        is_legacy: all batches are of magic 0 or 1.
        next_base: base offset of the next segment, None for the last one or if it is not known.
    """

    def __init__(
        self,
        base_offset: int,
        size: int,
        batches: LogColumns,
        gaps: Sequence[tuple[int, int]] = (),
        *,
        is_legacy: bool = False,
        next_base: int | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.size = size
        self.is_legacy = is_legacy
        self.next_base = next_base
        self.has_gaps = bool(gaps)
        self._gaps = gaps
        self._base_offset = batches.base_offset
        self.position, self.end = batches.position, batches.end
        self.last, self.max_timestamp = batches.last_offset, batches.max_timestamp

    @classmethod
    def empty(cls, base_offset: int) -> IndexedLog:
        """A log without batches."""
        return cls(base_offset, 0, LogColumns(*[np.zeros(0, np.int64)] * 5))

    @cached_property
    def first(self) -> Column:
        """The first offset of each batch; the last one where no other is known."""
        return np.where(self._base_offset == UNKNOWN_OFFSET, self.last, self._base_offset)

    @cached_property
    def before(self) -> Column:
        """The last offset of the batch before each."""
        first = max(self.base_offset - 1, UNKNOWN_OFFSET)
        return np.concatenate((np.array([first], np.int64), self.last[:-1]))[: self.last.size]

    @cached_property
    def _by_last(self) -> NDArray[np.intp]:
        return np.argsort(self.last, kind="stable")

    @property
    def end_offset(self) -> int:
        """The largest offset, base - 1 for a log without batches."""
        return int(self.last.max()) if self.last.size else self.base_offset - 1

    @property
    def ends_in_damage(self) -> bool:
        """Whether bytes follow the last batch."""
        return self.size > int(self.end.max(initial=0))

    def batch_at(self, position: Column) -> tuple[Column, NDArray[np.bool_]]:
        """The number of the batch that begins at each position, and whether one does (else the number is void)."""
        if not self.position.size:
            return np.zeros(position.size, np.int64), np.zeros(position.size, np.bool_)
        number = np.minimum(np.searchsorted(self.position, position), self.position.size - 1)
        return number, self.position[number] == position

    def batch_of(self, offset: Column) -> tuple[Column, NDArray[np.bool_]]:
        """The number of the batch that contains each offset, and whether one does (else that of one nearby)."""
        if not self.last.size:
            return np.zeros(offset.size, np.int64), np.zeros(offset.size, np.bool_)
        rank = np.searchsorted(self.last, offset, sorter=self._by_last)
        number = self._by_last[np.minimum(rank, self.last.size - 1)]
        return number, self.holds(number, offset)

    def holds(self, number: Column, offset: Column) -> NDArray[np.bool_]:
        """Whether each offset lies in the batch of that number. A wrapper begins after the batch before it."""
        first = np.where(self.first[number] == self.last[number], self.before[number] + 1, self.first[number])
        return np.asarray((np.minimum(first, self.first[number]) <= offset) & (offset <= self.last[number]))

    def in_gap(self, position: Column) -> NDArray[np.bool_]:
        """Whether each position lies in a gap."""
        if not self.has_gaps:
            return np.zeros(position.size, np.bool_)
        start, end = np.array(self._gaps, np.int64).T
        number = np.searchsorted(start, position, side="right") - 1
        return np.asarray((number >= 0) & (position < end[number]))
