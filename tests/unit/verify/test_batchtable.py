"""The batch table of a segment, whose rows come in parts."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from kdump.verify.batchtable import BatchTable
from kdump.verify.table import row_dtype


def rows_of(epochs: list[int]) -> NDArray[np.void]:
    """Batches of one record; every seventh is damaged."""
    rows = np.zeros(len(epochs), row_dtype())
    rows["position"], rows["size"] = np.arange(len(epochs)) * 70, 70
    rows["base_offset"] = rows["last_offset"] = np.arange(len(epochs))
    rows["leader_epoch"], rows["magic"], rows["record_count"] = epochs, 2, 1
    rows["is_valid"] = np.arange(len(epochs)) % 7 > 0
    return rows


def table_of(rows: NDArray[np.void], size: int) -> BatchTable:
    table = BatchTable()
    for start in range(0, len(rows), size):
        table.add(rows[start : start + size].copy())
    return table


@pytest.mark.parametrize("size", [1, 2, 5, 9, 40])
def test_parts_make_no_difference(size: int) -> None:
    rows = rows_of([-1, -1, *[3] * 9, *[4] * 8, -1, *[4] * 3, *[6] * 10, 7, -1])
    whole, table = table_of(rows, len(rows)), table_of(rows, size)
    assert list(table.epochs()) == list(whole.epochs())
    assert [one.epoch for one in whole.epochs()] == [3, 4, 6, 7]
    assert [(one.first_offset, one.last_offset) for one in whole.epochs()][:2] == [(2, 10), (11, 22)]
    found, expected = (one.log_view(0, len(rows) * 70, [(70, 140)]) for one in (table, whole))
    for name in ("position", "end", "first", "last", "max_timestamp", "before"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()
    assert found.position.size == rows["is_valid"].sum()
    assert not found.is_legacy
    assert table.was_cleaned(0) is whole.was_cleaned(0) is False
    rows["record_count"][8] = 0
    assert table_of(rows, size).was_cleaned(0)


def test_no_rows() -> None:
    log = BatchTable().log_view(5, 0, [])
    assert (log.position.size, log.end_offset) == (0, 4)
    assert not list(BatchTable().epochs())
