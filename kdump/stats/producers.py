"""Producers with their epochs, and the last sequence of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import CONTROL, MAX_INT32
from kdump.stats.grouping import Assigned
from kdump.stats.tally import LEAST, most_pending
from kdump.verify.table import NO_PRODUCER

NO_SEQUENCE: Final = -1
_GROUP, _PRODUCER, _EPOCH, _BATCHES, _RECORDS, _SIZE, _OFFSET, _TIMESTAMP, _SEQUENCED, _SEQUENCE = range(10)
"""The columns of the table in ``Producers``; the last four: see ``ProducerStats`` and ``_summed``."""
_COLUMNS: Final = _SEQUENCE + 1
_Table: TypeAlias = list[NDArray[Any]]
"""The columns, each of integers of its own width; shapes (rows,)."""


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


class GroupProducers:
    """The producers of a group, those with the most bytes first.

    Args:
        table: the rows of the group in ``Producers``.
    """

    def __init__(self, table: _Table) -> None:
        self._table = table
        first = _changes(table, (_PRODUCER,))
        size = np.add.reduceat(table[_SIZE], first, dtype=np.int64) if first.size else first
        order = np.argsort(-size, kind="stable")
        self.size = size[order]
        """Bytes of each."""
        self._first, self._last = first[order], np.append(first[1:], len(table[0]))[order]

    def __len__(self) -> int:
        return self.size.size

    def first(self, count: int) -> list[ProducerStats]:
        """Some of them."""
        return list(map(self._made, range(min(count, len(self)))))

    def _made(self, number: int) -> ProducerStats:
        own = slice(self._first[number], self._last[number])
        epochs = np.column_stack([column[own] for column in self._table])
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
        self._table: _Table = [np.empty(0, np.int64)] * _COLUMNS
        """Rising by group, producer and epoch."""
        self._pending: list[_Table] = []
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
        table = [
            group,
            rows["producer_id"],
            rows["producer_epoch"],
            np.ones(rows.size, np.int64),
            np.maximum(rows["record_count"], 0),
            rows["size"],
            rows["last_offset"],
            np.maximum(rows["max_timestamp"], -1),
            np.where(has_sequence, rows["last_offset"], LEAST),
            np.where(has_sequence, _last_sequence(rows), NO_SEQUENCE),
        ]
        self._take(_summed(table))

    def merge(self, other: Producers, ids: NDArray[np.int64]) -> None:
        """Merge producers of other groups, whose ids here are ``ids``."""
        group, *others = other._settled()
        self._take([ids[group], *others])

    def of(self, group: int) -> GroupProducers:
        """The producers of a group."""
        table = self._settled()
        if self._bounds is None:
            of_rows = table[_GROUP]
            self._bounds = np.searchsorted(of_rows, np.arange(int(of_rows.max(initial=-1)) + 2))
        first, last = self._bounds[group : group + 2].tolist() if group + 1 < self._bounds.size else (0, 0)
        return GroupProducers([column[first:last] for column in table]) if first < last else _NONE

    def _take(self, table: _Table) -> None:
        self._pending.append(table)
        self._pending_rows += len(table[0])
        if self._pending_rows > most_pending(len(self._table[0])):
            self._settled()

    def _settled(self) -> _Table:
        """All rows."""
        if self._pending:
            columns = zip(self._table, *self._pending, strict=True)
            self._pending, self._pending_rows = [], 0
            self._table, self._bounds = _summed(list(map(np.concatenate, columns))), None
        return self._table

    def __getstate__(self) -> _Table:
        return self._settled()

    def __setstate__(self, state: _Table) -> None:
        self._table, self._pending, self._pending_rows, self._bounds = state, [], 0, None


def _summed(table: _Table) -> _Table:
    """One row of each group, producer and epoch, rising, with their figures."""
    order = np.lexsort([table[column] for column in (_SEQUENCE, _SEQUENCED, _EPOCH, _PRODUCER, _GROUP)])
    table = [column[order] for column in table]
    first = _changes(table, (_GROUP, _PRODUCER, _EPOCH))
    if first.size == order.size:
        return table
    # The rows with the newest sequence come last.
    last = np.append(first[1:], order.size) - 1
    sums = [np.add.reduceat(column, first, dtype=np.int64) for column in table[_BATCHES : _SIZE + 1]]
    most = [np.maximum.reduceat(column, first) for column in table[_OFFSET : _TIMESTAMP + 1]]
    found = [column[last] for column in table]
    found[_BATCHES : _TIMESTAMP + 1] = *sums, *most
    return found


def _changes(table: _Table, columns: Sequence[int]) -> NDArray[np.intp]:
    """The numbers of the rows that differ in some columns from the row before, the first row too."""
    is_first = np.zeros(len(table[0]), np.bool_)
    is_first[:1] = True
    for number in columns:
        column = table[number]
        is_first[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(is_first)


def _last_sequence(rows: NDArray[np.void]) -> NDArray[np.int64]:
    """As ``BatchRow.last_sequence``: 0 follows the largest sequence."""
    last = rows["base_sequence"].astype(np.int64) + rows["last_offset"] - rows["base_offset"]
    wrapped: NDArray[np.int64] = np.where(last > MAX_INT32, last - MAX_INT32 - 1, last)
    return wrapped


_NONE: Final = GroupProducers(Producers().__getstate__())
