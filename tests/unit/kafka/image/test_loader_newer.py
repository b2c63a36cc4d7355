"""What a newer Kafka than kdump knows wrote into a metadata log: kept where it can be, told once, and no error."""

from __future__ import annotations

from typing import Any

import pytest

from kdump.format.message import record_schemas
from kdump.kafka.image.faults import Fault, Grade
from kdump.kafka.image.loader import ImageLoader
from kdump.kafka.image.metadatalog import MetadataBatch, UnreadableBatchError
from kdump.kafka.image.metadataversion import level_name
from kdump.kafka.image.snapshotrecords import snapshot_records
from kdump.releases import NEWEST, newer
from kdump.state.metadatacommands import metadata_commands
from kdump.state.metadatarows import StateSelection, image_rows
from tests.harness.messages import write_message

FEATURE_LEVEL, TOPIC, PARTITION, UNREGISTER, CONFIG, ACL = 12, 2, 3, 1, 4, 18
TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"
LAST = max(record_schemas("cluster-metadata", "metadata"))
"""The highest type of a record that kdump knows."""


def record(kind: int, values: dict[str, Any], *, version: int = 0, as_version: int | None = None) -> bytes:
    """A value of the log; ``as_version``: the version that it says it has."""
    schema = record_schemas("cluster-metadata", "metadata")[kind]
    return bytes((1, kind, version if as_version is None else as_version)) + write_message(schema, version, values)


def loaded(*values: bytes, release: Any = None) -> ImageLoader:
    """The image of a log with one record a batch."""
    loader = ImageLoader(release=release)
    for offset, value in enumerate(values):
        loader.load(MetadataBatch(offset, offset, 1, 0, False, [(None, value)], 0, "log"))
    return loader


def told(loader: ImageLoader) -> list[str]:
    assert {fault.grade for fault in loader.faults} <= {Grade.NEWER}
    return [fault.message for fault in loader.faults]


def level(name: str, number: int) -> bytes:
    return record(FEATURE_LEVEL, {"name": name, "featureLevel": number})


def topic(**kind: int) -> bytes:
    return record(TOPIC, {"name": "t", "topicId": TOPIC_ID}, **kind)


def partition() -> bytes:
    values: dict[str, Any] = {
        "partitionId": 0,
        "topicId": TOPIC_ID,
        "leaderRecoveryState": 0,
        "leader": 1,
        "leaderEpoch": 0,
    }
    values |= {"replicas": [1], "isr": [1], "removingReplicas": [], "addingReplicas": [], "partitionEpoch": 0}
    return record(PARTITION, values | {"directories": [], "eligibleLeaderReplicas": None, "lastKnownElr": None})


def test_a_level_above_all_is_the_level_of_the_cluster() -> None:
    """A cluster that was made at such a level has no other one."""
    found = loaded(level("metadata.version", 99), level("metadata.version", 99), topic())
    assert told(found) == [newer("metadata.version 99")]
    assert found.image.metadata_version == 99
    assert level_name(99) is None
    row = next(iter(image_rows(found.image, StateSelection())))
    assert row == {"type": "feature", "name": "metadata.version", "level": 99, "version": None}
    assert "--feature metadata.version=99" in next(iter(metadata_commands(found.image, StateSelection())))
    assert [message.schema.name for message in snapshot_records(found.image)] == ["FeatureLevelRecord", "TopicRecord"]
    strict = loaded(level("metadata.version", 99), release=NEWEST)
    assert [fault.grade for fault in strict.faults] == [Grade.IMAGE]
    assert strict.image.metadata_version is None


def test_a_level_that_was_never_there_is_a_fault() -> None:
    found = loaded(level("metadata.version", 3))
    assert [fault.grade for fault in found.faults] == [Grade.IMAGE]
    assert found.image.metadata_version is None


def test_levels_of_other_features() -> None:
    highest = NEWEST.features["share.version"][1]
    found = loaded(level("share.version", highest), level("share.version", highest + 1), level("new.version", 1))
    assert told(found) == [newer(f"level {highest + 1} of share.version"), newer("level 1 of new.version")]
    assert found.image.features == {"share.version": highest + 1, "new.version": 1}


def test_a_version_with_more_fields() -> None:
    found = loaded(topic(as_version=9) + b"more", topic(as_version=9) + b"more")
    assert told(found) == [newer("version 9 of TopicRecord")]
    assert not found.image.topics.by_id
    with pytest.raises(UnreadableBatchError, match="4 bytes left"):
        loaded(topic() + b"more")
    with pytest.raises(UnreadableBatchError, match="4 bytes left"):
        loaded(topic(as_version=9) + b"more", release=NEWEST)


@pytest.mark.parametrize("unknown", [topic(as_version=9) + b"more", bytes((1, LAST + 1, 0)) + b"what"])
def test_what_needs_a_record_that_was_left_out(unknown: bytes) -> None:
    found = loaded(topic(), unknown, *[record(UNREGISTER, {"brokerId": 1, "brokerEpoch": 5})] * 3)
    assert found.left_out == 1
    assert len(told(found)) == 2
    needs = "broker 1 is not registered: it may need the record at offset 1, which a newer Kafka wrote"
    assert found.faults[1] == Fault(Grade.NEWER, 2, "UnregisterBrokerRecord", needs)
    before = loaded(topic(), record(UNREGISTER, {"brokerId": 1, "brokerEpoch": 5}), unknown)
    assert [fault.grade for fault in before.faults] == [Grade.CONTROLLER, Grade.NEWER]


def test_a_partition_of_a_topic_that_was_left_out() -> None:
    found = loaded(topic(as_version=9) + b"more", partition(), partition())
    assert len(told(found)) == 3
    assert "no topic has this id: it may need the record at offset 0" in told(found)[1]
    assert {fault.grade for fault in loaded(partition()).faults} == {Grade.IMAGE}


@pytest.mark.parametrize("kind", [7, 9])
def test_a_control_record(kind: int) -> None:
    batch = MetadataBatch(0, 0, 1, 0, True, [(kind.to_bytes(4, "big"), b"\0\0what")], 0, "log")
    found = ImageLoader()
    found.load(batch)
    assert told(found) == [newer(f"control record type {kind}")]
    assert found.image.provenance.offset == 0
    with pytest.raises(UnreadableBatchError, match="unknown control record type"):
        ImageLoader(release=NEWEST).load(batch)


def test_codes_that_no_release_knows() -> None:
    """They are UNKNOWN in the image, as in Kafka's."""
    names = {"resourceType": 99, "patternType": 3, "operation": 16, "permissionType": 3}
    acl = {"id": TOPIC_ID, "resourceName": "r", "principal": "User:a", "host": "*"}
    config = {"resourceType": 64, "resourceName": "r", "name": "x", "value": "y"}
    found = loaded(record(ACL, acl | names), record(CONFIG, config))
    of_acl = [newer(f"{what} of AccessControlEntryRecord") for what in ("resourceType 99", "operation 16")]
    assert told(found) == [*of_acl, newer("resourceType 64 of ConfigRecord")]
    assert found.image.acls[TOPIC_ID]["operation"] == 0
    assert found.image.configs == {(0, "r"): {"x": "y"}}
    assert not loaded(record(ACL, acl | names | {"resourceType": 7, "operation": 15})).faults
    assert not loaded(record(CONFIG, config | {"resourceType": 32, "name": "share.auto.offset.reset"})).faults
