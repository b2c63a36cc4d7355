"""``readStream`` of the data sources: partitions as they grow and roll, each batch once.

The offset of a stream is a ``StreamPosition`` for each partition directory. What PySpark 4.2 can ask for and 4.1 cannot
is in ``limitedstream``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kdump.codes import Codes, KdumpError, raise_error
from kdump.reading.selection import Range
from kdump.reading.transactionreader import TransactionReader
from kdump.rows.columns import Table
from kdump.spark.byteranges import ByteRange, byte_ranges_between
from kdump.spark.options import EARLIEST, LATEST, SourceOptions
from kdump.spark.partitions import PartitionLog, list_partitions
from kdump.spark.positions import (
    UNLIMITED,
    Budget,
    DataLossError,
    Status,
    StreamPosition,
    StreamTracker,
    shares,
    status,
)
from kdump.spark.readrecords import ArrowOptions, checked, decoded, read_log, without_nulls
from kdump.spark.worker import BeginsTask
from kdump.tasks.logs import Wanted, packed, task_sizes

_LOG: Final = logging.getLogger("kdump")

_Seen: TypeAlias = tuple[tuple[int, ...], Status]
"""The state of the files of a partition. While it stays the same, nothing is new."""


class LogStreamReader(BeginsTask, DataSourceStreamReader):
    """Rows of logs as they grow, as record batches of exactly the schema that was asked for."""

    def __init__(self, table: Table, options: SourceOptions, schema: StructType) -> None:
        self._table = decoded(table) if options.decoding.is_made else table
        self._options = options
        self._schema: pa.Schema = checked(schema, self._table)
        self._reported: set[str] = set()
        self._tracker = StreamTracker(self._on_loss)
        # For each partition that was read completely: the state of its files then, and the place.
        self._seen: dict[str, tuple[_Seen, StreamPosition]] = {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """See DataSourceStreamReader. KdumpError for a path that is not there."""
        logs = list_partitions(self._options.paths, self._options.wanted, raise_error)
        return to_json({directory: self._begin(log) for directory, log in logs.items() if log.bases})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """See DataSourceStreamReader.

        Raises:
            DataLossError: what was to be read is gone, with ``failOnDataLoss``.
            KdumpError: a file cannot be looked at.
        """
        source = self._options
        for missing in start.keys() - end.keys():
            self._on_loss(f"{missing}: the partition is not there any more")
        changed = [directory for directory in end if start.get(directory) != end[directory]]
        logs = self.listed() if changed else {}
        starts, ends = from_json(start), from_json(end)
        byte_ranges: list[ByteRange] = []
        for directory in changed:
            places = starts.get(directory), ends[directory]
            try:
                byte_ranges += list(self._byte_ranges(directory, logs.get(directory), *places))
            except KdumpError as error:
                if error.code is not Codes.MISSING:
                    raise
                # A file was deleted since it was listed.
                byte_ranges += list(self._byte_ranges(directory, self.listed().get(directory), *places))
        total = sum(byte_range.size for byte_range in byte_ranges)
        task_bytes, open_cost = task_sizes(total, source.task_bytes, source.min_partitions)
        return [InputPartition(task) for task in packed(byte_ranges, task_bytes=task_bytes, open_cost=open_cost)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See DataSourceStreamReader. Raises as ``read_log``, and DataLossError, ChangedError."""
        source = self._options
        for byte_range in partition.value:
            options = ArrowOptions(
                self._table,
                self._schema,
                Wanted(offsets=Range(byte_range.first_offset, None)),
                source.times,
                source.mode,
                decoding=source.decoding,
            )
            rows = read_log(byte_range, options, TransactionReader())
            try:
                yield from without_nulls(rows, self._schema)
            except DataLossError as error:
                self._on_loss(str(error))

    def _byte_ranges(
        self, directory: str, log: PartitionLog | None, start: StreamPosition | None, end: StreamPosition
    ) -> Iterator[ByteRange]:
        if log is None or not log.bases:
            self._on_loss(_gone(directory))
        else:
            yield from byte_ranges_between(self._tracker, log, start, end)

    def _begin(self, log: PartitionLog) -> StreamPosition:
        """Where a partition begins that is there when the stream does."""
        options, context = self._options, log.context
        offset = options.starting
        if context.topic is not None and context.partition is not None:
            offset = options.starts.get((context.topic, context.partition), offset)
        if offset == EARLIEST:
            return self._tracker.earliest(log)
        if offset == LATEST:
            return self._tracker.latest(log)
        if offset < log.bases[0] and options.starts:
            self._on_loss(f"{log.directory}: begins at offset {log.bases[0]}, startingOffsets asks for {offset}")
        place = self._tracker.at_offset(log, offset)
        return replace(place, first=offset) if place.next < offset else place

    def listed(self) -> dict[str, PartitionLog]:
        """The partitions that are there now. KdumpError for a directory that cannot be listed."""

        def on_error(error: KdumpError) -> None:
            # What is gone of what was there, ``advanced`` says.
            if error.code is not Codes.MISSING:
                raise error

        return list_partitions(self._options.paths, self._options.wanted, on_error)

    def advanced(
        self,
        starts: Mapping[str, StreamPosition],
        logs: Mapping[str, PartitionLog],
        tracker: StreamTracker,
        limits: Budget = UNLIMITED,
    ) -> dict[str, StreamPosition]:
        """Where each partition is with what is there now; those that are gone stay where they are.

        ``limits`` are shared among the partitions in proportion to what is new; each that has news gives a batch.
        Raises as ``partitions``.
        """
        for directory in starts.keys() - logs.keys():
            self._on_loss(_gone(directory))
        ends = dict(starts)
        changed: dict[str, tuple[PartitionLog, StreamPosition, _Seen]] = {}
        pending: dict[str, Budget] = {}
        for directory, log in logs.items():
            start = starts.get(directory)
            with deleted_meanwhile():
                if log.bases:
                    seen = _seen_files(log)
                    if start is None or self._seen.get(directory) != (seen, start):
                        place = tracker.earliest(log) if start is None else tracker.located(log, start)
                        pending[directory] = tracker.pending(log, place, limits)
                        changed[directory] = log, place, seen
        for directory, budget in shares(pending, limits).items():
            log, place, seen = changed[directory]
            with deleted_meanwhile():
                ends[directory] = end = tracker.advanced(log, place, budget)
                if budget == UNLIMITED:
                    self._seen[directory] = seen, end
        return ends

    def _on_loss(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{what} (failOnDataLoss)")
        if what not in self._reported:
            self._reported.add(what)
            self._say(what)

    @staticmethod
    def _say(what: str) -> None:
        _LOG.warning("kdump: %s", what)


class UnlimitedStreamReader(LogStreamReader):
    """For PySpark 4.1, which does not say where to go on: from this reader's last place, else from the beginning."""

    def __init__(self, table: Table, options: SourceOptions, schema: StructType) -> None:
        super().__init__(table, options, schema)
        self._places: dict[str, StreamPosition] = {}
        if options.limits != UNLIMITED:
            self._say("maxBytesPerTrigger and maxOffsetsPerTrigger need pyspark 4.2: all that is there is taken")

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """See LogStreamReader."""
        places = super().initialOffset()
        self._places = from_json(places)
        return places

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        """See DataSourceStreamReader of 4.1."""
        self._places = self.advanced(self._places, self.listed(), self._tracker)
        return to_json(self._places)


def to_json(places: Mapping[str, StreamPosition]) -> dict[str, Any]:
    """The places as the offset of a stream. Equal places give equal text."""
    return {directory: places[directory].to_json() for directory in sorted(places)}


def from_json(offset: Mapping[str, Any]) -> dict[str, StreamPosition]:
    """What ``to_json`` made."""
    return {directory: StreamPosition.from_json(place) for directory, place in offset.items()}


def _seen_files(log: PartitionLog) -> _Seen:
    return log.bases, status(log.path(log.newest))


def _gone(directory: str) -> str:
    return f"{directory}: the partition is not there any more"


@contextmanager
def deleted_meanwhile() -> Iterator[None]:
    """Ignores a file that was deleted since it was listed. The next listing shows what became of it."""
    try:
        yield
    except KdumpError as error:
        if error.code is not Codes.MISSING:
            raise
