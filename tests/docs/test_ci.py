"""The GitHub Action and the job of GitLab: what they run works on the fixtures."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.harness import ROOT
from tests.harness.blocks import blocks
from tests.harness.cli_runs import CLEAN, DAMAGE, KDUMP, UNREADABLE

yaml = pytest.importorskip("yaml")

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
JOB: dict[str, Any] = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text())["kdump-verify"]
GUIDE = [yaml.safe_load(block.text) for block in blocks(ROOT / "docs/guides/ci.md") if block.language == "yaml"]
GOOD, BAD = "fixtures/segments/v1-gzip-0", "fixtures/segments/damaged-crc-0"


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    """A checkout on a runner. What pip is asked to install is written down."""
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kdump").write_text(f'#!/bin/sh\nexec {shlex.join(map(str, KDUMP))} "$@"\n')
    (programs / "python").write_text('#!/bin/sh\necho "$@" >> installed\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    return tmp_path


def run(script: str, runner: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """As runners of GitHub run steps with ``shell: bash``."""
    path = f"{runner / 'bin'}:{os.environ['PATH']}"
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    given = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, cwd=runner, env=given, capture_output=True, text=True, check=False)


def step(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in ACTION["runs"]["steps"] if one.get("name") == name)
    return found


def inputs(**given: str) -> dict[str, str]:
    """The environment of the step, with the inputs of the action put in."""
    values = {name: entry.get("default", "") for name, entry in ACTION["inputs"].items()} | given
    return {name: values[text.split(".")[1].split()[0]] for name, text in step("Verify")["env"].items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"paths": GOOD}, CLEAN),
        ({"paths": f"{GOOD}\n{BAD}\n"}, DAMAGE),
        ({"paths": "nothing"}, UNREADABLE),
        ({"paths": "no*thing"}, UNREADABLE),
        ({"paths": f"{GOOD[:-2]}*"}, CLEAN),
        ({"paths": "fixtures/**/damaged-crc-[0]\n"}, DAMAGE),
    ],
)
def test_the_action(given: dict[str, str], status: int, runner: Path) -> None:
    done = run(step("Verify")["run"], runner, **inputs(**given))
    assert done.returncode == status, done.stderr
    report = (runner / "kdump.xml").read_text()
    assert ("<failure" in report) == (status == DAMAGE)


@pytest.mark.slow
def test_the_action_is_strict_if_it_is_told_so(runner: Path) -> None:
    (runner / "log").mkdir()
    (runner / "log" / f"{0:020}.log").write_bytes((ROOT / GOOD / f"{0:020}.log").read_bytes())
    script = step("Verify")["run"]
    assert run(script, runner, **inputs(paths="log")).returncode == CLEAN
    assert run(script, runner, **inputs(paths="log", strict="true", report="r.xml")).returncode == DAMAGE
    assert (runner / "r.xml").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("output", "part"), [("github", "::error "), ("sarif", '"KD108"')])
def test_the_action_writes_other_reports(output: str, part: str, runner: Path) -> None:
    done = run(step("Verify")["run"], runner, **inputs(paths=BAD, output=output))
    assert done.returncode == DAMAGE, done.stderr
    report = (runner / "kdump.xml").read_text()
    assert part in report
    assert done.stdout == (report if output == "github" else "")


def test_the_action_installs_its_own_version(runner: Path) -> None:
    done = run(step("Install kdump")["run"], runner, GITHUB_ACTION_PATH="/action")
    assert done.returncode == CLEAN, done.stderr
    assert (runner / "installed").read_text() == "-m pip install --quiet /action\n"


def test_the_action_uses_its_inputs() -> None:
    used = {text.split(".")[1].split()[0] for text in step("Verify")["env"].values()}
    assert used | {"python-version"} == ACTION["inputs"].keys()


@pytest.mark.slow
@pytest.mark.parametrize(("paths", "status"), [(GOOD, CLEAN), (f"{GOOD} {BAD}", DAMAGE)])
def test_the_job_of_gitlab(paths: str, status: int, runner: Path) -> None:
    variables = {**JOB["variables"], "KDUMP_PATHS": paths}
    done = run("\n".join(JOB["script"]), runner, **variables)
    assert done.returncode == status, done.stderr
    assert ("<failure" in (runner / "kdump.xml").read_text()) == (status == DAMAGE)
    assert (runner / "installed").read_text() == "-m pip install --quiet ./kdump\n"
    assert JOB["artifacts"]["reports"]["junit"] == "kdump.xml"


def test_the_guide_uses_what_is_there() -> None:
    *workflows, pipeline = GUIDE
    steps = [one for part in workflows for one in (part["steps"] if isinstance(part, dict) else part)]
    used = [one["with"] for one in steps if one["uses"].startswith("OWNER/kdump@")]
    assert len(used) == len(workflows)
    assert all(given.keys() <= ACTION["inputs"].keys() for given in used)
    (included,) = pipeline["include"]
    assert (ROOT / included["file"].lstrip("/")).is_file()
    assert pipeline["kdump-verify"]["variables"].keys() <= JOB["variables"].keys()
    rows = {name for name in ACTION["inputs"] if f"| `{name}` |" in (ROOT / "docs/guides/ci.md").read_text()}
    assert rows == ACTION["inputs"].keys()
