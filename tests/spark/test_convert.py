"""``convert`` on Spark: the bytes that one process writes, and nothing left of a run that fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kdump.codes import KdumpError
from kdump.convert.conversion import Conversion
from kdump.convert.run import Job, Outputs, plan_conversion, plan_export, run_job, run_jobs
from kdump.convert.segment import SegmentResult
from kdump.inputs import resolve
from kdump.reading.selection import Range
from kdump.spark.tasks import on_spark
from kdump.tasks.work import Work
from kdump.wire.compression import GZIP
from tests.harness.captures import FIXTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEGMENTS = FIXTURES / "segments"


def written(jobs: list[Job], spark: SparkSession | None) -> list[SegmentResult]:
    with Outputs(jobs) as outputs:
        if spark is None:
            results = list(map(run_job, jobs))
        else:
            results = list(run_jobs(jobs, partial(on_spark, spark), jobs[0].source))
        for result in map(outputs.add, results):
            assert result.error is None, result.error
        outputs.publish()
    return results


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "settings",
    [
        {"to_magic": 1, "codec": GZIP},
        {"split_bytes": 3000},
        {"offsets": Range(10, 40), "keep_open": True},
    ],
)
def test_same_bytes(spark: SparkSession, tmp_path: Path, settings: dict[str, object]) -> None:
    source = str(SEGMENTS / "v2-txn-0")
    runs = []
    for name, session in (("here", None), ("spark", spark)):
        jobs: list[Job] = [*plan_conversion(resolve(source), str(tmp_path / name), Conversion(**settings))]  # type: ignore[arg-type]
        results = written(jobs, session)
        runs.append(
            [
                (result.source, result.losses, result.records, result.left_out, result.markers, result.notes)
                for result in results
            ]
        )
    assert runs[0] == runs[1]
    assert files(tmp_path / "here") == files(tmp_path / "spark") != {}


def test_exports(spark: SparkSession, tmp_path: Path) -> None:
    source = str(SEGMENTS / "v2-txn-0")
    for name, session in (("here", None), ("spark", spark)):
        jobs: list[Job] = [*plan_export(resolve(source), str(tmp_path / name), "jsonl", Conversion())]
        written(jobs, session)
    assert files(tmp_path / "here") == files(tmp_path / "spark") != {}


def test_errors_come_back(spark: SparkSession, tmp_path: Path) -> None:
    jobs: list[Job] = [
        *plan_conversion(resolve(str(SEGMENTS / "damaged-crc-0")), str(tmp_path / "out"), Conversion(to_magic=1))
    ]
    with Outputs(jobs) as outputs:
        (result,) = map(outputs.add, run_jobs(jobs, partial(on_spark, spark), jobs[0].source))
        assert result.error is not None
        assert result.error.position == result.findings[0].position == 7628
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_is_left_of_tasks_that_do_not_count(spark: SparkSession, tmp_path: Path, fails: bool) -> None:
    """One that is run again, and one that dies when others have written."""

    def run(tasks: Sequence[Any], work: Work[Any, Any]) -> Iterator[Any]:
        function = work.function

        def twice(job: Job) -> Iterator[SegmentResult]:
            import os

            [first], again = function(job), function(job)
            assert first.staged
            if fails and "txn-1" in job.source:
                os.kill(os.getpid(), 9)
            return again

        return on_spark(spark, tasks, replace(work, function=twice))

    log = (SEGMENTS / "v2-txn-0" / f"{0:020d}.log").read_bytes()
    for number in range(2):
        (tmp_path / "logs" / f"txn-{number}").mkdir(parents=True)
        (tmp_path / "logs" / f"txn-{number}" / f"{0:020d}.log").write_bytes(log)
    out = tmp_path / "out"
    jobs: list[Job] = [*plan_conversion(resolve(str(tmp_path / "logs")), str(out), Conversion(to_magic=1))]
    with Outputs(jobs) as outputs:
        if fails:
            with pytest.raises(KdumpError, match="Spark"):
                list(run_jobs(jobs, run, str(tmp_path)))
            assert not files(out)
        else:
            results = [outputs.add(result) for result in run_jobs(jobs, run, str(tmp_path))]
            assert len(files(out)) == sum(len(result.staged) for result in results) > 2
            outputs.publish()
            assert not [name for name in files(out) if Path(name).name.startswith(".")]
    assert out.exists() is not fails
