"""The state of a coordinator's topic at a point in time: committed offsets, or transactional ids.

It is what a broker knows that has read the log up to then. The last value of each key in offset order counts. A
tombstone removes the key; the broker writes one for an expired key. An offset committed in a transaction counts from
the commit marker on. Source: Kafka's OffsetMetadataManager (replay, replayEndTransactionMarker) and
TransactionStateManager; docs/spec/decoders.md#3-coordinator-decoders for the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.fast.entries import Entries
from kdump.fast.hashing import digest_ranges
from kdump.fast.headers import native_column
from kdump.fast.ragged import windows
from kdump.fast.recordtable import RecordGroups, RecordTable
from kdump.format import control
from kdump.format.batch import TRANSACTIONAL
from kdump.format.message import Value
from kdump.payloads.decoded import PayloadError
from kdump.payloads.internal import DECODERS, CoordinatorDecoder, DecodedMessage

_TYPE_BYTES: Final = 2
OFFSETS: Final = "offsets"
TRANSACTION_LOG: Final = "transaction-log"
_RECORD_TYPES: Final = {OFFSETS: (0, 1), TRANSACTION_LOG: (0,)}
"""The types of records that make up the state: commits of both key versions, and transactional ids."""
_TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""org.apache.kafka.coordinator.transaction.TransactionState by its number."""


class _Stored(NamedTuple):
    """A record: its offset in the log, its timestamp (ms), its value (None: a tombstone)."""

    offset: int
    timestamp: int
    value: bytes | None


class CoordinatorState:
    """A fold over the entries of one partition, in their order.

    It keeps the keys and newest values of the partition, and the records of open transactions.

    Args:
        decoder: OFFSETS or TRANSACTION_LOG.
        at: ms since 1970; records and markers with a later timestamp do not count. None: all count.
        undecoded: takes the offset of each record that counts and cannot be read, and why.
    """

    def __init__(self, decoder: str, at: int | None, undecoded: list[tuple[int, PayloadError]]) -> None:
        internal = DECODERS[decoder]
        assert isinstance(internal, CoordinatorDecoder)
        self._decoder = internal
        self._name = decoder
        self._at = at
        self._undecoded = undecoded
        self._newest: dict[bytes, _Stored] = {}
        self._pending: dict[int, dict[bytes, _Stored]] = {}
        self.later = 0
        """How many records of the state were passed over."""

    @property
    def open_transactions(self) -> int:
        """How many producers have commits that wait for a marker."""
        return sum(1 for records in self._pending.values() if records)

    def update(self, entries: Entries) -> None:
        """Add the next entries."""
        groups = entries.groups
        wanted = self._wanted(groups)
        headers = groups.headers
        if headers is None or not (headers["attributes"] & TRANSACTIONAL).any():
            self._take(self._newest, groups.table, wanted)
            return
        is_transactional = headers["attributes"] & TRANSACTIONAL != 0
        is_control = groups.is_control
        self._take(self._newest, groups.table, wanted & ~np.repeat(is_transactional, groups.rows))
        types, producer = groups.control_types, native_column(headers, "producer_id")
        for number in np.flatnonzero(is_transactional).tolist():
            first, last = int(groups.bounds[number]), int(groups.bounds[number + 1])
            own = int(producer[number])
            if not is_control[number]:
                rows = np.zeros(wanted.size, np.bool_)
                rows[first:last] = wanted[first:last]
                self._take(self._pending.setdefault(own, {}), groups.table, rows)
            elif first < last and self._counts(int(groups.table.timestamp[first])):
                pending = self._pending.pop(own, {})
                if types[number] == control.COMMIT:
                    for key, stored in pending.items():
                        _keep(self._newest, key, stored)

    def rows(self) -> Iterator[dict[str, Value]]:
        """The state as columns of the output, sorted by its key."""
        found: dict[Any, tuple[_Stored, DecodedMessage]] = {}
        for data, stored in self._newest.items():
            try:
                key = self._decoder.key(data)
            except PayloadError as error:
                self._undecoded.append((stored.offset, error))
                continue
            # Both versions of a commit's key name the same group and partition.
            name = tuple(key.values.values())
            if name not in found or found[name][0].offset < stored.offset:
                found[name] = stored, key
        show = _committed_offset if self._name == OFFSETS else _transactional_id
        for name in sorted(found):
            stored, key = found[name]
            if stored.value is None:
                continue
            try:
                value = self._decoder.value(key, stored.value)
            except PayloadError as error:
                self._undecoded.append((stored.offset, error))
                continue
            yield show(key.values, value.values) | {"recordOffset": stored.offset, "timestamp": stored.timestamp}

    def _counts(self, timestamp: int) -> bool:
        return self._at is None or timestamp <= self._at

    def _wanted(self, groups: RecordGroups) -> NDArray[np.bool_]:
        """Which records are part of the state up to the point in time; shape (rows,)."""
        table = groups.table
        wanted = table.key_size >= _TYPE_BYTES
        types = np.full(table.rows, -1, np.int64)
        types[wanted] = windows(table.arena, _TYPE_BYTES)[table.key_start[wanted]].view(">i2")
        wanted &= np.isin(types, _RECORD_TYPES[self._name])
        wanted &= ~np.repeat(groups.is_control, groups.rows)
        if self._at is None:
            return wanted
        is_later = table.timestamp > self._at
        self.later += int(np.count_nonzero(wanted & is_later))
        return wanted & ~is_later

    def _take(self, target: dict[bytes, _Stored], table: RecordTable, rows: NDArray[np.bool_]) -> None:
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
            _keep(target, bytes(view[key_at : key_at + key_size]), _Stored(offset, timestamp, value))


def _keep(target: dict[bytes, _Stored], key: bytes, stored: _Stored) -> None:
    """Store a record unless a later one is stored: the offset counts, not the end of the transaction."""
    before = target.get(key)
    if before is None or before.offset < stored.offset:
        target[key] = stored


def _committed_offset(key: dict[str, Value], value: dict[str, Value]) -> dict[str, Value]:
    return {
        "group": key["group"],
        "topic": key["topic"],
        "partition": key["partition"],
        "offset": value["offset"],
        "leaderEpoch": value.get("leaderEpoch", -1),
        "metadata": value["metadata"],
        "commitTimestamp": value["commitTimestamp"],
        "expireTimestamp": value.get("expireTimestamp", -1),
    }


def _transactional_id(key: dict[str, Value], value: dict[str, Value]) -> dict[str, Value]:
    status = value["transactionStatus"]
    assert isinstance(status, int)
    is_known = 0 <= status < len(_TRANSACTION_STATES)
    return {
        "transactionalId": key["transactionalId"],
        "producerId": value["producerId"],
        "producerEpoch": value["producerEpoch"],
        "state": _TRANSACTION_STATES[status] if is_known else status,
        "partitions": _partitions(value["transactionPartitions"]),
        "transactionTimeoutMs": value["transactionTimeoutMs"],
        "transactionStartTimestamp": value["transactionStartTimestampMs"],
        "transactionLastUpdateTimestamp": value["transactionLastUpdateTimestampMs"],
    }


def _partitions(topics: Value) -> list[Value]:
    """``topic-partition`` of every partition in the transaction."""
    names: list[Value] = []
    for topic in topics if isinstance(topics, list) else ():
        assert isinstance(topic, dict)
        numbers = topic["partitionIds"]
        names += [f"{topic['topic']!s}-{number!s}" for number in (numbers if isinstance(numbers, list) else ())]
    return names
