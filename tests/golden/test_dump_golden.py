"""``kdump dump`` against the recorded output of DumpLogSegments 4.3.1, for every capture and flag set."""

from __future__ import annotations

import pytest

from kdump.reading.view import DecodePath
from tests.golden.goldens import applies, differing
from tests.harness.captures import Captures, partition_cases
from tests.harness.inprocess import ALL_WAYS, Way

CASES = [
    pytest.param(*partition.values, way, marks=partition.marks, id=f"{partition.id}-{way}")
    for way in ALL_WAYS
    for partition in (partition_cases() if way.path is DecodePath.COLUMNAR else partition_cases(fast=8))
]
"""All ways; in the fast set only the one by columns takes every partition."""


@pytest.mark.parametrize(("partition", "way"), CASES)
def test_partition(captures: Captures, partition: str, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(captures.root / partition)
    goldens = captures.goldens(partition)
    assert goldens
    assert [line for golden in goldens if applies(golden, way) for line in differing(golden, way)] == []
