"""Rows of JSON lines and CSV for many v2 batches at once.

Source: docs/contract.md#23-rows; :mod:`kdump.rows.tables` has the names of the columns. Values that all records of a
batch share are written once for each batch and copied to its rows. Control batches and batches that ``fast.records``
refuses are left to the scalar path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.fast.blocks import BatchBlock
from kdump.fast.quoting import json_strings
from kdump.fast.records import RecordColumns
from kdump.fast.text import Bytes, Choice, Column, Integer, Literal, RaggedText, assemble
from kdump.format.batch import CONTROL
from kdump.log.context import FileContext
from kdump.payloads.decoded import RecordDecoder
from kdump.reading.printing import BatchRun, TextBytes
from kdump.rows.columnar import (
    BatchValue,
    Choices,
    ColumnarBatches,
    ColumnarRecords,
    Constant,
    Flags,
    HeaderLists,
    JsonTexts,
    Numbers,
    RowValue,
    Strings,
)
from kdump.rows.scalarlines import Output
from kdump.rows.schema import Column as Declared
from kdump.rows.schema import Table
from kdump.rows.syntax import Syntax, syntax_of
from kdump.rows.tables import BATCH, RECORD

_BLOCK_ROWS: Final = 4096
_BLOCK_BYTES: Final = 1 << 20
"""Rows, and bytes of their records, that are assembled at a time: half a megabyte of text, or a few."""
_OfRecords: TypeAlias = Callable[[ColumnarRecords, slice], RowValue]
_BOOLEANS: Final = (b"false", b"true")


def batch_rows(
    block: BatchBlock, fields: Sequence[str], context: FileContext, output: Output, *, table: Table = BATCH
) -> memoryview:
    """A row for each batch with ``fields`` of ``table``, in any order. ValueError for another field."""
    syntax = syntax_of(output, fields)
    count = block.headers.size
    if not count:
        return memoryview(b"")
    batches = ColumnarBatches(block, table.type, context)
    columns: list[Column] = []
    for number, name in enumerate(syntax.columns(fields)):
        columns += [
            Literal(syntax.before(name, is_first=not number)),
            *_of_batches(table.column(name), batches, syntax),
        ]
    return assemble([*columns, Literal(syntax.end)], count).data.data


def record_runs(
    block: BatchBlock,
    fields: Sequence[str],
    context: FileContext,
    output: Output,
    *,
    table: Table = RECORD,
    txn_state: NDArray[np.int8] | None = None,
    decoder: RecordDecoder | None = None,
) -> Iterator[BatchRun[TextBytes]]:
    """The rows of the block's records, in order; a run without text is left to the scalar path.

    Args:
        block: with records.
        fields: of ``table``, in any order; no others are computed.
        context: where the block comes from.
        output: how rows are written.
        table: of records.
        txn_state: shape (batches,), indexes into ``reading.outcomes.STATES``; None: null in every row.
        decoder: of keys and values. Batches in which something does not decode are left to the scalar path.

    Every batch is in a run; one with more rows than are assembled at a time is in several, one after the other.

    Raises:
        ValueError: a field that records do not have, or no field.
    """
    syntax = syntax_of(output, fields)
    records = block.records
    if records is None or not block.headers.size:
        return
    is_control = block.headers["attributes"] & CONTROL != 0
    left_out = ~records.accepted | is_control
    if is_control.any():
        records = records.select(~is_control[records.batch], np.ones(is_control.size, np.bool_))
    rows = ColumnarRecords(block, records, decoder)
    if rows.decoded is not None and rows.decoded.failed.any():
        left_out[records.batch[rows.decoded.failed]] = True
        records = records.select(~left_out[records.batch], np.ones(left_out.size, np.bool_))
        rows = ColumnarRecords(block, records, decoder)
    lines = _RecordTexts(rows, ColumnarBatches(block, table.type, context, txn_state), table, syntax, fields)
    row_bounds = np.append(records.first_row, records.batch.size)
    cuts = np.flatnonzero(np.diff(left_out)) + 1
    first_batch = 0
    for first, last in _row_blocks(records):
        text = lines.text(first, last)
        last_batch = left_out.size if last == records.batch.size else int(records.batch[last - 1]) + 1
        own_cuts = cuts[np.searchsorted(cuts, first_batch, "right") : np.searchsorted(cuts, last_batch)]
        for begin, end in pairwise([first_batch, *own_cuts.tolist(), last_batch]):
            if left_out[begin]:
                yield BatchRun(begin, end, None)
                continue
            at = np.clip(row_bounds[[begin, end]], first, last) - first
            yield BatchRun(begin, end, text.data[text.bounds[at[0]] : text.bounds[at[1]]].data)
        # The next block may continue the last batch of this one.
        first_batch = last_batch if last == row_bounds[last_batch] else last_batch - 1


def _row_blocks(records: RecordColumns) -> Iterator[tuple[int, int]]:
    """Cut the rows into ranges of at most _BLOCK_ROWS rows and _BLOCK_BYTES, of at least one row if there are any."""
    rows = records.batch.size
    first = 0
    while True:
        last = min(first + _BLOCK_ROWS, rows)
        if first < last:
            limit = records.key_start[first] + _BLOCK_BYTES
            last = first + max(1, int(np.searchsorted(records.key_start[first:last], limit)))
        yield first, last
        first = last
        if first == rows:
            return


class _RecordTexts:
    """Assembles ranges of rows of a block."""

    def __init__(
        self, rows: ColumnarRecords, batches: ColumnarBatches, table: Table, syntax: Syntax, fields: Sequence[str]
    ) -> None:
        self._rows = rows
        self._syntax = syntax
        count = rows.records.accepted.size
        # Columns of records, and between them the text that all records of a batch share.
        self._parts: list[_OfRecords | Literal | RaggedText] = []
        of_batch: list[Column] = []
        for number, name in enumerate(syntax.columns(fields)):
            of_batch.append(Literal(syntax.before(name, is_first=not number)))
            column = table.column(name)
            if column.of_records is None:
                of_batch += _of_batches(column, batches, syntax)
            else:
                self._parts += [_merged(assemble(of_batch, count)), column.of_records]
                of_batch = []
        self._parts.append(_merged(assemble([*of_batch, Literal(syntax.end)], count)))

    def text(self, first: int, last: int) -> RaggedText:
        """Rows ``first`` to ``last`` (exclusive), a piece a row."""
        batch = self._rows.records.batch[first:last]
        columns: list[Column] = []
        for part in self._parts if batch.size else []:
            match part:
                case Literal():
                    columns.append(part)
                case RaggedText(data, bounds):
                    columns.append(Bytes(data, bounds.take(batch), np.diff(bounds).take(batch)))
                case of_records:
                    columns += _spelled(of_records(self._rows, slice(first, last)), self._syntax)
        return assemble(columns, last - first)


def _of_batches(column: Declared, batches: ColumnarBatches, syntax: Syntax) -> list[Column]:
    if column.of_batches is None:
        raise ValueError(f"no column {column.name} of batches")
    return _spelled(column.of_batches(batches), syntax)


def _spelled(value: BatchValue | RowValue, syntax: Syntax) -> list[Column]:
    """A value as text columns, as ``syntax`` writes it."""
    match value:
        case Constant(constant):
            return [Literal(b"%d" % constant if isinstance(constant, int) else _text(constant, syntax))]
        case Choices(index, options):
            return [Choice(index, tuple(_text(option, syntax) for option in options))]
        case Flags(values):
            return [Choice(values, _BOOLEANS)]
        case Numbers(numbers, is_set):
            column = Integer(numbers.astype(np.int64, copy=False))
            return [column] if is_set is None else _nullable(column, is_set, syntax)
        case Strings(arena, start, size):
            return syntax.strings(arena, start, size)
        case JsonTexts(data, start, size):
            null = Choice(size == 0, (b"", syntax.null))
            return [null, *syntax.json([Bytes(data, start, size)], size.size)]
        case HeaderLists():
            return _header_lists(value, syntax)


def _text(value: str | None, syntax: Syntax) -> bytes:
    return syntax.null if value is None else syntax.text(value)


def _nullable(numbers: Integer, is_set: NDArray[np.bool_], syntax: Syntax) -> list[Column]:
    """Numbers where they are set, else null."""
    digits = assemble([numbers], is_set.size)
    return [
        Choice(is_set, (syntax.null, b"")),
        Bytes(digits.data, digits.bounds[:-1], np.where(is_set, np.diff(digits.bounds), 0)),
    ]


def _header_lists(lists: HeaderLists, syntax: Syntax) -> list[Column]:
    """A JSON array of each row's headers: their keys, or pairs of key and value."""
    bounds, headers = lists.bounds, lists.headers
    used = slice(int(bounds[0]), int(bounds[-1]))
    if used.start == used.stop:
        return [Literal(b"[]")]
    items = json_strings(lists.arena, headers.key_start[used], headers.key_size[used])
    if lists.with_values:
        values = json_strings(lists.arena, headers.value_start[used], headers.value_size[used])
        items = [Literal(b"["), *items, Literal(b","), *values, Literal(b"]")]
    text = assemble([*items, Literal(b",")], used.stop - used.start)
    ends = text.bounds[bounds - used.start]
    # Without the comma after the last one.
    array: list[Column] = [Literal(b"["), Bytes(text.data, ends[:-1], np.diff(ends) - 1), Literal(b"]")]
    return syntax.json(array, bounds.size - 1)


def _merged(pieces: RaggedText) -> Literal | RaggedText:
    """The text of all pieces if they are equal."""
    size = np.diff(pieces.bounds)
    if size.min() == size.max():
        lines = pieces.data.reshape(size.size, -1)
        if (lines == lines[0]).all():
            return Literal(lines[0].tobytes())
    return pieces
