"""The measurements as tables for people. Nothing is asserted about time: machines differ, and so do days."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from statistics import median

from tests.bench.cases import BIG, CACHE, CASES, COMMITS, DEEP, OFFSETS, PRINT, SHALLOW, Case
from tests.bench.measure import COMPILED, ROOT, java_tool_command, kdump_command, run

_MIB = 1 << 20


def speed_lines(cases: tuple[Case, ...] = CASES, rounds: int = 3) -> Iterator[str]:
    """Paired runs, one after the other in each round; medians of wall clock time, and of the ratios of the pairs.

    Raises:
        ToolchainMissingError: the Java tool cannot be run.
    """
    yield f"{'case':24}{'kdump s':>9}{'java s':>9}{'cpu s':>8}{'cpu s':>8}{'ratio':>7}{'goal':>6}"
    output = CACHE / "output.txt"
    for case in cases:
        path = str(case.segment.path())
        pairs = []
        for _ in range(rounds):
            kdump = run(kdump_command((*case.flags, *case.own_flags), path), output)
            java = run(java_tool_command(case.flags, path), output)
            pairs.append((kdump, java))
        walls = [median(usage.wall for usage in side) for side in zip(*pairs, strict=True)]
        cpus = [median(usage.cpu for usage in side) for side in zip(*pairs, strict=True)]
        ratio = median(java.wall / kdump.wall for kdump, java in pairs)
        yield f"{case!s:24}{walls[0]:9.2f}{walls[1]:9.2f}{cpus[0]:8.2f}{cpus[1]:8.2f}{ratio:7.2f}{case.goal:6.2f}"
    output.unlink(missing_ok=True)


def decoder_lines(rounds: int = 3) -> Iterator[str]:
    """Paired runs over the same segments: with the decoder, and with plain keys and values; the goal is a half."""
    yield f"{'decoder':24}{'plain s':>9}{'decoded s':>11}{'cpu s':>8}{'cpu s':>8}{'ratio':>7}{'goal':>6}"
    output = CACHE / "output.txt"
    for log in COMMITS:
        path = str(log.path())
        pairs = [tuple(run(kdump_command(flags, path), output) for flags in (PRINT, OFFSETS)) for _ in range(rounds)]
        walls = [median(usage.wall for usage in side) for side in zip(*pairs, strict=True)]
        cpus = [median(usage.cpu for usage in side) for side in zip(*pairs, strict=True)]
        ratio = median(plain.wall / decoded.wall for plain, decoded in pairs)
        yield f"{log.name:24}{walls[0]:9.2f}{walls[1]:11.2f}{cpus[0]:8.2f}{cpus[1]:8.2f}{ratio:7.2f}{0.5:6.2f}"
    output.unlink(missing_ok=True)


def memory_lines() -> Iterator[str]:
    """Largest resident set of kdump over the big segment, from the file and from a pipe."""
    yield f"{'memory':24}{'file MiB':>10}{'pipe MiB':>10}"
    path = BIG.path()
    output = CACHE / "output.txt"
    for flags in (SHALLOW, DEEP, PRINT):
        from_file = run(kdump_command(flags, str(path)), output)
        from_pipe = run(kdump_command(flags, "-"), output, piped=path)
        name = " ".join(flags) or "shallow"
        yield f"{name:24}{from_file.resident / _MIB:10.0f}{from_pipe.resident / _MIB:10.0f}"
    output.unlink(missing_ok=True)


def split_lines(cases: tuple[Case, ...] = CASES) -> Iterator[str]:
    """Seconds of each stage of kdump."""
    output = CACHE / "output.txt"
    heading = False
    for case in cases:
        command = [sys.executable, "-m", "tests.bench.split", str(case.segment.path()), *case.flags, *case.own_flags]
        with output.open("wb") as out:
            done = subprocess.run(
                command, cwd=ROOT, env=COMPILED, stdout=out, stderr=subprocess.PIPE, text=True, check=True
            )
        stages = dict(line.split("\t") for line in done.stderr.splitlines())
        if not heading:
            heading = True
            yield f"{'split (s)':24}" + "".join(f"{stage:>12}" for stage in stages)
        yield f"{case!s:24}" + "".join(f"{seconds:>12}" for seconds in stages.values())
    output.unlink(missing_ok=True)
