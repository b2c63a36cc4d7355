"""``dump`` on Spark: a few logs a task, the output in the order of the logs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import chdir, nullcontext
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kdump.dump.output import DumpOptions
from kdump.dump.tasks import DumpPiece, DumpTask, PieceKind, dump_task
from kdump.log import files
from kdump.spark.sessions import translated_errors
from kdump.spark.tasks import distributed, tasks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PIECES: Final = pa.schema([("kind", pa.int32()), ("data", pa.binary())])


def dumped(
    spark: SparkSession, tasks: Sequence[DumpTask], options: DumpOptions, *, verbose: bool, stores: Sequence[str]
) -> Iterator[DumpPiece]:
    """The pieces of all tasks, in order.

    The workers keep what they have made on their disks until it is fetched, a task at a time: this process holds no
    more than that. ``stores``: paths that a worker enters first, with their credentials.

    Raises:
        KdumpError: the job fails.
    """
    from pyspark import StorageLevel
    from pyspark.sql.pandas.types import from_arrow_schema

    directory = os.getcwd()
    is_relative = any(map(_is_relative, tasks))

    def dump(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for store in stores:
            files.strip_credentials(store)
        # Rows show relative paths as they were given.
        with chdir(directory) if is_relative else nullcontext():
            for task in tasks_of(batches):
                for piece in dump_task(task, options, verbose=verbose):
                    yield pa.RecordBatch.from_pydict({"kind": [piece.kind], "data": [piece.data]}, schema=_PIECES)

    with translated_errors("Spark"):
        made = distributed(spark, tasks).mapInArrow(dump, from_arrow_schema(_PIECES))
        made.persist(StorageLevel.DISK_ONLY)
        try:
            # All at once: fetched one after the other they would be made one after the other.
            made.count()
            for row in made.toLocalIterator():
                yield DumpPiece(PieceKind(row["kind"]), bytes(row["data"]))
        finally:
            made.unpersist()


def _is_relative(task: DumpTask) -> bool:
    return any(files.absolute(path) != path for path in task.paths)
