"""The metadata image, and the changes of a batch or a transaction on their way into it.

Source: docs/spec/metadata.md#3-from-records-to-the-image (MetadataImage, MetadataDelta).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from kdump.kafka.image import metadataversion
from kdump.kafka.image.cluster import ClusterDelta, ClusterImage, KeyT, merge
from kdump.kafka.image.faults import ReplayError
from kdump.kafka.image.topics import TopicsDelta, TopicsImage
from kdump.payloads.java import hash_map_order_of
from kdump.releases import Release

TOPIC_RESOURCE: Final = 2
RESOURCE_TYPES: Final = {0: "UNKNOWN", 2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}
"""ConfigResource.Type by its number; other numbers are read as 0."""
SCRAM_MECHANISMS: Final = {0: "UNKNOWN", 1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""ScramMechanism by its number; other numbers are read as 0."""

_ACL_CODES: Final = {"resourceType": 7, "patternType": 4, "operation": 15, "permissionType": 3}
"""The largest known code of each; others are read as 0, UNKNOWN."""

_HIGHEST_CODES: Final = {
    4: {"resourceType": max(RESOURCE_TYPES)},
    11: {"mechanism": max(SCRAM_MECHANISMS)},
    18: _ACL_CODES,
}
"""The largest known code of members of a record, by its type."""

Resource: TypeAlias = tuple[int, str]
"""Type and name of what has configs; the name is '' for the default of all."""
Members: TypeAlias = dict[str, Any]
"""The members of a record."""
QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""(type, name) of what has quotas; the name is None for the default of all."""


class Provenance(NamedTuple):
    """The last record that an image holds: its offset, its leader epoch, and its time (ms)."""

    offset: int = -1
    epoch: int = -1
    timestamp: int = -1


@dataclass(slots=True)
class MetadataImage:
    """All that the cluster knows. ``metadata_version``: None before the first FeatureLevelRecord of it."""

    provenance: Provenance = field(default_factory=Provenance)
    metadata_version: int | None = None
    features: dict[str, int] = field(default_factory=dict)
    """Finalized levels without metadata.version."""
    cluster: ClusterImage = field(default_factory=ClusterImage)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: dict[Resource, dict[str, str]] = field(default_factory=dict)
    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    next_producer_id: int = -1
    acls: dict[str, Members] = field(default_factory=dict)
    """The members of an AccessControlEntryRecord by its id."""
    scram: dict[int, dict[str, Members]] = field(default_factory=dict)
    """The members of a UserScramCredentialRecord by mechanism and user."""
    tokens: dict[str, Members] = field(default_factory=dict)
    """The members of a DelegationTokenRecord by token id."""

    @property
    def is_elr_enabled(self) -> bool:
        """The cluster keeps eligible leader replicas."""
        return self.features.get(metadataversion.ELR_FEATURE, 0) >= 1


def quota_entity(values: dict[str, Any]) -> QuotaEntity:
    """Whose quota a ClientQuotaRecord sets."""
    names = {item["entityType"]: item["entityName"] for item in values["entity"]}
    return tuple((kind, names[kind]) for kind in sorted(names))


class MetadataDelta:
    """Changes that wait until their batch or transaction is complete. What is removed changes to nothing: 0 or {}.

    ``release``: see ImageLoader.
    """

    def __init__(self, image: MetadataImage, release: Release | None = None) -> None:
        self.image = image
        self._release = release
        self.topics = TopicsDelta(image.topics)
        self.cluster = ClusterDelta(image.cluster)
        self.is_empty = True
        self._is_wide = False
        self._metadata_version: int | None = None
        self._features: dict[str, int] = {}
        self._configs: dict[Resource, dict[str, str | None]] = {}
        self._without_configs: set[Resource] = set()
        """What has lost the configs that the image has of it."""
        self._quotas: dict[QuotaEntity, dict[str, float | None]] = {}
        self._next_producer_id: int | None = None
        self._acls: dict[str, Members] = {}
        self._scram: dict[int, dict[str, Members]] = {}
        self._tokens: dict[str, Members] = {}

    def replay(self, record_type: int, values: dict[str, Any]) -> None:
        """Add the change of one record. ReplayError where it does not apply."""
        step = _STEPS.get(record_type)
        if step is not None:
            self.is_empty = False
            # Most batches change partitions only.
            self._is_wide |= record_type not in _OF_PARTITIONS
            step(self, values)

    def clear(self) -> None:
        """Forget the changes."""
        if self._is_wide:
            self.__init__(self.image, self._release)  # type: ignore[misc]
        elif not self.is_empty:
            self.topics = TopicsDelta(self.image.topics)
            self.is_empty = True

    def apply(self, provenance: Provenance) -> None:
        """Put the changes into the image. ReplayError where that is not possible: then the image stays as it is."""
        self.topics.check()
        image = self.image
        image.provenance = provenance
        self.topics.apply()
        if not self._is_wide:
            return
        if self._metadata_version is not None:
            image.metadata_version = self._metadata_version
        merge(image.features, self._features)
        self.cluster.apply()
        _put_inner(image.configs, self._configs, self._without_configs)
        _put_inner(image.quotas, self._quotas)
        if self._next_producer_id is not None:
            image.next_producer_id = self._next_producer_id
        merge(image.acls, self._acls)
        self._apply_scram()
        merge(image.tokens, self._tokens)

    def _apply_scram(self) -> None:
        """As ScramDelta does: after the last user of a mechanism goes, users that come after it are lost.

        Source: docs/spec/metadata.md#33-deltas.
        """
        mechanisms = self.image.scram
        for mechanism, changes in self._scram.items():
            users = mechanisms.setdefault(mechanism, {})
            for name in hash_map_order_of(changes, 16):
                credential = changes[name]
                if credential:
                    users[name] = credential
                    continue
                users.pop(name, None)
                if not users:
                    mechanisms.pop(mechanism, None)

    def config_of(self, resource: Resource, name: str) -> str | None:
        """The value of a config with the changes so far."""
        changed = self._configs.get(resource) or {}
        if name in changed or resource in self._without_configs:
            return changed.get(name)
        return (self.image.configs.get(resource) or {}).get(name)

    def feature_of(self, name: str) -> int | None:
        """The level of a feature with the changes so far."""
        if name == metadataversion.FEATURE:
            return self.image.metadata_version if self._metadata_version is None else self._metadata_version
        changed = self._features.get(name)
        return self.image.features.get(name) if changed is None else changed or None

    def quota_of(self, entity: QuotaEntity, key: str) -> float | None:
        """A quota with the changes so far."""
        changed = self._quotas.get(entity) or {}
        return changed[key] if key in changed else (self.image.quotas.get(entity) or {}).get(key)

    def acl_of(self, acl: str) -> dict[str, Any] | None:
        """An ACL with the changes so far."""
        changed = self._acls.get(acl)
        return self.image.acls.get(acl) if changed is None else changed or None

    def feature(self, values: dict[str, Any]) -> None:
        """FeatureLevelRecord."""
        name, level = values["name"], values["featureLevel"]
        if name == metadataversion.FEATURE:
            metadataversion.check_level(level, self._release)
            self._metadata_version = level
        elif name != metadataversion.KRAFT_VERSION:
            self._features[name] = level

    def remove_topic(self, values: dict[str, Any]) -> None:
        """RemoveTopicRecord: the configs that the topic had before this batch go too."""
        resource = TOPIC_RESOURCE, self.topics.remove(values)
        if resource in self.image.configs:
            self._configs[resource] = {}
            self._without_configs.add(resource)

    def config(self, values: dict[str, Any]) -> None:
        """ConfigRecord."""
        kind = values["resourceType"]
        resource = kind if kind in RESOURCE_TYPES else 0, values["resourceName"]
        _set(self._configs, resource, values["name"], values["value"])

    def quota(self, values: dict[str, Any]) -> None:
        """ClientQuotaRecord."""
        _set(self._quotas, quota_entity(values), values["key"], None if values["remove"] else values["value"])

    def producer_ids(self, values: dict[str, Any]) -> None:
        """ProducerIdsRecord."""
        self._next_producer_id = values["nextProducerId"]

    def acl(self, values: dict[str, Any]) -> None:
        """AccessControlEntryRecord."""
        self._acls[values["id"]] = known_acl(values)

    def remove_acl(self, values: dict[str, Any]) -> None:
        """RemoveAccessControlEntryRecord."""
        acl = values["id"]
        if acl in self.image.acls:
            self._acls[acl] = {}
        elif acl in self._acls:
            del self._acls[acl]
        else:
            raise ReplayError(f"there is no ACL {acl}")

    def scram(self, values: dict[str, Any]) -> None:
        """UserScramCredentialRecord."""
        self._scram.setdefault(scram_mechanism(values), {})[values["name"]] = values

    def remove_scram(self, values: dict[str, Any]) -> None:
        """RemoveUserScramCredentialRecord: nothing looks whether it is there."""
        self._scram.setdefault(scram_mechanism(values), {})[values["name"]] = {}

    def token(self, values: dict[str, Any]) -> None:
        """DelegationTokenRecord."""
        for principal in (values["owner"], values["requester"], *values["renewers"]):
            if ":" not in principal:
                raise ReplayError(f"{principal!r} is no principal")
        self._tokens[values["tokenId"]] = values

    def remove_token(self, values: dict[str, Any]) -> None:
        """RemoveDelegationTokenRecord."""
        self._tokens[values["tokenId"]] = {}


def newer_codes(record_type: int, values: Mapping[str, Any]) -> Iterator[str]:
    """The members of a record whose numbers are above those that Kafka knows, and that are read as 0."""
    for name, highest in _HIGHEST_CODES.get(record_type, {}).items():
        if values[name] > highest:
            yield f"{name} {values[name]}"


def known_acl(values: dict[str, Any]) -> dict[str, Any]:
    """The members of an AccessControlEntryRecord as the image has them."""
    unknown = {name: 0 for name, highest in _ACL_CODES.items() if not 0 <= values[name] <= highest}
    return values | unknown


def scram_mechanism(values: Mapping[str, Any]) -> int:
    """The mechanism of a record of a SCRAM credential."""
    mechanism: int = values["mechanism"]
    return mechanism if mechanism in SCRAM_MECHANISMS else 0


def _set(changes: dict[KeyT, dict[str, Any]], key: KeyT, name: str, value: str | float | None) -> None:
    """One more change of a setting; None removes it."""
    changes.setdefault(key, {})[name] = value


def _put_inner(target: dict[KeyT, Any], changes: Mapping[KeyT, Any], emptied: Collection[KeyT] = frozenset()) -> None:
    """None removes. What is empty afterwards disappears. What is new is not copied: changes are not used again.

    ``emptied``: what loses all settings that the changes do not set again.
    """
    for key, inner in changes.items():
        values = target.get(key)
        if values is not None and key in emptied:
            values = {name: value for name, value in values.items() if name in inner}
        if values is None:
            values = inner
            for name in [name for name, value in inner.items() if value is None]:
                del values[name]
        else:
            for name, value in inner.items():
                if value is None:
                    values.pop(name, None)
                else:
                    values[name] = value
        if values:
            target[key] = values
        else:
            target.pop(key, None)


_STEPS: Final[Mapping[int, Callable[[MetadataDelta, dict[str, Any]], object]]] = {
    0: lambda delta, values: delta.cluster.register_broker(values),
    1: lambda delta, values: delta.cluster.unregister_broker(values),
    2: lambda delta, values: delta.topics.topic(values),
    3: lambda delta, values: delta.topics.partition(values),
    4: MetadataDelta.config,
    5: lambda delta, values: delta.topics.partition_change(values),
    7: lambda delta, values: delta.cluster.fence(values),
    8: lambda delta, values: delta.cluster.unfence(values),
    9: MetadataDelta.remove_topic,
    10: MetadataDelta.token,
    11: MetadataDelta.scram,
    12: MetadataDelta.feature,
    14: MetadataDelta.quota,
    15: MetadataDelta.producer_ids,
    17: lambda delta, values: delta.cluster.change(values),
    18: MetadataDelta.acl,
    19: MetadataDelta.remove_acl,
    22: MetadataDelta.remove_scram,
    26: MetadataDelta.remove_token,
    27: lambda delta, values: delta.cluster.register_controller(values),
    29: lambda delta, values: delta.cluster.unregister_controller(values),
    28: lambda delta, values: delta.topics.clear_elr(values),
}
"""The change of each type of record, by its number; other types change nothing."""
_OF_PARTITIONS: Final = (3, 5)
