"""A pool of processes: results in the order of the tasks, whatever happens to the processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from kdump.codes import Codes, KdumpError
from kdump.tasks.plaindata import PlainData
from kdump.tasks.pool import ProcessPool
from kdump.tasks.work import Work, Workplace, in_process

PLAIN = PlainData(())
TASKS = list(range(20))


def counted(task: int) -> Iterator[tuple[int, int]]:
    """As many results as the number of the task; the first tasks take longest."""
    time.sleep(0.002 * (20 - task))
    return ((task, number) for number in range(task))


def killed_at(task: int, deadly: int) -> Iterator[int]:
    yield task
    if task == deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    yield -task


def refused(task: int) -> Iterator[int]:
    if task == 3:
        raise KdumpError(Codes.MISSING, "no such file", path="somewhere")
    if task == 5:
        raise ValueError("nobody foresaw this")
    yield task


def where(task: int) -> Iterator[tuple[str, int]]:
    yield os.getcwd(), os.getpid()


def told(task: int, results: Sequence[object], error: KdumpError) -> Iterator[str]:
    yield f"{task} after {results}: {error.message}"


@pytest.mark.parametrize("jobs", [1, 2, 7])
def test_in_the_order_of_the_tasks(jobs: int) -> None:
    work = Work(counted, PLAIN.pack, PLAIN.unpack)
    with ProcessPool(jobs, __name__) as pool:
        assert list(pool.run(TASKS, work)) == list(in_process(TASKS, work))
        assert list(pool.run([], work)) == []
        assert list(pool.run([2], work)) == [(2, 0), (2, 1)]


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_killed_process_is_an_error_of_its_task(jobs: int) -> None:
    work = Work(partial(killed_at, deadly=7), PLAIN.pack, PLAIN.unpack, lost=told)
    with ProcessPool(jobs, __name__) as pool:
        found = list(pool.run(TASKS, work))
    message = "7 after [7]: the process that read it was killed by signal 9, as where memory runs out"
    assert found == [item for task in TASKS for item in (task, message if task == 7 else -task)]


def test_without_a_word_for_it_the_error_is_raised() -> None:
    work = Work(partial(killed_at, deadly=0), PLAIN.pack, PLAIN.unpack)
    with ProcessPool(2, __name__) as pool, pytest.raises(KdumpError, match="signal 9"):
        list(pool.run(TASKS, work))


def test_errors_of_a_task_are_raised_in_its_place() -> None:
    work = Work(refused, PLAIN.pack, PLAIN.unpack)
    with ProcessPool(2, __name__) as pool:
        found = pool.run(TASKS, work)
        assert [next(found) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(KdumpError, match="somewhere: no such file"):
            next(found)
        with pytest.raises(RuntimeError, match="nobody foresaw this"):
            list(pool.run([5], work))


def test_a_task_runs_where_it_was_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    relative = Work(where, PLAIN.pack, PLAIN.unpack, Workplace.of(["t-0"]))
    whole = Work(where, PLAIN.pack, PLAIN.unpack, Workplace.of([str(tmp_path / "t-0")]))
    monkeypatch.chdir("/")
    with ProcessPool(1, __name__) as pool:
        for work, directory in ((relative, str(tmp_path)), (whole, None)):
            [(found, process)] = pool.run([0], work)
            assert process != os.getpid()
            assert (found == str(tmp_path)) is (directory is not None)


_SLEEPERS = """
import os, sys, time
sys.path.insert(0, {folder!r})
from kdump.tasks.plaindata import PlainData
from kdump.tasks.pool import ProcessPool
from kdump.tasks.work import Work
from test_pool import asleep

plain = PlainData(())
try:
    with ProcessPool(2, "test_pool") as pool:
        for process in pool.run([{folder!r}] * 4, Work(asleep, plain.pack, plain.unpack)):
            pass
except KeyboardInterrupt:
    os._exit(130)
"""


def asleep(folder: str) -> Iterator[int]:
    (Path(os.environ["KDUMP_TEST_PIDS"]) / str(os.getpid())).touch()
    time.sleep(60)
    yield 0


def test_an_interrupt_ends_all_processes_at_once(tmp_path: Path) -> None:
    """The terminal sends it to all of them; none but the first may say a word."""
    script = _SLEEPERS.format(folder=str(Path(__file__).parent))
    environment = {**os.environ, "KDUMP_TEST_PIDS": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 60
        while len(pids := list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(pids) == 2
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (130, b"")
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid.name}/cwd").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid.name}/cwd").exists() for pid in pids)
