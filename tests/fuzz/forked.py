"""Commands in forked processes, on disks with trouble.

A command reads and plans for most of its time, before it changes anything. So a process comes to the first change once,
and its forks go on from there: each with its own trouble, on files that were made as they had been.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import signal
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from kdump.log.files import FileFingerprint
from kdump.log.lock import LOCK_FILE
from tests.fuzz.case import Fault
from tests.fuzz.running import MOST_SECONDS, Ran, allow_timers, run_command
from tests.harness.killing import FaultyDisk, Point, Trouble, exit_status_of, in_child, start_child


class Done(NamedTuple):
    """What came of a command: ``ran`` is None where it was killed."""

    ran: Ran | None
    faults: list[Fault]
    calls: list[str]


def run(words: Sequence[str], root: Path, points: Sequence[Point] = ()) -> Done:
    """``kdump WORDS`` in ``root``, in a child, with trouble."""
    with tempfile.TemporaryFile() as told:
        disk = FaultyDisk(points)
        if in_child(partial(_work, words, root, disk, told.fileno())) is None:
            return Done(None, [], [])
        return _told(told.fileno())


class Prepared:
    """A command that has come to its first system call that changes something.

    The directories in ``root`` must be the same ones whenever it goes on, and the files have the same content.
    """

    def __init__(self, words: Sequence[str], root: Path) -> None:
        self._told = tempfile.TemporaryFile()  # noqa: SIM115
        self._requests, self._ask = os.pipe()
        self._answer, self._answers = os.pipe()
        self._process = start_child(partial(self._begin, words, root))
        os.close(self._requests)
        os.close(self._answers)

    def run(self, points: Sequence[Point]) -> Done:
        """It goes on, with trouble; what was before is among its calls."""
        os.write(self._ask, json.dumps([(point.number, point.trouble.value) for point in points]).encode())
        status = json.loads(os.read(self._answer, 100) or "1")
        assert status in (None, 0), f"the child ended with {status}"
        return Done(None, [], []) if status is None else _told(self._told.fileno())

    def close(self) -> None:
        """End its process."""
        os.close(self._ask)
        os.close(self._answer)
        os.waitpid(self._process, 0)
        self._told.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, words: Sequence[str], root: Path) -> None:
        # Files that are made again for the next fork have other inodes; size and time are still compared.
        of = FileFingerprint.of
        FileFingerprint.of = lambda path: of(path)._replace(inode=0)  # type: ignore[assignment, method-assign]
        _work(words, root, FaultyDisk(at_first=self._serve), self._told.fileno())

    def _serve(self) -> Sequence[Point]:
        """In the command's process: fork for each request. Gives the points of that request in the fork."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        os.close(self._ask)
        locks = [int(name) for name in os.listdir("/proc/self/fd") if _is_lock(name)]
        printed = [(stream, os.lseek(stream, 0, os.SEEK_CUR)) for stream in (1, 2)]
        for lock in locks:
            fcntl.lockf(lock, fcntl.LOCK_UN)
        gc.collect()
        gc.freeze()
        # Not ``os.write``, which counts here.
        answers = open(self._answers, "wb", buffering=0)  # noqa: SIM115
        while request := os.read(self._requests, 1000):
            child = os.fork()
            if child == 0:
                for lock in locks:
                    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for stream, position in printed:
                    _rewind(stream, position)
                signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
                return [Point(number, Trouble(trouble)) for number, trouble in json.loads(request)]
            _, status = os.waitpid(child, 0)
            answers.write(json.dumps(exit_status_of(status)).encode())
        os._exit(0)


def _is_lock(descriptor: str) -> bool:
    try:
        return os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")) == LOCK_FILE
    except OSError:
        return False


def _rewind(descriptor: int, position: int) -> None:
    """Without the functions of ``os``, which count."""
    with open(descriptor, "r+b", buffering=0, closefd=False) as file:
        file.seek(position)
        file.truncate()


def _work(words: Sequence[str], root: Path, disk: FaultyDisk, told: int) -> None:
    allow_timers()
    faults: list[Fault] = []
    disk.install()
    ran = run_command(words, root, faults)
    said = [ran.status, ran.out.decode("latin-1"), ran.errors.decode("latin-1")]
    broken = [[fault.promise, fault.where, fault.detail] for fault in faults]
    _rewind(told, 0)
    with open(told, "wb", closefd=False) as file:
        file.write(json.dumps([said, broken, disk.calls]).encode())


def _told(told: int) -> Done:
    with open(told, "rb", closefd=False) as file:
        file.seek(0)
        (status, out, errors), broken, calls = json.loads(file.read())
    return Done(Ran(status, out.encode("latin-1"), errors.encode("latin-1")), [Fault(*one) for one in broken], calls)
