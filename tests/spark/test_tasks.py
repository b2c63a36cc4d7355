"""Tasks as data: each in a partition of its own, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from kdump.spark.tasks import distributed, tasks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_partition_a_task(spark: SparkSession) -> None:
    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for name, number in tasks_of(batches):
            yield pa.RecordBatch.from_pydict({"name": [name], "number": [number], "place": [context.partitionId()]})

    tasks = [(f"task {number}", number) for number in range(40)]
    made = distributed(spark, tasks).mapInArrow(told, "name string, number bigint, place bigint")
    assert [tuple(row) for row in made.collect()] == [(name, number, number) for name, number in tasks]
