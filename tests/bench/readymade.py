"""A Spark source that yields record batches ready made: the floor under every Python source of the same rows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kdump.inputs import inputs_of
from kdump.rows.arrow import arrow_schema
from kdump.rows.tables import RECORD
from kdump.spark.readrecords import ArrowOptions, read_logs
from kdump.tasks.logs import log_files, plan


class ReadyMade(DataSource):
    """As many rows as the segments at ``path`` have; each task repeats the first batch of its first segment."""

    @classmethod
    def name(cls) -> str:
        return "ready-made"

    def schema(self) -> StructType:
        return from_arrow_schema(arrow_schema(RECORD))

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self.options["path"], int(self.options["rows"]))


class _Reader(DataSourceReader):
    def __init__(self, path: str, rows: int) -> None:
        self._path = path
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        return [
            InputPartition(task) for task in plan(log_files(inputs_of([self._path], print, with_patterns=True), print))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        made = next(read_logs(partition.value, ArrowOptions(RECORD, arrow_schema(RECORD))), None)
        if made is not None:
            for _ in range(self._rows // made.num_rows):
                yield made
