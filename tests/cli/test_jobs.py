"""``-j``: the same bytes from any number of processes, damage included, and what happens when one of them is killed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kdump.cli import engine
from kdump.convert import run as convert_tasks
from kdump.tasks import pool
from kdump.verify import judging, readings
from tests.harness.archives import unpack_cases
from tests.harness.captures import FIXTURES, LARGE, Captures
from tests.harness.cli_runs import BATCH, DAMAGE, NAME, UNREADABLE, USAGE, kdump

KILLED = "the process that read it was killed by signal 9, as where memory runs out"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory, captures: Captures) -> Path:
    """A log directory with partitions of many captures, damaged ones, an empty one, and one that cannot be opened."""
    root = tmp_path_factory.mktemp("logs")
    for number, partition in enumerate(sorted(captures.root.glob("*/*/"))):
        if (
            str(partition.relative_to(captures.root)) not in LARGE
            and list(partition.glob("*.log"))
            and number % 16 == 0
        ):
            shutil.copytree(partition, root / f"capture{number}-0", ignore=shutil.ignore_patterns("golden"))
    unpacked = unpack_cases("repair", tmp_path_factory.mktemp("cases"))
    for number, log in enumerate(sorted(unpacked.glob("mutants/*/*.log"))[::160]):
        shutil.copytree(log.parent, root / f"mutant-{number}")
    for folder in sorted((FIXTURES / "segments").iterdir()):
        shutil.copytree(folder, root / folder.name)
    (root / "empty-0").mkdir()
    (root / "empty-0" / NAME).touch()
    (root / "elsewhere-0").mkdir()
    (root / "elsewhere-0" / NAME).symlink_to("/etc/hostname")
    return root


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small logs are work for a pool too. Processes are forks, which see what is patched."""
    monkeypatch.setattr(engine, "LEAST_FOR_POOL", 0)
    monkeypatch.setattr(judging, "SMALL_LOG", -1)
    monkeypatch.setattr(pool, "_may_fork", lambda: True)


COMMANDS = [
    ("verify",),
    ("verify", "--quick", "--output", "jsonl"),
    ("verify", "--startup", "--output", "jsonl", "--unclean"),
    ("stats", "--output", "jsonl"),
    ("stats", "--quick", "--by", "hour"),
    ("stats", "--by", "producer", "--output", "jsonl"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.slow
def test_equal_outputs(logs: Path, words: tuple[str, ...]) -> None:
    """Of all, of a partition that is named too, and of what is not there."""
    paths = (".", "v2-txn-0", "no-such-place")
    one = kdump(*words, "-j", "1", *paths, cwd=logs)
    assert one.stdout
    assert one.returncode == UNREADABLE
    several = kdump(*words, "-j", "3", *paths, cwd=logs)
    assert (several.returncode, several.stdout) == (one.returncode, one.stdout)
    assert sorted(several.stderr.splitlines()) == sorted(one.stderr.splitlines())


def test_a_dump_prints_from_one_process(logs: Path) -> None:
    for words in (("dump",), ("dump", "--output", "jsonl", "--records")):
        for jobs in (("-j", "2"), ("--jobs=1",)):
            run = kdump(*words, *jobs, "v2-txn-0", cwd=logs)
            assert (run.returncode, run.stdout) == (USAGE, b"")
            assert run.stderr.splitlines()[-1] == b"Error: dump prints from one process: -j does not go with it"


@pytest.mark.parametrize("words", [("verify",), ("stats", "--quick", "--output", "jsonl")], ids=" ".join)
@pytest.mark.slow
def test_partitions_of_small_logs(logs: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """One process reads them, beside those that read the others."""
    one = kdump(*words, "-j", "1", ".", cwd=logs)
    monkeypatch.setattr(judging, "SMALL_LOG", 12_000)
    for jobs in ("1", "2"):
        several = kdump(*words, "-j", jobs, ".", cwd=logs)
        assert (several.returncode, several.stdout) == (one.returncode, one.stdout)


def written(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "words",
    [
        ("--to", "jsonl"),
        ("--codec", "gzip", "--skip-damaged"),
        ("--to", "csv", "--skip-damaged", "--output", "jsonl"),
        ("--to", "parquet", "--skip-damaged", "--isolation", "read_committed"),
    ],
    ids=" ".join,
)
@pytest.mark.slow
def test_equal_files(logs: Path, tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where damage refuses all of it."""
    shutil.copytree(logs, tmp_path / "logs", symlinks=True)
    shutil.rmtree(tmp_path / "logs" / "elsewhere-0")
    if "parquet" in words:
        # pyarrow does not go with forks.
        monkeypatch.setattr(pool, "_may_fork", lambda: False)
    found = []
    for jobs in ("1", "3"):
        run = kdump("convert", "-j", jobs, "logs", "-o", "out", *words, cwd=tmp_path)
        found.append((run.returncode, run.stdout, run.stderr, written(tmp_path / "out")))
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
    assert found[0] == found[1]
    assert found[0][0] == DAMAGE
    assert bool(found[0][3]) is ("--skip-damaged" in words)


def deadly(function: Callable[..., Iterator[Any]], name: str) -> Callable[..., Iterator[Any]]:
    """The function, killed by the system after its first result for a file in ``name``."""

    def killed(*words: Any) -> Iterator[Any]:
        for result in function(*words):
            yield result
            # A directory of pytest may be called pytest-2.
            if re.search(rf"\b{name}/", str(words)):
                os.kill(os.getpid(), signal.SIGKILL)

    return killed


def lines_of(stderr: bytes) -> list[str]:
    return stderr.decode().splitlines()


@pytest.fixture
def partitions(tmp_path: Path) -> Path:
    for number in range(5):
        (tmp_path / f"t-{number}").mkdir()
        (tmp_path / f"t-{number}" / NAME).write_bytes(BATCH)
    return tmp_path


@pytest.mark.parametrize("command", ["verify", "stats"])
def test_a_killed_check(partitions: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """It is an error of one file; the others are judged and counted."""
    monkeypatch.setattr(readings, "_seen", deadly(readings._seen, "t-2"))
    whole = kdump(command, "-j", "1", "--output", "jsonl", *others(2), cwd=partitions)
    run = kdump(command, "-j", "2", "--output", "jsonl", *names(), cwd=partitions)
    assert (run.returncode, lines_of(run.stderr)) == (UNREADABLE, [f"kdump: t-2/{NAME}: {KILLED}"])
    assert run.stdout == whole.stdout


def names() -> Sequence[str]:
    return [f"t-{number}" for number in range(5)]


def others(left_out: int) -> Sequence[str]:
    return [name for name in names() if name != f"t-{left_out}"]


def test_a_killed_conversion_writes_nothing(partitions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(name: str, job: Any) -> Iterator[Any]:
        for result in before(name, job):
            if "t-2" in job.source:
                os.kill(os.getpid(), signal.SIGKILL)
            yield result

    before = convert_tasks._run_job
    monkeypatch.setattr(convert_tasks, "_run_job", killed)
    killed.__module__, killed.__qualname__ = before.__module__, before.__qualname__
    run = kdump("convert", "-j", "2", ".", "-o", "out", "--to", "jsonl", cwd=partitions)
    assert (run.returncode, lines_of(run.stderr)) == (UNREADABLE, [f"kdump: ./t-2/{NAME}: {KILLED}"])
    assert not (partitions / "out").exists()


_SLOW = """
import os, sys, time
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as kdump starts; a process with threads is not copied
from pathlib import Path
from kdump.cli import engine
from kdump.cli.main import main
from kdump.convert import run as tasks
engine.LEAST_FOR_POOL = 0
before = tasks.run_job

def slow(job):
    result = before(job)
    Path("waiting", job.source.replace("/", "_")).touch()
    time.sleep(60)
    return result

tasks.run_job = slow
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_neither_processes_nor_files(partitions: Path, number: signal.Signals) -> None:
    """A terminal sends the interrupt to all processes, a service manager the end to the first one."""
    (partitions / "waiting").mkdir()
    command = [sys.executable, "-c", _SLOW, "convert", "-j", "2", ".", "-o", "out", "--to", "jsonl"]
    with subprocess.Popen(
        command, cwd=partitions, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 60
        while len(list((partitions / "waiting").iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(list(partitions.glob("out/*/.*.kdump-part"))) == 2
        (os.killpg if number is signal.SIGINT else os.kill)(process.pid, number)
        # The other processes have the other ends of the pipes: this waits for them too.
        out, errors = process.communicate(timeout=60)
    assert (process.returncode, out, errors) == (130 if number is signal.SIGINT else -number, b"", b"")
    assert not (partitions / "out").exists()


@pytest.mark.slow
def test_small_logs_start_no_process(partitions: Path) -> None:
    """Nothing is imported for it either."""
    code = "import sys; from kdump.cli.main import _run; status = _run(); print(*sys.modules); sys.exit(status)"
    for words in (("verify",), ("stats",), ("verify", "--startup", "--clean")):
        command = [sys.executable, "-c", code, *words, "-j", "4", "."]
        run = subprocess.run(command, cwd=partitions, capture_output=True, timeout=60, check=False)
        modules = run.stdout.splitlines()[-1].split()
        assert b"kdump.cli.engine" in modules
        assert not [name for name in modules if name.startswith((b"multiprocessing", b"kdump.tasks.pool"))]


def test_a_pipe_whose_reader_leaves(partitions: Path) -> None:
    code = "from kdump.cli import engine, main; engine.LEAST_FOR_POOL = 0; main.main()"
    command = f"{sys.executable} -c '{code}' stats --output jsonl -j 2 . | head -c 1; echo ${{PIPESTATUS[0]}}"
    run = subprocess.run(["bash", "-c", command], cwd=partitions, capture_output=True, timeout=60, check=False)
    assert (run.stdout.splitlines()[-1][-1:], run.stderr) == (b"0", b"")
