"""``-j 2`` against ``-j 1``: ``python -m tests.bench.jobs``.

Eight segments of 128 MiB (links to one), in pairs one after the other in every round; the output goes nowhere. Beside
the time of the clock stands the processor time of all processes together, which other work on the machine changes less,
and the memory of all of them (proportional set size, sampled). The last case has eight segments of 100 KB and the
default number of jobs: no process is started for them.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.cases import CACHE, SMALL, Segment
from tests.bench.measure import COMPILED

SEGMENTS: Final = 8
PLAIN: Final = Segment("jobs", "none", 128 * 1024, 80)
_OUT: Final = "{out}"
"""Stands for a directory that is not there."""
_SUBREAPER: Final = 36
"""``PR_SET_CHILD_SUBREAPER``: processes whose parent is gone are waited for by this one."""
_PAUSE: Final = 0.1


@dataclass(frozen=True)
class Job:
    """A command over some segments; ``goal``: how many times as fast it is to be with two processes."""

    name: str
    segment: Segment
    words: tuple[str, ...]
    goal: float
    two: tuple[str, ...] = ("-j", "2")


JOBS: Final = (
    Job("verify --deep", PLAIN, ("verify",), 1.7),
    Job("stats", PLAIN, ("stats",), 1.5),
    Job("convert --codec lz4", PLAIN, ("convert", "--codec", "lz4", "-o", _OUT), 1.5),
    Job("verify, small, default", SMALL, ("verify",), 1.0, ()),
)


@dataclass(frozen=True)
class Cost:
    """Of a run: wall clock and processor time (s), memory of all processes (bytes)."""

    wall: float
    cpu: float
    memory: int


def job_lines(jobs: Sequence[Job] = JOBS, segments: int = SEGMENTS, rounds: int = 5) -> Iterator[str]:
    """A line a job: medians of both sides, and of the ratios of the pairs. Raises ToolchainMissingError."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)
    yield f"{'job':26}{'-j 1 s':>8}{'-j 2 s':>8}{'ratio':>7}{'goal':>6}{'cpu 1':>8}{'cpu 2':>8}{'MiB 1':>7}{'MiB 2':>7}"
    for job in jobs:
        root = str(linked(job.segment, segments))
        pairs = [(_run(job, ("-j", "1"), root), _run(job, job.two, root)) for _ in range(rounds)]
        ratio = median(one.wall / two.wall for one, two in pairs)
        sides = list(zip(*pairs, strict=True))
        wall, cpu = ([median(getattr(cost, name) for cost in side) for side in sides] for name in ("wall", "cpu"))
        memory = [max(cost.memory for cost in side) >> 20 for side in sides]
        yield (
            f"{job.name:26}{wall[0]:8.2f}{wall[1]:8.2f}{ratio:7.2f}{job.goal:6.1f}{cpu[0]:8.2f}{cpu[1]:8.2f}"
            f"{memory[0]:7}{memory[1]:7}"
        )


def linked(segment: Segment, count: int) -> Path:
    """A log directory of so many partitions with the same segment."""
    root = CACHE / f"{segment.name}-{count}"
    for number in range(count):
        link = root / f"t-{number}" / f"{0:020d}.log"
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            os.link(segment.path(), link)
    return root


def _run(job: Job, jobs: Sequence[str], root: str) -> Cost:
    out = CACHE / "jobs-out"
    shutil.rmtree(out, ignore_errors=True)
    words = [str(out) if word == _OUT else word for word in job.words]
    before, begin, memory = _cpu(), time.perf_counter(), 0
    command = [sys.executable, "-m", "kdump", *words, *jobs, root]
    with subprocess.Popen(command, env=COMPILED, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_PAUSE)
            memory = max(memory, sum(map(_memory, _session(process.pid))))
        wall = time.perf_counter() - begin
    # What the command has left behind when it ended.
    with suppress(ChildProcessError):
        while True:
            os.wait()
    shutil.rmtree(out, ignore_errors=True)
    return Cost(wall, _cpu() - before, memory)


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _session(leader: int) -> Iterator[int]:
    for entry in os.listdir("/proc"):
        with suppress(OSError, ValueError):
            if os.getsid(int(entry)) == leader:
                yield int(entry)


def _memory(process: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0


def main(rounds: int) -> None:
    """Print the table as it grows."""
    for line in job_lines(rounds=rounds):
        print(line, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
