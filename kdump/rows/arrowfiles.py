"""Rows as files of tables: Arrow IPC streams, and Parquet. All of it needs pyarrow.

Both are written forwards: a pipe is enough. Exports have the columns of Spark's Kafka source. Consumers get no control
records, so these are left out there. One more column has the outcome of a record's transaction, as aborted records are
included. Source: Spark's "Structured Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from types import TracebackType
from typing import Final, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kdump.rows.arrow import KAFKA_SOURCE, ArrowRows, row_schema
from kdump.rows.arrowparts import ArrowParts, Reshape, RowGroup
from kdump.rows.columns import Table

TableForm = Literal["arrow", "parquet"]
_IS_CONTROL: Final = "isControl"
_COLUMNS: Final = (*KAFKA_SOURCE, "txnState")
_DECODED: Final = ("decodedKey", "decodedValue", "problem")
"""Columns of the file besides, where records are decoded."""
_REPEATED: Final = ("topic", "partition", "timestampType", "txnState")
"""Columns that a dictionary makes small. For keys and values it costs more than it saves."""
_WITHOUT_STATISTICS: Final = ("key", "value", "headers", *_DECODED)
"""Columns without least and largest value: these would be copied several times, 380 MB for a value of 64 MiB."""


class TableWriter:
    """Writes rows of a schema.

    Args:
        schema: of all rows.
        form: of the output.
        write: takes bytes of the output.
        reshape: makes other columns of them; None: they stay.
    """

    def __init__(
        self,
        schema: pa.Schema,
        form: TableForm,
        write: Callable[[bytes], None],
        reshape: Reshape | None = None,
    ) -> None:
        self._parts = ArrowParts(schema)
        self._reshape = reshape
        if reshape is not None:
            schema = reshape.schema_of(schema)
        sink = pa.PythonFile(_Sink(write), "w")
        self._writer = (
            pa.ipc.new_stream(sink, schema)
            if form == "arrow"
            else pq.ParquetWriter(sink, schema, compression="zstd", write_statistics=False)
        )
        self._has_row_groups = form == "parquet"
        self._group = RowGroup(schema)

    def add(self, rows: ArrowRows) -> None:
        """Take rows."""
        self._parts.add(rows)
        if self._parts.are_enough:
            self._take()
            if self._group.is_enough or not self._has_row_groups:
                self._write()

    def close(self) -> None:
        """Write what is left, and the end of the output."""
        self._take()
        self._write()
        self._writer.close()

    def _take(self) -> None:
        for batch in self._parts.take():
            self._group.add(batch if self._reshape is None else self._reshape.of(batch))

    def _write(self) -> None:
        rows = self._group.take()
        if rows.num_rows:
            self._writer.write_table(rows)


class _Sink(io.RawIOBase):
    def __init__(self, write: Callable[[bytes], None]) -> None:
        super().__init__()
        self._take = write

    def writable(self) -> bool:
        """See RawIOBase."""
        return True

    def write(self, data: object) -> int:
        """See RawIOBase."""
        content = bytes(data)  # type: ignore[call-overload]
        self._take(content)
        return len(content)


def export_schema(table: Table) -> pa.Schema:
    """The schema of the rows that are added: some columns of a table of records."""
    names = (*_COLUMNS, *(_DECODED if table.is_decoded else ()), _IS_CONTROL)
    return row_schema(table, names)


class ParquetRecords:
    """Writes rows to a Parquet file.

    Args:
        path: of the file.
        schema: of the rows, see ``export_schema``. The file has these columns, but for the last one.
        reshape: makes other columns of them; None: they stay.

    Counts: ``written`` records, ``control`` records that were left out.
    """

    def __init__(self, path: str, schema: pa.Schema, reshape: Reshape | None = None) -> None:
        self._columns = [name for name in schema.names if name != _IS_CONTROL]
        self._reshape = reshape
        shown = pa.schema([schema.field(name) for name in self._columns])
        written = shown if reshape is None else reshape.schema_of(shown)
        # An open file: pyarrow would take a path for a URI, and needs UTF-8.
        self._file = pa.OSFile(os.fsencode(path), "wb")
        self._writer = pq.ParquetWriter(
            self._file,
            written,
            compression="zstd",
            use_dictionary=list(_REPEATED),
            write_statistics=[name for name in self._columns if name not in _WITHOUT_STATISTICS],
        )
        self._parts = ArrowParts(schema)
        self._group = RowGroup(written)
        self.written = 0
        self.control = 0

    def add(self, part: ArrowRows) -> None:
        """Take rows of the schema. The rows of a large batch are not collected until it ends."""
        self._parts.add(part)
        if self._parts.are_enough:
            self.write()

    def write(self) -> None:
        """Write the rows that were added. They may refer to memory that is used again afterwards."""
        for rows in self._parts.take():
            self._write(rows)

    def _write(self, rows: pa.RecordBatch) -> None:
        is_data = pc.invert(pc.fill_null(rows.column(_IS_CONTROL), False))
        if is_data.true_count < rows.num_rows:
            self.control += rows.num_rows - is_data.true_count
            rows = rows.filter(is_data)
        rows = rows.select(self._columns)
        self._group.add(rows if self._reshape is None else self._reshape.of(rows))
        self.written += rows.num_rows
        if self._group.is_enough:
            self._flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Write what is left, and the footer."""
        if error is None:
            self._flush()
        self._writer.close()
        self._file.close()

    def _flush(self) -> None:
        rows = self._group.take()
        if rows.num_rows:
            self._writer.write_table(rows)
