"""Numbers of groups stay what they are, in however few bytes they are held."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.stats import numbers as stats_numbers
from kdump.stats.numbers import GroupNumbers
from kdump.stats.tally import LEAST, MOST

EDGES = [edge + step for bits in (7, 15, 31, 63) for edge in (-(2**bits), 2**bits) for step in (-2, -1, 0, 1)]
ANY_NUMBER = st.sampled_from([number for number in EDGES if LEAST <= number <= MOST]) | st.integers(-3, 3)
CHANGES = st.lists(st.dictionaries(st.integers(0, 40), ANY_NUMBER, min_size=1), max_size=8)


@pytest.fixture(autouse=True)
def _two_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_numbers, "FEW_ROWS", 2)


@given(st.sampled_from([0, -1, LEAST, MOST]), CHANGES)
def test_numbers_stay(initial: int, changes: list[dict[int, int]]) -> None:
    numbers, expected = GroupNumbers(initial), dict.fromkeys(range(50), initial)
    for change in changes:
        numbers.grow(max(change) + 1)
        groups = np.array(list(change))
        numbers.put(groups, np.array(list(change.values()), np.int64))
        expected |= change
        assert numbers.of(groups).tolist() == list(change.values())
    assert [numbers.one(group) for group in range(50)] == list(expected.values())
    assert numbers.first(50).tolist() == list(expected.values())


@pytest.mark.parametrize("initial", [0, LEAST, MOST])
def test_small_numbers_take_a_byte(initial: int) -> None:
    numbers = GroupNumbers(initial)
    for group in range(1000):
        numbers.grow(group + 1)
        numbers.put(np.array([group]), np.array([group % 100]))
    assert numbers._data.nbytes < 1300
    numbers.put(np.array([7]), np.array([10**6]))
    assert numbers.first(9).tolist() == [0, 1, 2, 3, 4, 5, 6, 10**6, 8]
