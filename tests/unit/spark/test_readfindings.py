"""Which findings a data source has for the paths and patterns it is given; tests/spark reads them through Spark."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdump.codes import Codes, KdumpError
from kdump.rows.arrow import arrow_schema
from kdump.rows.filetables import FINDING
from kdump.spark.readfindings import plan_findings, read_findings
from kdump.tasks.logs import Wanted
from kdump.verify.segment import CheckOptions
from tests.harness.cli_runs import BATCH, DAMAGED_BATCH, NAME

Found = list[tuple[str, str]]


def findings(*paths: Path | str, fails_fast: bool = False) -> Found:
    """File name and code of every finding."""
    schema = arrow_schema(FINDING)
    found = [
        (Path(row["file"]).name, row["code"])
        for task in plan_findings(map(str, paths), Wanted(), 1 << 20)
        for batch in read_findings(task, schema, CheckOptions(), fails_fast=fails_fast)
        for row in batch.to_pylist()
    ]
    return sorted(found)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory of a broker: a sound partition, a damaged one, and what else lies in such a directory."""
    for name, data in (("a-0", BATCH), ("b-0", BATCH + DAMAGED_BATCH)):
        (tmp_path / name).mkdir()
        (tmp_path / name / NAME).write_bytes(data)
        for suffix in (".index", ".timeindex"):
            (tmp_path / name / NAME).with_suffix(suffix).write_bytes(b"")
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "meta.properties").write_text("version=0\n")
    return tmp_path


def test_strangers_that_a_pattern_fits_are_passed_over(logs: Path) -> None:
    own = findings(logs / "b-0")
    assert (NAME, Codes.BATCH_CRC.value.code) in own
    assert findings(f"{logs}/*") == own
    assert findings(f"{logs}/*", fails_fast=True) == own


def test_strangers_that_are_named_are_findings(logs: Path) -> None:
    stranger = logs / "meta.properties"
    assert findings(stranger) == [(stranger.name, Codes.NOT_A_SEGMENT_FILE.value.code)]
    assert findings(stranger, f"{logs}/*") == sorted([*findings(stranger), *findings(logs / "b-0")])
    for path, what in ((stranger, "not a file of a Kafka partition"), (logs / "lost+found", "no segment files")):
        with pytest.raises(KdumpError, match=what):
            findings(path, fails_fast=True)


def test_what_several_paths_stand_for_is_checked_once(logs: Path) -> None:
    own = findings(logs / "b-0")
    log = logs / "b-0" / NAME
    for twins in ((logs / "b-0", f"{logs}/b-*"), (f"{logs}/a-0/../b-0", logs / "b-0"), (log, logs / "b-0")):
        assert findings(*twins) == own
    # A segment by its own name, by that of its index, and by both.
    assert findings(f"{logs}/b-0/*") == findings(log)


def test_names_that_are_no_utf8(logs: Path) -> None:
    (logs / "b-0").rename(logs / os.fsdecode(b"b\xff-0"))
    assert (NAME, Codes.BATCH_CRC.value.code) in findings(logs)
