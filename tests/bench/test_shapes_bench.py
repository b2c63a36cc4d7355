"""``pytest -m bench -s``: the table of ``tests.bench.shapes`` over small files, to see that it works."""

from __future__ import annotations

import pytest

from tests.bench.shapes import SHAPES, shape_lines
from tests.oracle.toolchain import ToolchainMissingError

pytestmark = pytest.mark.bench


def test_table() -> None:
    try:
        table = list(shape_lines(rounds=1, segments=4))
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    print("", *table, sep="\n")
    assert len(table) == 1 + len(SHAPES)
