"""Producers with their epochs, and the last sequence of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import CONTROL, MAX_INT32
from kdump.stats.grouping import Assigned
from kdump.stats.tally import LEAST
from kdump.verify.table import NO_PRODUCER

NO_SEQUENCE: Final = -1
_PENDING_ROWS: Final = 1 << 15
_GROUP, _PRODUCER, _EPOCH, _BATCHES, _RECORDS, _SIZE, _OFFSET, _TIMESTAMP, _SEQUENCED, _SEQUENCE = range(10)
"""The columns of the table in ``Producers``; the last four: see ``ProducerStats`` and ``_summed``."""


@dataclass(frozen=True, slots=True)
class ProducerStats:
    """One producer in one group."""

    producer_id: int
    epochs: tuple[int, ...]
    """Rising."""
    batches: int
    records: int
    size: int
    """Bytes of its batches, markers included."""
    last_offset: int
    last_sequence: int
    """Last sequence of its last batch with a sequence."""
    last_timestamp: int
    """Milliseconds."""


class GroupProducers(Sequence[ProducerStats]):
    """The producers of a group, those with the most bytes first.

    They are made when they are asked for: as objects they would take ten times as much memory.

    Args:
        rows: of the group in ``Producers``.
    """

    def __init__(self, rows: NDArray[np.int64]) -> None:
        self._rows = rows
        first = _changes(rows, (_PRODUCER,))
        size = np.add.reduceat(rows[:, _SIZE], first) if first.size else first
        order = np.argsort(-size, kind="stable")
        self.size = size[order]
        """Bytes of each."""
        self._first, self._last = first[order], np.append(first[1:], len(rows))[order]

    def __len__(self) -> int:
        return self.size.size

    @overload
    def __getitem__(self, number: int) -> ProducerStats: ...
    @overload
    def __getitem__(self, number: slice) -> list[ProducerStats]: ...
    def __getitem__(self, number: int | slice) -> ProducerStats | list[ProducerStats]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        epochs = self._rows[self._first[number] : self._last[number]]
        sequence = epochs[np.lexsort((epochs[:, _SEQUENCE], epochs[:, _SEQUENCED]))[-1], _SEQUENCE]
        batches, records, size = epochs[:, _BATCHES : _SIZE + 1].sum(axis=0).tolist()
        return ProducerStats(
            int(epochs[0, _PRODUCER]),
            tuple(epochs[:, _EPOCH].tolist()),
            batches,
            records,
            size,
            int(epochs[:, _OFFSET].max()),
            int(sequence),
            int(epochs[:, _TIMESTAMP].max()),
        )


class Producers:
    """The producers that wrote to each group: a row per group, producer and epoch."""

    def __init__(self) -> None:
        self._rows = np.empty((0, _SEQUENCE + 1), np.int64)
        """Rising by group, producer and epoch."""
        self._pending: list[NDArray[np.int64]] = []
        self._pending_rows = 0
        self._bounds: NDArray[np.intp] | None = None
        """Where the rows of each group begin, and where the last ones end; None: not known."""

    def add(self, rows: NDArray[np.void], assigned: Assigned) -> None:
        """Add valid rows of the batch table."""
        chosen = np.flatnonzero(rows["producer_id"] != NO_PRODUCER)
        if not chosen.size:
            return
        group, rows = assigned.of_rows(rows.size)[chosen], rows[chosen]
        has_sequence = (rows["base_sequence"] >= 0) & (rows["attributes"] & CONTROL == 0)
        table = np.empty((rows.size, _SEQUENCE + 1), np.int64)
        table[:, _GROUP] = group
        table[:, _PRODUCER] = rows["producer_id"]
        table[:, _EPOCH] = rows["producer_epoch"]
        table[:, _BATCHES] = 1
        table[:, _RECORDS] = np.maximum(rows["record_count"], 0)
        table[:, _SIZE] = rows["size"]
        table[:, _OFFSET] = rows["last_offset"]
        table[:, _TIMESTAMP] = np.maximum(rows["max_timestamp"], -1)
        table[:, _SEQUENCED] = np.where(has_sequence, rows["last_offset"], LEAST)
        table[:, _SEQUENCE] = np.where(has_sequence, _last_sequence(rows), NO_SEQUENCE)
        self._take(_summed(table))

    def merge(self, other: Producers, ids: NDArray[np.int64]) -> None:
        """Merge producers of other groups, whose ids here are ``ids``."""
        table = other._settled().copy()
        table[:, _GROUP] = ids[table[:, _GROUP]]
        self._take(table)

    def of(self, group: int) -> GroupProducers:
        """The producers of a group."""
        rows = self._settled()
        if self._bounds is None:
            of_rows = np.ascontiguousarray(rows[:, _GROUP])
            self._bounds = np.searchsorted(of_rows, np.arange(of_rows.max(initial=-1) + 2))
        first, last = self._bounds[group : group + 2].tolist() if group + 1 < self._bounds.size else (0, 0)
        return GroupProducers(rows[first:last]) if first < last else _NONE

    def _take(self, table: NDArray[np.int64]) -> None:
        self._pending.append(table)
        self._pending_rows += len(table)
        if self._pending_rows > max(_PENDING_ROWS, len(self._rows)):
            self._settled()

    def _settled(self) -> NDArray[np.int64]:
        """All rows."""
        if self._pending:
            tables = (self._rows, *self._pending)
            self._pending, self._pending_rows = [], 0
            self._rows, self._bounds = _summed(np.concatenate(tables)), None
        return self._rows

    def __getstate__(self) -> NDArray[np.int64]:
        return self._settled()

    def __setstate__(self, state: NDArray[np.int64]) -> None:
        self._rows, self._pending, self._pending_rows, self._bounds = state, [], 0, None


def _summed(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """One row of each group, producer and epoch, rising, with their figures."""
    columns = (_SEQUENCE, _SEQUENCED, _EPOCH, _PRODUCER, _GROUP)
    table = table[np.lexsort([table[:, column] for column in columns])]
    first = _changes(table, (_GROUP, _PRODUCER, _EPOCH))
    if first.size == len(table):
        return table
    # The rows with the newest sequence come last.
    found: NDArray[np.int64] = table[np.append(first[1:], len(table)) - 1]
    found[:, _BATCHES : _SIZE + 1] = np.add.reduceat(table[:, _BATCHES : _SIZE + 1], first, axis=0)
    found[:, _OFFSET : _TIMESTAMP + 1] = np.maximum.reduceat(table[:, _OFFSET : _TIMESTAMP + 1], first, axis=0)
    return found


def _changes(table: NDArray[np.int64], columns: Sequence[int]) -> NDArray[np.intp]:
    """The numbers of the rows that differ in some columns from the row before, the first row too."""
    is_first = np.zeros(len(table), np.bool_)
    is_first[:1] = True
    for column in columns:
        is_first[1:] |= table[1:, column] != table[:-1, column]
    return np.flatnonzero(is_first)


def _last_sequence(rows: NDArray[np.void]) -> NDArray[np.int64]:
    """As ``BatchRow.last_sequence``: 0 follows the largest sequence."""
    last = rows["base_sequence"].astype(np.int64) + rows["last_offset"] - rows["base_offset"]
    wrapped: NDArray[np.int64] = np.where(last > MAX_INT32, last - MAX_INT32 - 1, last)
    return wrapped


_NONE: Final = GroupProducers(Producers().__getstate__())
