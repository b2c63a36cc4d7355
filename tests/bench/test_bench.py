"""``pytest -m bench -s``: the tables of ``tests.bench`` over small files, to see that they work."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.bench.cases import BIG, CASES, FIVE, ONE
from tests.bench.conversions import COMPARISONS, conversion_lines
from tests.bench.library import library_lines
from tests.bench.shapes import shape_lines
from tests.bench.tables import decoder_lines, speed_lines, stats_lines
from tests.oracle.toolchain import ToolchainMissingError

pytestmark = pytest.mark.bench


@pytest.mark.parametrize(
    "lines",
    [
        partial(speed_lines, tuple(case for case in CASES if case.segment is not BIG)),
        decoder_lines,
        partial(stats_lines, (FIVE, ONE)),
        partial(conversion_lines, tuple(one for one in COMPARISONS if one.segment is not BIG)),
        partial(shape_lines, segments=4),
        partial(library_lines, segment=FIVE),
    ],
    ids=["speed", "decoders", "stats", "conversions", "shapes", "library"],
)
def test_table(lines: Callable[..., Iterator[str]]) -> None:
    try:
        table = list(lines(rounds=1))
    except (ToolchainMissingError, subprocess.CalledProcessError) as error:
        pytest.skip(str(error))
    print("", *table, sep="\n")
    assert len(table) > 3
