"""Producer sequence numbers as columns.

Source: docs/spec/dump-output.md#42-batch-line-of-magic-2, docs/spec/dump-output.md#51-metadata-part; the rule for one
number is :func:`kdump.format.batch.increment_sequence`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import MAX_INT32, NO_SEQUENCE


def add_sequences(sequence: NDArray[np.int64], increment: NDArray[np.int64]) -> NDArray[np.int64]:
    """``sequence`` (int32 values) moved on by ``increment`` (int32 values): after 2^31-1 comes 0.

    Overflows where Java's int arithmetic does, as a damaged increment makes it.
    """
    limit = _wrap_int32(MAX_INT32 - increment)
    moved = sequence + increment
    # Java writes increment - (MAX - sequence) - 1, which is this much less.
    moved -= (sequence > limit).astype(np.int64) << 31
    return _wrap_int32(moved)


def record_sequences(base_sequence: NDArray[np.int64], offset_delta: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sequence of each record: -1 where the batch has none (a negative base sequence)."""
    if base_sequence.max() < 0:
        return np.full(base_sequence.size, NO_SEQUENCE, np.int64)
    return np.where(base_sequence < 0, NO_SEQUENCE, add_sequences(base_sequence, offset_delta))


def last_sequences(base_sequence: NDArray[np.int64], last_offset_delta: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sequence of each batch's last offset: -1 where the base sequence is -1 (and only there)."""
    moved = add_sequences(base_sequence, last_offset_delta)
    return np.where(base_sequence == NO_SEQUENCE, NO_SEQUENCE, moved)


def _wrap_int32(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return values.astype(np.int32).astype(np.int64)
