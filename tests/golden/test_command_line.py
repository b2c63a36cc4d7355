"""The real command line: the recorded calls, exit statuses, a closed pipe, and that nothing is written.

Each call runs in a copy of its own, as the real tool did.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import ROOT
from tests.harness.captures import CLI, Captures, read_outcome
from tests.harness.cli_runs import KDUMP, kdump
from tests.harness.flags import DEFAULT
from tests.harness.outcome import Outcome, differences

CALLS = (
    "all-three", "dec-noarg", "dec-string", "dir", "dot", "dotdot", "emptyfiles", "emptyname", "equals",
    "maxbytes-exact", "maxbytes-minus1", "maxbytes0", "maxbytes2000", "maxbytes60", "missing-txn", "positional",
    "single-dash", "skip-deep", "skip-only", "slashes", "sub", "trailcomma", "two", "verify-all", "verify-and-sanity",
)  # fmt: skip
"""The recorded calls that ended with status 0, but for --version, which names the version of the tool itself."""

REFUSED = (
    "abbrev", "abbrev-print", "bad-int", "dec-notdecoder", "dec-unknown", "noarg-files", "noargs", "nofiles", "twice",
)  # fmt: skip
"""Recorded calls that the real tool refuses, and kdump with status 2."""


def run(arguments: list[str], directory: Path) -> Outcome:
    """``kdump dump`` in ``directory``."""
    done = kdump("dump", *arguments, cwd=directory)
    return Outcome(done.stdout, done.stderr, done.returncode)


@pytest.fixture
def call_directory(captures: Captures, tmp_path: Path) -> Path:
    """A copy of the directory that the recorded calls ran in; its name is part of their output."""
    return Path(shutil.copytree(captures.root / CLI, tmp_path / CLI))


def recorded_arguments(directory: Path, call: str) -> list[str]:
    return (directory / "golden" / f"{call}.args").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_recorded_call(call_directory: Path, call: str) -> None:
    ours = run(recorded_arguments(call_directory, call), call_directory)
    java = read_outcome(call_directory, f"{call}.4.3.1.")
    notes = b"".join(line for line in ours.stderr.splitlines(keepends=True) if b"ignored, as DumpLogSegments" in line)
    assert (call == "positional") == bool(notes)
    ours = Outcome(ours.stdout, ours.stderr.replace(notes, b"") if notes else ours.stderr, ours.status)
    assert differences(java, ours, DEFAULT, ordered=False) == []
    assert (b"Ignoring unknown file" in java.stderr) == (b"Ignoring unknown file" in ours.stderr)


def test_all_recorded_calls_are_listed(captures: Captures) -> None:
    golden = captures.root / CLI / "golden"
    done = {path.name.partition(".")[0] for path in golden.glob("*.rc") if path.read_text().strip() == "0"}
    assert done == {*CALLS, "version"}


@pytest.mark.parametrize("call", REFUSED)
def test_refused_call(call_directory: Path, call: str) -> None:
    ours = run(recorded_arguments(call_directory, call), call_directory)
    assert (ours.status, ours.stdout) == (2, b"")
    assert ours.stderr


@pytest.mark.parametrize(
    ("partition", "arguments", "status"),
    [
        ("4.3.1/v2-txn-0", ["00000000000000000000.log"], 0),
        ("4.3.1/v2-txn-0", ["--all-files", "."], 0),
        ("damaged/log-flip-crc", ["00000000000000000000.log"], 1),
        ("damaged/v0-inner-crc", ["00000000000000000000.log"], 0),
        ("damaged/v0-inner-crc", ["--deep-iteration", "00000000000000000000.log"], 1),
        ("damaged/log-codec-5-crcok", ["00000000000000000000.log"], 1),
        ("damaged/idx-position-beyond", ["00000000000000000000.index"], 1),
        ("damaged/idx-offset-wrong", ["00000000000000000000.index"], 0),
        ("damaged/empty-files", ["00000000000000000000.log"], 0),
        ("cli", ["00000000000000000099.log"], 3),
        ("cli", ["00000000000000000099.log", "00000000000000000007.log"], 3),
        ("cli", ["golden"], 3),
        ("cli", ["--files", "00000000000000000007.log,00000000000000000099.log,00000000000000000007.log"], 3),
    ],
)
def test_exit_status(captures: Captures, partition: str, arguments: list[str], status: int) -> None:
    """Of a process of its own."""
    done = subprocess.run([*KDUMP, "dump", *arguments], cwd=captures.root / partition, capture_output=True, check=False)
    assert done.returncode == status


def test_trailing_bytes_and_a_corrupt_snapshot_are_damage(captures: Captures, tmp_path: Path) -> None:
    directory = captures.root / "4.3.1" / "v2-txn-0"
    for name in ("00000000000000000000.log", "00000000000000000105.snapshot"):
        data = (directory / name).read_bytes()
        (tmp_path / name).write_bytes(data)
        assert run([name], tmp_path).status == 0
        (tmp_path / name).write_bytes(data + b"x")
        assert run([name], tmp_path).status == 1


def test_missing_file_does_not_stop_the_others(captures: Captures) -> None:
    directory = captures.root / CLI
    good = run(["00000000000000000007.log"], directory).stdout
    both = run(["00000000000000000099.log", "00000000000000000007.log"], directory)
    assert both.stdout.endswith(good)
    assert both.stderr.count(b"\n") == 1
    assert b"00000000000000000099.log" in both.stderr


def test_closed_pipe_ends_quietly(captures: Captures) -> None:
    command = f"{sys.executable} -m kdump dump --print-data-log 3.9.1/v2-big-0 2>err | head -1 >out"
    command += "; echo ${PIPESTATUS[0]}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", command], cwd=captures.root, env=environment, capture_output=True, check=True)
    assert (captures.root / "out").read_text().startswith("Dumping ")
    assert ((captures.root / "err").read_text(), done.stdout) == ("", b"0\n")


def snapshot_of(directory: Path) -> dict[str, tuple[int, int, int, str]]:
    """Mode, size, mtime (ns) and hash of every file below ``directory``."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.stat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(directory))] = (status.st_mode, status.st_size, status.st_mtime_ns, digest)
    return found


@pytest.mark.parametrize("partition", ["4.3.1/v2-txn-0", "damaged/idx-missing-index", "damaged/empty-files"])
@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.slow
def test_nothing_is_written(captures: Captures, tmp_path: Path, partition: str, read_only: bool) -> None:
    """Where the real tool writes too: it trims an index of odd size and creates a missing one."""
    without_goldens = shutil.ignore_patterns("golden")
    directory = Path(shutil.copytree(captures.root / partition, tmp_path / "partition", ignore=without_goldens))
    for path in directory.glob("*.*index"):
        path.write_bytes(path.read_bytes() + bytes(3))
    if read_only:
        for path in directory.iterdir():
            path.chmod(0o444)
        directory.chmod(0o555)
    before = snapshot_of(tmp_path)
    names = sorted(path.name for path in directory.iterdir() if path.name != "case.txt")
    outcomes = [
        run([*flags, *door], directory)
        for flags in ([], ["--print-data-log"], ["--verify-index-only"], ["--index-sanity-check"])
        for door in (["--files", ",".join(names)], ["--all-files", "."])
    ]
    assert snapshot_of(tmp_path) == before
    assert all(outcome.status in (0, 1) and outcome.stdout.startswith(b"Dumping ") for outcome in outcomes)
    directory.chmod(0o755)
