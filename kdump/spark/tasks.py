"""Tasks on Spark. Each task is a row of its own partition, and its results come back as rows."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from kdump.spark.sessions import translated_errors
from kdump.spark.worker import begin_task
from kdump.tasks.work import ItemT, ResultT, Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Worker: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function for ``mapInArrow`` that finds its tasks by ``tasks_of``."""

_RESULTS: Final = pa.schema([("task", pa.int64()), ("place", pa.int64()), ("result", pa.binary())])
_ROWS_AT_A_TIME: Final = 64
_BYTES_AT_A_TIME: Final = 1 << 20
_LEAVES: Final = "spark.sql.leafNodeDefaultParallelism"
_MOST_IN_PLAN: Final = 16 << 20
"""Bytes. More than 48 MiB (``spark.sql.execution.arrow.localRelationThreshold``) cannot be a leaf of the plan."""


def on_spark(
    spark: SparkSession, tasks: Sequence[Sequence[ItemT]], work: Work[ItemT, ResultT]
) -> Generator[ResultT, None, None]:
    """A ``Runner``, with the session as its first argument: a partition of Spark a task.

    Spark runs a task again where a worker was lost. It fails the whole job when that happens often: ``Work.lost`` is
    not asked.
    """
    if not tasks:
        return
    numbered = list(enumerate(tasks))
    with translated_errors("Spark"):
        if work.is_large:
            yield from map(work.unpack, _one_task_at_a_time(spark, numbered, _worker(work)))
            return
        table = collected(spark, numbered, _worker(work), _RESULTS)
    table = table.sort_by([("task", "ascending"), ("place", "ascending")])
    for chunk in table["result"].chunks:
        for packed in chunk:
            yield work.unpack(packed.as_py())


def _worker(work: Work[Any, Any]) -> Worker:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with work.place.entered():
            for number, task in tasks_of(batches):
                results = (work.pack(result) for item in task for result in work.function(item))
                yield from record_batches(((number, *row) for row in enumerate(results)), _RESULTS)

    return run


def _one_task_at_a_time(spark: SparkSession, tasks: Sequence[Any], worker: Worker) -> Iterator[bytes]:
    """The results in order. The workers keep theirs on disk, and this process holds those of one task."""
    from pyspark import StorageLevel
    from pyspark.sql.pandas.types import from_arrow_schema

    made = distributed(spark, tasks).mapInArrow(worker, from_arrow_schema(_RESULTS))
    made.persist(StorageLevel.DISK_ONLY)
    try:
        # This makes all results at the same time. Fetched one by one, they would be made one by one.
        made.count()
        for row in made.toLocalIterator():
            yield bytes(row["result"])
    finally:
        made.unpersist()


def record_batches(rows: Iterable[Sequence[object]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows in batches of some dozens; the last column of ``schema`` is binary, and decides how many."""
    held: list[Sequence[Any]] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(held[-1][-1])
        if len(held) == _ROWS_AT_A_TIME or size >= _BYTES_AT_A_TIME:
            yield _record_batch(held, schema)
            held, size = [], 0
    if held:
        yield _record_batch(held, schema)


def _record_batch(rows: Sequence[Sequence[object]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


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
