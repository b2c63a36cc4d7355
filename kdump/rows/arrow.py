"""Rows as Arrow record batches: for the library and ``dump --output arrow``, for Spark, for Parquet of ``convert``.

Source: docs/contract.md#23-rows for the columns. The values are those of JSON lines, but:

- keys, values and header values are binary, header keys text as Java decodes it;
- ``control``, ``decodedKey`` and ``decodedValue`` are JSON text;
- ``timestamp`` is a timestamp in milliseconds (UTC), null for magic 0;
- ``timestampType`` is -1 for NoTimestampType, 0 for CreateTime, 1 for LogAppendTime, as in Spark's Kafka source;
- bytes of the name of a file that are no UTF-8 are U+FFFD.

Spark gets the form of its Kafka source: the columns of that come first (Spark's "Structured Streaming + Kafka
Integration Guide"). Its timestamps count microseconds: ``timestamp`` is null where the milliseconds do not fit, which
``problem`` then says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence, Sized
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kdump.fast.blocks import BatchBlock
from kdump.fast.records import RecordColumns
from kdump.fast.text import Bytes, assemble
from kdump.format.batch import NO_TIMESTAMP_TYPE, TIMESTAMP_TYPES
from kdump.log.context import FileContext
from kdump.reading.outcomes import Outcomes
from kdump.reading.printing import BatchRun, BlockPrinter
from kdump.rows.arrowarrays import bits, constant_array, number_array, taken, value_array
from kdump.rows.columnar import (
    Choices,
    Constant,
    HeaderLists,
    JsonTexts,
    ManyRows,
    Numbers,
    Strings,
    Value,
    kept_batches,
    shown_records,
    undecoded_batches,
)
from kdump.rows.columns import Column, ColumnType, Meaning, Row, Table
from kdump.rows.scalar import ValuePrinter
from kdump.wire.utf8 import decode_utf8

ArrowRows: TypeAlias = "pa.RecordBatch | list[Row]"
"""Rows made as columns, or one by one. ``rows.arrowparts`` joins them."""

HEADERS_TYPE: Final = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
_KEYS_TYPE: Final = pa.list_(pa.field("element", pa.string()))
_TYPES: Final = {
    ColumnType.INT32: pa.int32(),
    ColumnType.INT64: pa.int64(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.TEXT: pa.string(),
    ColumnType.BYTES: pa.binary(),
    ColumnType.BYTES_LIST: _KEYS_TYPE,
    ColumnType.HEADERS: HEADERS_TYPE,
    ColumnType.OBJECT: pa.string(),
    ColumnType.VALUE: pa.string(),
}
_NUMBERS: Final[dict[pa.DataType, type[np.int32 | np.int64]]] = {pa.int32(): np.int32, pa.int64(): np.int64}
"""Not ``to_pandas_dtype``, which imports pandas."""
_MILLISECONDS: Final = pa.timestamp("ms", tz="UTC")
_MICROSECONDS: Final = pa.timestamp("us", tz="UTC")
_MEANINGS: Final = {Meaning.RECORD_TIME: _MILLISECONDS, Meaning.TIMESTAMP_TYPE: pa.int32()}
"""Types of values that data frames store in their own way."""
_JSON_COLUMNS: Final = ("control", "decodedKey", "decodedValue")
_TIMESTAMP_TYPES: Final = {name: number for number, name in enumerate((NO_TIMESTAMP_TYPE, *TIMESTAMP_TYPES), -1)}
KAFKA_SOURCE: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
MOST_MILLISECONDS: Final = (2**63 - 1) // 1000
"""Milliseconds before or after 1970 whose microseconds fit into 64 bits."""


def row_schema(table: Table, names: Sequence[str] | None = None) -> pa.Schema:
    """Columns of a table, all nullable: those of ``names``, in that order; None: all.

    ``timestamp`` is in ms (UTC), other times are int64, in ms. ValueError when rows have no such column.
    """
    columns = table.columns if names is None else map(table.column, names)
    return pa.schema([(column.name, _arrow_type(column)) for column in columns])


def arrow_schema(table: Table) -> pa.Schema:
    """Columns in the form of Spark's Kafka source, all nullable. Its columns come first in tables with a key."""
    types = {field.name: _MICROSECONDS if field.type == _MILLISECONDS else field.type for field in row_schema(table)}
    names = list(types)
    if "key" in types:
        names = [*KAFKA_SOURCE, *(name for name in names if name not in KAFKA_SOURCE)]
    return pa.schema([(name, types[name]) for name in names])


def _arrow_type(column: Column) -> pa.DataType:
    return _MEANINGS.get(column.meaning) or _TYPES[column.type]


class ArrowPrinter(ValuePrinter[Row]):
    """A printer of ``reading.view`` that makes rows of a schema.

    Args:
        table: BATCH, RECORD or RECORD_DECODED.
        schema: some columns of ``row_schema(table)``, in any order; for Spark of ``arrow_schema(table)``.
        context: where the rows come from.
        outcomes: see ValuePrinter; so are the others.
        for_spark: timestamps are in microseconds.
    """

    def __init__(
        self,
        table: Table,
        schema: pa.Schema,
        context: FileContext,
        *,
        outcomes: Outcomes | None = None,
        for_spark: bool = False,
        **others: Any,
    ) -> None:
        super().__init__(table, context, outcomes=outcomes if "txnState" in schema.names else None, **others)
        self.schema = schema
        self.for_spark = for_spark

    def value(self, row: Row | None) -> Row:
        """See ValuePrinter."""
        if row is None:
            return {}
        for name in _JSON_COLUMNS:
            if row.get(name) is not None:
                row[name] = json.dumps(row[name], ensure_ascii=False, separators=(",", ":"))
        if "timestampType" in row:
            row["timestampType"] = _TIMESTAMP_TYPES[row["timestampType"]]
        return _in_microseconds(row) if self.for_spark else row

    def joined(self, rows: list[Row]) -> Iterator[ArrowRows]:
        """See Printer."""
        yield [row for row in rows if row]

    def columns(self) -> BlockPrinter[ArrowRows]:
        """See Printer."""
        return _ArrowBlocks(self)


def row_batch(found: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Rows by column name, of ArrowPrinter or of another table, as one record batch."""
    return pa.RecordBatch.from_arrays(
        [_header_lists(found) if field.type == HEADERS_TYPE else _values(found, field) for field in schema],
        schema=schema,
    )


def _values(found: Sequence[Row], field: pa.Field) -> pa.Array:
    values = [row.get(field.name) for row in found]
    if field.type != _KEYS_TYPE:
        return value_array(values, field.type)
    keys = value_array([decode_utf8(key) for one in values for key in one or ()], pa.string())
    return pa.ListArray.from_arrays(_list_bounds(values), keys, type=_KEYS_TYPE)


def _header_lists(found: Sequence[Row]) -> pa.Array:
    """The headers of rows; null for a row without headers. They are not made as Python objects first."""
    headers = [row.get("headers") for row in found]
    known = [one for one in headers if one is not None]
    keys = value_array([decode_utf8(key) for one in known for key, _ in one], pa.string())
    values = value_array([value for one in known for _, value in one], pa.binary())
    structs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(_list_bounds(headers), structs, type=HEADERS_TYPE)


def _list_bounds(lists: Sequence[Sized | None]) -> pa.Array:
    """Where each list begins among the elements of all, and where the last one ends; null: there is no list."""
    bounds = np.zeros(len(lists) + 1, np.int32)
    np.cumsum([len(one or ()) for one in lists], out=bounds[1:])
    return number_array(bounds, np.array([*(one is not None for one in lists), True]))


def _in_microseconds(row: Row) -> Row:
    """A row with the timestamp of Spark."""
    if row.get("timestamp") is not None:
        milliseconds = row["timestamp"]
        if abs(milliseconds) > MOST_MILLISECONDS:
            row["timestamp"] = None
            row["problem"] = _with_overflow(row.get("problem"), milliseconds)
        else:
            row["timestamp"] = milliseconds * 1000
    return row


def _with_overflow(problem: str | None, milliseconds: int) -> str:
    what = f"the timestamp {milliseconds} ms is out of range"
    return what if problem is None else f"{problem}; {what}"


class _ArrowBlocks:
    def __init__(self, printer: ArrowPrinter) -> None:
        self._printer = printer

    def batches(self, block: BatchBlock) -> ArrowRows:
        """See BlockPrinter."""
        if not block.is_valid.all():
            block = block.select(kept_batches(block, np.ones(block.headers.size, np.bool_), self._printer.on_malformed))
        if not block.headers.size:
            return []
        return self._made(block, None, None)

    def leaves(self, block: BatchBlock) -> NDArray[np.bool_] | None:
        """See BlockPrinter."""
        return undecoded_batches(block, self._printer.decoder)

    def records(self, block: BatchBlock) -> Iterator[BatchRun[ArrowRows]]:
        """See BlockPrinter."""
        records = block.records
        if records is None or not block.headers.size:
            return
        shown = shown_records(block, records, self.leaves(block), self._printer.on_malformed)
        outcomes = self._printer.outcomes
        made = self._made(block, shown.records, None if outcomes is None else outcomes.column(block.headers))
        for first, last, part in shown.runs:
            yield BatchRun(first, last, None if part is None else made.slice(part.start, part.stop - part.start))

    def _made(
        self, block: BatchBlock, records: RecordColumns | None, states: NDArray[np.int8] | None
    ) -> pa.RecordBatch:
        printer = self._printer
        of = ManyRows(block, printer.table.type, printer.context, records, txn_state=states, decoder=printer.decoder)
        arrays = _Arrays(of, printer.table, for_spark=printer.for_spark)
        return pa.RecordBatch.from_arrays([arrays.array(field) for field in printer.schema], schema=printer.schema)


class _Arrays:
    """The columns of many rows as Arrow arrays, made when needed."""

    def __init__(self, of: ManyRows, table: Table, *, for_spark: bool) -> None:
        self._of = of
        self._table = table
        self._rows = of.rows
        self._for_spark = for_spark

    @cached_property
    def _milliseconds(self) -> Numbers:
        return self._of.timestamps()

    @cached_property
    def _overflows(self) -> NDArray[np.bool_]:
        """Records whose time does not fit in microseconds; shape (rows,)."""
        # Not with abs(): the least int64 is its own absolute value.
        values = self._milliseconds.values
        return (values > MOST_MILLISECONDS) | (values < -MOST_MILLISECONDS)

    def array(self, field: pa.Field) -> pa.Array:
        """The column of a field."""
        column = self._table.column(field.name)
        if column.meaning is Meaning.RECORD_TIME:
            return self._timestamps()
        array = self._array(column.many(self._of), column, field)
        return self._with_overflows(array) if column.name == "problem" and self._for_spark else array

    def _timestamps(self) -> pa.Array:
        values, is_set = self._milliseconds.values, self._milliseconds.is_set
        if not self._for_spark:
            return number_array(values, is_set).view(_MILLISECONDS)
        microseconds = np.where(self._overflows, 0, values) * 1000
        if self._overflows.any():
            is_set = ~self._overflows if is_set is None else is_set & ~self._overflows
        return number_array(microseconds, is_set).view(_MICROSECONDS)

    def _with_overflows(self, problems: pa.Array) -> pa.Array:
        if not self._overflows.any():
            return problems
        texts = problems.to_pylist()
        for row in np.flatnonzero(self._overflows).tolist():
            texts[row] = _with_overflow(texts[row], int(self._milliseconds.values[row]))
        return value_array(texts, pa.string())

    def _array(self, value: Value, column: Column, field: pa.Field) -> pa.Array:
        match value:
            case Constant(constant):
                return constant_array(constant, field.type, self._rows)
            case Choices(index, options):
                if column.meaning is Meaning.TIMESTAMP_TYPE:
                    codes = [_TIMESTAMP_TYPES[str(option)] for option in options]
                    return self._numbers(column, np.array(codes, np.int32).take(index.astype(np.intp)))
                if index.size and (index == index[0]).all():
                    return constant_array(options[int(index[0])], field.type, self._rows)
                if field.type == pa.bool_():
                    return number_array(self._of_rows(column, index))
                return taken(value_array(options, field.type), self._of_rows(column, index.astype(np.int32)))
            case Numbers(numbers, is_set):
                return self._numbers(column, numbers.astype(_NUMBERS[field.type], copy=False), is_set)
            case Strings(arena, start, size):
                return _binaries(arena, start, size)
            case JsonTexts(data, start, size):
                bounds = np.append(start, start[-1:] + size[-1:]) if size.size else np.zeros(1, np.int64)
                return _json(data, bounds)
            case HeaderLists():
                return _header_arrays(value, field.type)

    def _numbers(
        self, column: Column, values: NDArray[np.integer], is_set: NDArray[np.bool_] | None = None
    ) -> pa.Array:
        if column.is_shared and is_set is None and values.size and (values == values[0]).all():
            # Mostly it is the same for all batches.
            return constant_array(values[0].item(), pa.from_numpy_dtype(values.dtype), self._rows)
        return number_array(self._of_rows(column, values), None if is_set is None else self._of_rows(column, is_set))

    def _of_rows(self, column: Column, values: NDArray[Any]) -> NDArray[Any]:
        """The value of each row, from that of each batch where the column is shared."""
        return self._of.spread(values) if column.is_shared else values


def _header_arrays(lists: HeaderLists, kind: pa.DataType) -> pa.Array:
    arena, headers = lists.arena, lists.headers
    bounds = number_array(lists.bounds.astype(np.int32))
    keys = _texts(_binaries(arena, headers.key_start, headers.key_size))
    if not lists.with_values:
        return pa.ListArray.from_arrays(bounds, keys, type=kind)
    values = _binaries(arena, headers.value_start, headers.value_size)
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(bounds, pairs, type=HEADERS_TYPE)


def _binaries(arena: NDArray[np.uint8], start: NDArray[np.int64], size: NDArray[np.integer]) -> pa.Array:
    """``arena[start[i]:][:size[i]]`` of every row, null for a size below 0. The ranges do not overlap.

    All of them and what lies between are one array over the arena, of which every second element is taken.
    """
    if not start.size:
        return value_array([], pa.binary())
    if (start[1:] < start[:-1]).any():
        # Messages inside wrappers lie after those outside of any.
        text = assemble([Bytes(arena, start, size)], start.size)
        arena, start = text.data, text.bounds[:-1]
    bounds = np.empty(2 * start.size + 1, np.int32)
    bounds[:-1:2] = start
    np.maximum(size, 0, out=bounds[1::2])
    bounds[1::2] += bounds[:-1:2]
    bounds[-1] = bounds[-2]
    pieces = pa.BinaryArray.from_buffers(pa.binary(), 2 * start.size, [None, pa.py_buffer(bounds), pa.py_buffer(arena)])
    chosen = np.arange(0, 2 * start.size, 2, dtype=np.int32)
    is_null = size < 0
    return taken(pieces, chosen, ~is_null if is_null.any() else None)


def _json(data: NDArray[np.uint8], bounds: NDArray[np.int64]) -> pa.Array:
    """JSON texts, null for the empty ones."""
    buffers = [bits(np.diff(bounds) > 0), pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), bounds.size - 1, buffers)


def _texts(data: pa.Array) -> pa.Array:
    """Bytes as Java decodes them."""
    try:
        texts = data.view(pa.string())
        texts.validate(full=True)
        return texts
    except pa.ArrowInvalid:
        return value_array([decode_utf8(key) for key in data.to_pylist()], pa.string())
