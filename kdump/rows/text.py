"""Rows of JSON lines and CSV for many v2 batches at once.

Source: docs/contract.md#23-rows; the names of the columns are those of :mod:`kdump.rows.tables`. What is the same for
all records of a batch is written once a batch and copied to its rows. Control batches and what ``fast.records`` has
refused are left to the scalar path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.blocks import BatchBlock
from kdump.fast.quoting import json_strings
from kdump.fast.records import RecordColumns
from kdump.fast.sequences import record_sequences
from kdump.fast.text import Bytes, Choice, Column, Integer, Literal, RaggedText, assemble
from kdump.format.batch import CONTROL, LOG_APPEND_TIME
from kdump.log.context import FileContext
from kdump.payloads.decoded import RecordDecoder
from kdump.reading.printing import BatchRun, TextBytes
from kdump.rows.batchcolumns import text_columns
from kdump.rows.columns import BatchValues
from kdump.rows.decoded import DecodedJson, contents_of, decoded_json
from kdump.rows.syntax import Output, Syntax, syntax_of
from kdump.rows.tables import BATCH, RECORD

_BLOCK_ROWS: Final = 4096
_BLOCK_BYTES: Final = 1 << 20
"""Rows assembled at a time, and bytes of their records: half a megabyte to a few of text."""
_OF_RECORDS: Final = frozenset(
    (
        "offset",
        "timestamp",
        "key",
        "value",
        "decodedKey",
        "decodedValue",
        "headers",
        "headerKeys",
        "keySize",
        "valueSize",
        "sequence",
    )
)
"""Columns that a batch's records do not have in common."""


def batch_rows(block: BatchBlock, fields: Sequence[str], context: FileContext, output: Output) -> memoryview:
    """A row a batch with ``fields`` of ``tables.BATCH``, in any order; ValueError for any other."""
    syntax = syntax_of(output, fields)
    count = block.headers.size
    if not count:
        return memoryview(b"")
    batches = BatchValues(block, None, BATCH.type, context)
    columns: list[Column] = []
    for number, name in enumerate(syntax.columns(fields)):
        columns += [Literal(syntax.before(name, is_first=not number)), *text_columns(batches.value(name), syntax)]
    return assemble([*columns, Literal(syntax.end)], count).data.data


def record_runs(
    block: BatchBlock,
    fields: Sequence[str],
    context: FileContext,
    output: Output,
    *,
    txn_state: NDArray[np.int8] | None = None,
    decoder: RecordDecoder | None = None,
) -> Iterator[BatchRun[TextBytes]]:
    """The rows of the block's records, in order; a run without text is left to the scalar path.

    Args:
        block: with records.
        fields: of ``tables.RECORD`` or ``tables.RECORD_METADATA``, in any order; no others are computed.
        context: where the block comes from.
        output: how rows are spelled.
        txn_state: shape (batches,), indexes into ``reading.transactions.STATES``; None: null in every row.
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
    decoded = None
    if decoder is not None:
        decoded = decoded_json(decoder, contents_of(block.arena, records))
        if decoded.failed.any():
            left_out[records.batch[decoded.failed]] = True
            records = records.select(~left_out[records.batch], np.ones(left_out.size, np.bool_))
            decoded = decoded_json(decoder, contents_of(block.arena, records))
    batches = BatchValues(block, txn_state, RECORD.type, context)
    rows = _RecordRows(block.arena, records, decoded, batches, syntax, fields=fields)
    row_bounds = np.append(records.first_row, records.batch.size)
    cuts = np.flatnonzero(np.diff(left_out)) + 1
    first_batch = 0
    for first, last in _row_blocks(records):
        text = rows.text(first, last)
        last_batch = left_out.size if last == records.batch.size else int(records.batch[last - 1]) + 1
        own_cuts = cuts[np.searchsorted(cuts, first_batch, "right") : np.searchsorted(cuts, last_batch)]
        for begin, end in pairwise([first_batch, *own_cuts.tolist(), last_batch]):
            if left_out[begin]:
                yield BatchRun(begin, end, None)
                continue
            at = np.clip(row_bounds[[begin, end]], first, last) - first
            yield BatchRun(begin, end, text.data[text.bounds[at[0]] : text.bounds[at[1]]].data)
        # The next block may go on with this one's last batch.
        first_batch = last_batch if last == row_bounds[last_batch] else last_batch - 1


def undecoded_batches(block: BatchBlock, decoder: RecordDecoder | None) -> NDArray[np.bool_] | None:
    """Batches with a record of which something does not decode; shape (batches,). None: there are none."""
    if decoder is None or block.records is None:
        return None
    failed = decoded_json(decoder, contents_of(block.arena, block.records)).failed
    return np.bincount(block.records.batch[failed], minlength=block.headers.size) > 0


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


class _RecordRows:
    """Assembles ranges of rows of a block that has batches."""

    def __init__(
        self,
        arena: NDArray[np.uint8],
        records: RecordColumns,
        decoded: DecodedJson | None,
        batches: BatchValues,
        syntax: Syntax,
        *,
        fields: Sequence[str],
    ) -> None:
        count = records.accepted.size
        self._arena = arena
        self._records = records
        self._decoded = decoded
        self._syntax = syntax
        self._base_offset = batches.header("base_offset")
        self._base_timestamp = batches.header("base_timestamp")
        self._max_timestamp = batches.header("max_timestamp")
        self._base_sequence = batches.header("base_sequence")
        self._is_log_append_time = batches.has(LOG_APPEND_TIME)
        self._header_bounds = np.zeros(records.batch.size + 1, np.int64)
        np.cumsum(records.header_count, out=self._header_bounds[1:])
        # Columns of records by name, between them what all records of a batch have.
        self._parts: list[str | Literal | RaggedText] = []
        of_batch: list[Column] = []
        for number, name in enumerate(syntax.columns(fields)):
            of_batch.append(Literal(syntax.before(name, is_first=not number)))
            if name in _OF_RECORDS:
                self._parts += [_merged(assemble(of_batch, count)), name]
                of_batch = []
            else:
                of_batch += text_columns(batches.value(name), syntax)
        self._parts.append(_merged(assemble([*of_batch, Literal(syntax.end)], count)))

    def text(self, first: int, last: int) -> RaggedText:
        """Rows ``first`` to ``last`` (exclusive), a piece a row."""
        batch = self._records.batch[first:last]
        columns: list[Column] = []
        for part in self._parts if batch.size else []:
            match part:
                case Literal():
                    columns.append(part)
                case RaggedText(data, bounds):
                    columns.append(Bytes(data, bounds.take(batch), np.diff(bounds).take(batch)))
                case name:
                    columns += self._value(name, slice(first, last))
        return assemble(columns, last - first)

    def _value(self, name: str, rows: slice) -> list[Column]:
        """The values of one of _OF_RECORDS."""
        records = self._records
        match name:
            case "offset":
                return [Integer(self._base_offset.take(records.batch[rows]) + records.offset_delta[rows])]
            case "timestamp":
                return [Integer(self._timestamps(rows))]
            case "key":
                return self._syntax.strings(self._arena, records.key_start[rows], records.key_size[rows])
            case "value":
                return self._syntax.strings(self._arena, records.value_start[rows], records.value_size[rows])
            case "decodedKey":
                return self._json(None if self._decoded is None else self._decoded.key, rows)
            case "decodedValue":
                return self._json(None if self._decoded is None else self._decoded.value, rows)
            case "headers":
                return self._headers(rows, with_values=True)
            case "headerKeys":
                return self._headers(rows, with_values=False)
            case "keySize":
                return [Integer(records.key_size[rows].astype(np.int64))]
            case "valueSize":
                return [Integer(records.value_size[rows].astype(np.int64))]
            case _:
                base_sequence = self._base_sequence.take(records.batch[rows])
                return [Integer(record_sequences(base_sequence, records.offset_delta[rows]))]

    def _json(self, texts: RaggedText | None, rows: slice) -> list[Column]:
        """A JSON text of each row, null where it is empty or there are none."""
        if texts is None:
            return [Literal(self._syntax.null)]
        start = texts.bounds[rows]
        size = texts.bounds[rows.start + 1 : rows.stop + 1] - start
        null = Choice(size == 0, (b"", self._syntax.null))
        return [null, *self._syntax.json([Bytes(texts.data, start, size)], size.size)]

    def _timestamps(self, rows: slice) -> NDArray[np.int64]:
        """Milliseconds, as a consumer sees them."""
        batch = self._records.batch[rows]
        is_log_append_time = self._is_log_append_time[batch]
        timestamp = self._base_timestamp.take(batch) + self._records.timestamp_delta[rows]
        if is_log_append_time.any():
            timestamp = np.where(is_log_append_time, self._max_timestamp.take(batch), timestamp)
        return timestamp

    def _headers(self, rows: slice, *, with_values: bool) -> list[Column]:
        """A JSON array of each row's headers: their keys, or pairs of key and value."""
        bounds = self._header_bounds[rows.start : rows.stop + 1]
        used = slice(int(bounds[0]), int(bounds[-1]))
        if used.start == used.stop:
            return [Literal(b"[]")]
        headers = self._records.headers
        items = json_strings(self._arena, headers.key_start[used], headers.key_size[used])
        if with_values:
            values = json_strings(self._arena, headers.value_start[used], headers.value_size[used])
            items = [Literal(b"["), *items, Literal(b","), *values, Literal(b"]")]
        text = assemble([*items, Literal(b",")], used.stop - used.start)
        ends = text.bounds[bounds - used.start]
        # Without the comma behind the last one.
        array: list[Column] = [Literal(b"["), Bytes(text.data, ends[:-1], np.diff(ends) - 1), Literal(b"]")]
        return self._syntax.json(array, rows.stop - rows.start)


def _merged(pieces: RaggedText) -> Literal | RaggedText:
    """The text of all pieces if they are equal."""
    size = np.diff(pieces.bounds)
    if size.min() == size.max():
        lines = pieces.data.reshape(size.size, -1)
        if (lines == lines[0]).all():
            return Literal(lines[0].tobytes())
    return pieces
