"""The newest value of each key of a partition at a point in time, as a reader knows it who has read the log up to then.

The last value of each key in offset order counts, and a tombstone removes it. A record of a transaction counts from the
commit marker of the transaction on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.fast.entries import Entries
from kdump.fast.hashing import digest_ranges
from kdump.fast.headers import native_column
from kdump.fast.recordtable import RecordGroups, RecordTable
from kdump.format import control
from kdump.format.batch import TRANSACTIONAL
from kdump.kafka.transactionends import Ending, EndingOf


class StoredValue(NamedTuple):
    """A record: its offset in the log, its timestamp (ms), its value (None: a tombstone)."""

    offset: int
    timestamp: int
    value: bytes | None


class NewestValues:
    """A fold over the entries of one partition, in their order.

    It keeps the keys and newest values of the partition, and the records of open transactions.

    Args:
        at: ms since 1970; records and markers with a later timestamp do not count. None: all count.
    """

    def __init__(self, at: int | None) -> None:
        self._at = at
        self._newest: dict[bytes, StoredValue] = {}
        self._pending: dict[int, dict[bytes, StoredValue]] = {}
        self._epochs: dict[int, int] = {}
        self.later = 0
        """Records of the state that were passed over."""

    @property
    def open_transactions(self) -> int:
        """How many producers have commits that wait for a marker."""
        return sum(1 for records in self._pending.values() if records)

    def end_transactions(self, ending: EndingOf) -> None:
        """End those that are open as their coordinators would."""
        for producer_id in list(self._pending):
            self._end(producer_id, is_commit=ending(producer_id, self._epochs[producer_id]).ending is Ending.COMMIT)

    @property
    def newest(self) -> Mapping[bytes, StoredValue]:
        """The newest record of each key, in the order in which they first came; tombstones too."""
        return self._newest

    def update(self, entries: Entries) -> None:
        """Add the next entries."""
        for groups in entries.record_groups():
            self._add(groups)

    def _add(self, groups: RecordGroups) -> None:
        wanted = self._wanted(groups)
        headers = groups.headers
        if headers is None or not (headers["attributes"] & TRANSACTIONAL).any():
            self._take(self._newest, groups.table, wanted)
            return
        is_transactional = headers["attributes"] & TRANSACTIONAL != 0
        is_control = groups.is_control
        self._take(self._newest, groups.table, wanted & ~np.repeat(is_transactional, groups.rows))
        types, producer = groups.control_types, native_column(headers, "producer_id")
        epochs = native_column(headers, "producer_epoch")
        for number in np.flatnonzero(is_transactional).tolist():
            first, last = int(groups.bounds[number]), int(groups.bounds[number + 1])
            own = int(producer[number])
            if not is_control[number]:
                rows = np.zeros(wanted.size, np.bool_)
                rows[first:last] = wanted[first:last]
                self._epochs[own] = int(epochs[number])
                self._take(self._pending.setdefault(own, {}), groups.table, rows)
            elif first < last and self._counts(int(groups.table.timestamp[first])):
                self._end(own, is_commit=types[number] == control.COMMIT)

    def _end(self, producer_id: int, *, is_commit: bool) -> None:
        pending = self._pending.pop(producer_id, {})
        if is_commit:
            for key, stored in pending.items():
                _keep(self._newest, key, stored)

    def is_of_state(self, table: RecordTable) -> NDArray[np.bool_]:
        """Which records make up the state: those with a key. Shape (rows,)."""
        return table.key_size >= 0

    def _counts(self, timestamp: int) -> bool:
        return self._at is None or timestamp <= self._at

    def _wanted(self, groups: RecordGroups) -> NDArray[np.bool_]:
        """Which records are part of the state up to the point in time; shape (rows,)."""
        table = groups.table
        wanted = self.is_of_state(table)
        wanted &= ~np.repeat(groups.is_control, groups.rows)
        if self._at is None:
            return wanted
        is_later = table.timestamp > self._at
        self.later += int(np.count_nonzero(wanted & is_later))
        return wanted & ~is_later

    def _take(self, target: dict[bytes, StoredValue], table: RecordTable, rows: NDArray[np.bool_]) -> None:
        """Put the newest record of each key into ``target``."""
        chosen = np.flatnonzero(rows)[::-1]
        if not chosen.size:
            return
        digest = np.stack(digest_ranges(table.arena, table.key_start[chosen], table.key_size[chosen]))
        # The first reversed row of each key is its newest.
        chosen = chosen[np.unique(digest, axis=1, return_index=True)[1]]
        view = table.arena.data
        columns = (table.offset, table.timestamp, table.key_start, table.key_size, table.value_start, table.value_size)
        for offset, timestamp, key_at, key_size, value_at, value_size in zip(
            *(column[chosen].tolist() for column in columns), strict=True
        ):
            value = None if value_size < 0 else bytes(view[value_at : value_at + value_size])
            _keep(target, bytes(view[key_at : key_at + key_size]), StoredValue(offset, timestamp, value))


def _keep(target: dict[bytes, StoredValue], key: bytes, stored: StoredValue) -> None:
    """Store a record unless a later one is stored: the offset counts, not the end of the transaction."""
    before = target.get(key)
    if before is None or before.offset < stored.offset:
        target[key] = stored
