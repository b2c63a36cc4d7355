"""``convert`` as tasks, one per segment. The tasks stage what they write; the caller gives the files their names."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Final
from uuid import uuid4

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.convert.losses import LossKind
from kdump.convert.output import WrittenSegment
from kdump.convert.run import Job, run_job
from kdump.convert.segment import SegmentResult
from kdump.convert.slices import EndMarker
from kdump.log import files
from kdump.system.files import Staged, discard_others, written_by
from kdump.tasks.plaindata import PlainData
from kdump.tasks.work import Runner, Work, Workplace

_RESULT: Final = PlainData((Codes, Finding, LossKind, EndMarker, SegmentResult, Severity, Staged, WrittenSegment))


def run_jobs(jobs: Sequence[Job], run: Runner, source: str) -> Generator[SegmentResult, None, None]:
    """The results of all jobs, in their order. Nothing is left of tasks that failed, or were run again.

    Args:
        jobs: their sources and targets must mean the same files in every process.
        run: runs the tasks.
        source: the PATH for which the jobs were planned.

    Raises:
        KdumpError: the job fails.
    """
    name = uuid4().hex
    place = Workplace.of([source], (job.target for job in jobs))
    work = Work(partial(_run_job, name), _RESULT.pack, _RESULT.unpack, place, lost=_died, size=_size)
    staged: list[Staged] = []
    try:
        with closing(run([[job] for job in jobs], work)) as results:
            for result in results:
                staged += result.staged
                yield result
    finally:
        discard_others(dict.fromkeys(os.path.dirname(job.target) for job in jobs), name, staged)


def _run_job(name: str, job: Job) -> Iterator[SegmentResult]:
    """The result of a job of the run ``name``."""
    with written_by(name):
        yield run_job(job)


def _died(job: Job, count: int, error: KdumpError) -> Iterator[SegmentResult]:
    """The process was killed that did a job; see ``Work.lost``."""
    yield SegmentResult(job.source, error.located(job.source))


def _size(job: Job) -> int:
    with suppress(KdumpError):
        return files.size(job.source)
    return 0
