"""Rows as an Arrow IPC stream, or as a Parquet file, which are written forwards: a pipe is enough. Needs pyarrow."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from kdump.rows.arrow import ArrowRows
from kdump.rows.arrowparts import ArrowParts, Reshape, RowGroup

TableForm = Literal["arrow", "parquet"]


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
