"""``pytest -m bench -s``: the tables of ``python -m tests.bench`` over the small segments, to see that they work."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.bench.cases import BIG, CASES, COMMITS
from tests.bench.conversions import COMPARISONS, conversion_lines
from tests.bench.stats import CASES as STATS_CASES
from tests.bench.stats import stats_lines
from tests.bench.tables import decoder_lines, speed_lines, split_lines
from tests.oracle.toolchain import ToolchainMissingError

pytestmark = pytest.mark.bench

QUICK = tuple(case for case in CASES if case.segment is not BIG)


@pytest.mark.parametrize("lines", [speed_lines, split_lines])
def test_table(lines: Callable[..., Iterator[str]]) -> None:
    try:
        table = list(lines(QUICK))
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    print("", *table, sep="\n")
    assert len(table) == 1 + len(QUICK)


def test_decoders() -> None:
    table = list(decoder_lines())
    print("", *table, sep="\n")
    assert len(table) == 1 + len(COMMITS)


def test_conversions() -> None:
    quick = tuple(comparison for comparison in COMPARISONS if comparison.segment is not BIG)
    try:
        table = list(conversion_lines(quick, rounds=1))
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    print("", *table, sep="\n")
    assert len(table) == 1 + len(quick)


def test_stats() -> None:
    quick = tuple(case for case in STATS_CASES if case.segment is not BIG)
    try:
        table = list(stats_lines(quick, rounds=1))
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    print("", *table, sep="\n")
    assert len(table) == 1 + len(quick)
