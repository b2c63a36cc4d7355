"""What consumers see of records, from the columns and the headers of their batches."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.headers import native_column
from kdump.fast.records import RecordColumns
from kdump.fast.sequences import record_sequences
from kdump.format.batch import LOG_APPEND_TIME

_ALL: Final = slice(None)


class RecordValues:
    """Values of some rows of a block at a time; the columns of its headers are made once.

    Args:
        headers: of the block, shape (batches,).
        records: of these batches.
    """

    def __init__(self, headers: NDArray[np.void], records: RecordColumns) -> None:
        self._headers = headers
        self._records = records

    def offsets(self, rows: slice = _ALL) -> NDArray[np.int64]:
        """Absolute offsets with Java's 64-bit wrap; shape (rows,)."""
        return self._base_offset.take(self._records.batch[rows]) + self._records.offset_delta[rows]

    def timestamps(self, rows: slice = _ALL) -> NDArray[np.int64]:
        """Timestamps (ms): the batch's largest for all records where the broker set them; shape (rows,)."""
        timestamps = self._base_timestamp.take(self._records.batch[rows]) + self._records.timestamp_delta[rows]
        if self._is_any_log_append_time:
            timestamps = np.where(
                self.are_log_append_time(rows), self._max_timestamp.take(self._records.batch[rows]), timestamps
            )
        return timestamps

    def are_log_append_time(self, rows: slice = _ALL) -> NDArray[np.bool_]:
        """Records whose time is the broker's; shape (rows,)."""
        return self._is_log_append_time.take(self._records.batch[rows])

    def sequences(self, rows: slice = _ALL) -> NDArray[np.int64]:
        """Producers' sequence numbers, -1 where a batch has none; shape (rows,)."""
        batch = self._records.batch[rows]
        if not batch.size:
            return np.empty(0, np.int64)
        return record_sequences(self._base_sequence.take(batch), self._records.offset_delta[rows])

    @cached_property
    def _base_offset(self) -> NDArray[np.int64]:
        return native_column(self._headers, "base_offset")

    @cached_property
    def _base_timestamp(self) -> NDArray[np.int64]:
        return native_column(self._headers, "base_timestamp")

    @cached_property
    def _max_timestamp(self) -> NDArray[np.int64]:
        return native_column(self._headers, "max_timestamp")

    @cached_property
    def _base_sequence(self) -> NDArray[np.int64]:
        return native_column(self._headers, "base_sequence")

    @cached_property
    def _is_log_append_time(self) -> NDArray[np.bool_]:
        is_set: NDArray[np.bool_] = self._headers["attributes"] & LOG_APPEND_TIME != 0
        return is_set

    @cached_property
    def _is_any_log_append_time(self) -> bool:
        return bool(self._is_log_append_time.any())


def record_offsets(headers: NDArray[np.void], records: RecordColumns) -> NDArray[np.int64]:
    """``RecordValues.offsets`` of all rows."""
    return RecordValues(headers, records).offsets()


def record_timestamps(headers: NDArray[np.void], records: RecordColumns) -> NDArray[np.int64]:
    """``RecordValues.timestamps`` of all rows."""
    return RecordValues(headers, records).timestamps()
