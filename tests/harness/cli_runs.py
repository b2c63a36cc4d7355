"""Runs of the command line, in this process or in one of their own, and the files they are given."""

from __future__ import annotations

import ctypes
import fcntl
import gc
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kdump.cli.main import _run as run_command_line
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.streams import Caught, caught

KDUMP = [sys.executable, "-m", "kdump"]
CLEAN, DAMAGE, USAGE, UNREADABLE, INTERRUPTED = 0, 1, 2, 3, 130

_DROP_FROM_BOUNDING_SET, _DAC_OVERRIDE = 24, 1
"""PR_CAPBSET_DROP and CAP_DAC_OVERRIDE of Linux."""

NAME = f"{0:020}.log"
BATCH = v2_batch(plain_rows(3))
DAMAGED_BATCH = v2_batch(plain_rows(3), crc=1)


def kdump(*words: str, cwd: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """``kdump WORDS``, in this process: what it prints, and its exit status.

    What a process is (signals, pipes, the environment, the first import) needs one: ``shell``, or ``KDUMP`` itself.
    """
    with called(*words, cwd=cwd, stdin=stdin) as streams:
        status = run_command_line()
    return subprocess.CompletedProcess(words, status, streams.out, streams.errors)


@contextmanager
def called(*words: str, cwd: Path, stdin: bytes | None = None) -> Iterator[Caught]:
    """This process is as one that was called with these words in ``cwd``; what it prints is caught."""
    before = sys.argv, Path.cwd()
    with caught(stdin) as streams:
        sys.argv = ["kdump", *words]
        os.chdir(cwd)
        try:
            yield streams
        finally:
            sys.argv = before[0]
            os.chdir(before[1])
            # A command ends with its process, which closes what it leaves open.
            gc.collect(1)


def dump(*words: str, cwd: Path, stdin: bytes = b"") -> tuple[int, list[str], list[str]]:
    """Exit status, lines of stdout, lines of stderr of ``kdump dump``."""
    run = kdump("dump", *words, cwd=cwd, stdin=stdin)
    return run.returncode, run.stdout.decode().splitlines(), run.stderr.decode().splitlines()


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run by bash; ``$KDUMP`` is the command line's start."""
    environment = {**os.environ, "KDUMP": " ".join(KDUMP)}
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, timeout=60, check=False
    )


def kdump_bound_by_modes(*words: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    """``kdump WORDS`` in a process that must not write to a read-only file, even if root starts it."""

    def without_override() -> None:
        ctypes.CDLL(None).prctl(_DROP_FROM_BOUNDING_SET, _DAC_OVERRIDE, 0, 0, 0)

    return subprocess.run(
        [*KDUMP, *words], cwd=cwd, capture_output=True, timeout=60, check=False, preexec_fn=without_override
    )


_PROGRESS = re.compile(rb"\r\x1b\[K(?:[^\r\n]+(?=\r\x1b\[K))?")
"""The line is erased, and perhaps shown anew until it is erased again."""


def on_a_terminal(*words: str, cwd: Path, columns: int = 80, **environment: str) -> bytes:
    """What stays on a terminal of this width of what ``kdump`` prints, with the terminal's line ends.

    A line of progress does not stay, which only a run that takes long shows.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    settings = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    parts = []
    with subprocess.Popen(
        [*KDUMP, *words], cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, env=settings | environment
    ) as process:
        # Our copy of the other end stays open: Linux may say that it is closed before it gives the last lines.
        has_ended = False
        while not has_ended:
            has_ended = process.poll() is not None
            while select.select([ours], [], [], 0.02)[0]:
                parts.append(os.read(ours, 1 << 16))
    os.close(theirs)
    os.close(ours)
    return _PROGRESS.sub(b"", b"".join(parts))


def dumped(lines: list[str]) -> list[str]:
    """The files that were dumped, in order."""
    return [line.removeprefix("Dumping ") for line in lines if line.startswith("Dumping ")]


def write(directory: Path, **files: bytes) -> None:
    """Files by the part of their name in front of ``.log``."""
    for stem, data in files.items():
        (directory / f"{stem.lstrip('_')}.log").write_bytes(data)


@contextmanager
def locked(lock: Path) -> Iterator[None]:
    """Another process holds the lock of a log directory, as a running broker does."""
    hold = "lock = open(sys.argv[1], 'r+b'); fcntl.lockf(lock, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", f"import fcntl, sys; {hold}", str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        broker.stdout.readline()
        yield
        broker.communicate()
