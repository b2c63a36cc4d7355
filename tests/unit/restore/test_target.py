"""The metadata of the cluster that takes restored partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.kafka.image.image import TOPIC_RESOURCE
from kdump.kafka.retention import Retention
from kdump.releases import newer
from kdump.restore.target import TargetCluster, TargetPartition
from tests.harness.archives import unpack_cases


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("metadata", tmp_path_factory.mktemp("cases"))


def test_doubts(root: Path, tmp_path: Path) -> None:
    """What was not read, and what a newer Kafka wrote that is not in the image."""
    damaged = root / "damaged"
    metadata = damaged / "unknown-type" / "__cluster_metadata-0"
    what = newer("offset 109 holds what is not in the metadata here")
    assert TargetCluster(str(metadata), str(tmp_path)).doubts == (f"{metadata}: {what}",)
    assert TargetCluster(str(damaged / "sound"), str(tmp_path)).doubts == ()
    assert TargetCluster(str(damaged / "feature-mv-high"), str(tmp_path)).doubts == ()
    (cut,) = TargetCluster(str(damaged / "bitflip"), str(tmp_path)).doubts
    assert cut.endswith("is not known")


def test_local_limits_take_nothing_away(root: Path, tmp_path: Path) -> None:
    """What they delete was copied to remote storage before; the limits of the whole delete it there too."""
    cluster = TargetCluster(str(root / "cluster/n1"), str(tmp_path))
    tiered = {"remote.storage.enable": "true", "local.retention.bytes": "1", "retention.ms": "-1"}
    for size in (None, 1000):
        own = tiered if size is None else tiered | {"retention.bytes": str(size)}
        cluster.image.configs[TOPIC_RESOURCE, "t-41-3"] = own
        found = cluster.partition("t-41-3", 0)
        assert isinstance(found, TargetPartition)
        assert found.retention == Retention(None, size)
