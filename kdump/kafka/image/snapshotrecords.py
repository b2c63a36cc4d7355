"""The image as the records of a snapshot of it.

Source: docs/spec/metadata.md#32-from-the-image-to-records (MetadataImage.write). The version of each record is the one
that the image's metadata.version writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kdump.format.message import Schema, schemas
from kdump.kafka.image import metadataversion
from kdump.kafka.image.image import MetadataImage, QuotaEntity
from kdump.kafka.image.partitions import MIGRATING
from kdump.payloads.internal import DecodedMessage
from kdump.payloads.java import hash_map_order_of


def snapshot_records(image: MetadataImage) -> Iterator[DecodedMessage]:
    """The records; none where the image has no metadata.version, without which Kafka writes nothing."""
    level = image.metadata_version
    if level is None:
        return
    yield _record("FeatureLevelRecord", {"name": metadataversion.FEATURE, "featureLevel": level})
    for name, feature_level in image.features.items():
        yield _record("FeatureLevelRecord", {"name": name, "featureLevel": feature_level})
    yield from _nodes(image, level)
    yield from _topics(image, level)
    yield from _settings(image)
    if image.next_producer_id >= 0:
        values = {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": image.next_producer_id}
        yield _record("ProducerIdsRecord", values)
    yield from _security(image, level)


def _nodes(image: MetadataImage, level: int) -> Iterator[DecodedMessage]:
    version = metadataversion.broker_record_version(level)
    for broker in image.cluster.brokers.values():
        yield _record("RegisterBrokerRecord", _writable_broker(broker, level), version)
    if level >= metadataversion.CONTROLLER_REGISTRATION:
        for controller in image.cluster.controllers.values():
            yield _record("RegisterControllerRecord", controller)


def _topics(image: MetadataImage, level: int) -> Iterator[DecodedMessage]:
    version = metadataversion.partition_record_version(level)
    for topic in image.topics.by_id.values():
        yield _record("TopicRecord", {"name": topic.name, "topicId": topic.topic_id})
        for number, partition in topic.partitions.items():
            values = partition.values(topic.topic_id, number)
            if not image.is_elr_enabled:
                values |= {"eligibleLeaderReplicas": None, "lastKnownElr": None}
            yield _record("PartitionRecord", values, version)


def _settings(image: MetadataImage) -> Iterator[DecodedMessage]:
    for (kind, resource), configs in image.configs.items():
        for name, value in configs.items():
            values = {"resourceType": kind, "resourceName": resource, "name": name, "value": value}
            yield _record("ConfigRecord", values)
    for entity, quotas in image.quotas.items():
        for key, quota in quotas.items():
            yield _record("ClientQuotaRecord", {"entity": _entity(entity), "key": key, "value": quota, "remove": False})


def _security(image: MetadataImage, level: int) -> Iterator[DecodedMessage]:
    for acl in image.acls.values():
        yield _record("AccessControlEntryRecord", acl)
    if level >= metadataversion.SCRAM:
        for mechanism, users in image.scram.items():
            for credential in users.values():
                yield _record("UserScramCredentialRecord", credential | {"mechanism": mechanism})
    if level >= metadataversion.DELEGATION_TOKENS:
        for token in image.tokens.values():
            yield _record("DelegationTokenRecord", token)


def losses(image: MetadataImage) -> Iterator[str]:
    """What the image has and its metadata.version cannot write. A node that writes a snapshot of it stops."""
    level = image.metadata_version
    if level is None:
        return
    brokers = image.cluster.brokers.values()
    if level < metadataversion.MIGRATION and any(broker["isMigratingZkBroker"] for broker in brokers):
        yield "the isMigratingZkBroker state of one or more brokers"
    if level < metadataversion.DIRECTORY_ASSIGNMENT and any(broker["logDirs"] for broker in brokers):
        yield "the online log directories of one or more brokers"
    if level < metadataversion.CORDONED_DIRECTORIES and any(
        broker["cordonedLogDirs"] is not None for broker in brokers
    ):
        yield "the cordoned log directories of one or more brokers"
    if level < metadataversion.CONTROLLER_REGISTRATION and image.cluster.controllers:
        yield "controller registration data"
    partitions = (partition for topic in image.topics.by_id.values() for partition in topic.partitions.values())
    if level < metadataversion.DIRECTORY_ASSIGNMENT and any(
        directory != MIGRATING for partition in partitions for directory in partition.directories
    ):
        yield "the directory assignment state of one or more replicas"
    if level < metadataversion.SCRAM and any(image.scram.values()):
        yield "SCRAM credentials"
    if level < metadataversion.DELEGATION_TOKENS and image.tokens:
        yield "delegation tokens"


def _writable_broker(broker: dict[str, Any], level: int) -> dict[str, Any]:
    """Without what the level cannot write."""
    if level < metadataversion.DIRECTORY_ASSIGNMENT:
        broker = broker | {"logDirs": []}
    if level < metadataversion.CORDONED_DIRECTORIES:
        broker = broker | {"cordonedLogDirs": None}
    return broker


def _entity(entity: QuotaEntity) -> list[dict[str, Any]]:
    names = dict(entity)
    return [{"entityType": kind, "entityName": names[kind]} for kind in hash_map_order_of(names, 16)]


def _record(name: str, values: dict[str, Any], version: int = 0) -> DecodedMessage:
    schema: Schema = schemas()[name]
    return DecodedMessage(schema, version, values)
