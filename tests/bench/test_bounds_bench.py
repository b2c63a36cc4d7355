"""``pytest -m bench -s tests/bench/test_bounds_bench.py``: one slope and one peak for every command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.bounds import MOST_RESIDENT, MOST_SLOPE, peaks, slopes

pytestmark = pytest.mark.bench


def test_time_is_linear(tmp_path: Path) -> None:
    found = list(slopes(tmp_path, 1 << 20))
    print("", *found, sep="\n")
    assert not [one for one in found if one[-1] is not None and one[-1] > MOST_SLOPE]


def test_memory_is_bounded(tmp_path: Path) -> None:
    found = list(peaks(tmp_path, 1 << 30))
    print("", *found, sep="\n")
    assert not [one for one in found if one[-1] >= MOST_RESIDENT]
