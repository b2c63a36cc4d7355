"""The measurements as tables for people. Nothing is asserted about time: machines differ, and so do days."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.cases import BIG, CACHE, CASES, COMMITS, DEEP, FIVE, OFFSETS, ONE, PRINT, SHALLOW, Case, Segment
from tests.bench.measure import java_tool_command, run
from tests.bench.pairs import Pair, kdump, pair_lines

_MIB = 1 << 20
MOST_MEMORY = 400
"""MiB that ``kdump stats`` may take."""


def speed_lines(cases: tuple[Case, ...] = CASES, rounds: int = 3) -> Iterator[str]:
    """Dumps against the Java tool.

    Raises:
        ToolchainMissingError: the Java tool cannot be run.
    """
    pairs = (
        Pair(
            str(case),
            kdump("dump", *case.flags, *case.own_flags, path),
            java_tool_command(case.flags, str(path)),
            1 / case.goal,
            by_wall=True,
        )
        for case, path in ((case, case.segment.path()) for case in cases)
    )
    return pair_lines("dump, Java tool", pairs, rounds)


def decoder_lines(rounds: int = 3) -> Iterator[str]:
    """With a decoder, against plain keys and values of the same segments."""
    pairs = (
        Pair(log.name, *(kdump("dump", *flags, log.path()) for flags in (OFFSETS, PRINT)), 2, by_wall=True)
        for log in COMMITS
    )
    return pair_lines("decoder, plain", pairs, rounds)


def stats_lines(segments: tuple[Segment, ...] = (BIG, FIVE, ONE), rounds: int = 3) -> Iterator[str]:
    """All figures against the Java tool that looks at every record; headers only against ``verify --quick``.

    Raises:
        ToolchainMissingError: the Java tool cannot be run.
    """
    pairs = (
        Pair(f"{segment.name} {name}", kdump("stats", "--output", "jsonl", *options, path), peer, goal, MOST_MEMORY)
        for segment, path in ((segment, segment.path()) for segment in segments)
        for name, options, peer, goal in (
            ("all, Java deep", (), java_tool_command(DEEP, str(path)), 1 / 3),
            ("quick, verify", ("--quick",), kdump("verify", "--quick", path), 1.3),
        )
    )
    return pair_lines("stats", pairs, rounds)


def memory_lines() -> Iterator[str]:
    """Largest resident set of kdump over the big segment, from the file and from a pipe."""
    yield f"{'memory':24}{'file MiB':>10}{'pipe MiB':>10}"
    path = BIG.path()
    output = CACHE / "output.txt"
    for flags in (SHALLOW, DEEP, PRINT):
        from_file = run(kdump("dump", *flags, path), output)
        from_pipe = run(kdump("dump", *flags, "-"), output, piped=path)
        name = " ".join(flags) or "shallow"
        yield f"{name:24}{from_file.resident / _MIB:10.0f}{from_pipe.resident / _MIB:10.0f}"
    output.unlink(missing_ok=True)
