"""Records written as messages of magic 0 and 1, all at once.

Source: docs/spec/formats.md#2-messages-v0-and-v1.
"""

from __future__ import annotations

import io
from itertools import repeat
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.ragged import copy_ranges, windows
from kdump.fast.recordtable import RecordTable
from kdump.format.batch import LOG_OVERHEAD
from kdump.format.legacy import UNCOVERED, head_dtype, message_crc
from kdump.wire.checksum import crc32

_SIZE_BYTES: Final = 4
_CRC_BEFORE_ZEROS: Final = 0xC758F1D7
"""The CRC that 16 zero bytes turn into 0. A CRC that starts with it is that of what follows these bytes."""


def write_messages(
    table: RecordTable, magic: int, offset: NDArray[np.int64], attributes: NDArray[np.uint8] | int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """One message for each record, one after the other. Record headers are left out: old messages have none.

    Args:
        table: the records.
        magic: 0 or 1.
        offset: what the messages have in their offset fields, shape (rows,).
        attributes: of each message, shape (rows,), or of all.

    Returns:
        The bytes, and where each message begins in them and the last one ends, shape (rows + 1,).
    """
    head = head_dtype(magic)
    dtype = np.dtype([*head.descr, ("key_size", ">i4")])
    width = dtype.itemsize
    key_size, value_size = np.maximum(table.key_size, 0), np.maximum(table.value_size, 0)
    size = key_size.astype(np.int64) + value_size + (width + _SIZE_BYTES)
    bounds = np.zeros(table.rows + 1, np.int64)
    np.cumsum(size, out=bounds[1:])
    start = bounds[:-1]
    out = np.empty(int(bounds[-1]), np.uint8)

    heads = np.zeros(table.rows, dtype)
    heads["magic"] = magic
    heads["attributes"] = attributes
    heads["key_size"] = table.key_size
    if magic > 0:
        heads["timestamp"] = table.timestamp
    _scatter(heads, out, start)
    copy_ranges(table.arena, table.key_start, key_size, out, start + width)
    after_key = start + key_size + width
    _scatter(table.value_size.astype(">i4"), out, after_key)
    copy_ranges(table.arena, table.value_start, value_size, out, after_key + _SIZE_BYTES)

    entry = np.empty(table.rows, np.dtype([(name, head[name]) for name in UNCOVERED]))
    entry["offset"] = offset
    entry["length"] = size - LOG_OVERHEAD
    entry["crc"] = _crcs(out, size)
    _scatter(entry, out, start)
    return out, bounds


def _crcs(messages: NDArray[np.uint8], size: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The CRC of each message, whose first 16 bytes are zeros; shape (rows,).

    A stream hands the messages out one by one: that costs less than a slice of the memory for each.
    """
    read = io.BytesIO(messages.data).read
    crcs = map(crc32, map(read, size.tolist()), repeat(_CRC_BEFORE_ZEROS))
    return np.fromiter(crcs, np.uint32, size.size)


def message_crcs(arena: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The CRC that each whole message ``arena[start:end]`` should have; shapes (messages,)."""
    crcs = map(message_crc, repeat(arena.data), start.tolist(), end.tolist())
    return np.fromiter(crcs, np.uint32, start.size)


def _scatter(column: NDArray[np.generic], out: NDArray[np.uint8], start: NDArray[np.int64]) -> None:
    """Write the elements of ``column`` (shape (rows,), packed) to ``out`` at ``start``."""
    windows(out, column.itemsize)[start] = column.view(np.dtype((np.void, column.itemsize)))
