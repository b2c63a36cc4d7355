"""Runs of the command line as a process, and the files they are given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from batches import plain_rows, v2_batch

KDUMP = [sys.executable, "-m", "kdump"]
CLEAN, DAMAGE, USAGE, UNREADABLE = 0, 1, 2, 3

NAME = f"{0:020}.log"
BATCH = v2_batch(plain_rows(3))
DAMAGED_BATCH = v2_batch(plain_rows(3), crc=1)


def kdump(*words: str, cwd: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*KDUMP, *words], cwd=cwd, input=stdin, capture_output=True, timeout=60, check=False)


def dump(*words: str, cwd: Path, stdin: bytes = b"") -> tuple[int, list[str], list[str]]:
    """Exit status, lines of stdout, lines of stderr of ``kdump dump``."""
    run = kdump("dump", *words, cwd=cwd, stdin=stdin)
    return run.returncode, run.stdout.decode().splitlines(), run.stderr.decode().splitlines()


def dumped(lines: list[str]) -> list[str]:
    """The files that were dumped, in order."""
    return [line.removeprefix("Dumping ") for line in lines if line.startswith("Dumping ")]


def write(directory: Path, **files: bytes) -> None:
    """Files by the part of their name in front of ``.log``."""
    for stem, data in files.items():
        (directory / f"{stem.lstrip('_')}.log").write_bytes(data)
