"""What becomes of the directories of a broker, against what real brokers did."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kdump.codes import Codes, KdumpError
from kdump.inputs import resolve
from kdump.kafka.startup.fate import Fate
from kdump.verify.fates import Fates, placement_findings
from tests.harness.archives import case_files, unpack_cases
from tests.harness.cli_runs import kdump

CASES = [json.loads(line) for line in case_files("strays")["strays/results.jsonl"].decode().splitlines()]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("strays", tmp_path_factory.mktemp("cases"))


def raised(error: KdumpError) -> None:
    raise error


def places(root: Path, name: str) -> list[str]:
    return [str(root / name / place) for place in ("n2-d0", "n2-d1") if (root / name / place).is_dir()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_fates(root: Path, case: dict[str, Any]) -> None:
    """Where a broker stopped, strays may have been renamed before; nothing else is known."""
    found = Fates.of([*map(resolve, places(root, case["id"]))], raised).folders
    fates = {os.path.relpath(path, root / case["id"]): known.fate for path, known in found.items()}
    assert fates.keys() == case["fate"].keys() - {"n2-d0/x-y-z"}, "no name of a partition"
    for path, fate in fates.items():
        expected = case["fate"][path]
        if expected == "left":
            assert fate in (None, Fate.STRAY), path
        else:
            assert (None if fate is None else fate.value) == expected, path
    if case["id"] in ("bad-name", "d1-lost"):
        assert set(fates.values()) == {None}


@pytest.mark.slow
def test_rows(root: Path) -> None:
    paths = places(root, "futures")
    run = kdump("verify", "--startup", "--output", "jsonl", *paths, cwd=root)
    rows = {os.path.basename(row["file"]): row for row in map(json.loads, run.stdout.splitlines())}
    assert rows["keep-51-0"]["fate"] == "served"
    assert rows["deleted-51-0"]["fate"] == "stray"
    assert {row["fate"] for name, row in rows.items() if name.endswith("-future")} == {"future", "stray"}
    assert {row["outcome"] for row in rows.values()} == {"starts"}
    text = kdump("verify", "--startup", *paths, cwd=root).stdout.decode()
    assert "deleted-51-0: becomes a stray: no topic has the id" in text


def test_a_stray_conflicts_with_nothing(root: Path) -> None:
    for name, is_conflict in (("dup", True), ("dup-wrong-id", False), ("dup-deleted", False)):
        run = kdump("verify", "--startup", *places(root, name), cwd=root)
        assert ("the same partition as" in run.stdout.decode()) is is_conflict, name


def test_without_metadata_little_is_known(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "crafted" / "n2-d1", tmp_path / "d1")
    found = Fates.of([resolve(str(tmp_path / "d1"))], raised).folders
    fates = {os.path.basename(path): known.fate for path, known in found.items()}
    assert fates["keep-lead-51-0"] is None
    assert fates["emptied-51-0"] is Fate.STRAY, "partition.metadata is missing"
    assert Fate.SERVED not in fates.values()


def test_one_partition(root: Path) -> None:
    path = str(root / "plain" / "n2-d0" / "deleted-51-1")
    assert Fates.of([resolve(path)], raised).folders[path].fate is Fate.STRAY


def test_findings(root: Path) -> None:
    first, second = places(root, "crafted")
    found = list(placement_findings(second, [first]))
    by_code = {code: [finding for finding in found if finding.code is code] for code in Codes}
    strays = {os.path.basename(finding.path or "") for finding in by_code[Codes.STRAY]}
    assert {"partition-beyond-51-7", "pm-missing-empty-51-0", "deleted-51-0"} <= strays
    assert [os.path.basename(finding.path or "") for finding in by_code[Codes.WRONG_TOPIC_ID]] == ["swapped-a-51-0"]
    missing = [finding.message for finding in by_code[Codes.PARTITION_NOT_HERE]]
    assert "gone-only-51-0 is placed here, and no other broker has it: what it held is lost" in missing
    assert not list(placement_findings(second, [])), "without the metadata nothing can be said"


def test_verify(root: Path) -> None:
    first, second = places(root, "plain")
    out = kdump("verify", "--quick", first, second, cwd=root).stdout.decode()
    assert out.count(" KD431 ") == 12
    assert "recreated-here-51-0: warning KD431" in out
    assert " KD431 " not in kdump("verify", "--quick", second, cwd=root).stdout.decode()
