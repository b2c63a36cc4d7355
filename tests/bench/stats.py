"""``kdump stats`` against its peers, each pair one after the other in every round: processor time, memory.

All figures: the Java tool that looks at every record. Headers only: ``kdump verify --quick``, which reads as much.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench.cases import BIG, CACHE, DEEP, FIVE, ONE, Segment
from tests.bench.measure import java_tool_command, run

_MIB = 1 << 20
MOST_MEMORY = 400
"""MiB."""


@dataclass(frozen=True, slots=True)
class StatsCase:
    """``kdump stats`` with some options and a peer; ``goal`` is the most that it may take, in times of the peer's."""

    name: str
    segment: Segment
    options: tuple[str, ...]
    peer: Callable[[str], Sequence[str]]
    goal: float


def _kdump(*words: str) -> list[str]:
    return [sys.executable, "-m", "kdump", *words]


def _java(path: str) -> list[str]:
    return java_tool_command(DEEP, path)


def _verify(path: str) -> list[str]:
    return _kdump("verify", "--quick", path)


CASES = tuple(
    StatsCase(f"{segment.name} {name}", segment, options, peer, goal)
    for segment in (BIG, FIVE, ONE)
    for name, options, peer, goal in (
        ("all, Java deep", (), _java, 1 / 3),
        ("quick, verify", ("--quick",), _verify, 1.3),
    )
)


def stats_lines(cases: tuple[StatsCase, ...] = CASES, rounds: int = 3) -> Iterator[str]:
    """Medians of processor time, and of the ratios of the pairs.

    Raises:
        ToolchainMissingError: the Java tool cannot be run.
    """
    yield f"{'stats':24}{'kdump s':>9}{'peer s':>9}{'ratio':>7}{'goal':>6}{'MiB':>6}{'most':>6}"
    output = CACHE / "output.txt"
    for case in cases:
        path = str(case.segment.path())
        command = _kdump("stats", "--output", "jsonl", *case.options, path)
        pairs = [(run(command, output), run(case.peer(path), output)) for _ in range(rounds)]
        seconds = [median(usage.cpu for usage in side) for side in zip(*pairs, strict=True)]
        ratio = median(own.cpu / peer.cpu for own, peer in pairs)
        memory = max(own.resident for own, _ in pairs) / _MIB
        figures = f"{seconds[0]:9.2f}{seconds[1]:9.2f}{ratio:7.2f}{case.goal:6.2f}{memory:6.0f}{MOST_MEMORY:6}"
        yield f"{case.name:24}{figures}"
    output.unlink(missing_ok=True)
