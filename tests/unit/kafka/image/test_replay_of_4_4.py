"""The images of the metadata log of a real 4.4.0 cluster, at 15 offsets: those of Kafka's own classes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kdump.kafka.image.metadatalog import MetadataLog
from kdump.kafka.image.replay import StatePoint, replay
from kdump.releases import KAFKA_4_3, NEWEST
from kdump.verify.metadatalog import check_metadata_log
from tests.harness.archives import case_files
from tests.harness.captures import Captures
from tests.harness.examples import sparse
from tests.harness.metadatacases import as_counted, image_records

CASES: list[dict[str, Any]] = [
    json.loads(line) for line in case_files("images")["images/results.jsonl"].decode().splitlines()
]


@pytest.fixture
def log(captures: Captures) -> MetadataLog:
    return MetadataLog.of(str(captures.root / "4.4.0" / "__cluster_metadata-0"))


@pytest.mark.parametrize("case", sparse(CASES, fast=5), ids=lambda case: str(case["id"]))
def test_image(log: MetadataLog, case: dict[str, Any]) -> None:
    offset = case["request"]["offset"]
    found = replay(log, StatePoint(None if offset < 0 else offset), release=NEWEST)
    provenance = case["provenance"]
    expected = provenance["last_offset"], provenance["last_epoch"], provenance["last_time_ms"]
    assert found.image.provenance == expected
    assert image_records(found.image) == as_counted(case["records"])
    assert not found.faults


def test_nothing_is_wrong_with_it(log: MetadataLog) -> None:
    assert list(check_metadata_log(log.directory)) == []


def test_a_node_of_4_3_stops_at_it(log: MetadataLog) -> None:
    older = replay(log, StatePoint(), alone=True, release=KAFKA_4_3)
    assert older.unreadable is not None or older.faults
