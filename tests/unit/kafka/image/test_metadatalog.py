"""Batches of a metadata log that have many records."""

from __future__ import annotations

import pytest

from kdump.fast import blocks
from kdump.kafka.image.metadatalog import read_batches
from kdump.log.source import MemorySource
from tests.harness.batches import v2_batch
from tests.harness.fast_reference import Row

COUNT = 2000


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> MemorySource:
    """A log of one batch that the columnar path leaves to the scalar one."""
    monkeypatch.setattr(blocks, "_LARGEST_BODY", 100)
    return MemorySource("0.log", v2_batch([Row(0, number, None, b"value %d" % number) for number in range(COUNT)]))


def test_a_huge_batch_has_its_records_like_others(source: MemorySource) -> None:
    (batch,) = read_batches(source)
    wanted = [(None, b"value %d" % number) for number in range(COUNT)]
    assert list(batch.records) == list(batch.records) == wanted
    assert (len(batch.records), batch.records[0], batch.records[-1]) == (COUNT, wanted[0], wanted[-1])
    assert batch.records[5:9] == wanted[5:9]
    with pytest.raises(IndexError):
        batch.records[COUNT]
    assert (batch.base_offset, batch.last_offset) == (0, COUNT - 1)
