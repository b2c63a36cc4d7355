"""Calls of kdump in this process: bounded in time, their output caught, their promises checked."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple, TypeVar

from kdump.cli import exit_status
from kdump.cli.main import _run
from kdump.codes import KdumpError
from kdump.wire.jsontext import no_constant
from tests.fuzz.case import Fault
from tests.harness.cli_runs import called

_T = TypeVar("_T")
MOST_SECONDS: Final = 10
"""CPU time of one call. Inputs are at most a few hundred kilobytes."""
_STATUSES: Final = frozenset({exit_status.CLEAN, exit_status.DAMAGE, exit_status.UNREADABLE, exit_status.INTERRUPTED})


class TimeIsUpError(BaseException):
    """A call took too long; no ``except Exception`` may swallow it."""


class Ran(NamedTuple):
    """What a command came to."""

    status: int | None
    out: bytes
    errors: bytes


def allow_timers() -> None:
    """Once a process, before the first ``bounded``."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeIsUpError

    signal.signal(signal.SIGPROF, stop)


@contextmanager
def _time_limit() -> Iterator[None]:
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def bounded(what: str, call: Callable[[], _T], faults: list[Fault]) -> _T | None:
    """The result of ``call``; a KdumpError is one of the results that kdump promises.

    An exception of another class and a call without an end are added to ``faults``.
    """
    try:
        with _time_limit():
            return call()
    except KdumpError:
        return None
    except TimeIsUpError:
        faults.append(Fault("time", f"{what} {_place()}", traceback.format_exc()))
    except Exception as error:
        faults.append(Fault("exception", f"{type(error).__name__} {_place()}", f"{what}\n{traceback.format_exc()}"))
    return None


def run_command(words: Sequence[str], folder: Path, faults: list[Fault]) -> Ran:
    """``kdump WORDS`` in ``folder``; adds to ``faults`` what no command may do."""
    what = " ".join(words)
    with called(*words, cwd=folder) as streams:
        try:
            status = bounded(what, _run, faults)
        except SystemExit as error:
            status = None
            faults.append(Fault("exit", f"{words[0]} {error.code}", what))
    ran = Ran(status, streams.out, streams.errors)
    if status is not None and status not in _STATUSES:
        faults.append(Fault("status", f"{status} {_options(words)}", f"{what}\n{_text(ran)}"))
    if b"Traceback" in ran.errors or b"internal error" in ran.errors or b"Warning:" in ran.errors:
        faults.append(Fault("stderr", ran.errors.decode("utf-8", "replace")[-60:], f"{what}\n{_text(ran)}"))
    if status is not None and "jsonl" in words and words[0] != "convert" and not _are_json(ran.out):
        faults.append(Fault("json", _options(words), f"{what}\n{_text(ran)}"))
    return ran


def _are_json(lines: bytes) -> bool:
    """Each whole line is JSON in UTF-8."""
    try:
        for line in lines.split(b"\n")[:-1]:
            json.loads(line.decode(), parse_constant=no_constant)
    except ValueError:
        return False
    return True


def files_in(folder: Path) -> dict[str, tuple[int, int, int, str]]:
    """What must not change in evidence: time of the last change, size, inode and hash of each file, by its path."""
    found = {}
    for directory, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            found[os.path.relpath(path, folder)] = (status.st_mtime_ns, status.st_size, status.st_ino, digest)
    return found


def contents_in(folder: Path) -> dict[str, str]:
    """The hash of each file, by its path, journals and locks of repairs aside."""
    return {
        name: state[-1]
        for name, state in files_in(folder).items()
        if ".kdump" not in Path(name).parts and Path(name).name != ".lock"
    }


def _place() -> str:
    """The innermost line of kdump in the traceback of the exception that is being handled."""
    frames = traceback.extract_tb(sys.exception().__traceback__ if sys.exception() is not None else None)
    ours = [frame for frame in frames if f"{os.sep}kdump{os.sep}" in frame.filename]
    return f"{os.path.basename(ours[-1].filename)}:{ours[-1].name}" if ours else "?"


def _options(words: Sequence[str]) -> str:
    return " ".join(word for word in words if word.startswith("-") or word == words[0])


def _text(ran: Ran) -> str:
    return f"{ran.out[-2000:].decode('utf-8', 'replace')}\n---\n{ran.errors[-2000:].decode('utf-8', 'replace')}"
