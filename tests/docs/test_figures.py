"""The figures of the README are those of the fixtures."""

from __future__ import annotations

import re

import pytest

from tests.harness import ROOT
from tests.harness.archives import archived_names, case_files
from tests.harness.captures import CAPTURES

README = " ".join((ROOT / "README.md").read_text().partition("## How it is known")[2].partition("## ")[0].split())


def told(pattern: str) -> int:
    found = re.search(rf"([\d,]+) {pattern}", README)
    assert found is not None, pattern
    return int(found[1].replace(",", ""))


def cases(name: str) -> int:
    return len(case_files(name)[f"{name}/results.jsonl"].splitlines())


@pytest.mark.slow
def test_runs_of_the_real_tool() -> None:
    names = [name for archive in CAPTURES.glob("*.tar.zst") for name in archived_names(archive)]
    assert told("recorded runs") == sum(name.endswith(".rc") for name in names)
    partitions = (CAPTURES / "partitions.txt").read_text().splitlines()
    assert told("damaged ones") == sum(name.startswith("damaged/") for name in partitions)
    versions = [archive.name for archive in CAPTURES.glob("[0-9]*.tar.zst")]
    assert len(versions) == 7
    assert "brokers of seven versions wrote (0.8.2.2 to 4.4.0)" in README


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "name"),
    [("broker starts", "startup"), ("pairs of replicas", "replicas"), ("metadata logs", "metadata")],
)
def test_cases_of_models(pattern: str, name: str) -> None:
    assert told(pattern) == cases(name)
