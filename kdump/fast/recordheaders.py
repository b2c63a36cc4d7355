"""Record headers (key and value pairs) of many records at once.

Round j reads the j-th header of every row that still has one. Most rows have none and cost nothing.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.lanes import descending, lanes_left
from kdump.fast.varints import MALFORMED, read_varint, read_varints, sizes, zigzag

_BLOCK_ROWS: Final = 8192
_FEW_ROWS: Final = 32
"""Below this many rows in a round the rows are read one after the other."""


@dataclass(frozen=True, slots=True)
class HeaderColumns:
    """All headers of a table of records, row by row; every array has shape (headers,).

    The headers of row r are those from ``cumsum(header_count)[r] - header_count[r]`` on. Positions are indexes of
    the arena; a value size of -1 is null.
    """

    key_start: NDArray[np.int64]
    key_size: NDArray[np.int32]
    value_start: NDArray[np.int64]
    value_size: NDArray[np.int32]

    def select(self, keep: NDArray[np.bool_] | slice) -> HeaderColumns:
        """The headers where ``keep`` is true, or in that slice."""
        return HeaderColumns(self.key_start[keep], self.key_size[keep], self.value_start[keep], self.value_size[keep])

    def merged(self, others: HeaderColumns, is_own: NDArray[np.bool_]) -> HeaderColumns:
        """These and other headers in one order; ``is_own``, of the shape (all headers,), says which are these."""
        columns = []
        for own, other in zip(self._columns(), others._columns(), strict=True):
            column = np.empty(is_own.size, own.dtype)
            column[is_own], column[~is_own] = own, other
            columns.append(column)
        return HeaderColumns(*columns)

    def _columns(self) -> tuple[NDArray[Any], ...]:
        return self.key_start, self.key_size, self.value_start, self.value_size

    @classmethod
    def none(cls) -> HeaderColumns:
        """Of records without headers."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int32))


def read_record_headers(
    arena: NDArray[np.uint8],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    count: NDArray[np.int32],
) -> tuple[HeaderColumns, NDArray[np.bool_]]:
    """Read the headers of every row.

    ``start``, ``end``, ``count``: shape (rows,); ``count[r]`` headers shall fill ``arena[start[r]:end[r]]``, and
    ``count[r] <= (end[r] - start[r]) // 2``. Returns the headers of all rows and ``valid`` of shape (rows,): they
    are well formed and fill the range, or the count is 0. The headers of invalid rows are there too, without meaning.
    """
    total = int(count.sum(dtype=np.int64))
    headers = HeaderColumns(
        np.zeros(total, np.int64), np.zeros(total, np.int32), np.zeros(total, np.int64), np.zeros(total, np.int32)
    )
    valid = np.ones(start.size, np.bool_)
    rows = np.flatnonzero(count > 0)
    row_count = count[rows].astype(np.int64)
    first = np.cumsum(row_count) - row_count
    for block in range(0, rows.size, _BLOCK_ROWS):
        part = slice(block, block + _BLOCK_ROWS)
        order = descending(row_count[part])
        lanes = rows[part][order]
        valid[lanes] = _read_rounds(
            arena, headers, at=start[lanes], end=end[lanes], count=row_count[part][order], slot=first[part][order]
        )
    return headers, valid


def _read_rounds(
    arena: NDArray[np.uint8],
    headers: HeaderColumns,
    *,
    at: NDArray[np.int64],
    end: NDArray[np.int64],
    count: NDArray[np.int64],
    slot: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Read rows sorted by descending ``count`` (> 0), from each row's ``slot`` on; ``at`` and ``slot`` are used up."""
    has_keys = np.ones(count.size, np.bool_)
    rounds = int(count[_FEW_ROWS - 1]) if count.size >= _FEW_ROWS else 0
    for active in lanes_left(count, np.arange(rounds)).tolist():
        slots = slot[:active]
        raw, key_start = read_varints(arena, at[:active])
        key_size = zigzag(raw)
        has_keys[:active] &= key_size >= 0
        raw, value_start = read_varints(arena, key_start + np.maximum(key_size, 0))
        value_size = sizes(raw)
        headers.key_start[slots] = key_start
        headers.key_size[slots] = key_size.astype(np.int32)
        headers.value_start[slots] = value_start
        headers.value_size[slots] = value_size.astype(np.int32)
        at[:active] = np.minimum(value_start + np.maximum(value_size, 0), MALFORMED)
        slots += 1
    valid: NDArray[np.bool_] = has_keys & (at == end)
    for row in range(int(lanes_left(count, np.array(rounds)))):
        position, first = int(at[row]), int(slot[row])
        found = _read_alone(arena[position : end[row]].tobytes(), int(count[row]) - rounds)
        valid[row] = found is not None and bool(has_keys[row])
        if found:
            key_start, key_size, value_start, value_size = np.frombuffer(found, np.int64).reshape(-1, 4).T
            last = first + key_start.size
            headers.key_start[first:last] = key_start + position
            headers.key_size[first:last] = key_size
            headers.value_start[first:last] = value_start + position
            headers.value_size[first:last] = value_size
    return valid


def _read_alone(body: bytes, count: int) -> array[int] | None:
    """``count`` headers that fill ``body``: key start and size, value start and size of each; None otherwise."""
    found = array("q")
    position = 0
    try:
        for _ in range(count):
            raw, key_start = read_varint(body, position)
            if raw & 1:
                return None
            key_size = raw >> 1
            raw, value_start = read_varint(body, key_start + key_size)
            value_size = -1 if raw & 1 else raw >> 1
            found.extend((key_start, key_size, value_start, value_size))
            position = value_start + max(value_size, 0)
    except (IndexError, ValueError):
        return None
    return found if position == len(body) else None
