"""``pytest -m bench -s``: the tables of ``tests.bench`` over small files, to see that they work."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.bench.cases import BIG, CASES, FIVE, ONE
from tests.bench.conversions import client_lines, conversion_lines, down_convert_lines
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
        conversion_lines,
        partial(down_convert_lines, FIVE),
        partial(client_lines, (FIVE, FIVE)),
        partial(shape_lines, segments=4),
    ],
    ids=["speed", "decoders", "stats", "conversions", "downConvert", "clients", "shapes"],
)
def test_table(lines: Callable[..., Iterator[str]]) -> None:
    try:
        table = list(lines(rounds=1))
    except (ToolchainMissingError, subprocess.CalledProcessError) as error:
        pytest.skip(str(error))
    print("", *table, sep="\n")
    assert table
