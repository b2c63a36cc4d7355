"""The metadata image as rows: one flat object for each thing, with the keys of the JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kdump.inputs import fits
from kdump.kafka.image.cluster import SECURITY_PROTOCOLS, Registration
from kdump.kafka.image.image import RESOURCE_TYPES, SCRAM_MECHANISMS, MetadataImage, QuotaEntity, Resource
from kdump.kafka.image.metadataversion import FEATURE, level_name
from kdump.kafka.image.partitions import LOST, MIGRATING, RECOVERY_STATES, UNASSIGNED, PartitionRegistration
from kdump.kafka.image.topics import TopicImage
from kdump.log.names import parse_partition_directory
from kdump.payloads.secretconfigs import REDACTED, is_secret_config
from kdump.rows.columns import Row

_RESOURCES: Final = ("UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER")
_PATTERNS: Final = ("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED")
_OPERATIONS: Final = (
    "UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT",
)  # fmt: skip
_PERMISSIONS: Final = ("UNKNOWN", "ANY", "DENY", "ALLOW")
_DIRECTORIES: Final = {MIGRATING: "MIGRATING", UNASSIGNED: "UNASSIGNED", LOST: "LOST"}


@dataclass(frozen=True, slots=True)
class StateSelection:
    """What is shown. Empty sets select all.

    ``topics``: names or patterns, see ``inputs.fits``.
    ``brokers``: ids, and partitions with a replica on one of them.
    """

    topics: frozenset[str] = frozenset()
    brokers: frozenset[int] = frozenset()
    show_secrets: bool = False
    partition: tuple[str, int] | None = None
    """Topic and number; of changes only."""

    def of_history(self, kind: str, name: str) -> StateSelection:
        """This selection, and a topic, a partition or a broker of which all changes are shown."""
        match kind:
            case "topic":
                return replace(self, topics=self.topics | {name})
            case "broker":
                return replace(self, brokers=self.brokers | {int(name)})
            case "partition":
                return replace(self, partition=parse_partition_directory(name))
        return self

    def has_change(self, row: Row) -> bool:
        """The change is of something that is selected."""
        if self.partition is not None and (row["topic"], row["partition"]) == self.partition:
            return True
        if fits(row["topic"] or "", self.topics) or row["broker"] in self.brokers:
            return True
        return self.partition is None and self.is_all

    @property
    def is_all(self) -> bool:
        """Nothing is left out."""
        return not self.topics and not self.brokers

    def has_topic(self, name: str) -> bool:
        """By its name."""
        return not self.topics or fits(name, self.topics)

    def has_broker(self, broker: int) -> bool:
        """By its id."""
        return broker in self.brokers or self.is_all

    def shows_topic(self, topic: TopicImage) -> bool:
        """By its name, and with brokers by its partitions."""
        has_any = not self.brokers or any(map(self.has_partition, topic.partitions.values()))
        return self.has_topic(topic.name) and has_any

    def has_partition(self, partition: PartitionRegistration) -> bool:
        """By its replicas."""
        return not self.brokers or not self.brokers.isdisjoint(partition.replicas)

    def has_resource(self, kind: int, name: str) -> bool:
        """Configs of a topic or a broker that is shown; of others only where nothing is left out."""
        if self.is_all:
            return True
        if RESOURCE_TYPES[kind] == "TOPIC":
            return fits(name, self.topics)
        return RESOURCE_TYPES[kind] == "BROKER" and (not name or name in map(str, self.brokers)) and bool(self.brokers)


_SECRET_MEMBERS: Final = {
    "UserScramCredentialRecord": ("salt", "storedKey", "serverKey"),
    "DelegationTokenRecord": ("tokenId",),
    "RemoveDelegationTokenRecord": ("tokenId",),
}
"""Members by the type of record."""


def redacted(record: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a record without its secrets."""
    shown = dict(values)
    for name in _SECRET_MEMBERS.get(record, ()):
        if name in shown:
            shown[name] = REDACTED
    if record == "ConfigRecord" and shown["value"] is not None and is_secret_config(shown["name"]):
        shown["value"] = REDACTED
    return shown


def image_rows(image: MetadataImage, selected: StateSelection) -> Iterator[Row]:
    """All things of an image, in the order of a snapshot, each kind sorted."""
    if selected.is_all:
        if image.metadata_version is not None:
            level = image.metadata_version
            yield {"type": "feature", "name": FEATURE, "level": level, "version": level_name(level)}
        for name in sorted(image.features):
            yield {"type": "feature", "name": name, "level": image.features[name], "version": None}
    for broker in sorted(image.cluster.brokers):
        if selected.has_broker(broker):
            yield broker_row(image.cluster.brokers[broker])
    if selected.is_all:
        for controller in sorted(image.cluster.controllers):
            yield _controller_row(image.cluster.controllers[controller])
    yield from _topic_rows(image, selected)
    for kind, resource in config_resources(image):
        if selected.has_resource(kind, resource):
            configs = image.configs[kind, resource]
            for name in sorted(configs):
                shown = {"name": name, "value": configs[name]}
                if not selected.show_secrets:
                    shown = redacted("ConfigRecord", shown)
                head = {"type": "config", "resourceType": RESOURCE_TYPES[kind], "resourceName": resource}
                yield head | shown
    if selected.is_all:
        yield from _security_rows(image, selected)


def partition_row(topic: str, topic_id: str, number: int, partition: PartitionRegistration) -> Row:
    """A partition."""
    return {
        "type": "partition",
        "topic": topic,
        "topicId": topic_id,
        "partition": number,
        "leader": partition.leader,
        "leaderEpoch": partition.leader_epoch,
        "partitionEpoch": partition.partition_epoch,
        "leaderRecoveryState": RECOVERY_STATES[partition.recovery],
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "elr": list(partition.elr),
        "lastKnownElr": list(partition.last_known_elr),
        "addingReplicas": list(partition.adding),
        "removingReplicas": list(partition.removing),
        "directories": [_DIRECTORIES.get(directory, directory) for directory in partition.directories],
    }


def broker_row(broker: Registration) -> Row:
    """A broker."""
    return {
        "type": "broker",
        "id": broker["brokerId"],
        "epoch": broker["brokerEpoch"],
        "incarnationId": broker["incarnationId"],
        "rack": broker["rack"],
        "fenced": broker["fenced"],
        "inControlledShutdown": broker["inControlledShutdown"],
        "isMigratingZkBroker": broker["isMigratingZkBroker"],
        "listeners": _listeners(broker),
        "features": _features(broker),
        "directories": broker["logDirs"],
        "cordonedDirectories": broker["cordonedLogDirs"],
    }


def acl_row(acl: Mapping[str, Any]) -> Row:
    """An ACL."""
    return {
        "type": "acl",
        "id": acl["id"],
        "resourceType": _RESOURCES[acl["resourceType"]],
        "resourceName": acl["resourceName"],
        "patternType": _PATTERNS[acl["patternType"]],
        "principal": acl["principal"],
        "host": acl["host"],
        "operation": _OPERATIONS[acl["operation"]],
        "permissionType": _PERMISSIONS[acl["permissionType"]],
    }


def config_resources(image: MetadataImage) -> Iterator[Resource]:
    """What has configs, sorted."""
    yield from sorted(image.configs)


def quota_entities(image: MetadataImage) -> Iterator[QuotaEntity]:
    """Who has quotas, sorted by their texts."""
    yield from sorted(image.quotas, key=str)


def _topic_rows(image: MetadataImage, selected: StateSelection) -> Iterator[Row]:
    known, current = image.topics.by_id, image.topics.by_name
    for topic in sorted(known.values(), key=lambda topic: (topic.name, topic.topic_id)):
        if not selected.shows_topic(topic):
            continue
        named = current.get(topic.name)
        yield {
            "type": "topic",
            "name": topic.name,
            "topicId": topic.topic_id,
            "partitions": len(topic.partitions),
            "isCurrent": named is not None and named.topic_id == topic.topic_id,
        }
        for number in sorted(topic.partitions):
            partition = topic.partitions[number]
            if selected.has_partition(partition):
                yield partition_row(topic.name, topic.topic_id, number, partition)


def _controller_row(controller: Registration) -> Row:
    return {
        "type": "controller",
        "id": controller["controllerId"],
        "incarnationId": controller["incarnationId"],
        "zkMigrationReady": controller["zkMigrationReady"],
        "listeners": _listeners(controller),
        "features": _features(controller),
    }


def _security_rows(image: MetadataImage, selected: StateSelection) -> Iterator[Row]:
    for entity in quota_entities(image):
        for key, value in sorted(image.quotas[entity].items()):
            yield {"type": "quota", "entity": dict(entity), "key": key, "value": value}
    if image.next_producer_id >= 0:
        yield {"type": "producerIds", "nextProducerId": image.next_producer_id}
    yield from (acl_row(image.acls[acl]) for acl in sorted(image.acls))
    for mechanism, users in sorted(image.scram.items()):
        for credential in map(users.__getitem__, sorted(users)):
            shown = credential if selected.show_secrets else redacted("UserScramCredentialRecord", credential)
            yield {
                "type": "scram",
                "user": shown["name"],
                "mechanism": SCRAM_MECHANISMS[mechanism],
                "iterations": shown["iterations"],
                **{name: shown[name] for name in ("salt", "storedKey", "serverKey")},
            }
    for token in map(image.tokens.__getitem__, sorted(image.tokens)):
        yield {"type": "token"} | (token if selected.show_secrets else redacted("DelegationTokenRecord", token))


def _listeners(registration: Registration) -> list[Row]:
    return [
        {
            "name": endpoint["name"],
            "host": endpoint["host"],
            "port": endpoint["port"],
            "securityProtocol": _name(SECURITY_PROTOCOLS, endpoint["securityProtocol"]),
        }
        for endpoint in registration["endPoints"]
    ]


def _features(registration: Registration) -> dict[str, list[int]]:
    return {
        feature["name"]: [feature["minSupportedVersion"], feature["maxSupportedVersion"]]
        for feature in sorted(registration["features"], key=lambda feature: str(feature["name"]))
    }


def _name(names: tuple[str, ...], number: int) -> str | int:
    return names[number] if 0 <= number < len(names) else number
