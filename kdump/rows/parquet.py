"""Records as Parquet, with the columns of Spark's Kafka source, compressed with zstd. Needs pyarrow.

Source: Spark's "Structured Streaming + Kafka Integration Guide". Consumers get no control records, so they are left
out. One more column has the outcome of a record's transaction, as aborted records are included.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kdump.rows.arrow import KAFKA_SOURCE, ArrowRows, row_schema
from kdump.rows.arrowparts import ArrowParts, RowGroup
from kdump.rows.tables import RECORD

_IS_CONTROL: Final = "isControl"
_COLUMNS: Final = (*KAFKA_SOURCE, "txnState")
ROW_SCHEMA: Final = row_schema(RECORD, (*_COLUMNS, _IS_CONTROL))
"""The schema of the rows that are added."""
SCHEMA: Final = row_schema(RECORD, _COLUMNS)
"""The schema of the file."""
_REPEATED: Final = ("topic", "partition", "timestampType", "txnState")
"""Columns that a dictionary makes small. For keys and values it costs more than it saves."""
_WITHOUT_STATISTICS: Final = ("key", "value", "headers")
"""Columns without least and largest value: these would be copied several times, 380 MB for a value of 64 MiB."""


class ParquetRecords:
    """Writes rows to a Parquet file at ``path``.

    Counts: ``written`` records, ``control`` records that were left out.
    """

    def __init__(self, path: str) -> None:
        # An open file: pyarrow would take a path for a URI, and needs UTF-8.
        self._file = pa.OSFile(os.fsencode(path), "wb")
        self._writer = pq.ParquetWriter(
            self._file,
            SCHEMA,
            compression="zstd",
            use_dictionary=list(_REPEATED),
            write_statistics=[name for name in SCHEMA.names if name not in _WITHOUT_STATISTICS],
        )
        self._parts = ArrowParts(ROW_SCHEMA)
        self._group = RowGroup(SCHEMA)
        self.written = 0
        self.control = 0

    def add(self, part: ArrowRows) -> None:
        """Take rows of ROW_SCHEMA. The rows of a large batch are not collected until it ends."""
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
        self._group.add(rows.select(list(_COLUMNS)))
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
