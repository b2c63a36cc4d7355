"""Snapshots against the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.kafka.image.compare import snapshot_differences
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
