"""The heaviest chain against brute force, and what fits beside it."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.repair.salvage.choice import heaviest_chain, in_range
from kdump.repair.salvage.siblingcontext import SiblingContext
from kdump.repair.salvage.table import BatchArrays
from kdump.verify.table import row_dtype
from tests.harness.examples import examples


def chain(batches: list[tuple[int, int, int]]) -> list[int]:
    columns = np.array(batches, np.int64).reshape(-1, 3).T
    return heaviest_chain(*columns).tolist()


def best_by_force(batches: list[tuple[int, int, int]]) -> tuple[int, int]:
    """(records, batches) of the best chain."""
    best = (0, 0)
    for size in range(len(batches) + 1):
        for chosen in combinations(batches, size):
            if all(one[1] < other[0] for one, other in pairwise(chosen)):
                best = max(best, (sum(batch[2] for batch in chosen), size))
    return best


BATCH = st.builds(
    lambda first, span, records: (first, first + span, min(records, span + 1)),
    st.integers(0, 30),
    st.integers(0, 6),
    st.integers(0, 7),
)


@examples(1500)
@given(st.lists(BATCH, max_size=10))
def test_it_holds_the_most_records(batches: list[tuple[int, int, int]]) -> None:
    chosen = chain(batches)
    taken = [batches[number] for number in chosen]
    assert chosen == sorted(set(chosen))
    assert all(one[1] < other[0] for one, other in pairwise(taken))
    assert (sum(batch[2] for batch in taken), len(taken)) == best_by_force(batches)


@examples(300)
@given(st.data())
def test_runs_that_are_out_of_order(draw: st.DataObject) -> None:
    """Sorted runs moved about, as damage leaves them: the units of several batches."""
    batches, offset = [], 0
    for _ in range(12):
        span = draw.draw(st.integers(0, 3))
        batches.append((offset, offset + span, span + 1))
        offset += span + 1 + draw.draw(st.integers(0, 2))
    cuts = sorted(draw.draw(st.lists(st.integers(0, 12), max_size=3)))
    parts = [batches[start:end] for start, end in zip([0, *cuts], [*cuts, 12], strict=True)]
    moved = [batch for part in draw.draw(st.permutations(parts)) for batch in part]
    taken = [moved[number] for number in chain(moved)]
    assert sum(batch[2] for batch in taken) == best_by_force(moved)[0]


def test_one_wrong_offset_costs_one_batch() -> None:
    batches = [(10 * number, 10 * number + 9, 10) for number in range(50_000)]
    batches[7] = (2**40, 2**40 + 9, 10)
    assert chain(batches) == [number for number in range(50_000) if number != 7]
    batches[7] = (0, 9, 10)
    batches[31] = (499_990, 499_999, 10)
    assert len(chain(batches)) == 49_998


def test_the_earlier_of_two_wins() -> None:
    twice = [(0, 4, 5), (5, 9, 5)] * 2
    assert chain(twice) == [0, 1]
    assert chain([(0, 4, 5), (0, 4, 5), (5, 9, 5), (5, 9, 5)]) == [0, 2]


def test_empty_batches_stay_where_they_are_in_nobodys_way() -> None:
    assert chain([(0, 4, 5), (5, 9, 0), (10, 14, 5)]) == [0, 1, 2]
    assert chain([(0, 4, 5), (3, 9, 0), (5, 9, 1), (10, 14, 5)]) == [0, 2, 3]


@pytest.mark.parametrize(("last", "fits"), [(18, True), (19, True), (20, False), (21, False)])
def test_the_name_of_the_next_segment_bounds_the_offsets(last: int, fits: bool) -> None:
    rows = np.zeros(1, row_dtype())
    rows["base_offset"], rows["last_offset"], rows["record_count"] = 10, last, 1
    found = in_range(BatchArrays(rows), SiblingContext(base_offset=0, next_base=20))
    assert found.tolist() == [fits]
