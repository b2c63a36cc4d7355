"""Many v2 batch headers at once, as one structured array.

Source: docs/spec/formats.md#3-record-batches-v2; the field table is that of :mod:`kdump.format.batch`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kdump.fast.ragged import windows
from kdump.format.batch import HEADER_SIZE, header_dtype


def read_headers(buffer: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.void]:
    """Read the 61-byte header at each of ``starts``.

    ``buffer``: contiguous, shape (size,). ``starts``: shape (batches,), any order. Returns shape (batches,) of
    :func:`kdump.format.batch.header_dtype` (big-endian fields). IndexError when a header does not lie wholly in
    the buffer.
    """
    if not starts.size:
        return np.empty(0, header_dtype())
    if starts.min() < 0 or starts.max() > buffer.size - HEADER_SIZE:
        raise IndexError(f"a batch header leaves the buffer of {buffer.size} bytes")
    return windows(buffer, HEADER_SIZE)[starts].view(header_dtype())


def native_column(headers: NDArray[np.void], name: str) -> NDArray[np.int64]:
    """One header field as a contiguous native int64 column, shape (batches,)."""
    return np.ascontiguousarray(headers[name], dtype=np.int64)
