"""Arrow rows on their way out: rows made as columns and rows made one by one, joined in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from kdump.rows.arrow import ArrowRows, row_batch
from kdump.rows.arrowarrays import number_array

_ENOUGH_ROWS: Final = 8192
_ENOUGH_BYTES: Final = 1 << 20
ROW_GROUP_BYTES: Final = 64 << 20
"""Bytes of rows in a row group of Parquet, before they are encoded."""
_JOINED: Final = 256
"""Record batches that become one."""
_ROW_BYTES: Final = 2000
"""Bytes of a row without its key and value."""


class Reshape(Protocol):
    """Makes other columns of rows. It can be pickled."""

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """The schema of what it makes of rows of ``schema``."""

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with other columns."""


class ArrowParts:
    """Rows on their way out. Each record batch costs its receiver time, so small ones are joined."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._parts: list[ArrowRows] = []
        self._rows = 0
        self._size = 0

    def add(self, part: ArrowRows) -> None:
        """The next rows."""
        self._parts.append(part)
        self._rows += len(part) if isinstance(part, list) else part.num_rows
        if self._rows < _ENOUGH_ROWS:
            # A record batch takes 0.1 ms to count its bytes.
            self._size += _part_bytes(part)

    @property
    def are_enough(self) -> bool:
        """There are enough rows for a record batch."""
        return self._rows >= _ENOUGH_ROWS or self._size >= _ENOUGH_BYTES

    def take(self) -> Iterator[pa.RecordBatch]:
        """All rows so far."""
        yield from _in_order(self._parts, self._schema)
        self._parts.clear()
        self._rows = self._size = 0


class RowGroup:
    """Rows that wait until they are enough for a row group of Parquet.

    A record batch takes some 20 KB besides its rows, so many small ones are joined.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._joined: list[pa.RecordBatch] = []
        self._last: list[pa.RecordBatch] = []
        self._size = 0

    @property
    def is_enough(self) -> bool:
        """There are enough rows."""
        return self._size >= ROW_GROUP_BYTES

    def add(self, rows: pa.RecordBatch) -> None:
        """The next rows."""
        self._last.append(rows)
        self._size += rows.nbytes
        if len(self._last) == _JOINED:
            self._joined.append(pa.concat_batches(self._last))
            self._last.clear()

    def take(self) -> pa.Table:
        """All rows so far."""
        rows = pa.Table.from_batches([*self._joined, *self._last], self._schema)
        self._joined.clear()
        self._last.clear()
        self._size = 0
        return rows


def _in_order(parts: Sequence[ArrowRows], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of all parts, in their order. Rows made one by one are joined into columns."""
    alone = [row for part in parts if isinstance(part, list) for row in part]
    batches = [part for part in parts if not isinstance(part, list) and part.num_rows]
    if not alone:
        if batches:
            # Joining copies, also one batch alone.
            yield batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        return
    made = row_batch(alone, schema)
    if not batches:
        yield made
        return
    count = sum(batch.num_rows for batch in batches)
    order = []
    next_batch_row, next_alone_row = 0, count
    for part in parts:
        if isinstance(part, list):
            order.append(np.arange(next_alone_row, next_alone_row + len(part)))
            next_alone_row += len(part)
        else:
            order.append(np.arange(next_batch_row, next_batch_row + part.num_rows))
            next_batch_row += part.num_rows
    yield pa.concat_batches([*batches, made]).take(number_array(np.concatenate(order)))


def _part_bytes(part: ArrowRows) -> int:
    """About how much memory rows of records take."""
    if not isinstance(part, list):
        return int(part.nbytes)
    return sum(_ROW_BYTES + len(row.get("key") or b"") + len(row.get("value") or b"") for row in part)
