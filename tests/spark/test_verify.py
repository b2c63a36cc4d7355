"""verify through Spark: the same findings, summaries and verdicts as in one process, however tasks are packed."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdump.codes import Finding, KdumpError
from kdump.inputs import resolve
from kdump.log.context import FileContext
from kdump.rows.filetables import FINDING
from kdump.spark.verify import SparkJudge
from kdump.verify.partition import PartitionCheck
from kdump.verify.report import summary_line
from kdump.verify.run import Judge, Verification
from kdump.verify.segment import CheckOptions
from tests.harness.archives import unpack_cases
from tests.harness.captures import Captures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Said = tuple[Counter[str], list[str]]
SIZES = (1 << 14, 128 << 20)


def said(judge: Judge, *paths: Path | str) -> Said:
    """What is said of paths, and what is wrong with them."""
    errors: list[KdumpError] = []
    items: Counter[str] = Counter()
    verification = Verification(judge, on_error=errors.append)
    for path in paths:
        try:
            items.update(
                repr(item) if isinstance(item, Finding) else summary_line(item)
                for item in verification.items(resolve(str(path)))
            )
        except KdumpError as error:
            errors.append(error)
    return items, [str(error) for error in errors]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Damaged segments of fixtures/cases as partitions of one log directory."""
    unpacked, root = unpack_cases("repair", tmp_path_factory.mktemp("cases")), tmp_path_factory.mktemp("logs")
    for number, log in enumerate(sorted(unpacked.glob("mutants/*/*.log"))[::12]):
        shutil.copytree(log.parent, root / f"topic-{number}")
    assert len(list(root.iterdir())) > 10
    return root


@pytest.mark.parametrize("deep", [True, False])
def test_damaged_segments(spark: SparkSession, damaged: Path, deep: bool) -> None:
    options = CheckOptions(deep=deep)
    expected = said(PartitionCheck(options), damaged)
    assert sum(expected[0].values()) > 50
    for size in SIZES:
        assert said(SparkJudge(spark, [resolve(str(damaged))], options, task_bytes=size), damaged) == expected


@pytest.mark.parametrize(("name", "most"), [("_FEW_TASKS", 0), ("_MOST_SEEN", 0), ("_MOST_SEEN", 3000)])
def test_judged_by_workers(
    spark: SparkSession, damaged: Path, name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are many tasks, or the driver would get more than it wants of some partitions."""
    monkeypatch.setattr(f"kdump.spark.verify.{name}", most)
    expected = said(PartitionCheck(), damaged)
    assert said(SparkJudge(spark, [resolve(str(damaged))], CheckOptions(), task_bytes=1 << 15), damaged) == expected


def test_captures_and_single_files(spark: SparkSession, captures: Captures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(captures.root)
    paths = [
        "4.3.1",
        "3.9.1",
        "1.1.1/../1.1.1",
        str(next((captures.root / "damaged").glob("*/*.log"))),
        "no/such",
        "0.8.2.2",
        "3.9.1",
    ]
    options = CheckOptions()
    expected = said(PartitionCheck(options), *paths)
    assert expected[1] == ["no/such: no such file or directory"]
    assert said(SparkJudge(spark, [*map(resolve, paths)], options, task_bytes=1 << 16), *paths) == expected


def test_a_segment_that_cannot_be_opened(spark: SparkSession, damaged: Path, tmp_path: Path) -> None:
    partition = tmp_path / "topic-0"
    shutil.copytree(next(damaged.iterdir()), partition)
    (broken := partition / "00000000000000099999.log").symlink_to("nowhere")
    options = CheckOptions()
    expected = said(PartitionCheck(options), tmp_path)
    assert str(broken) in expected[1][0]
    assert said(SparkJudge(spark, [resolve(str(tmp_path))], options), tmp_path) == expected


def test_findings_as_a_data_source(spark: SparkSession, damaged: Path) -> None:
    frame = spark.read.format("kafka-segment-findings").load(str(damaged))
    assert tuple(frame.columns) == FINDING.names
    expected = [
        {"type": "finding", **FileContext.of(item.path or "").columns(), **FINDING.row(item)}
        for item in Verification().items(resolve(str(damaged)))
        if isinstance(item, Finding)
    ]
    rows = [row.asDict() for row in frame.collect()]
    assert sorted(map(repr, rows)) == sorted(map(repr, expected))
    topic = frame.select("topic", "partition", "code").first()
    assert topic is not None
    quick = spark.read.format("kafka-segment-findings").option("deep", "false").load(str(damaged))
    assert 0 < quick.count() <= frame.count()
