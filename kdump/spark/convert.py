"""``convert`` on Spark: a segment a task. What is written is staged by the workers and put in place by the driver."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import chdir
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa

from kdump.codes import Codes, Finding, Severity
from kdump.convert.losses import LossKind
from kdump.convert.output import WrittenSegment
from kdump.convert.run import Job, run_job
from kdump.convert.segment import SegmentResult
from kdump.convert.slices import EndMarker
from kdump.log import files
from kdump.spark.sessions import translated_errors
from kdump.spark.tasks import collected, tasks_of
from kdump.system.files import Staged, discard_others, written_by
from kdump.tasks.plaindata import PlainData

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RESULTS: Final = pa.schema([("number", pa.int64()), ("result", pa.binary())])
_RESULT: Final = PlainData((Codes, Finding, LossKind, EndMarker, SegmentResult, Severity, Staged, WrittenSegment))


def converted(spark: SparkSession, jobs: Sequence[Job], *, stores: Sequence[str]) -> list[SegmentResult]:
    """The results of all jobs, in their order. Nothing is left of tasks that failed, or were run again.

    Sources and targets must mean the same on every worker, and here. ``stores``: paths that a worker enters first, with
    their credentials.

    Raises:
        KdumpError: the job fails.
    """
    directory, run = os.getcwd(), uuid4().hex

    def convert(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for store in stores:
            files.strip_credentials(store)
        # A worker has another working directory.
        with chdir(directory), written_by(run):
            for number, job in tasks_of(batches):
                result = _RESULT.pack(run_job(job))
                yield pa.RecordBatch.from_pydict({"number": [number], "result": [result]}, schema=_RESULTS)

    results: list[SegmentResult] = []
    try:
        with translated_errors("Spark"):
            made = collected(spark, list(enumerate(jobs)), convert, _RESULTS)
        packed = dict(zip(made["number"].to_pylist(), made["result"].to_pylist(), strict=True))
        results = [_RESULT.unpack(packed[number]) for number in range(len(jobs))]
    finally:
        targets = dict.fromkeys(os.path.dirname(job.target) for job in jobs)
        discard_others(targets, run, (file for result in results for file in result.staged))
    return results
