"""Pairs of commands, kdump and a peer, one after the other in every round."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench.cases import CACHE
from tests.bench.measure import run

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Pair:
    """A command of kdump and its peer; ``goal`` is the most that kdump may take, in times of the peer's time.

    ``most``: MiB of memory that it may take; 0: no goal. ``by_wall``: the time is that of the wall clock, not of
    the processor.
    """

    name: str
    own: Sequence[str]
    peer: Sequence[str]
    goal: float
    most: int = 0
    by_wall: bool = False


def kdump(*words: str | Path) -> list[str]:
    """``kdump WORDS`` in the interpreter that runs this."""
    return [sys.executable, "-m", "kdump", *map(str, words)]


def pair_lines(title: str, pairs: Iterable[Pair], rounds: int) -> Iterator[str]:
    """Medians of the times, and of the ratios of the pairs; the largest memory of kdump."""
    yield f"{title:32}{'kdump s':>9}{'peer s':>9}{'ratio':>7}{'goal':>6}{'MiB':>6}{'most':>6}"
    output = CACHE / "output.txt"
    for pair in pairs:
        usages = [(run(pair.own, output), run(pair.peer, output)) for _ in range(rounds)]
        times = [[usage.wall if pair.by_wall else usage.cpu for usage in each] for each in usages]
        own, peer = (median(side) for side in zip(*times, strict=True))
        ratio = median(mine / other for mine, other in times)
        memory = max(mine.resident for mine, _ in usages) / _MIB
        yield f"{pair.name:32}{own:9.2f}{peer:9.2f}{ratio:7.2f}{pair.goal:6.2f}{memory:6.0f}{pair.most or '':>6}"
    output.unlink(missing_ok=True)
