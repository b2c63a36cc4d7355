"""``kdump dump`` against the recorded output of DumpLogSegments 4.3.1, for every capture and flag set."""

from __future__ import annotations

import pytest

from tests.golden.goldens import applies, differing
from tests.harness.captures import Captures, partition_cases
from tests.harness.inprocess import ALL_WAYS, Way


@pytest.mark.parametrize("way", ALL_WAYS, ids=str)
@pytest.mark.parametrize("partition", partition_cases())
def test_partition(captures: Captures, partition: str, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(captures.root / partition)
    goldens = captures.goldens(partition)
    assert goldens
    assert [line for golden in goldens if applies(golden, way) for line in differing(golden, way)] == []
