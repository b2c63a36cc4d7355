"""A cluster of millions of one thing takes not much more memory than its records."""

from __future__ import annotations

from itertools import islice

import pytest

from kdump.kafka.image import loader
from kdump.kafka.image.metadatalog import MetadataBatch
from tests.bench.metadatafiles import KINDS
from tests.harness.metadatamemory import loaded_with_peak

COUNT = 2000


@pytest.mark.slow
@pytest.mark.usefixtures("packing")
@pytest.mark.parametrize("packing", ["packed"], indirect=True)
@pytest.mark.parametrize(
    ("kind", "most"),
    [
        ("whole-partitions", 300),
        ("topics-with-one", 250),
        ("unknown-changes", 180),
        ("unknown-partitions", 100),
        ("unknown-removals", 100),
        ("acls", 250),
        ("unknown-acls", 150),
        ("quotas", 170),
        ("scram", 280),
        ("tokens", 120),
        ("features", 220),
        ("brokers", 200),
    ],
)
def test_a_huge_batch_takes_little_memory(monkeypatch: pytest.MonkeyPatch, kind: str, most: int) -> None:
    """Bytes for a record at the peak; what the decoders remember is not counted."""
    monkeypatch.setattr(loader, "_MOST_HELD", 4)
    values = [*islice(KINDS[kind](), COUNT)]
    whole = MetadataBatch(10, 9 + COUNT, 3, 1000, False, [(None, value) for value in values], 0, "log")
    _, peak = loaded_with_peak(whole)
    assert peak / COUNT < most
