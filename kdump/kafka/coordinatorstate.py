"""The state of a coordinator's topic at a point in time: committed offsets, or transactional ids.

It is what a broker knows that has read the log up to then. The last value of each key in offset order counts. A
tombstone removes the key; the broker writes one for an expired key. An offset committed in a transaction counts from
the commit marker on. Source: Kafka's OffsetMetadataManager (replay, replayEndTransactionMarker) and
TransactionStateManager; docs/spec/decoders.md#3-coordinator-decoders for the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.ragged import windows
from kdump.fast.recordtable import RecordTable
from kdump.format.messagereader import Value
from kdump.kafka.groupstate import GROUP_RECORD_TYPES, GroupRecord, group_rows
from kdump.kafka.newestvalues import NewestValues, StoredValue
from kdump.payloads.decoded import PayloadError
from kdump.payloads.internal import DECODERS, CoordinatorDecoder

_TYPE_BYTES: Final = 2
OFFSETS: Final = "offsets"
TRANSACTION_LOG: Final = "transaction-log"
_COMMIT_TYPES: Final = (0, 1)
"""The types of commits, of both key versions."""
_RECORD_TYPES: Final = {OFFSETS: (*_COMMIT_TYPES, *GROUP_RECORD_TYPES), TRANSACTION_LOG: (0,)}
"""The types of records that make up the state: commits, groups and their members, and transactional ids."""
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


class CoordinatorState(NewestValues):
    """A fold over the entries of one partition of a coordinator's topic, in their order.

    Args:
        decoder: OFFSETS or TRANSACTION_LOG.
        at: ms since 1970; records and markers with a later timestamp do not count. None: all count.
        undecoded: takes the offset of each record that counts and cannot be read, and why.
    """

    def __init__(self, decoder: str, at: int | None, undecoded: list[tuple[int, PayloadError]]) -> None:
        internal = DECODERS[decoder]
        assert isinstance(internal, CoordinatorDecoder)
        super().__init__(at)
        self._decoder = internal
        self._name = decoder
        self._undecoded = undecoded

    def rows(self) -> Iterator[dict[str, Value]]:
        """The state as columns of the output, sorted by its key."""
        found: dict[tuple[Value, ...], tuple[StoredValue, int]] = {}
        for data, stored in self.newest.items():
            try:
                key = self._decoder.key(data)
            except PayloadError as error:
                self._undecoded.append((stored.offset, error))
                continue
            if self._name == OFFSETS and key.record_type not in _COMMIT_TYPES:
                continue
            # Both versions of a commit's key name the same group and partition.
            name = tuple(key.values.values())
            if name not in found or found[name][0].offset < stored.offset:
                found[name] = stored, key.record_type
        show = _committed_offset if self._name == OFFSETS else _transactional_id
        for name in sorted(found):
            stored, record_type = found[name]
            if stored.value is None:
                continue
            try:
                value = self._decoder.value(record_type, stored.value)
            except PayloadError as error:
                self._undecoded.append((stored.offset, error))
                continue
            yield show(name, value.values) | {"recordOffset": stored.offset, "timestamp": stored.timestamp}

    def groups(self) -> Iterator[dict[str, Any]]:
        """The groups with their states and members as columns of the output, sorted by name."""
        found: list[GroupRecord] = []
        for data, stored in self.newest.items():
            if stored.value is None or self._name != OFFSETS:
                continue
            try:
                key = self._decoder.key(data)
            except PayloadError:
                # ``rows`` says it.
                continue
            try:
                if key.record_type in GROUP_RECORD_TYPES:
                    value = self._decoder.value(key.record_type, stored.value)
                    found.append(GroupRecord(key.record_type, key.values, value.values, stored.timestamp))
            except PayloadError as error:
                self._undecoded.append((stored.offset, error))
        yield from group_rows(found)

    def is_of_state(self, table: RecordTable) -> NDArray[np.bool_]:
        """By the type in front of the key."""
        wanted = table.key_size >= _TYPE_BYTES
        types = np.full(table.rows, -1, np.int64)
        types[wanted] = windows(table.arena, _TYPE_BYTES)[table.key_start[wanted]].view(">i2")
        return wanted & np.isin(types, _RECORD_TYPES[self._name])


def _committed_offset(key: tuple[Value, ...], value: dict[str, Value]) -> dict[str, Value]:
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


def _transactional_id(key: tuple[Value, ...], value: dict[str, Value]) -> dict[str, Value]:
    status = value["transactionStatus"]
    assert isinstance(status, int)
    is_known = 0 <= status < len(_TRANSACTION_STATES)
    return {
        "transactionalId": key[0],
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
