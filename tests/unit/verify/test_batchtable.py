"""The batch table of a segment, whose rows come in parts."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kdump.log.names import Kind
from kdump.verify.batchtable import BatchTable
from kdump.verify.indexedlog import IndexedBatches, NamedPlaces
from kdump.verify.indexes import check_offset_index, check_time_index, index_end, named_places
from kdump.verify.table import row_dtype
from tests.harness.examples import examples


def rows_of(epochs: list[int]) -> NDArray[np.void]:
    """Batches of one record; every seventh is damaged."""
    rows = np.zeros(len(epochs), row_dtype())
    rows["position"], rows["size"] = np.arange(len(epochs)) * 70, 70
    rows["base_offset"] = rows["last_offset"] = np.arange(len(epochs))
    rows["leader_epoch"], rows["magic"], rows["record_count"] = epochs, 2, 1
    rows["is_valid"] = np.arange(len(epochs)) % 7 > 0
    return rows


def table_of(rows: NDArray[np.void], size: int, named: Callable[[], NamedPlaces] | None = None) -> BatchTable:
    table = BatchTable(named)
    for start in range(0, len(rows), size):
        table.add(rows[start : start + size].copy())
    return table


@pytest.mark.parametrize("size", [1, 2, 5, 9, 40])
def test_parts_make_no_difference(size: int) -> None:
    rows = rows_of([-1, -1, *[3] * 9, *[4] * 8, -1, *[4] * 3, *[6] * 10, 7, -1])
    whole, table = table_of(rows, len(rows)), table_of(rows, size)
    assert list(table.epochs) == list(whole.epochs)
    assert [one.epoch for one in whole.epochs] == [3, 4, 6, 7]
    assert [(one.first_offset, one.last_offset) for one in whole.epochs][:2] == [(2, 10), (11, 22)]
    found, expected = (one.log_view(0, len(rows) * 70, [(70, 140)]) for one in (table, whole))
    for name in IndexedBatches._fields:
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()
    assert found.position.size == rows["is_valid"].sum()
    assert not found.is_legacy
    assert table.was_cleaned(0) is whole.was_cleaned(0) is False
    rows["record_count"][8] = 0
    assert table_of(rows, size).was_cleaned(0)


def test_no_rows() -> None:
    log = BatchTable().log_view(5, 0, [])
    assert (log.position.size, log.end_offset) == (0, 4)
    assert not list(BatchTable().epochs)


BATCHES = st.lists(
    st.tuples(st.integers(61, 5000), st.integers(-20, 9), st.integers(0, 9), st.integers(-1, 9)),
    min_size=1,
    max_size=40,
)
"""Bytes, offsets missing before (below 0: there twice), last offset delta, largest timestamp."""
NUDGES = st.sampled_from([0, 0, 0, 0, 1, -1, 40])


@examples(300)
@given(BATCHES, st.integers(1, 9), st.data())
def test_batches_that_the_indexes_do_not_name_change_no_answer(
    batches: list[tuple[int, int, int, int]], size: int, data: st.DataObject
) -> None:
    rows = rows_of([1] * len(batches))
    offset = 0
    for row, (length, gap, delta, timestamp) in zip(rows, batches, strict=True):
        offset = max(offset + gap, 0)
        row["size"], row["base_offset"], row["last_offset"], row["max_timestamp"] = (
            length,
            offset,
            offset + delta,
            timestamp,
        )
        offset += delta + 1
    rows["position"][1:] = np.cumsum(rows["size"])[:-1]
    nudged = [
        tuple(int(row[name]) + data.draw(NUDGES) for name in ("last_offset", "position", "max_timestamp"))
        for row in rows
        if data.draw(st.booleans())
    ]
    index = b"".join(struct.pack(">ii", last, position) for last, position, _ in nudged)
    times = b"".join(struct.pack(">qi", timestamp, last) for last, _, timestamp in nudged)
    end = int(rows["position"][-1] + rows["size"][-1])
    gaps = [(0, 9)] * data.draw(st.integers(0, 1))
    whole, kept = (
        table_of(rows, size, named).log_view(0, end, gaps) for named in (None, lambda: named_places(index, times, 0))
    )
    for data_of, kind, check in ((index, Kind.INDEX, check_offset_index), (times, Kind.TIME_INDEX, check_time_index)):
        assert list(check(data_of, kept)) == list(check(data_of, whole))
        assert index_end(kind, data_of, kept) == index_end(kind, data_of, whole)
    assert list(check_time_index(times, kept, is_closed=True)) == list(check_time_index(times, whole, is_closed=True))
    assert (kept.end_offset, kept.ends_in_damage) == (whole.end_offset, whole.ends_in_damage)


def test_most_batches_are_not_kept() -> None:
    rows = rows_of([1] * 5000)
    index = struct.pack(">ii", 71, 71 * 70)
    kept = table_of(rows, 1000, lambda: named_places(index, b"", 0)).log_view(0, 5000 * 70, [])
    assert kept.position.size < 1000 + 4 * 4
    assert kept.batch_at(np.array([71 * 70]))[1].all()
