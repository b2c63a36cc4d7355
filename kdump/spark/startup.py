"""``verify --startup`` on Spark: some partition directories a task, each answered on a worker."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import chdir
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kdump.codes import KdumpError
from kdump.kafka.startup.directory import FileAction
from kdump.kafka.startup.loading import LoadSettings
from kdump.kafka.startup.outcome import (
    OpenTransaction,
    RecoveredSegment,
    RemovalReason,
    Served,
    Start,
    StartFailure,
    StartOutcome,
)
from kdump.log import files
from kdump.spark.sessions import translated_errors
from kdump.spark.tasks import collected, tasks_of
from kdump.tasks.plaindata import PlainData
from kdump.verify.reach import AlreadyLost
from kdump.verify.startcheck import LossReason, LostRange, StartCheck, StartedFile, TransactionStart
from kdump.verify.startups import Task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RESULTS: Final = pa.schema([("number", pa.int64()), ("results", pa.binary())])
_RESULT: Final = PlainData(
    (
        AlreadyLost, FileAction, LoadSettings, LossReason, LostRange, OpenTransaction, RecoveredSegment, RemovalReason,
        Served, Start, StartCheck, StartedFile, StartFailure, StartOutcome, TransactionStart,
    )
)  # fmt: skip
_TASKS: Final = 256
"""Of Spark at most; a partition of its own for each directory would cost more than most starts."""


class SparkRunner:
    """Stands for ``verify.startups.in_process``.

    Args:
        spark: the session.
        paths: as they were given: a worker enters them first, with their credentials.
    """

    def __init__(self, spark: SparkSession, paths: Sequence[str]) -> None:
        self._spark = spark
        self._stores = [files.with_credentials(path) for path in paths]

    def run(self, tasks: Sequence[Task]) -> list[StartCheck | KdumpError]:
        """The answers in the order of the tasks, whose paths must mean the same on every worker.

        Raises:
            KdumpError: the job fails.
        """
        directory, stores = os.getcwd(), self._stores

        def start(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for store in stores:
                files.strip_credentials(store)
            # A worker has another working directory.
            with chdir(directory):
                for number, some in tasks_of(batches):
                    results = _RESULT.pack([task.run() for task in some])
                    yield pa.RecordBatch.from_pydict({"number": [number], "results": [results]}, schema=_RESULTS)

        size = -(-len(tasks) // _TASKS)
        groups = [tasks[first : first + size] for first in range(0, len(tasks), size)]
        with translated_errors("Spark"):
            made = collected(self._spark, list(enumerate(groups)), start, _RESULTS)
        found = dict(zip(made["number"].to_pylist(), made["results"].to_pylist(), strict=True))
        return [result for number in range(len(groups)) for result in _RESULT.unpack(found[number])]
