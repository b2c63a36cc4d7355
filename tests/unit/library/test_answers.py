"""Values of the library against the JSON of the commands, on all captures."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kdump
from tests.harness.captures import Captures, partition_cases
from tests.harness.cli_runs import kdump as command


def told(*words: str, type_: str) -> list[dict[str, Any]]:
    run = command(*words, "--output", "jsonl", cwd=Path.cwd())
    assert run.returncode in (0, 1, 3), run.stderr
    return [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == type_]


def path_of(captures: Captures, partition: str) -> str:
    path = captures.root / partition
    if not any(path.glob("*.log")):
        pytest.skip("no log")
    return str(path)


@pytest.mark.parametrize("partition", partition_cases(fast=8))
class TestCaptures:
    def test_findings(self, captures: Captures, partition: str) -> None:
        path = path_of(captures, partition)
        expected = told("verify", path, type_="finding")
        found = kdump.findings(path)
        assert [finding.to_dict() for finding in found] == expected
        assert [{**row, "path": row["file"]} for row in found.to_arrow().to_pylist()] == [
            {**row, "path": row["file"]} for row in expected
        ]
        for finding, row in zip(found, expected, strict=True):
            assert (finding.code, finding.name, finding.severity) == (row["code"], row["name"], row["severity"])
            assert (finding.message, finding.path) == (row["message"], row["file"])
            assert (finding.position, finding.length) == (row["position"], row["length"])
            assert (finding.first_offset, finding.last_offset) == (row["firstOffset"], row["lastOffset"])
            assert finding.continue_at == row["continueAt"]
            assert finding.title
            assert finding.help
            assert finding.code in repr(finding)

    def test_figures(self, captures: Captures, partition: str) -> None:
        path = path_of(captures, partition)
        found = kdump.figures(path, by="partition")
        assert [figures.to_dict() for figures in found] == told("stats", "--by", "partition", path, type_="stats")
        assert all(figures.records == figures.to_dict()["records"] for figures in found)

    def test_start_prediction(self, captures: Captures, partition: str) -> None:
        path = path_of(captures, partition)
        now = 1_800_000_000_000
        expected = told("verify", "--startup", "--now", str(now), path, type_="startup")
        if not expected:
            with pytest.raises(kdump.KdumpError):
                kdump.start_prediction(path, now=now)
            return
        found = kdump.start_prediction(path, now=now)
        assert [start.to_dict() for start in found] == expected
        assert [start.outcome for start in found] == [row["outcome"] for row in expected]

    def test_repair_plan(self, captures: Captures, partition: str) -> None:
        path = path_of(captures, partition)
        run = command("repair", "--output", "jsonl", path, cwd=Path.cwd())
        expected = [json.loads(line) for line in run.stdout.splitlines()]
        if not expected:
            with pytest.raises(kdump.KdumpError):
                kdump.repair_plan(path)
            return
        found = kdump.repair_plan(path)
        assert [plan.to_dict() for plan in found] == expected
        assert [plan.is_damaged for plan in found] == [row["isDamaged"] for row in expected]


def test_group_offsets(captures: Captures) -> None:
    paths = [str(captures.root / "4.3.1" / f"__consumer_offsets-{number}") for number in (0, 2)]
    expected = told("stats", "--at", "2100-01-01", *paths, type_="committedOffset")
    found = kdump.group_offsets(paths)
    assert len(found) > 3
    assert [offset.to_dict() for offset in found] == expected
    assert kdump.group_offsets(paths, at=datetime(2100, 1, 1, tzinfo=UTC)) == found
    name = found[0].group
    assert kdump.group_offsets(paths, group=name) == [offset for offset in found if offset.group == name]
    middle = sorted(offset.timestamp for offset in found)[len(found) // 2]
    early = told("stats", "--at", str(middle), *paths, type_="committedOffset")
    assert [offset.to_dict() for offset in kdump.group_offsets(paths, at=middle)] == early != expected


def test_a_path_without_groups(captures: Captures) -> None:
    with pytest.raises(kdump.KdumpError, match="__consumer_offsets"):
        kdump.group_offsets(captures.root / "4.3.1/v2-none-0")


def test_wrong_arguments(captures: Captures) -> None:
    path = captures.root / "4.3.1/v2-none-0"
    with pytest.raises(ValueError, match="by is one of"):
        kdump.figures(path, by="month")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mode is one of"):
        kdump.repair_plan(path, mode="all")  # type: ignore[arg-type]
    for function in (kdump.figures, kdump.start_prediction, kdump.repair_plan, kdump.group_offsets):
        with pytest.raises(kdump.KdumpError, match="no such file"):
            function(path / "missing")
    with pytest.raises(kdump.KdumpError, match="no such file"):
        list(kdump.findings(path / "missing"))
