"""The three data sources. Their classes travel to the workers; other modules of ``kdump`` do their work."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kdump.codes import raise_error
from kdump.inputs import inputs_of
from kdump.rows.arrow import arrow_schema
from kdump.rows.columns import Table
from kdump.rows.filetables import FINDING
from kdump.rows.logs import table_of
from kdump.rows.tables import BATCH, RECORD
from kdump.spark.filters import Pushed
from kdump.spark.options import (
    SourceOptions,
    ignored_options,
    is_catalog_table,
    parse_options,
    parse_stream_options,
    schema_options,
    without_table_properties,
)
from kdump.spark.readfindings import plan_findings, read_findings
from kdump.spark.readrecords import ArrowOptions, Mode, checked, decoded, read_logs, without_nulls
from kdump.spark.stream import LogStreamReader, UnlimitedStreamReader
from kdump.spark.worker import BeginsTask
from kdump.tasks.logs import LogFile, log_files, plan
from kdump.verify.segment import CheckOptions
from kdump.worlds import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
_ONE_QUERY: Final = (
    f"{PUSHDOWN} is on: Spark gives wrong rows where one DataFrame or view of a Python source is queried more than "
    "once; call load() for each query, for both sides of a join too"
)
_NO_WRITER: Final = (
    "{name} is read only: `kdump convert --from jsonl` writes segments, and format('kafka') writes to a broker"
)
_KEPT: Final = "kdump.options"
"""Where the schema of a catalog's table keeps the options of CREATE TABLE: the metadata of its first column."""
_LOG: Final = logging.getLogger("kdump")


class LogReader(BeginsTask, DataSourceReader):
    """Rows of logs as record batches of exactly the schema that was asked for."""

    def __init__(self, table: Table, options: SourceOptions, schema: StructType) -> None:
        self._table = _table(table, is_decoded=options.decoding.is_made, world=options.world)
        self._options = options
        self._schema: pa.Schema = checked(schema, self._table)
        self._pushed = Pushed()

    def partitions(self) -> list[InputPartition]:
        """See DataSourceReader. KdumpError for a path that cannot be looked at."""
        options = self._options
        logs = log_files(inputs_of(options.paths, raise_error, with_patterns=True), raise_error, with_worlds=True)
        if options.fail_on_data_loss:
            _refuse_lost_offsets(logs, options)
        tasks = plan(
            logs,
            self._pushed.narrowed(options.wanted),
            task_bytes=options.task_bytes,
            min_tasks=options.min_partitions,
        )
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See DataSourceReader."""
        if partition.value is None:
            # What Spark makes up where there is nothing to read.
            return iter(())
        options = self._options
        read = ArrowOptions(
            self._table,
            self._schema,
            self._pushed.narrowed(options.wanted),
            options.times.intersection(self._pushed.times),
            options.mode,
            decoding=options.decoding,
        )
        return without_nulls(read_logs(partition.value, read), self._schema)


class FilteringLogReader(LogReader):
    """A LogReader that takes filters from Spark. Its class must not be used while filter pushdown is off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """See DataSourceReader."""
        return list(self._pushed.take(filters))


class RecordSource(DataSource):
    """Records: the columns of Spark's Kafka source first, then the others of kdump's JSON lines."""

    table: ClassVar[Table] = RECORD
    reader_class: ClassVar[type[LogReader]] = LogReader

    @classmethod
    def name(cls) -> str:
        """See DataSource."""
        return "kafka-segment"

    def schema(self) -> StructType:
        """See DataSource."""
        includes_headers, is_decoded, world = schema_options(self.options)
        schema = from_arrow_schema(arrow_schema(_table(self.table, is_decoded=is_decoded, world=world)))
        if not includes_headers:
            schema = StructType([each for each in schema if each.name != "headers"])
        if is_catalog_table(self.options):
            # When the table is read, Spark hands over the schema that the catalog keeps, and none of the options.
            schema[0].metadata = {_KEPT: dict(without_table_properties(self.options))}
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """See DataSource."""
        return self.reader_class(self.table, parse_options(self._given(schema)), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """See DataSource."""
        return stream_reader_class()(self.table, parse_stream_options(self._given(schema)), schema)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """See DataSource. ValueError: it says what does write."""
        raise ValueError(_NO_WRITER.format(name=self.name()))

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802
        """See DataSource. ValueError as ``writer``."""
        raise ValueError(_NO_WRITER.format(name=self.name()))

    def _given(self, schema: StructType) -> Mapping[str, str]:
        """The options, also those that CREATE TABLE had."""
        kept: Mapping[str, str] = next((each.metadata[_KEPT] for each in schema if _KEPT in each.metadata), {})
        given = {**kept, **self.options}
        if ignored := ignored_options(given):
            _LOG.warning("kdump: %s ignores %s: no Kafka client is used", self.name(), ", ".join(ignored))
        return given


class BatchSource(RecordSource):
    """A row a batch from its header and its CRC; nothing is decompressed."""

    table = BATCH

    @classmethod
    def name(cls) -> str:
        """See DataSource."""
        return "kafka-segment-batches"


class FindingReader(BeginsTask, DataSourceReader):
    """What ``verify`` finds, a partition in one task."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema: pa.Schema = checked(schema, FINDING)

    def partitions(self) -> list[InputPartition]:
        """See DataSourceReader. KdumpError for a path that cannot be looked at."""
        tasks = plan_findings(self._options.paths, self._options.wanted, self._options.task_bytes)
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See DataSourceReader."""
        if partition.value is None:
            return iter(())
        options = CheckOptions(deep=self._options.deep)
        fails_fast = self._options.mode is Mode.FAILFAST
        return without_nulls(read_findings(partition.value, self._schema, options, fails_fast=fails_fast), self._schema)


class FindingSource(RecordSource):
    """What ``verify`` finds."""

    table = FINDING

    @classmethod
    def name(cls) -> str:
        """See DataSource."""
        return "kafka-segment-findings"

    def reader(self, schema: StructType) -> DataSourceReader:
        """See DataSource."""
        return FindingReader(parse_options(self._given(schema)), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """See DataSource. ValueError: findings are about whole partitions."""
        raise ValueError(f"{self.name()} is no stream: verify looks at whole partitions")


def _table(table: Table, *, is_decoded: bool, world: World | None) -> Table:
    chosen = decoded(table) if is_decoded else table
    return chosen if chosen is FINDING else table_of(world, chosen)


def register(spark: SparkSession) -> None:
    """Make ``kafka-segment``, ``kafka-segment-batches`` and ``kafka-segment-findings`` known to a session.

    Each has a second name without hyphens (``kafkasegment``), which SQL takes without backticks.

    Call it again after ``spark.sql.python.filterPushdown.enabled`` has changed: which filters Spark hands down is
    settled here. While it is on, a DataFrame must be read once only, and this warns of it: of several queries on one
    Spark (4.1 to 4.3) reads with the filters of the one that was planned last, and gives the others wrong rows.
    """
    is_filtering = str(spark.conf.get(PUSHDOWN, "false")).lower() == "true"
    if is_filtering:
        warnings.warn(_ONE_QUERY, stacklevel=2)
    reader = FilteringLogReader if is_filtering else LogReader
    for source in (RecordSource, BatchSource, FindingSource):
        for name in (source.name(), source.name().replace("-", "")):
            spark.dataSource.register(_variant(source, name, reader))


def _variant(source: type[RecordSource], own_name: str, reader: type[LogReader]) -> type[RecordSource]:
    """The source under a name, with a class of readers."""
    return type(source.__name__, (source,), {"name": classmethod(lambda cls: own_name), "reader_class": reader})


def _refuse_lost_offsets(logs: Sequence[LogFile], options: SourceOptions) -> None:
    firsts: dict[tuple[str, int], int] = {}
    for log in logs:
        if log.context.topic is not None and log.context.partition is not None and log.base_offset is not None:
            own = (log.context.topic, log.context.partition)
            firsts[own] = min(firsts.get(own, log.base_offset), log.base_offset)
    for (topic, partition), start in options.wanted.starts.items():
        first = firsts.get((topic, partition))
        if first is None or first > start:
            has = "is not there" if first is None else f"begins at offset {first}"
            what = f"partition {topic}-{partition} {has}, startingOffsets asks for {start} (failOnDataLoss)"
            raise ValueError(what)


def stream_reader_class() -> type[LogStreamReader]:
    """The one for the PySpark that there is."""
    try:
        from kdump.spark.limitedstream import LimitedStreamReader
    except ImportError:
        return UnlimitedStreamReader
    return LimitedStreamReader
