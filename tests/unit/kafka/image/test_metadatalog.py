"""Batches of a metadata log that have many records."""

from __future__ import annotations

import pytest

from kdump import limits
from kdump.fast import blocks
from kdump.kafka.image.metadatalog import UnreadableBatchError, read_batches
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
    assert batch.records == wanted
    assert (batch.base_offset, batch.last_offset) == (0, COUNT - 1)


@pytest.mark.parametrize("limit", [COUNT - 1, COUNT])
def test_a_batch_of_more_records_than_are_kept(
    source: MemorySource, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setitem(limits._given, limits.METADATA, limit)
    if limit == COUNT:
        assert len(list(read_batches(source))) == 1
        return
    with pytest.raises(UnreadableBatchError, match=r"it has 2,000 records, .*--most metadata=NUMBER"):
        list(read_batches(source))
