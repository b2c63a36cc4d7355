"""``pytest -m bench -s tests/bench/test_memory_bench.py``: no command needs much memory for a hostile batch.

Memory is asserted, time is not.
"""

from __future__ import annotations

import pytest

from tests.bench.cases import CACHE
from tests.bench.memory import CASES, COMMANDS, made, measured

pytestmark = pytest.mark.bench

MOST = 600 << 20
"""Bytes for a payload of 64 MiB."""
MOST_OF_A_MILLION = 400 << 20
"""Bytes for a batch of a million records or headers."""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("case", CASES)
def test_resident_set(case: str, command: str) -> None:
    usage = measured(command, made(case), CACHE / "hostile" / f"out-{command}")
    assert usage.resident < (MOST_OF_A_MILLION if case.startswith("million") else MOST)
