"""Tasks on their way to the workers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from kdump.spark.worker import begin_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Worker: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function for ``mapInArrow`` that finds its tasks by ``tasks_of``."""

_LEAVES: Final = "spark.sql.leafNodeDefaultParallelism"
_MOST_IN_PLAN: Final = 16 << 20
"""Bytes; more than 48 MiB (``spark.sql.execution.arrow.localRelationThreshold``) are no leaf of the plan."""


def distributed(spark: SparkSession, tasks: Sequence[Any]) -> DataFrame:
    """A partition a task, in order, with one row; ``mapInArrow`` gets it, see ``tasks_of``.

    The tasks are data: in the closure of a function all of them would travel to, and be unpickled for, each of them.
    """
    return spark.createDataFrame(_table(tasks)).repartitionById(len(tasks), "number")


def collected(spark: SparkSession, tasks: Sequence[Any], worker: Worker, schema: pa.Schema) -> pa.Table:
    """What ``worker`` makes of the tasks, a partition a task, in no order. Raises what Spark does.

    As ``distributed``, without its shuffle where the tasks are small: with as many leaves as rows, each has its own.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    made = from_arrow_schema(schema)
    table = _table(tasks)
    if table.nbytes > _MOST_IN_PLAN:
        return distributed(spark, tasks).mapInArrow(worker, made).toArrow()
    before = spark.conf.get(_LEAVES, None)
    spark.conf.set(_LEAVES, str(max(1, len(tasks))))
    try:
        return spark.createDataFrame(table).mapInArrow(worker, made).toArrow()
    finally:
        if before is None:
            spark.conf.unset(_LEAVES)
        else:
            spark.conf.set(_LEAVES, before)


def _table(tasks: Sequence[Any]) -> pa.Table:
    return pa.table(
        {
            "number": pa.array(range(len(tasks)), pa.int32()),
            "task": pa.array([pickle.dumps(task, pickle.HIGHEST_PROTOCOL) for task in tasks], pa.binary()),
        }
    )


def tasks_of(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    """The tasks in what a worker got of ``distributed``."""
    begin_task()
    for batch in batches:
        for pickled in batch["task"]:
            yield pickle.loads(pickled.as_buffer())
