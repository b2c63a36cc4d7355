"""Findings and rows that are kept come back as they were, and a million findings take little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from kdump.codes import Codes, Finding, Severity
from kdump.verify import keptitems
from kdump.verify.keptitems import KeptItems
from kdump.verify.settling import settled_findings
from kdump.verify.table import row_dtype

FINDINGS = (
    Finding(Codes.MAX_TIMESTAMP, "maxTimestamp is 5 \udcff é", 7),
    Finding(Codes.BATCH_CRC, "the CRC is wrong", 1 << 40, 71, 5, 6, 7, "a/b.log", Severity.INFO),
    Finding(Codes.TRUNCATED, "", 0, graded=Severity.WARNING),
)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 40])
def test_items_come_back(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keptitems, "_BLOCK", 4)
    rows = np.zeros(2, row_dtype())
    items = [rows if number % 5 == 2 else FINDINGS[number % 3] for number in range(count)]
    kept = KeptItems.of(iter(items))
    for _ in range(2):
        again = list(kept)
        assert [one if isinstance(one, Finding) else id(one) for one in again] == [
            one if isinstance(one, Finding) else id(one) for one in items
        ]


def many(count: int) -> Iterator[Finding]:
    return (Finding(Codes.MAX_TIMESTAMP, f"maxTimestamp is {n}, not {n + 1}", 71 * n, 71) for n in range(count))


@pytest.mark.slow
def test_many_findings_take_little_memory() -> None:
    tracemalloc.start()
    try:
        kept = KeptItems.of(many(50_000))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # As objects they take 300 bytes each.
    assert size < 50 * 50_000
    assert sum(1 for _ in kept) == 50_000


def test_what_identifies_findings_is_not_gathered_of_files_that_stay() -> None:
    """A set of a million keys took more memory than the findings."""
    asked = []

    def is_changing() -> bool:
        asked.append(True)
        return False

    tracemalloc.start()
    try:
        found = settled_findings(lambda: FINDINGS[:1] * 100_000, is_changing)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert asked == [True]
    assert len(found) == 100_000
    assert peak < 4 << 20
