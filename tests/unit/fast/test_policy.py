"""From how many rows on a run reads columns."""

from __future__ import annotations

from kdump.fast.policy import CHECKED_BATCHES, CHECKED_RECORDS, CheckedRows


def test_a_large_log_is_checked_as_columns_at_once() -> None:
    assert CheckedRows().are_columns(CHECKED_BATCHES, lambda: CHECKED_BATCHES, 1000, 1000)
    assert CheckedRows().are_columns(1, lambda: CHECKED_RECORDS, 1000, 1000)
    assert CheckedRows().are_columns(CHECKED_BATCHES // 10, lambda: 1, 1000, 10_000)


def test_small_logs_count_together() -> None:
    checked = CheckedRows()
    assert not any(checked.are_columns(2, lambda: CHECKED_RECORDS // 10, 1000, 1000) for _ in range(9))
    assert checked.are_columns(2, lambda: CHECKED_RECORDS // 10, 1000, 1000)
    assert checked.are_columns(1, lambda: 1, 100, 100)
