"""What consumers see of records, out of the columns and their batches' headers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kdump.fast.headers import native_column
from kdump.fast.records import RecordColumns
from kdump.format.batch import LOG_APPEND_TIME


def record_offsets(headers: NDArray[np.void], records: RecordColumns) -> NDArray[np.int64]:
    """Absolute offsets with Java's 64-bit wrap; shape (rows,)."""
    return native_column(headers, "base_offset").take(records.batch) + records.offset_delta


def record_timestamps(headers: NDArray[np.void], records: RecordColumns) -> NDArray[np.int64]:
    """Timestamps (ms): the batch's largest for all records where the broker set them; shape (rows,)."""
    timestamps = native_column(headers, "base_timestamp").take(records.batch) + records.timestamp_delta
    is_log_append_time = headers["attributes"] & LOG_APPEND_TIME != 0
    if is_log_append_time.any():
        latest = native_column(headers, "max_timestamp").take(records.batch)
        timestamps = np.where(is_log_append_time[records.batch], latest, timestamps)
    return timestamps
