"""Tasks on their way to the workers."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def distributed(spark: SparkSession, tasks: Sequence[Any]) -> DataFrame:
    """A partition a task, in order, with one row; ``mapInArrow`` gets it, see ``tasks_of``.

    The tasks are data: in the closure of a function all of them would travel to, and be unpickled for, each of them.
    """
    table = pa.table(
        {
            "number": pa.array(range(len(tasks)), pa.int32()),
            "task": pa.array([pickle.dumps(task, pickle.HIGHEST_PROTOCOL) for task in tasks], pa.binary()),
        }
    )
    return spark.createDataFrame(table).repartitionById(len(tasks), "number")


def tasks_of(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    """The tasks in what a worker got of ``distributed``."""
    for batch in batches:
        for pickled in batch["task"]:
            yield pickle.loads(pickled.as_buffer())
