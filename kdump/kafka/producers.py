"""What a broker remembers of each producer, and how batches and transaction markers change it.

Source: docs/spec/recovery.md#2-the-walk-over-the-entries (rules 0 and 6 to 9),
docs/spec/startup.md#rule-21-the-bytes-of-a-snapshot (ProducerStateManager and ProducerAppendInfo of the Kafka release
named in :mod:`kdump.kafka.failures`). As in recovery, neither epochs nor sequences are enforced.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from kdump.format.batch import BatchHeader, wrap_int32, wrap_int64
from kdump.format.snapshot import ProducerEntry, write_snapshot
from kdump.kafka.failures import FailureKind, KafkaFailureError
from kdump.kafka.markers import read_marker

_NONE: Final = -1
NO_DATA: Final = (_NONE, _NONE, 0)
"""Last sequence, last offset and offset delta of a producer without a data batch."""


class ProducerState(NamedTuple):
    """One producer; -1 (``offset_delta``: 0) where nothing is known.

    The last_ fields and ``offset_delta`` describe its last data batch in its current epoch, ``timestamp`` (ms) is of
    the last batch or marker, ``txn_first_offset`` the first offset of its open transaction, None without one.
    """

    epoch: int = _NONE
    last_sequence: int = _NONE
    last_offset: int = _NONE
    offset_delta: int = 0
    timestamp: int = _NONE
    coordinator_epoch: int = _NONE
    txn_first_offset: int | None = None


_NEW: Final = ProducerState()


class CompletedTxn(NamedTuple):
    """A transaction that a marker ended; ``last_offset`` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerStates:
    """All producers at one offset of a log.

    ``end_offset`` is the offset after the last v2 batch seen: where the broker's next snapshot is taken.
    """

    def __init__(self, end_offset: int = 0) -> None:
        self.end_offset = end_offset
        self._states: dict[int, ProducerState] = {}
        self._ongoing: dict[int, int] = {}
        # A heap of (first offset, producer id). An ended transaction is dropped when it is the least.
        self._first_offsets: list[tuple[int, int]] = []
        # By producer id, a heap of the first offsets that wait until an earlier one of the producer is dropped.
        self._waiting: dict[int, list[int]] = {}

    @classmethod
    def from_snapshot(cls, entries: Iterable[ProducerEntry], end_offset: int = 0) -> Self:
        """The state that a snapshot taken at ``end_offset`` holds; the caller leaves out expired producers."""
        states = cls(end_offset)
        for entry in entries:
            first_offset = entry.current_txn_first_offset
            data = (entry.last_sequence, entry.last_offset, entry.offset_delta) if entry.last_offset >= 0 else NO_DATA
            states._states[entry.producer_id] = ProducerState(
                entry.producer_epoch,
                *data,
                entry.timestamp,
                entry.coordinator_epoch,
                first_offset if first_offset >= 0 else None,
            )
            if first_offset >= 0:
                states._open(first_offset, entry.producer_id)
        return states

    @property
    def by_id(self) -> Mapping[int, ProducerState]:
        """The producers by id, in the order in which they were first seen."""
        return MappingProxyType(self._states)

    @property
    def ongoing(self) -> Mapping[int, int]:
        """Open transactions: the producer id by first offset."""
        return MappingProxyType(self._ongoing)

    def append(self, header: BatchHeader, batch: memoryview) -> CompletedTxn | None:
        """Take in one v2 batch with a producer id (0 or above).

        Args:
            header: its header.
            batch: the whole batch; only control batches are looked into.

        Returns:
            The transaction that its marker ended. It stays among ``ongoing`` until ``complete`` is called.

        Raises:
            InvalidRecordError: a control batch that cannot be read; nothing is changed.
            KafkaFailureError: recovery throws here; nothing is changed.
        """
        if header.is_control:
            return self._append_marker(header, batch)
        state = self._states.get(header.producer_id, _NEW)
        first_offset = state.txn_first_offset
        if first_offset is not None and not header.is_transactional:
            raise KafkaFailureError(
                FailureKind.INVALID_TXN_STATE,
                f"producer {header.producer_id} writes offset {header.base_offset} outside of the transaction that it "
                f"opened at offset {first_offset}",
            )
        if first_offset is None and header.is_transactional:
            first_offset = header.base_offset
            self._open(first_offset, header.producer_id)
        self._states[header.producer_id] = ProducerState(
            header.producer_epoch,
            header.last_sequence,
            header.last_offset,
            wrap_int32(header.last_offset - header.base_offset),
            header.max_timestamp,
            state.coordinator_epoch,
            first_offset,
        )
        return None

    def _append_marker(self, header: BatchHeader, batch: memoryview) -> CompletedTxn | None:
        marker = read_marker(header, batch)
        state = self._states.setdefault(header.producer_id, _NEW)
        if marker is None:
            return None
        first_offset = state.txn_first_offset
        # Another epoch forgets the last data batch.
        kept = state if header.producer_epoch == state.epoch else _NEW
        self._states[header.producer_id] = kept._replace(
            epoch=header.producer_epoch,
            timestamp=marker.timestamp,
            coordinator_epoch=marker.coordinator_epoch,
            txn_first_offset=None,
        )
        if first_offset is None:
            return None
        return CompletedTxn(header.producer_id, first_offset, header.base_offset, marker.is_abort)

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """The last stable offset after ``completed``: where the first other open transaction begins, else its end."""
        own = found = None
        while found is None and (first := self._first_open()) is not None:
            first_offset, producer_id = first
            if producer_id != completed.producer_id:
                found = first_offset
                continue
            heapq.heappop(self._first_offsets)
            if own is None:
                own = first
            else:
                heapq.heappush(self._waiting.setdefault(producer_id, []), first_offset)
        if own is not None:
            heapq.heappush(self._first_offsets, own)
        return wrap_int64(completed.last_offset + 1) if found is None else found

    def complete(self, completed: CompletedTxn) -> None:
        """Remove a transaction that ``append`` returned from the open ones.

        Raises:
            KafkaFailureError: TXN_NOT_STARTED, two transactions that began at one offset.
        """
        first_offset = completed.first_offset
        if self._ongoing.pop(first_offset, None) is None:
            raise KafkaFailureError(
                FailureKind.TXN_NOT_STARTED,
                f"the marker at offset {completed.last_offset} ends a transaction of producer "
                f"{completed.producer_id} from offset {first_offset}, where another one began too and has ended",
            )
        self._first_open()

    def copy(self) -> Self:
        """An independent copy."""
        other = type(self)(self.end_offset)
        other._states, other._ongoing = self._states.copy(), self._ongoing.copy()
        other._first_offsets = self._first_offsets.copy()
        other._waiting = {producer_id: waiting.copy() for producer_id, waiting in self._waiting.items()}
        return other

    def see_last(self, producer_ids: Iterable[int]) -> None:
        """Move these producers to the end, in this order: the order of a snapshot depends on it."""
        for producer_id in producer_ids:
            self._states[producer_id] = self._states.pop(producer_id)

    def restore_data(self, producer_id: int, before: ProducerState) -> None:
        """Restore the last data batch, which markers of other epochs within one segment leave unchanged."""
        state = self._states[producer_id]
        if state.epoch == before.epoch and state.last_offset < 0:
            self._states[producer_id] = state._replace(
                last_sequence=before.last_sequence, last_offset=before.last_offset, offset_delta=before.offset_delta
            )

    def entries(self) -> Iterator[ProducerEntry]:
        """What a snapshot holds, in the order of its file."""
        return map(self.entry_of, long_hash_order(self._states))

    def entry_of(self, producer_id: int) -> ProducerEntry:
        """What a snapshot holds of a producer. Raises KeyError for one that is not known."""
        state = self._states[producer_id]
        first_offset = state.txn_first_offset
        return ProducerEntry(
            producer_id,
            state.epoch,
            state.last_sequence,
            state.last_offset,
            state.offset_delta,
            state.timestamp,
            state.coordinator_epoch,
            _NONE if first_offset is None else first_offset,
        )

    def snapshot(self) -> bytes:
        """The bytes of a .snapshot file (docs/spec/formats.md#7-producer-snapshots)."""
        return write_snapshot(self.entries())

    def _first_open(self) -> tuple[int, int] | None:
        """(first offset, producer id) of the first open transaction that does not wait; drops those that ended."""
        while self._first_offsets:
            first_offset, producer_id = self._first_offsets[0]
            if self._ongoing.get(first_offset) == producer_id:
                return first_offset, producer_id
            heapq.heappop(self._first_offsets)
            if waiting := self._waiting.get(producer_id):
                heapq.heappush(self._first_offsets, (heapq.heappop(waiting), producer_id))
        return None

    def _open(self, first_offset: int, producer_id: int) -> None:
        if self._ongoing.get(first_offset) != producer_id:
            heapq.heappush(self._first_offsets, (first_offset, producer_id))
        self._ongoing[first_offset] = producer_id


def long_hash_order(keys: Iterable[int]) -> list[int]:
    """The order of a ``java.util.HashMap<Long, ...>`` into which the distinct ``keys`` were put, in this order.

    A bucket that holds so many keys that Java makes a tree of it (9 or more in a map that is at most 3/4 full) is
    given in the order of insertion too, which Java's need not be.
    """
    keys = list(keys)
    capacity = 16
    while len(keys) > capacity * 3 // 4:
        capacity *= 2

    def bucket(key: int) -> int:
        folded = (key ^ key >> 32) & 0xFFFF_FFFF
        return (folded ^ folded >> 16) & capacity - 1

    return sorted(keys, key=bucket)
