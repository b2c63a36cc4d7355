"""How much a test tries: examples and the fuzzer by the profile (see tests/conftest.py), parameters by the set."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

_RANDOM = 100
_SEED = 1


def examples(count: int) -> settings:
    """``count`` new examples in the random profile; half of it in the usual one, a tenth in the quick one."""
    return settings(max_examples=max(1, count * settings.default.max_examples // _RANDOM))


def fuzz_seed() -> int:
    """A new one in the profile that makes new examples, else always the same.

    Set KDUMP_FUZZ_SEED to a seed that was printed to make the same cases again.
    """
    usual = _SEED if settings.default.derandomize else time.time()
    return int(os.environ.get("KDUMP_FUZZ_SEED", usual))


def sparse(values: Iterable[Any], *, fast: int) -> list[Any]:
    """Values of one parameter of a test; only every ``fast``-th is in the fast set."""
    return [
        pytest.param(value, marks=[pytest.mark.slow] if number % fast else []) for number, value in enumerate(values)
    ]
