"""``convert`` on Spark: a segment a task. What is written is staged by the workers and put in place by the driver."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import chdir
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kdump.convert.segment import SegmentResult
from kdump.engine.convert import Job, run_job
from kdump.log import files
from kdump.spark.sessions import spoken
from kdump.spark.tasks import collected, tasks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RESULTS: Final = pa.schema([("number", pa.int64()), ("result", pa.binary())])


def converted(spark: SparkSession, jobs: Sequence[Job], *, stores: Sequence[str]) -> list[SegmentResult]:
    """The results of all jobs, in their order.

    Sources and targets must mean the same on every worker. ``stores``: paths that a worker enters first, with their
    credentials.

    Raises:
        KdumpError: the job fails.
    """
    directory = os.getcwd()

    def convert(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for store in stores:
            files.enter(store)
        # A worker has another working directory.
        with chdir(directory):
            for number, job in tasks_of(batches):
                result = pickle.dumps(run_job(job), pickle.HIGHEST_PROTOCOL)
                yield pa.RecordBatch.from_pydict({"number": [number], "result": [result]}, schema=_RESULTS)

    with spoken("Spark"):
        made = collected(spark, list(enumerate(jobs)), convert, _RESULTS)
    results = dict(zip(made["number"].to_pylist(), made["result"].to_pylist(), strict=True))
    return [pickle.loads(results[number]) for number in range(len(jobs))]
