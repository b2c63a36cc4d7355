"""Snapshots against the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kdump import limits
from kdump.kafka.image import compare
from kdump.kafka.image.compare import snapshot_differences
from kdump.kafka.image.loader import ImageLoader
from kdump.kafka.image.metadatalog import MetadataBatch, MetadataLog, SnapshotFile
from tests.harness.archives import unpack_cases
from tests.harness.metadatacases import metadata_log


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("metadata", tmp_path_factory.mktemp("cases"))


@pytest.mark.parametrize("name", ["cluster/n1", "cluster/n2", "cluster/n101", "cluster/n103", "upgraded/n1"])
def test_equal(root: Path, name: str) -> None:
    assert not list(snapshot_differences(metadata_log(root, name)))


def test_a_node_that_lost_a_credential(root: Path) -> None:
    """Kafka loses what comes in the same delta after the last credential of a mechanism was removed."""
    differences = list(snapshot_differences(metadata_log(root, "damaged/snapshot-sound")))
    assert [difference.snapshot.end_offset for difference in differences] == [75, 88, 94, 107]
    assert [record.partition(" ")[0] for record in differences[0].only_in_log.first] == ["UserScramCredentialRecord"]
    assert [record.partition(" ")[0] for record in differences[0].only_in_snapshot.first] == ["ConfigRecord"]


class ManySnapshots(MetadataLog):
    """A log of topics, and a snapshot after each of its last batches."""

    __slots__ = ()

    @classmethod
    def of_size(cls, count: int) -> MetadataLog:
        """So many topics and snapshots."""
        return cls("log", (), tuple(SnapshotFile(count + number, 1, "snapshot") for number in range(1, count + 1)))

    def batches(self, first: int = 0) -> Iterator[MetadataBatch]:
        count = len(self.snapshots)
        values = [b"\1\x0c\0\x11metadata.version\0\x1b\0"]
        values += [b"\1\2\0\x09t%07d" % number + number.to_bytes(16, "big") + b"\0" for number in range(1, 2 * count)]
        for offset, value in enumerate(values):
            yield MetadataBatch(offset, offset, 1, 0, False, [(None, value)], 0, "log")


def test_snapshots_after_the_limit_are_told_and_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(snapshot: SnapshotFile) -> ImageLoader:
        loader = ImageLoader()
        loader.load(next(ManySnapshots.of_size(1).batches()))
        return loader

    monkeypatch.setattr(compare, "_loaded", loaded)
    # The image after the first has 40 topics and the level, after the second one more.
    monkeypatch.setitem(limits._given, limits.COMPARED, 42)
    told = list(snapshot_differences(ManySnapshots.of_size(40)))
    assert [difference.snapshot.end_offset for difference in told] == [*range(41, 81)]
    assert [difference.is_compared for difference in told] == [True] * 2 + [False] * 38
    assert told[0].only_in_log.total == 40
