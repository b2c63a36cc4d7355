"""``pytest -m bench -s tests/bench/test_file_memory_bench.py``: no command needs much memory for a hostile file.

Memory is asserted, time is not.
"""

from __future__ import annotations

import pytest

from tests.bench.filememory import MOST, RUNS, made, measured

pytestmark = pytest.mark.bench


@pytest.mark.parametrize(("name", "command"), RUNS)
def test_resident_set(name: str, command: str) -> None:
    assert measured(name, command, made(name)).resident < MOST
