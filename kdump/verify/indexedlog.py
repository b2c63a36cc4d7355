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


class IndexedBatches(NamedTuple):
    """Valid batches of one log in file order; every column is int64 of shape (batches,).

    The last four columns tell of all batches up to each, also of those that are left out.
    """

    position: Column
    """Where each batch begins in the file."""
    end: Column
    """Where each batch ends in the file."""
    first: Column
    """The first offset; the last one where no other is known."""
    last: Column
    """The last offset."""
    max_timestamp: Column
    """The largest timestamp (ms), -1 for none."""
    position_before: Column
    """Where the batch before each begins; void for the first one of the log."""
    last_before: Column
    """The last offset of the batch before each; UNKNOWN_OFFSET for the first one of the log."""
    largest: Column
    """The largest timestamp (ms) up to each batch."""
    total: Column
    """Bytes of all batches up to each."""

    @classmethod
    def of(cls, columns: LogColumns, before: IndexedBatches | None = None) -> IndexedBatches:
        """All batches that follow ``before``, of which the last is there; None: from the start of the log on."""
        position, end, base_offset, last, times = map(np.ascontiguousarray, columns)
        largest, total = np.maximum.accumulate(times), np.cumsum(end - position)
        position_before, last_before = np.empty_like(position), np.empty_like(last)
        position_before[1:], last_before[1:] = position[:-1], last[:-1]
        if before is not None:
            position_before[:1], last_before[:1] = before.position[-1], before.last[-1]
            largest, total = np.maximum(largest, before.largest[-1]), total + before.total[-1]
        else:
            position_before[:1], last_before[:1] = 0, UNKNOWN_OFFSET
        first = np.where(base_offset == UNKNOWN_OFFSET, last, base_offset)
        return cls(position, end, first, last, times, position_before, last_before, largest, total)

    @classmethod
    def joined(cls, parts: Sequence[IndexedBatches]) -> IndexedBatches:
        """The batches of some parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(*map(np.concatenate, zip(*parts, strict=True))) if parts else cls(*[np.empty(0, np.int64)] * 9)

    def named(self, places: NamedPlaces) -> IndexedBatches:
        """Of neighbouring batches those that an answer about one of the places may need, the first and the last."""
        is_named = np.zeros(self.position.size, np.bool_)
        by_last = np.argsort(self.last, kind="stable")
        rising = self.last[by_last]
        # The smallest and the largest offset stand for all that are not between them.
        is_named[[0, -1]] = is_named[by_last[[0, -1]]] = True
        positions = _between(places.positions, self.position[0], self.end[-1])
        is_named[np.searchsorted(self.position, positions, side="right") - 1] = True
        is_named[by_last[np.searchsorted(rising, _between(places.offsets, rising[0], rising[-1]))]] = True
        return type(self)(*(column[is_named] for column in self))


class NamedPlaces(NamedTuple):
    """Positions in a log and offsets that its index files name, rising."""

    positions: Column
    offsets: Column


def _between(rising: Column, first: np.int64, last: np.int64) -> Column:
    """The numbers from ``first`` to ``last``."""
    return rising[np.searchsorted(rising, first) : np.searchsorted(rising, last, side="right")]


class IndexedLog:
    """A log as its indexes see it.

    Args:
        base_offset: of the file name.
        size: bytes of the log.
        batches: its valid batches, all of them or those that the index files name (``IndexedBatches.named``).
        gaps: (position, end) of all that is no valid batch, rising. Index entries may lead there.
        is_legacy: all batches are of magic 0 or 1.
        next_base: base offset of the next segment, None for the last one or if it is not known.
    """

    def __init__(
        self,
        base_offset: int,
        size: int,
        batches: IndexedBatches,
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
        self.gaps = gaps
        self.position, self.end, self.first, self.last, self.max_timestamp = batches[:5]
        self.position_before, self.last_before, self.largest, self.total = batches[5:]
        self.last_before[:1] = max(base_offset - 1, UNKNOWN_OFFSET)

    @classmethod
    def empty(cls, base_offset: int) -> IndexedLog:
        """A log without batches."""
        return cls(base_offset, 0, IndexedBatches.joined(()))

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
        first = np.where(self.first[number] == self.last[number], self.last_before[number] + 1, self.first[number])
        return np.asarray((np.minimum(first, self.first[number]) <= offset) & (offset <= self.last[number]))

    def in_gap(self, position: Column) -> NDArray[np.bool_]:
        """Whether each position lies in a gap."""
        if not self.has_gaps:
            return np.zeros(position.size, np.bool_)
        start, end = np.array(self.gaps, np.int64).T
        number = np.searchsorted(start, position, side="right") - 1
        return np.asarray((number >= 0) & (position < end[number]))
