"""``pytest -m bench -s tests/bench/test_slopes_bench.py``: no command takes more than linear time on hostile input."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.slopes import KINDS, LIMIT, Kind, growths

pytestmark = pytest.mark.bench


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_slopes(kind: Kind, tmp_path: Path) -> None:
    found = list(growths(kind, tmp_path))
    print("", *found, sep="\n")
    assert not [str(growth) for growth in found if growth.slope is not None and growth.slope > LIMIT]
