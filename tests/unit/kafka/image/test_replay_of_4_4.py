"""The images of the metadata log of a real 4.4.0 cluster, at 15 offsets: those of Kafka's own classes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kdump.format.message import record_schemas
from kdump.kafka.image.metadatalog import MetadataLog
from kdump.kafka.image.replay import StatePoint, replay
from kdump.releases import KAFKA_4_3, NEWEST
from kdump.verify.metadatalog import check_metadata_log
from tests.harness.archives import case_files
from tests.harness.batches import entries, v2_batch
from tests.harness.captures import Captures
from tests.harness.examples import sparse
from tests.harness.fast_reference import Row
from tests.harness.messages import write_message
from tests.harness.metadatacases import as_counted, image_records

BOOTSTRAP = f"{0:020}-{0:010}.checkpoint"
_SCRAM = 11
"""The type of UserScramCredentialRecord."""

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


def test_what_a_format_wrote_counts_when_the_log_has_it(log: MetadataLog, tmp_path: Path) -> None:
    """Each node is formatted with users and features of its own; those of the first leader come into the log.

    MetadataLoader.handleLoadBootstrap reads no record of the snapshot 0-0; its control records are the quorum's.
    """
    own = tmp_path / "__cluster_metadata-0"
    shutil.copytree(log.directory, own)
    (own / BOOTSTRAP).write_bytes(_with_a_user((own / BOOTSTRAP).read_bytes()))
    of_node = MetadataLog.of(str(own))
    assert not replay(of_node, StatePoint(-1)).image.scram
    for offset in (-1, 3, 35):
        found, expected = replay(of_node, StatePoint(offset)), replay(log, StatePoint(offset))
        assert found.snapshot is not None
        assert found.snapshot.name == BOOTSTRAP
        assert image_records(found.image) == image_records(expected.image)
        assert found.quorum == expected.quorum
    assert found.quorum.voters
    assert list(check_metadata_log(str(own))) == []
    # The same records in a snapshot that a node wrote are its image.
    (own / BOOTSTRAP).rename(own / f"{1:020}-{1:010}.checkpoint")
    assert replay(MetadataLog.of(str(own)), StatePoint(3)).image.scram


def _with_a_user(snapshot: bytes) -> bytes:
    """A snapshot with one more record before its footer."""
    *first, footer = entries(snapshot)
    schema = record_schemas("cluster-metadata", "metadata")[_SCRAM]
    values = {"name": "alice", "mechanism": 1, "iterations": 4096} | dict.fromkeys(
        ("salt", "storedKey", "serverKey"), b"k"
    )
    value = bytes((1, _SCRAM, 0)) + write_message(schema, 0, values)
    return b"".join((*first, v2_batch([Row(0, 0, None, value)], base_offset=90), footer))
