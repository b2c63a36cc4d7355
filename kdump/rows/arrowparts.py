"""Arrow rows on their way out: rows made as columns and rows made one by one, joined in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from kdump.rows.arrow import ArrowRows, row_batch
from kdump.rows.arrowarrays import number_array

_ENOUGH_ROWS: Final = 8192
_ENOUGH_BYTES: Final = 1 << 20
_ROW_BYTES: Final = 2000
"""Bytes of a row without its key and value."""


class ArrowParts:
    """Rows on their way out. Each record batch costs its receiver time, so small ones are joined."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._parts: list[ArrowRows] = []
        self._rows = 0
        self._size = 0

    def add(self, part: ArrowRows) -> None:
        """The next rows. Those that are no columns have gone a slow way, and are not kept waiting."""
        self._parts.append(part)
        self._rows += _ENOUGH_ROWS if isinstance(part, list) else part.num_rows
        self._size += 0 if isinstance(part, list) else part.nbytes

    @property
    def are_enough(self) -> bool:
        """There are enough rows for a record batch."""
        return self._rows >= _ENOUGH_ROWS or self._size >= _ENOUGH_BYTES

    def take(self) -> Iterator[pa.RecordBatch]:
        """All rows so far."""
        yield from in_order(self._parts, self._schema)
        self._parts.clear()
        self._rows = self._size = 0


def in_order(parts: Sequence[ArrowRows], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
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


def part_bytes(part: ArrowRows) -> int:
    """About how much memory rows of records take."""
    if not isinstance(part, list):
        return int(part.nbytes)
    return sum(_ROW_BYTES + len(row.get("key") or b"") + len(row.get("value") or b"") for row in part)
