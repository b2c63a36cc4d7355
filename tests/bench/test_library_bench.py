"""``pytest -m bench -s``: the rates of the library and of its peers, over a small segment, to see that they work."""

from __future__ import annotations

import subprocess

import pytest

from tests.bench.cases import FIVE
from tests.bench.library import PASSES, library_lines
from tests.oracle.toolchain import ToolchainMissingError

pytestmark = pytest.mark.bench


def test_table() -> None:
    try:
        table = list(library_lines(rounds=1, segment=FIVE))
    except (ToolchainMissingError, subprocess.CalledProcessError) as error:
        pytest.skip(str(error))
    print("", *table, sep="\n")
    assert len(table) == 1 + len(PASSES)
