"""Time and memory of child processes.

This module and all that it imports stay small: Linux counts the parent's memory at the time of exec in the child's
largest resident set.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.harness import ROOT
from tests.oracle.toolchain import DUMP_RELEASE, java_command

COMPILED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
    "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "bench" / "pycache")
}
"""An environment in which Python compiles modules once, as installing a package does."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one finished process: wall clock and processor time (s), largest resident set (bytes)."""

    wall: float
    cpu: float
    resident: int


def java_tool_command(flags: Sequence[str], path: str) -> list[str]:
    """The real tool as one would call it without its shell script. Raises ToolchainMissingError."""
    return [*java_command(DUMP_RELEASE, "org.apache.kafka.tools.DumpLogSegments"), *flags, "--files", path]


def run(command: Sequence[str], output: Path, *, piped: Path | None = None, statuses: Container[int] = (0,)) -> Usage:
    """Run ``command`` with standard output into ``output``; ``piped``: this file comes in through a pipe.

    RuntimeError when it ends with none of ``statuses``.
    """
    feeder = None if piped is None else subprocess.Popen(["cat", str(piped)], stdout=subprocess.PIPE)
    with output.open("wb") as out:
        begin = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=COMPILED,
            stdin=subprocess.DEVNULL if feeder is None else feeder.stdout,
            stdout=out,
        )
        if feeder is not None and feeder.stdout is not None:
            feeder.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if feeder is not None:
        feeder.wait()
    if process.returncode not in statuses:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return Usage(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
