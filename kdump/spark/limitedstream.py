"""Streams with admission control and ``Trigger.AvailableNow``, which PySpark has from 4.2 on."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from kdump.rows.columns import Table
from kdump.spark.options import SourceOptions
from kdump.spark.partitions import PartitionLog
from kdump.spark.positions import UNLIMITED, StreamTracker, status
from kdump.spark.stream import LogStreamReader, deleted_meanwhile, from_json, to_json


class LimitedStreamReader(LogStreamReader, SupportsTriggerAvailableNow):
    """Goes on as far as it is told to."""

    def __init__(self, table: Table, options: SourceOptions, schema: StructType) -> None:
        super().__init__(table, options, schema)
        self._frozen: dict[str, PartitionLog] | None = None
        self._frozen_tracker = self._tracker

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """See DataSourceStreamReader; of two limits Spark learns of one, both are kept."""
        limits = self._options.limits
        if limits.size is not None:
            return ReadMaxBytes(limits.size)
        return ReadAllAvailable() if limits.offsets is None else ReadMaxRows(limits.offsets)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """See DataSourceStreamReader. Raises as ``partitions``."""
        logs = self.listed()
        if self._frozen is not None:
            logs = {
                directory: logs[directory].up_to(frozen)
                for directory, frozen in self._frozen.items()
                if directory in logs
            }
        limits = UNLIMITED if isinstance(limit, ReadAllAvailable) else self._options.limits
        return to_json(self.advanced(from_json(start), logs, self._frozen_tracker, limits))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """See SupportsTriggerAvailableNow: the newest segments, as long as they are now, are the end."""
        self._frozen = self.listed()
        sizes = {}
        for log in self._frozen.values():
            with deleted_meanwhile():
                if log.bases:
                    path = log.path(log.newest)
                    sizes[path] = status(path).size
        self._frozen_tracker = StreamTracker(self._on_loss, sizes)
