"""Tasks as data: each in a partition of its own, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kdump.spark import tasks
from kdump.spark.tasks import Worker, collected, distributed, tasks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

_TOLD = pa.schema([("name", pa.string()), ("number", pa.int64()), ("place", pa.int64())])
_TASKS = [(f"task {number}", number) for number in range(40)]


def _teller() -> Worker:
    """Made here, so that it travels whole: the workers do not know the tests."""

    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for name, number in tasks_of(batches):
            yield pa.RecordBatch.from_pydict({"name": [name], "number": [number], "place": [context.partitionId()]})

    return tell


def test_a_partition_a_task(spark: SparkSession) -> None:
    made = distributed(spark, _TASKS).mapInArrow(_teller(), "name string, number bigint, place bigint")
    assert [tuple(row) for row in made.collect()] == [(name, number, number) for name, number in _TASKS]


@pytest.mark.parametrize("most_in_plan", [1 << 20, 0])
def test_collected_without_a_shuffle_and_with(
    spark: SparkSession, most_in_plan: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_MOST_IN_PLAN", most_in_plan)
    leaves = "spark.sql.leafNodeDefaultParallelism"
    before = spark.conf.get(leaves, None)
    made = collected(spark, _TASKS, _teller(), _TOLD).to_pylist()
    assert sorted(row["number"] for row in made) == list(range(40))
    assert all(row["place"] == row["number"] for row in made)
    assert spark.conf.get(leaves, None) == before
