"""The types of the library, as a project that uses it sees them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kdump
from tests.harness import ROOT

PROJECT = ROOT / "tests" / "typed" / "project.py"


def checked(path: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), "--follow-imports=silent"]
    return subprocess.run([*command, str(path)], capture_output=True, text=True, cwd=ROOT, check=False)


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(kdump.__file__).parent / "py.typed").is_file()


@pytest.mark.slow
def test_a_project(tmp_path: Path) -> None:
    run = checked(PROJECT, tmp_path)
    assert run.returncode == 0, run.stdout
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        'import kdump\n\nkdump.scan("x", on_damage="ignore")\nkdump.cluster_state("x").partition\n'
        'for record in kdump.scan("x"):\n    record.keys\n'
    )
    run = checked(wrong, tmp_path)
    assert [line.rpartition("[")[2] for line in run.stdout.splitlines() if "error" in line and "[" in line] == [
        "arg-type]",
        "attr-defined]",
        "attr-defined]",
    ]
