"""The state of a coordinator's topic at a point in time: committed offsets, or transactional ids.

It is what a broker knows that has read the log up to then. The last value of each key in offset order counts. A
tombstone removes the key; the broker writes one for an expired key. An offset committed in a transaction counts from
the commit marker on. Source: Kafka's OffsetMetadataManager (replay, replayEndTransactionMarker) and
TransactionStateManager; docs/spec/decoders.md#3-coordinator-decoders for the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.fast.ragged import windows
from kdump.fast.recordtable import RecordTable
from kdump.format.messagereader import Value
from kdump.kafka.groupstate import GROUP_RECORD_TYPES, GroupRecord, group_rows
from kdump.kafka.newestvalues import NewestValues, StoredValue
from kdump.kafka.transactionends import CoordinatedTransaction
from kdump.payloads.decoded import PayloadError
from kdump.payloads.internal import DECODERS, CoordinatorDecoder
from kdump.releases import NEWEST

_Name: TypeAlias = "tuple[Any, ...]"
"""The members of a key: texts, and a number of 32 bits in the place where others of its type have one."""
_TYPE_BYTES: Final = 2
OFFSETS: Final = "offsets"
TRANSACTION_LOG: Final = "transaction-log"
_COMMIT_TYPES: Final = (0, 1)
"""The types of commits, of both key versions."""
_RECORD_TYPES: Final = {OFFSETS: (*_COMMIT_TYPES, *GROUP_RECORD_TYPES), TRANSACTION_LOG: (0,)}
"""The types of records that make up the state: commits, groups and their members, and transactional ids."""
_RAISES_EPOCHS: Final = 2
"""The first transaction version with which the epoch rises with each marker (TransactionVersion.supportsEpochBump)."""


class CoordinatorState(NewestValues):
    """A fold over the entries of one partition of a coordinator's topic, in their order.

    Args:
        decoder: OFFSETS or TRANSACTION_LOG.
        at: ms since 1970; records and markers with a later timestamp do not count. None: all count.
    """

    def __init__(self, decoder: str, at: int | None) -> None:
        internal = DECODERS[decoder]
        assert isinstance(internal, CoordinatorDecoder)
        super().__init__(at)
        self._decoder = internal
        self._name = decoder
        self.undecoded = 0
        """How many records count and could not be read."""
        self.first_undecoded: tuple[int, PayloadError] | None = None
        """The offset of the first of them, and why."""

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
        found: dict[_Name, tuple[StoredValue, int]] = {}
        for data, stored in self.newest.items():
            try:
                key = self._decoder.key(data)
            except PayloadError as error:
                self._note_undecoded(stored.offset, error)
                continue
            if self._name == OFFSETS and key.record_type not in _COMMIT_TYPES:
                continue
            name = tuple(key.values.values())
            # Both versions of a commit's key name the same group and partition.
            if name not in found or found[name][0].offset < stored.offset:
                found[name] = stored, key.record_type
        for name in sorted(found):
            stored, record_type = found[name]
            value = None if stored.value is None else self._value(record_type, stored.value, stored.offset)
            if value is not None:
                yield name, value, stored

    def groups(self) -> Iterator[dict[str, Any]]:
        """The groups with their states and members as columns of the output, sorted by name."""
        return group_rows(self._group_records() if self._name == OFFSETS else ())

    def _group_records(self) -> Iterator[GroupRecord]:
        for data, stored in self.newest.items():
            if stored.value is None or int.from_bytes(data[:_TYPE_BYTES], "big", signed=True) not in GROUP_RECORD_TYPES:
                continue
            try:
                key = self._decoder.key(data)
            except PayloadError:
                # ``rows`` says it.
                continue
            value = self._value(key.record_type, stored.value, stored.offset)
            if value is not None:
                yield GroupRecord(key.record_type, key.values, value)

    def _value(self, record_type: int, data: bytes, offset: int) -> dict[str, Value] | None:
        """The members of a value; None where it cannot be read."""
        try:
            return self._decoder.value(record_type, data).values
        except PayloadError as error:
            self._note_undecoded(offset, error)
            return None

    def _note_undecoded(self, offset: int, error: PayloadError) -> None:
        self.undecoded += 1
        self.first_undecoded = self.first_undecoded or (offset, error)

    def is_of_state(self, table: RecordTable) -> NDArray[np.bool_]:
        """By the type in front of the key."""
        wanted = table.key_size >= _TYPE_BYTES
        types = np.full(table.rows, -1, np.int64)
        types[wanted] = windows(table.arena, _TYPE_BYTES)[table.key_start[wanted]].view(">i2")
        return wanted & np.isin(types, _RECORD_TYPES[self._name])


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
