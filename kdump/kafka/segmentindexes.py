"""The three index files that a broker builds while it recovers a segment.

Source: docs/spec/recovery.md#2-the-walk-over-the-entries (rules 4, 5, 9 and 10; LogSegment.recover, OffsetIndex.append,
TimeIndex.maybeAppend, TransactionIndex.append of the Kafka release named in :mod:`kdump.kafka.failures`).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kdump.format.batch import wrap_int64
from kdump.format.index import OFFSET_ENTRY, OFFSET_ENTRY_SIZE, TIME_ENTRY, TIME_ENTRY_SIZE, TXN_ENTRY
from kdump.format.legacy import NO_TIMESTAMP
from kdump.kafka.failures import FailureKind, KafkaFailureError
from kdump.kafka.producers import CompletedTxn

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_INDEX_INTERVAL: Final = 4096
"""Bytes of log between two index entries (index.interval.bytes)."""
DEFAULT_INDEX_SIZE: Final = 10 << 20
"""Bytes to which the .index and the .timeindex of a segment may grow (segment.index.bytes)."""

_TXN_VERSION: Final = 0


@dataclass(frozen=True, slots=True)
class SegmentIndexes:
    """The contents of the index files as recovery leaves them: trimmed, without padding."""

    index: bytes
    time_index: bytes
    txn_index: bytes | None
    """None without an aborted transaction: no .txnindex is made, and one that is there becomes empty."""


@dataclass(frozen=True, slots=True)
class BatchesPlan:
    """What many batches add to the indexes."""

    positions: list[int]
    """Of the offset index entries."""
    offsets: NDArray[np.int64]
    """Their offsets, shape (offset entries,)."""
    timestamps: NDArray[np.int64]
    """Of the time index entries, shape (time entries,)."""
    time_offsets: NDArray[np.int64]
    """Their offsets, shape (time entries,)."""
    max_timestamp: int
    max_timestamp_offset: int


class IndexBuilder:
    """Follows a recovery batch by batch and makes the index entries.

    Args:
        base_offset: of the segment.
        interval: bytes of log between two entries (index.interval.bytes).
        size: most bytes of .index and .timeindex (segment.index.bytes).

    ``max_timestamp`` is the largest so far, -1 without one.
    """

    def __init__(
        self, base_offset: int, *, interval: int = DEFAULT_INDEX_INTERVAL, size: int = DEFAULT_INDEX_SIZE
    ) -> None:
        self._base_offset = base_offset
        self._interval = interval
        self._most_offset_entries = size // OFFSET_ENTRY_SIZE
        self._most_time_entries = size // TIME_ENTRY_SIZE - 1
        self.max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self._last_position = 0
        self._last_offset = base_offset
        self._offset_count = 0
        self._last_time = (NO_TIMESTAMP, base_offset)
        self._time_count = 0
        self._last_aborted: int | None = None
        self._index, self._time_index, self._txn_index = bytearray(), bytearray(), bytearray()

    def contents(self) -> SegmentIndexes:
        """The files so far."""
        return SegmentIndexes(bytes(self._index), bytes(self._time_index), bytes(self._txn_index) or None)

    def add_batch(self, position: int, last_offset: int, max_timestamp: int) -> None:
        """Add the next batch: where it begins in the log, its last offset, its largest timestamp (-1: none).

        Raises:
            KafkaFailureError: INVALID_OFFSET or INDEX_FULL; the entries before stay.
        """
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self._max_timestamp_offset = max_timestamp, last_offset
        if position - self._last_position > self._interval:
            self._add_offset_entry(last_offset, position)
            if self._time_count >= self._most_time_entries:
                raise KafkaFailureError(FailureKind.INDEX_FULL, f"the time index is full ({self._time_count} entries)")
            self._add_time_entry()
            self._last_position = position

    def plan_batches(
        self, position: int, starts: list[int], last_offsets: NDArray[np.int64], max_timestamps: NDArray[np.int64]
    ) -> BatchesPlan | None:
        """What ``add_batch`` would do for each of many batches; None if it might fail. Nothing is changed.

        Args:
            position: of the chunk in the log.
            starts: where each batch begins in the chunk; at least one.
            last_offsets: shape (batches,).
            max_timestamps: shape (batches,).
        """
        import numpy as np

        # The largest timestamp up to and with each batch, and the last offset of the batch that first had it.
        largest = np.maximum.accumulate(max_timestamps)
        np.maximum(largest, self.max_timestamp, out=largest)
        is_new = largest > np.append(self.max_timestamp, largest[:-1])
        holder = np.maximum.accumulate(np.where(is_new, np.arange(is_new.size), -1))
        holder_offset = np.where(holder < 0, self._max_timestamp_offset, last_offsets[holder])

        numbers = self._indexed(position, starts)
        offset, timestamp, time_offset = last_offsets[numbers], largest[numbers], holder_offset[numbers]
        before = np.append(self._last_time[0], timestamp)[:-1]
        offset_before = np.append(self._last_time[1], time_offset)[:-1]
        if (
            self._offset_count + len(numbers) > self._most_offset_entries
            or self._time_count + len(numbers) > self._most_time_entries
            or (numbers and self._offset_count and offset[0] <= self._last_offset)
            or (offset[1:] <= offset[:-1]).any()
            or ((time_offset < offset_before) & (before != NO_TIMESTAMP)).any()
        ):
            return None
        is_entry = timestamp > before
        return BatchesPlan(
            [position + starts[number] for number in numbers],
            offset,
            timestamp[is_entry],
            time_offset[is_entry],
            int(largest[-1]),
            int(holder_offset[-1]),
        )

    def add_batches(self, plan: BatchesPlan) -> None:
        """Add the entries of a plan."""
        self.max_timestamp, self._max_timestamp_offset = plan.max_timestamp, plan.max_timestamp_offset
        if plan.positions:
            self._offset_count += len(plan.positions)
            self._last_offset = int(plan.offsets[-1])
            self._last_position = plan.positions[-1]
        if plan.timestamps.size:
            self._time_count += plan.timestamps.size
            self._last_time = (int(plan.timestamps[-1]), int(plan.time_offsets[-1]))
        self._add_entries(plan)

    def add_aborted(self, completed: CompletedTxn, last_stable_offset: int) -> None:
        """Add an aborted transaction.

        Raises:
            KafkaFailureError: TXN_INDEX_ORDER.
        """
        if self._last_aborted is not None and self._last_aborted >= completed.last_offset:
            raise KafkaFailureError(
                FailureKind.TXN_INDEX_ORDER,
                f"an aborted transaction that ends at offset {completed.last_offset} after one that ends at "
                f"{self._last_aborted}",
            )
        self._last_aborted = completed.last_offset
        self._txn_index += TXN_ENTRY.pack(
            _TXN_VERSION, completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset
        )

    def finish(self) -> None:
        """Add the last time entry, for which there is always room. Raises KafkaFailureError INVALID_OFFSET."""
        self._add_time_entry()

    def _add_offset_entry(self, last_offset: int, position: int) -> None:
        if self._offset_count >= self._most_offset_entries:
            raise KafkaFailureError(FailureKind.INDEX_FULL, f"the index is full ({self._offset_count} entries)")
        if self._offset_count and last_offset <= self._last_offset:
            raise KafkaFailureError(
                FailureKind.INVALID_OFFSET,
                f"index entry {self._offset_count} would be for offset {last_offset}, the one before it is for "
                f"{self._last_offset}",
            )
        self._index += OFFSET_ENTRY.pack(wrap_int64(last_offset - self._base_offset), position)
        self._offset_count += 1
        self._last_offset = last_offset

    def _add_time_entry(self) -> None:
        timestamp, offset = self.max_timestamp, self._max_timestamp_offset
        if self._time_count and offset < self._last_time[1]:
            raise KafkaFailureError(
                FailureKind.INVALID_OFFSET,
                f"time index entry {self._time_count} would be for offset {offset}, the one before it is for "
                f"{self._last_time[1]}",
            )
        if timestamp > self._last_time[0]:
            self._time_index += TIME_ENTRY.pack(timestamp, wrap_int64(offset - self._base_offset))
            self._time_count += 1
            self._last_time = (timestamp, offset)

    def _add_entries(self, plan: BatchesPlan) -> None:
        import numpy as np

        entries = np.empty((len(plan.positions), 2), ">i4")
        entries[:, 0] = plan.offsets - self._base_offset
        entries[:, 1] = plan.positions
        self._index += entries.tobytes()
        times = np.empty(plan.timestamps.size, np.dtype([("timestamp", ">i8"), ("offset", ">i4")]))
        times["timestamp"] = plan.timestamps
        times["offset"] = plan.time_offsets - self._base_offset
        self._time_index += times.tobytes()

    def _indexed(self, position: int, starts: list[int]) -> list[int]:
        """Numbers of the batches before which an entry is due."""
        numbers = []
        number = bisect_right(starts, self._last_position + self._interval - position)
        while number < len(starts):
            numbers.append(number)
            number = bisect_right(starts, starts[number] + self._interval, number + 1)
        return numbers
