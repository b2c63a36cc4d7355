"""``verify --startup`` on Spark: the lines of this process, whatever a partition comes to."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdump.codes import Codes, KdumpError
from kdump.inputs import resolve
from kdump.spark.tasks import on_spark
from kdump.verify.startcheck import StartCheck
from kdump.verify.startreport import startup_row
from kdump.verify.startups import StartOptions, start_all
from tests.harness.archives import cases, unpack_cases
from tests.harness.startcases import NOW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OPTIONS = StartOptions(now=NOW, is_clean=False, checksums=True, max_index_size=16384)


def test_the_same_lines(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = unpack_cases("startup", tmp_path / "cases")
    for number, case in enumerate(list(cases(root))[:60]):
        shutil.move(root / case["dir"], tmp_path / "logs" / f"t-{number}")
    (tmp_path / "logs" / "lost+found").mkdir()
    # Relative paths are those of the driver.
    monkeypatch.chdir(tmp_path)
    errors: list[KdumpError] = []
    local = list(start_all([resolve("logs")], OPTIONS, errors.append))
    distributed = list(start_all([resolve("logs")], OPTIONS, errors.append, partial(on_spark, spark)))
    assert len(local) == 62
    assert distributed == local
    lines = [startup_row(item) for item in local if isinstance(item, StartCheck)]
    assert lines == [startup_row(item) for item in distributed if isinstance(item, StartCheck)]
    assert errors == []


def test_a_partition_that_cannot_be_looked_at(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    run = partial(on_spark, spark)
    [*_, summary] = start_all([resolve(str(tmp_path))], OPTIONS, lambda error: None, run)
    (tmp_path / "t-0").rmdir()
    assert not isinstance(summary, StartCheck)
    errors: list[KdumpError] = []
    found = list(start_all([resolve(str(tmp_path / "t-0"))], OPTIONS, errors.append, run))
    assert found == []
    assert [error.code for error in errors] == [Codes.MISSING]
