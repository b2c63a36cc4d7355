"""The state of a coordinator's topic at a point in time: committed offsets, or transactional ids.

It is what a broker knows that has read the log up to then. The last value of each key in offset order counts. A
tombstone removes the key; the broker writes one for an expired key. An offset committed in a transaction counts from
the commit marker on. Source: Kafka's OffsetMetadataManager (replay, replayEndTransactionMarker) and
TransactionStateManager; docs/spec/decoders.md#3-coordinator-decoders for the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.fast.ragged import windows
from kdump.fast.recordtable import RecordTable
from kdump.format.messagereader import Value
from kdump.kafka.groupstate import GROUP_RECORD_TYPES, GroupRecord, group_name, group_rows
from kdump.kafka.newestvalues import NewestValues, StoredValue
from kdump.kafka.transactionends import CoordinatedTransaction
from kdump.payloads.decoded import PayloadError
from kdump.payloads.internal import DECODERS, CoordinatorDecoder
from kdump.releases import NEWEST

_Name: TypeAlias = "tuple[Any, ...]"
"""The members of a key: texts, and a number of 32 bits in the place where others of its type have one."""
_TYPE_BYTES: Final = 2
_NUMBER_BYTES: Final = 8
"""Bytes of the number of a key, which follow its name."""
OFFSETS: Final = "offsets"
TRANSACTION_LOG: Final = "transaction-log"
_COMMIT_TYPES: Final = (0, 1)
"""The types of commits, of both key versions."""
_RECORD_TYPES: Final = {OFFSETS: (*_COMMIT_TYPES, *GROUP_RECORD_TYPES), TRANSACTION_LOG: (0,)}
"""The types of records that make up the state: commits, groups and their members, and transactional ids."""
_RAISES_EPOCHS: Final = 2
"""The first transaction version with which the epoch rises with each marker (TransactionVersion.supportsEpochBump)."""


class Undecoded:
    """Records that count and cannot be read: how many, and the offset of the first and why."""

    def __init__(self) -> None:
        self.count = 0
        self.first: tuple[int, PayloadError] | None = None

    def add(self, offset: int, error: PayloadError) -> None:
        """One more."""
        self.count += 1
        self.first = self.first or (offset, error)


class CoordinatorState(NewestValues):
    """A fold over the entries of one partition of a coordinator's topic, in their order.

    Args:
        decoder: OFFSETS or TRANSACTION_LOG.
        at: ms since 1970; records and markers with a later timestamp do not count. None: all count.
        undecoded: takes each record that counts and cannot be read.
    """

    def __init__(self, decoder: str, at: int | None, undecoded: Undecoded) -> None:
        internal = DECODERS[decoder]
        assert isinstance(internal, CoordinatorDecoder)
        super().__init__(at)
        self._decoder = internal
        self._name = decoder
        self._undecoded = undecoded

    def rows(self) -> Iterator[dict[str, Value]]:
        """The state as columns of the output, sorted by its key."""
        show = _committed_offset if self._name == OFFSETS else _transactional_id
        for name, value, stored in self._values():
            yield show(name, value) | {"recordOffset": stored.offset, "timestamp": stored.timestamp}

    def transactions(self) -> Iterator[CoordinatedTransaction]:
        """The transactional ids of a TRANSACTION_LOG as its coordinator knows them, sorted by name."""
        for name, value, stored in self._values():
            row: dict[str, Any] = _transactional_id(name, value)
            values: dict[str, Any] = value
            yield CoordinatedTransaction(
                row["transactionalId"],
                row["state"],
                row["producerId"],
                values.get("previousProducerId", -1),
                row["producerEpoch"],
                values.get("clientTransactionVersion", 0) >= _RAISES_EPOCHS,
                frozenset(row["partitions"]),
                stored.offset,
            )

    def _values(self) -> Iterator[tuple[_Name, dict[str, Value], StoredValue]]:
        """The members of each key, its value, and the record that has it, sorted by the key."""
        for keys in self._by_name(self._name_of_row):
            # Both versions of a commit's key name the same group and partition.
            data = max(keys, key=lambda data: self.newest(data).offset)
            stored = self.newest(data)
            if stored.value is None:
                continue
            key = self._decoder.key(data)
            try:
                value = self._decoder.value(key.record_type, stored.value)
            except PayloadError as error:
                self._undecoded.add(stored.offset, error)
                continue
            yield tuple(key.values.values()), value.values, stored

    def groups(self) -> Iterator[dict[str, Any]]:
        """The groups with their states and members as columns of the output, sorted by name."""
        if self._name == OFFSETS:
            for keys in self._by_name(self._name_of_group):
                yield from group_rows(map(self._group_record, keys))

    def _by_name(self, name_of: Callable[[bytes], _Name | None]) -> Iterator[list[bytes]]:
        """The keys of each name, sorted by name. Those without a name are left out.

        There may be millions, so a name is held as bytes.
        """
        keys = list(self.keys())
        found = []
        for number, data in enumerate(keys):
            name = name_of(data)
            if name is not None:
                found.append(_sortable(name) + number.to_bytes(_NUMBER_BYTES, "big"))
        found.sort()
        for _, own in groupby(found, key=lambda place: place[:-_NUMBER_BYTES]):
            yield [keys[int.from_bytes(place[-_NUMBER_BYTES:], "big")] for place in own]

    def _name_of_row(self, data: bytes) -> _Name | None:
        """The members of a key that has a row of its own."""
        try:
            key = self._decoder.key(data)
        except PayloadError as error:
            self._undecoded.add(self.newest(data).offset, error)
            return None
        is_shown = self._name != OFFSETS or key.record_type in _COMMIT_TYPES
        return tuple(key.values.values()) if is_shown else None

    def _name_of_group(self, data: bytes) -> _Name | None:
        """The group that a record is of; None where it cannot be read."""
        if int.from_bytes(data[:_TYPE_BYTES], "big", signed=True) not in GROUP_RECORD_TYPES:
            return None
        stored = self.newest(data)
        if stored.value is None:
            return None
        try:
            key = self._decoder.key(data)
        except PayloadError:
            # ``rows`` says it.
            return None
        try:
            self._decoder.value(key.record_type, stored.value)
        except PayloadError as error:
            self._undecoded.add(stored.offset, error)
            return None
        return (group_name(key.values),)

    def _group_record(self, data: bytes) -> GroupRecord:
        """A record for which ``_name_of_group`` gives a name."""
        stored, key = self.newest(data), self._decoder.key(data)
        assert stored.value is not None
        value = self._decoder.value(key.record_type, stored.value)
        return GroupRecord(key.record_type, key.values, value.values, stored.timestamp)

    def is_of_state(self, table: RecordTable) -> NDArray[np.bool_]:
        """By the type in front of the key."""
        wanted = table.key_size >= _TYPE_BYTES
        types = np.full(table.rows, -1, np.int64)
        types[wanted] = windows(table.arena, _TYPE_BYTES)[table.key_start[wanted]].view(">i2")
        return wanted & np.isin(types, _RECORD_TYPES[self._name])


def _sortable(name: _Name) -> bytes:
    """Bytes that sort as names of these types do, and of which none begins with another."""
    return b"".join(
        value.encode("utf-8", "surrogatepass").replace(b"\0", b"\0\xff") + b"\0\1"
        if isinstance(value, str)
        else (value + 2**31).to_bytes(4, "big")
        for value in name
    )


def _committed_offset(key: _Name, value: dict[str, Value]) -> dict[str, Value]:
    group, topic, partition = key
    return {
        "group": group,
        "topic": topic,
        "partition": partition,
        "offset": value["offset"],
        "leaderEpoch": value.get("leaderEpoch", -1),
        "metadata": value["metadata"],
        "commitTimestamp": value["commitTimestamp"],
        "expireTimestamp": value.get("expireTimestamp", -1),
    }


def _transactional_id(key: _Name, value: dict[str, Value]) -> dict[str, Value]:
    status = value["transactionStatus"]
    assert isinstance(status, int)
    states = NEWEST.transaction_states
    is_known = 0 <= status < len(states)
    return {
        "transactionalId": key[0],
        "producerId": value["producerId"],
        "producerEpoch": value["producerEpoch"],
        "state": states[status] if is_known else status,
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
