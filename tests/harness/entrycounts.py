"""Counts how many entries of producers are made and read, for tests that starts cost what changed."""

from __future__ import annotations

from collections import Counter

import pytest

from kdump.format.snapshot import ProducerEntry
from kdump.kafka.producers import ProducerStates
from kdump.kafka.startup import sharedsnapshots


def counted_entries(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """``made`` of producer states, and ``read`` from the bytes of snapshots, from now on."""
    counts: Counter[str] = Counter()
    entry_of, snapshot_entries = ProducerStates.entry_of, sharedsnapshots.snapshot_entries

    def counted_entry(self: ProducerStates, producer_id: int) -> ProducerEntry:
        counts["made"] += 1
        return entry_of(self, producer_id)

    def counted_read(data: bytes) -> list[ProducerEntry]:
        entries = list(snapshot_entries(data))
        counts["read"] += len(entries)
        return entries

    monkeypatch.setattr(ProducerStates, "entry_of", counted_entry)
    monkeypatch.setattr(sharedsnapshots, "snapshot_entries", counted_read)
    return counts
