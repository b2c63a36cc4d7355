"""What stops a node before its partitions, against real controllers that started on damaged metadata logs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kdump.kafka.startup.node import node_refusals
from kdump.log.names import META_PROPERTIES
from kdump.releases import KAFKA_4_3, NEWEST
from tests.harness.archives import unpack_cases
from tests.harness.captures import Captures
from tests.harness.metadatacases import metadata_cases

DAMAGED = [case for case in metadata_cases() if "controller" in case]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("metadata", tmp_path_factory.mktemp("cases"))


@pytest.mark.parametrize("case", DAMAGED, ids=lambda case: str(case["id"]))
def test_controllers(root: Path, case: dict[str, Any]) -> None:
    """MetadataLoader reports what it cannot apply, and a controller stops at that."""
    found = node_refusals(str(root / case["dir"]), KAFKA_4_3)
    assert not (found and case["controller"] == "active controller")
    for message in case["faults"][:1]:
        offset = message.rpartition(" ")[2]
        assert any(f"offset {offset}" in one.message for one in found) or case["snapshot_exception"]


def test_a_node_that_is_no_controller_goes_on(root: Path, tmp_path: Path) -> None:
    own = tmp_path / "logs"
    shutil.copytree(root / "damaged/feature-mv-high", own)
    (refusal,) = node_refusals(str(own), KAFKA_4_3)
    assert refusal.message == (
        "the metadata log cannot be loaded: offset 109: metadata.version 99 is unknown to Kafka 4.3.1"
    )
    properties = own / META_PROPERTIES
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=2"))
    assert node_refusals(str(own), KAFKA_4_3) == []


@pytest.mark.slow
def test_a_log_of_4_4_on_both_releases(captures: Captures, tmp_path: Path) -> None:
    shutil.copytree(captures.root / "4.4.0" / "__cluster_metadata-0", tmp_path / "__cluster_metadata-0")
    (tmp_path / META_PROPERTIES).write_text("version=1\nnode.id=1\ncluster.id=kdumpkdumpkdumpkdumpkQ\n")
    assert node_refusals(str(tmp_path), NEWEST) == []
    assert node_refusals(str(tmp_path), KAFKA_4_3)
