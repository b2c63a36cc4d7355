"""Rows of JSON lines and CSV for many v2 batches at once.

Source: docs/contract.md#23-rows; :mod:`kdump.rows.tables` has the names of the columns. Values that all records of a
batch share are written once for each batch and copied to its rows. Control batches and batches that ``fast.records``
refuses are left to the scalar path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kdump.fast.blocks import BatchBlock
from kdump.fast.quoting import csv_strings, csv_text, json_strings
from kdump.fast.records import RecordColumns
from kdump.fast.text import Bytes, Choice, Column, Integer, Literal, RaggedText, assemble
from kdump.format.batch import CONTROL
from kdump.log.context import FileContext
from kdump.payloads.decoded import RecordDecoder
from kdump.reading.jointrows import JointBlock
from kdump.reading.printing import BatchRun, TextBytes
from kdump.rows.columnar import Choices, Constant, HeaderLists, JsonTexts, ManyRows, Numbers, Strings, Value
from kdump.rows.columns import Table
from kdump.rows.scalarlines import Output
from kdump.rows.tables import BATCH, RECORD

_BLOCK_ROWS: Final = 4096
_BLOCK_BYTES: Final = 1 << 20
"""Rows, and bytes of their records, that are assembled at a time: half a megabyte of text, or a few."""
_BOOLEANS: Final = {False: b"false", True: b"true"}


def batch_rows(
    block: BatchBlock, fields: Sequence[str], context: FileContext, output: Output, *, table: Table = BATCH
) -> memoryview:
    """A row for each batch with ``fields`` of ``table``, in any order. ValueError for another field."""
    syntax = _syntax_of(output, fields)
    count = block.headers.size
    if not count:
        return memoryview(b"")
    of = ManyRows(block, table.type, context)
    columns: list[Column] = []
    for number, name in enumerate(syntax.columns(fields)):
        before = Literal(syntax.before(name, is_first=not number))
        columns += [before, *_spelled(table.column(name).many(of), syntax)]
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
    syntax = _syntax_of(output, fields)
    records = block.records
    if records is None or not block.headers.size:
        return
    is_control = block.headers["attributes"] & CONTROL != 0
    left_out = ~records.accepted | is_control
    if is_control.any():
        records = records.select(~is_control[records.batch], np.ones(is_control.size, np.bool_))
    of = ManyRows(block, table.type, context, records, txn_state=txn_state, decoder=decoder)
    if of.decoded is not None and of.decoded.failed.any():
        left_out[records.batch[of.decoded.failed]] = True
        records = records.select(~left_out[records.batch], np.ones(left_out.size, np.bool_))
        of = ManyRows(block, table.type, context, records, txn_state=txn_state, decoder=decoder)
    lines = _RecordTexts(of, table, syntax, fields)
    row_bounds = np.append(records.first_row, records.batch.size)
    changes = left_out[1:] != left_out[:-1]
    if isinstance(block, JointBlock):
        changes |= block.skips
    cuts = np.flatnonzero(changes) + 1
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

    def __init__(self, of: ManyRows, table: Table, syntax: Syntax, fields: Sequence[str]) -> None:
        self._batch = of.records.batch
        self._syntax = syntax
        # Columns of records, and between them the text that all records of a batch share.
        self._parts: list[Value | Literal | RaggedText] = []
        shared: list[Column] = []
        for number, name in enumerate(syntax.columns(fields)):
            shared.append(Literal(syntax.before(name, is_first=not number)))
            column = table.column(name)
            if column.is_shared:
                shared += _spelled(column.many(of), syntax)
            else:
                self._parts += [_merged(assemble(shared, of.count)), column.many(of)]
                shared = []
        self._parts.append(_merged(assemble([*shared, Literal(syntax.end)], of.count)))

    def text(self, first: int, last: int) -> RaggedText:
        """Rows ``first`` to ``last`` (exclusive), a piece a row."""
        batch = self._batch[first:last]
        columns: list[Column] = []
        for part in self._parts if batch.size else []:
            match part:
                case Literal():
                    columns.append(part)
                case RaggedText(data, bounds):
                    columns.append(Bytes(data, bounds.take(batch), np.diff(bounds).take(batch)))
                case value:
                    columns += _spelled(value.part(slice(first, last)), self._syntax)
        return assemble(columns, last - first)


def _spelled(value: Value, syntax: Syntax) -> list[Column]:
    """A value as text columns, as ``syntax`` writes it."""
    match value:
        case Constant(constant):
            return [Literal(b"%d" % constant if isinstance(constant, int) else _text(constant, syntax))]
        case Choices(index, options):
            return [Choice(index, tuple(_text(option, syntax) for option in options))]
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


def _text(value: str | bool | None, syntax: Syntax) -> bytes:
    if isinstance(value, bool):
        return _BOOLEANS[value]
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
    if size.size and size.min() == size.max():
        lines = pieces.data.reshape(size.size, -1)
        if (lines == lines[0]).all():
            return Literal(lines[0].tobytes())
    return pieces


class Syntax(Protocol):
    """What the two outputs write differently. Numbers and booleans are the same in both.

    A value is a list of text columns, one after the other.
    """

    null: bytes
    end: bytes
    """After the last value of a row."""

    def columns(self, fields: Sequence[str]) -> list[str]:
        """The columns of a row that shows ``fields``."""

    def before(self, name: str, *, is_first: bool) -> bytes:
        """What stands in front of the value of the column ``name``."""

    def text(self, value: str) -> bytes:
        """One text."""

    def strings(self, source: NDArray[np.uint8], start: NDArray[np.int64], size: NDArray[np.integer]) -> list[Column]:
        """Bytes ``source[start:start + size]``, null where the size is negative; shapes (rows,)."""

    def json(self, columns: list[Column], rows: int) -> list[Column]:
        """A value that is JSON in both outputs."""


class JsonSyntax:
    """Objects, as ``json.dumps`` writes them with ``ensure_ascii=False`` and ``separators=(",", ":")``."""

    null = b"null"
    end = b"}\n"

    def columns(self, fields: Sequence[str]) -> list[str]:
        """An object has each member once."""
        return list(dict.fromkeys(fields))

    def before(self, name: str, *, is_first: bool) -> bytes:
        """See Syntax."""
        return (b"{" if is_first else b",") + self.text(name) + b":"

    def text(self, value: str) -> bytes:
        """See Syntax."""
        return json.dumps(value, ensure_ascii=False).encode()

    def strings(self, source: NDArray[np.uint8], start: NDArray[np.int64], size: NDArray[np.integer]) -> list[Column]:
        """See Syntax."""
        return json_strings(source, start, size)

    def json(self, columns: list[Column], rows: int) -> list[Column]:
        """See Syntax."""
        return columns


class CsvSyntax:
    """Fields after RFC 4180, with a line feed after each row.

    Args:
        alone: rows have one field only. It is quoted where it is empty, as a row must not be an empty line.
        is_safe: no text begins like a formula of a spreadsheet.
    """

    end = b"\n"

    def __init__(self, *, alone: bool, is_safe: bool) -> None:
        self._alone, self._is_safe = alone, is_safe
        self.null = b'""' if alone else b""

    def columns(self, fields: Sequence[str]) -> list[str]:
        """See Syntax."""
        return list(fields)

    def before(self, name: str, *, is_first: bool) -> bytes:
        """See Syntax."""
        return b"" if is_first else b","

    def text(self, value: str) -> bytes:
        """See Syntax."""
        return csv_text(value.encode(), alone=self._alone, is_safe=self._is_safe)

    def strings(self, source: NDArray[np.uint8], start: NDArray[np.int64], size: NDArray[np.integer]) -> list[Column]:
        """See Syntax."""
        return csv_strings(source, start, size, alone=self._alone, is_safe=self._is_safe)

    def json(self, columns: list[Column], rows: int) -> list[Column]:
        """See Syntax."""
        lines = assemble(columns, rows)
        return csv_strings(lines.data, lines.bounds[:-1], np.diff(lines.bounds))


def _syntax_of(output: Output, fields: Sequence[str]) -> Syntax:
    """The syntax of rows that have ``fields``. ValueError without fields."""
    if not fields:
        raise ValueError("a row needs a field")
    return JsonSyntax() if output == "jsonl" else CsvSyntax(alone=len(fields) == 1, is_safe=output == "csv-safe")
