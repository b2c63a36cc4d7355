"""Records of v2 batches written all at once: the bodies of many batches in one buffer.

Source: docs/spec/formats.md#31-record.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.ragged import copy_ranges
from kdump.fast.recordtable import RecordTable

_NO_ATTRIBUTES: Final = 0


def write_records(
    table: RecordTable, offset_delta: NDArray[np.int64], timestamp_delta: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """A record a row, one after the other.

    Args:
        table: the records.
        offset_delta: to the base offset of each record's batch, shape (rows,).
        timestamp_delta: to the batch's base timestamp (ms), with Java's 64-bit wrap; shape (rows,).

    Returns:
        The bytes, and where each record begins in them and the last one ends, shape (rows + 1,).
    """
    fields = [
        _zigzag(column)
        for column in (
            timestamp_delta,
            offset_delta,
            table.key_size.astype(np.int64),
            table.value_size.astype(np.int64),
            table.header_count.astype(np.int64),
        )
    ]
    widths = [_varint_sizes(field) for field in fields]
    key_size, value_size = (np.maximum(size, 0).astype(np.int64) for size in (table.key_size, table.value_size))
    headers = _Headers(table)
    # The attributes take a byte.
    length = np.sum(widths, axis=0) + key_size + value_size + headers.row_sizes() + 1
    raw_length = _zigzag(length)
    length_width = _varint_sizes(raw_length)
    bounds = np.zeros(table.rows + 1, np.int64)
    np.cumsum(length + length_width, out=bounds[1:])
    out = np.empty(int(bounds[-1]), np.uint8)

    at = bounds[:-1].copy()
    _write_varints(raw_length, length_width, out, at)
    at += length_width
    out[at] = _NO_ATTRIBUTES
    at += 1
    for number, (field, width) in enumerate(zip(fields, widths, strict=True)):
        _write_varints(field, width, out, at)
        at += width
        if number == 2:
            copy_ranges(table.arena, table.key_start, key_size, out, at)
            at += key_size
        elif number == 3:
            copy_ranges(table.arena, table.value_start, value_size, out, at)
            at += value_size
    headers.write(out, at)
    return out, bounds


class _Headers:
    """The record headers of a table, encoded."""

    def __init__(self, table: RecordTable) -> None:
        self._arena = table.arena
        self._headers = headers = table.headers
        self._count = table.header_count.astype(np.int64)
        self._keys, self._values = (_zigzag(size.astype(np.int64)) for size in (headers.key_size, headers.value_size))
        self._key_width, self._value_width = _varint_sizes(self._keys), _varint_sizes(self._values)
        self._key_size = headers.key_size.astype(np.int64)
        self._value_size = np.maximum(headers.value_size, 0).astype(np.int64)
        self._ends = np.zeros(headers.key_size.size + 1, np.int64)
        np.cumsum(self._key_width + self._key_size + self._value_width + self._value_size, out=self._ends[1:])
        self._row_ends = np.append(0, np.cumsum(self._count))

    def row_sizes(self) -> NDArray[np.int64]:
        """Bytes of each row's headers."""
        sizes: NDArray[np.int64] = np.diff(self._ends[self._row_ends])
        return sizes

    def write(self, out: NDArray[np.uint8], at: NDArray[np.int64]) -> None:
        """Write those of each row to ``out`` from ``at`` on."""
        if not self._keys.size:
            return
        headers = self._headers
        before_row = self._ends[self._row_ends[:-1]]
        place = self._ends[:-1] + np.repeat(at - before_row, self._count)
        _write_varints(self._keys, self._key_width, out, place)
        place += self._key_width
        copy_ranges(self._arena, headers.key_start, self._key_size, out, place)
        place += self._key_size
        _write_varints(self._values, self._value_width, out, place)
        place += self._value_width
        copy_ranges(self._arena, headers.value_start, self._value_size, out, place)


def _zigzag(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Raw varints of the whole int64 range: those of int32 values are the same."""
    raw: NDArray[np.int64] = (values << 1) ^ (values >> 63)
    return raw.view(np.uint64)


def _varint_sizes(raw: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Bytes of each varint."""
    sizes = np.ones(raw.size, np.int64)
    largest = int(raw.max(initial=0))
    shift = 7
    while largest >> shift:
        sizes += raw >> np.uint64(shift) != 0
        shift += 7
    return sizes


def _write_varints(
    raw: NDArray[np.uint64], size: NDArray[np.int64], out: NDArray[np.uint8], at: NDArray[np.int64]
) -> None:
    """Write each varint, of ``size`` bytes, to ``out`` at ``at``."""
    byte = (raw & np.uint64(0x7F)).astype(np.uint8)
    out[at] = byte | (size > 1).astype(np.uint8) << 7
    rows = np.flatnonzero(size > 1)
    index = 1
    while rows.size:
        byte = (raw[rows] >> np.uint64(7 * index) & np.uint64(0x7F)).astype(np.uint8)
        index += 1
        more = size[rows] > index
        out[at[rows] + (index - 1)] = byte | more.astype(np.uint8) << 7
        rows = rows[more]
