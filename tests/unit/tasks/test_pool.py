"""A pool of processes: results in the order of the tasks, whatever happens to the processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kdump.codes import Codes, KdumpError
from kdump.tasks import pool
from kdump.tasks.plaindata import PlainData
from kdump.tasks.pool import ProcessPool
from kdump.tasks.work import Work, Workplace, in_process
from tests.harness.examples import sparse

PLAIN = PlainData(())
TASKS = [[number] for number in range(20)]
LARGE = 300_000


@pytest.fixture(params=sparse(["fork", "spawn"], fast=2), autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How processes start."""
    monkeypatch.setattr(pool, "_may_fork", lambda: request.param == "fork")
    return str(request.param)


def counted(item: int) -> Iterator[tuple[int, int]]:
    """As many results as the number of the item; the first ones take longest."""
    time.sleep(0.002 * (20 - item))
    return ((item, number) for number in range(item))


def killed_at(item: int, deadly: int) -> Iterator[int]:
    yield item
    if item == deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    yield -item


def refused(item: int) -> Iterator[int]:
    if item == 3:
        raise KdumpError(Codes.MISSING, "no such file", path="somewhere")
    if item == 5:
        raise ValueError("nobody foresaw this")
    yield item


def where(item: int) -> Iterator[tuple[str, int]]:
    yield os.getcwd(), os.getpid()


def told(item: int, count: int, error: KdumpError) -> Iterator[str]:
    yield f"{item} after {count}: {error.message}"


def large(item: int) -> Iterator[bytes]:
    for number in range(20):
        yield bytes((item, number)) * (LARGE if number % 2 else 3)


class Counting:
    """Remembers how often it was called in its process."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, item: int) -> Iterator[tuple[int, int]]:
        self.calls += 1
        yield os.getpid(), self.calls


@pytest.mark.parametrize(("jobs", "size"), [(1, 3), (7, 1)])
def test_in_the_order_of_the_items(jobs: int, size: int) -> None:
    work = Work(counted, PLAIN.pack, PLAIN.unpack)
    tasks = [list(range(first, min(first + size, 20))) for first in range(0, 20, size)]
    assert list(ProcessPool(jobs)(tasks, work)) == list(in_process(TASKS, work))
    assert list(ProcessPool(jobs)([], work)) == []
    assert list(ProcessPool(jobs)([[2]], work)) == [(2, 0), (2, 1)]


@pytest.mark.parametrize("most_held", [1, 1 << 20])
def test_large_results_wait_for_their_turn(most_held: int) -> None:
    work = Work(large, bytes, bytes)
    found = ProcessPool(3, most_held=most_held)([[0, 1], [2], [3], [4]], work)
    first = next(found)
    time.sleep(0.3)
    assert [first, *found] == [result for item in range(5) for result in large(item)]


@pytest.mark.parametrize(("jobs", "size"), [(1, 20), (3, 5)])
def test_a_killed_process_is_an_error_of_its_item(jobs: int, size: int) -> None:
    """The other items of its task are done."""
    work = Work(partial(killed_at, deadly=7), PLAIN.pack, PLAIN.unpack, lost=told)
    tasks = [list(range(first, first + size)) for first in range(0, 20, size)]
    message = "7 after 1: the process that read it was killed by signal 9, as where memory runs out"
    expected = [result for item in range(20) for result in (item, message if item == 7 else -item)]
    assert list(ProcessPool(jobs)(tasks, work)) == expected


def test_without_a_word_for_it_the_error_is_raised() -> None:
    work = Work(partial(killed_at, deadly=0), PLAIN.pack, PLAIN.unpack)
    with pytest.raises(KdumpError, match="signal 9"):
        list(ProcessPool(2)(TASKS, work))


def test_errors_of_an_item_are_raised_in_its_place() -> None:
    work = Work(refused, PLAIN.pack, PLAIN.unpack)
    found = ProcessPool(2)([[0, 1], [2, 3, 4], [5]], work)
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KdumpError, match="somewhere: no such file"):
        next(found)
    with pytest.raises(RuntimeError, match="nobody foresaw this"):
        list(ProcessPool(2)([[5]], work))


def test_a_task_runs_where_it_was_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    relative = Work(where, PLAIN.pack, PLAIN.unpack, Workplace.of(["t-0"]))
    whole = Work(where, PLAIN.pack, PLAIN.unpack, Workplace.of([str(tmp_path / "t-0")]))
    monkeypatch.chdir("/")
    for work, directory in ((relative, str(tmp_path)), (whole, None)):
        [(found, process)] = ProcessPool(1)([[0]], work)
        assert process != os.getpid()
        assert (found == str(tmp_path)) is (directory is not None)


def test_a_process_keeps_what_does_the_work() -> None:
    found = list(ProcessPool(1)([[0, 1], [2]], Work(Counting(), PLAIN.pack, PLAIN.unpack)))
    assert [calls for _, calls in found] == [1, 2, 3]
    assert len({process for process, _ in found}) == 1


def test_progress_is_of_all_items() -> None:
    seen: list[tuple[str, int]] = []
    work = Work(counted, PLAIN.pack, PLAIN.unpack, size=lambda item: 10)
    pool = ProcessPool(2, progress=lambda *step: seen.append(step))
    list(pool([[1, 2], [3]], work))
    assert {what for what, _ in seen} == {"3 logs"}
    assert [done for _, done in seen] == sorted(done for _, done in seen)
    assert seen[-1][1] == 30


def test_who_closes_the_results_ends_the_processes() -> None:
    work = Work(where, PLAIN.pack, PLAIN.unpack)
    found = ProcessPool(2)(TASKS, work)
    _, process = next(found)
    found.close()
    deadline = time.monotonic() + 60
    while is_running(process) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(process)


def is_running(process: int) -> bool:
    """A process that nobody has waited for yet has no working directory."""
    return os.path.lexists(f"/proc/{process}/cwd") and bool(Path(f"/proc/{process}/cmdline").read_bytes())


_SLEEPERS = """
import os, sys, time
sys.path.insert(0, {folder!r})
from kdump.tasks import pool
from kdump.tasks.plaindata import PlainData
from kdump.tasks.work import Work
from test_pool import asleep

plain = PlainData(())
pool._may_fork = lambda: {fork}
try:
    for process in pool.ProcessPool(2)([[{folder!r}]] * 4, Work(asleep, plain.pack, plain.unpack)):
        pass
except KeyboardInterrupt:
    os._exit(130)
"""


def asleep(folder: str) -> Iterator[int]:
    (Path(os.environ["KDUMP_TEST_PIDS"]) / str(os.getpid())).touch()
    time.sleep(60)
    yield 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_a_signal_ends_all_processes_at_once(tmp_path: Path, way: str, number: signal.Signals) -> None:
    """A terminal sends the interrupt to all of them; none but the first may say a word. The others go to that one."""
    script = _SLEEPERS.format(folder=str(Path(__file__).parent), fork=way == "fork")
    environment = {**os.environ, "KDUMP_TEST_PIDS": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 60
        while len(pids := list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(pids) == 2
        (os.killpg if number is signal.SIGINT else os.kill)(process.pid, number)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130 if number is signal.SIGINT else -number, b"")
    deadline = time.monotonic() + 60
    while any(is_running(int(pid.name)) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_running(int(pid.name)) for pid in pids)


_THREADS = """
import _thread, os, time, warnings
from kdump.tasks.pool import ProcessPool
from kdump.tasks.plaindata import PlainData
from kdump.tasks.work import Work
from test_pool import is_copied

if __name__ == "__main__":
    warnings.simplefilter("error")
    is_copy = True
    if {has_thread}:
        _thread.start_new_thread(time.sleep, (60,))  # which module threading does not count
    plain = PlainData(())
    print(*ProcessPool(2)([[1], [2]], Work(is_copied, plain.pack, plain.unpack)), flush=True)
    os._exit(0)  # as kdump ends
"""


def is_copied(_item: int) -> Iterator[bool]:
    """Whether this process is a copy of the one that asks."""
    yield hasattr(sys.modules["__main__"], "is_copy")


@pytest.mark.parametrize("has_thread", [False, True])
def test_a_process_with_threads_is_not_copied(tmp_path: Path, has_thread: bool) -> None:
    """Python itself warns of such a fork, from 3.12 on: here a warning is an error."""
    script = tmp_path / "script.py"
    script.write_text(_THREADS.format(has_thread=has_thread))
    folders = [str(Path(__file__).parent), str(Path(pool.__file__).parents[2])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    run = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (0, b"")
    assert run.stdout == (b"False False\n" if has_thread else b"True True\n")


_UNFORKED = """
import os
from kdump.tasks import pool
from kdump.tasks.plaindata import PlainData
from kdump.tasks.work import Work

pool._may_fork = lambda: False

def same(item):
    yield item

if __name__ == "__main__":
    print(*pool.ProcessPool(1)([[1], [2]], Work(same, PlainData(()).pack, PlainData(()).unpack)), flush=True)
    os._exit(0)  # as kdump ends
"""


def test_no_process_takes_modules_from_the_working_directory(tmp_path: Path) -> None:
    """It may be a directory of logs that others write to."""
    (tmp_path / "logs").mkdir()
    for name in ("multiprocessing", "socket"):
        (tmp_path / "logs" / f"{name}.py").write_text("raise SystemExit(9)\n")
    script = tmp_path / "script.py"
    script.write_text(_UNFORKED)
    run = subprocess.run([sys.executable, script], cwd=tmp_path / "logs", capture_output=True, check=False, timeout=60)
    assert (run.stdout, run.stderr, run.returncode) == (b"1 2\n", b"", 0)


def test_nothing_stays_in_the_temporary_directory(tmp_path: Path) -> None:
    """A process that took the place of a killed one left a directory there."""
    (tmp_path / "temporary").mkdir()
    script = tmp_path / "script.py"
    script.write_text(_UNFORKED)
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    run = subprocess.run([sys.executable, script], env=environment, capture_output=True, check=False, timeout=60)
    assert (run.stdout, run.returncode) == (b"1 2\n", 0)
    assert not list((tmp_path / "temporary").iterdir())
