"""Topics and partitions in the metadata image, and how records change them.

Source: docs/spec/metadata.md#3-from-records-to-the-image (TopicsDelta, TopicDelta, PartitionRegistration).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from kdump.kafka.image.faults import ReplayError
from kdump.kafka.image.packedmap import IdMap, IdsByName, TextMap, id_bytes, id_of, text_bytes, text_of

MIGRATING: Final = "A" * 22
"""The directory of a replica that has none yet (DirectoryId)."""
UNASSIGNED: Final = "A" * 21 + "Q"
LOST: Final = "A" * 21 + "g"
PARTITION_CHANGE: Final = 5
"""The type of a PartitionChangeRecord."""
NO_LEADER: Final = -1
_NO_LEADER_CHANGE: Final = -2
_RECOVERY_UNCHANGED: Final = -1
RECOVERY_STATES: Final = ("RECOVERED", "RECOVERING")
_ItemT = TypeVar("_ItemT")


class PartitionRegistration(NamedTuple):
    """A partition of the image. ``directories``: the id of the log directory of each replica."""

    replicas: tuple[int, ...]
    directories: tuple[str, ...]
    isr: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]
    leader: int
    recovery: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]

    def checked(self) -> PartitionRegistration:
        """Itself. Raises ReplayError where Kafka's constructor throws."""
        if len(self.directories) != len(self.replicas):
            raise ReplayError(f"it has {len(self.replicas)} replicas and {len(self.directories)} directories")
        if not 0 <= self.recovery < len(RECOVERY_STATES):
            raise ReplayError(f"{self.recovery} is no leader recovery state")
        return self

    @classmethod
    def of_record(cls, values: dict[str, Any]) -> PartitionRegistration:
        """The partition that a PartitionRecord makes."""
        replicas = tuple(values["replicas"])
        return cls(
            replicas,
            _assigned(tuple(values["directories"]), len(replicas)),
            tuple(values["isr"]),
            tuple(values["removingReplicas"]),
            tuple(values["addingReplicas"]),
            values["leader"],
            values["leaderRecoveryState"],
            values["leaderEpoch"],
            values["partitionEpoch"],
            tuple(values["eligibleLeaderReplicas"] or ()),
            tuple(values["lastKnownElr"] or ()),
        ).checked()

    def merged(self, values: dict[str, Any]) -> PartitionRegistration:
        """The partition after a PartitionChangeRecord: what it leaves out stays."""
        replicas, directories = _new(values["replicas"], self.replicas), _new(values["directories"], self.directories)
        leader, recovery = values["leader"], values["leaderRecoveryState"]
        is_elected = leader != _NO_LEADER_CHANGE
        partition = PartitionRegistration(
            replicas,
            directories,
            _new(values["isr"], self.isr),
            _new(values["removingReplicas"], self.removing),
            _new(values["addingReplicas"], self.adding),
            leader if is_elected else self.leader,
            self.recovery if recovery == _RECOVERY_UNCHANGED else recovery,
            self.leader_epoch + is_elected,
            self.partition_epoch + 1,
            _new(values["eligibleLeaderReplicas"], self.elr),
            _new(values["lastKnownElr"], self.last_known_elr),
        )
        if replicas is self.replicas and directories is self.directories and recovery == _RECOVERY_UNCHANGED:
            return partition
        return partition._replace(directories=_assigned(directories, len(replicas))).checked()

    def without_elr(self) -> PartitionRegistration:
        """The partition after a ClearElrRecord, if it had eligible leader replicas."""
        if not self.elr and not self.last_known_elr:
            return self
        return self._replace(elr=(), last_known_elr=(), partition_epoch=self.partition_epoch + 1)

    def values(self, topic_id: str, number: int) -> dict[str, Any]:
        """The members of a PartitionRecord that makes this partition."""
        return {
            "partitionId": number,
            "topicId": topic_id,
            "replicas": list(self.replicas),
            "isr": list(self.isr),
            "removingReplicas": list(self.removing),
            "addingReplicas": list(self.adding),
            "leader": self.leader,
            "leaderRecoveryState": self.recovery,
            "leaderEpoch": self.leader_epoch,
            "partitionEpoch": self.partition_epoch,
            "directories": list(self.directories),
            "eligibleLeaderReplicas": list(self.elr) or None,
            "lastKnownElr": list(self.last_known_elr) or None,
        }


def _new(changed: Sequence[_ItemT] | None, kept: tuple[_ItemT, ...]) -> tuple[_ItemT, ...]:
    """A list of a PartitionChangeRecord; null: it stays as it is."""
    return kept if changed is None else tuple(changed)


def _assigned(directories: tuple[str, ...], replicas: int) -> tuple[str, ...]:
    """Directories that are all MIGRATING, or none at all, are one MIGRATING for each replica."""
    if all(directory == MIGRATING for directory in directories):
        return (MIGRATING,) * replicas
    return directories


_NO_PARTITIONS: Final[Mapping[int, PartitionRegistration]] = MappingProxyType({})
"""There may be millions of topics: those without partitions share it."""


@dataclass(slots=True)
class TopicImage:
    """A topic with its partitions by number."""

    name: str
    topic_id: str
    partitions: Mapping[int, PartitionRegistration] = field(default_factory=lambda: _NO_PARTITIONS)

    def put(self, number: int, partition: PartitionRegistration) -> None:
        """Add a partition, or replace it."""
        if isinstance(self.partitions, dict):
            self.partitions[number] = partition
        else:
            self.partitions = {number: partition}

    def get(self, number: int) -> PartitionRegistration | None:
        """A partition."""
        return self.partitions.get(number)

    def known(self) -> TopicImage:
        """Itself: see _TopicDelta."""
        return self

    def applied(self) -> TopicImage:
        """Itself: see _TopicDelta."""
        return self

    def clear_elr(self) -> None:
        """Of all partitions."""
        for number, partition in [*self.partitions.items()]:
            cleared = partition.without_elr()
            if cleared is not partition:
                self.put(number, cleared)


class TopicsById(IdMap[TopicImage]):
    """Topics by id. Those that have no partitions are held as bytes."""

    def _pack(self, value: TopicImage) -> bytes | None:
        return None if value.partitions else text_bytes(value.name)

    def _unpack(self, key: str, data: bytes) -> TopicImage:
        return TopicImage(text_of(data), key)


class TopicsByName(TextMap[TopicImage]):
    """Topics by name. Those that have no partitions are held as bytes."""

    def _pack(self, value: TopicImage) -> bytes | None:
        return None if value.partitions else id_bytes(value.topic_id)

    def _unpack(self, key: str, data: bytes) -> TopicImage:
        return TopicImage(key, id_of(data))


@dataclass(slots=True)
class TopicsImage:
    """All topics. Two topics of one name are in ``by_id``; ``by_name`` has the last."""

    by_id: TopicsById = field(default_factory=TopicsById)
    by_name: TopicsByName = field(default_factory=TopicsByName)

    def is_changed(self, values: dict[str, Any]) -> bool:
        """Apply a PartitionChangeRecord alone. False where it does not apply, of which TopicsDelta says the reason."""
        topic, number = self.by_id.objects.get(values["topicId"]), values["partitionId"]
        partition = None if topic is None else topic.partitions.get(number)
        if topic is None or partition is None:
            return False
        try:
            topic.put(number, partition.merged(values))
        except ReplayError:
            return False
        # As after every delta: of two topics with one name the one that was changed last counts.
        if self.by_name.objects.get(topic.name) is not topic:
            self.by_name[topic.name] = topic
        return True


class _TopicDelta:
    """Changes of a topic that is in the image. ``image``: None where none has the id: then they cannot be applied."""

    __slots__ = ("changes", "image")

    def __init__(self, image: TopicImage | None) -> None:
        self.image = image
        self.changes: dict[int, PartitionRegistration] = {}

    def known(self) -> TopicImage:
        """Raises ReplayError."""
        if self.image is None:
            raise ReplayError("no topic has this id")
        return self.image

    def get(self, number: int) -> PartitionRegistration | None:
        found = self.changes.get(number)
        return self.known().partitions.get(number) if found is None else found

    def put(self, number: int, partition: PartitionRegistration) -> None:
        self.changes[number] = partition

    def clear_elr(self) -> None:
        for number, partition in [*self.changes.items(), *self._unchanged()]:
            cleared = partition.without_elr()
            if cleared is not partition:
                self.changes[number] = cleared

    def applied(self) -> TopicImage:
        topic = self.known()
        for number, partition in self.changes.items():
            topic.put(number, partition)
        return topic

    def _unchanged(self) -> Iterator[tuple[int, PartitionRegistration]]:
        return (item for item in self.known().partitions.items() if item[0] not in self.changes)


class _Changes(IdMap[_TopicDelta | TopicImage]):
    """By id: the changes of a topic of the image, or a new topic, which nobody else has yet."""

    def _pack(self, value: _TopicDelta | TopicImage) -> bytes | None:
        return None if isinstance(value, _TopicDelta) or value.partitions else text_bytes(value.name)

    def _unpack(self, key: str, data: bytes) -> TopicImage:
        return TopicImage(text_of(data), key)


class TopicsDelta:
    """Changes of topics that wait until their batch or transaction is complete."""

    def __init__(self, image: TopicsImage) -> None:
        self._image = image
        self._changed = _Changes()
        self._deleted: set[str] = set()
        self._created: IdsByName | None = None
        """By name, the ids of the topics that were created and not removed; None: as ``_changed`` has them. Few ask."""

    def topic(self, values: dict[str, Any]) -> None:
        """TopicRecord."""
        topic = TopicImage(values["name"], values["topicId"])
        if topic.topic_id in self._changed:
            self._created_ids()
        if self._created is not None:
            self._created[topic.name] = topic.topic_id
        self._changed[topic.topic_id] = topic

    def partition(self, values: dict[str, Any]) -> None:
        """PartitionRecord."""
        topic_id, number = values["topicId"], values["partitionId"]
        delta = self._delta(topic_id)
        delta.get(number)
        self._put(topic_id, delta, number, PartitionRegistration.of_record(values))

    def partition_change(self, values: dict[str, Any]) -> None:
        """PartitionChangeRecord."""
        topic_id, number = values["topicId"], values["partitionId"]
        delta = self._delta(topic_id)
        partition = delta.get(number)
        if partition is None:
            raise ReplayError(f"there is no partition {number} of topic {delta.known().name}")
        self._put(topic_id, delta, number, partition.merged(values))

    def remove(self, values: dict[str, Any]) -> str:
        """RemoveTopicRecord; gives the topic's name."""
        topic_id = values["topicId"]
        topic = self._image.by_id.find(topic_id)
        if topic is not None:
            self._deleted.add(topic_id)
        delta = self._changed.find(topic_id)
        if delta is not None:
            created = self._created_ids()
            del self._changed[topic_id]
            topic = delta.known()
            created.pop(topic.name, None)
        if topic is None:
            raise ReplayError("no topic has this id")
        return topic.name

    def clear_elr(self, values: dict[str, Any]) -> None:
        """ClearElrRecord: of one topic, or of all where it names none."""
        name = values["topicName"]
        created = self._created_ids()
        wanted: Iterable[str]
        if name:
            topic = self._image.by_name.find(name)
            topic_id = created.find(name) or (None if topic is None else topic.topic_id)
            if topic_id is None:
                raise ReplayError(f"there is no topic {name}")
            wanted = (topic_id,)
        else:
            wanted = chain(self._image.by_id, created.values())
        for topic_id in wanted:
            if topic_id in self._deleted:
                continue
            topic = self._image.by_id.find(topic_id)
            if topic is None or topic.partitions or topic_id in self._changed:
                self._delta(topic_id).clear_elr()
            else:
                # There is nothing to clear, but of two topics with one name the one that was changed last counts.
                self._changed[topic_id] = TopicImage(topic.name, topic_id)

    def name_of(self, topic_id: str) -> str | None:
        """The name of a topic, with the changes so far; None where there is none."""
        topic = self._topic(topic_id)
        return None if topic is None else topic.name

    def partition_of(self, topic_id: str, number: int) -> PartitionRegistration | None:
        """A partition with the changes so far."""
        delta = self._changed.find(topic_id)
        if isinstance(delta, _TopicDelta) and number in delta.changes:
            return delta.changes[number]
        topic = self._topic(topic_id)
        return None if topic is None else topic.get(number)

    def finish_snapshot(self) -> None:
        """A snapshot is complete: what it does not name is gone."""
        self._deleted.update(topic_id for topic_id in self._image.by_id if topic_id not in self._changed)

    def check(self) -> None:
        """Raises ReplayError where the changes cannot be applied."""
        for delta in self._changed.objects.values():
            delta.known()

    def apply(self) -> None:
        """Change the image."""
        for topic_id in self._deleted:
            deleted = self._image.by_id.pop(topic_id)
            self._image.by_name.pop(deleted.name, None)
        for delta in self._changed.values():
            topic = delta.applied()
            self._image.by_id[topic.topic_id] = topic
            self._image.by_name[topic.name] = topic

    def _created_ids(self) -> IdsByName:
        """``_created``, which is kept from now on."""
        if self._created is None:
            self._created = IdsByName()
            for change in self._changed.values():
                if isinstance(change, TopicImage):
                    self._created[change.name] = change.topic_id
        return self._created

    def _topic(self, topic_id: str) -> TopicImage | None:
        """A topic without the changes that wait beside it."""
        delta = self._changed.find(topic_id)
        if delta is None:
            return self._image.by_id.find(topic_id)
        return delta.image if isinstance(delta, _TopicDelta) else delta

    def _delta(self, topic_id: str) -> _TopicDelta | TopicImage:
        delta = self._changed.find(topic_id)
        if delta is None:
            delta = self._changed[topic_id] = _TopicDelta(self._image.by_id.find(topic_id))
        return delta

    def _put(
        self, topic_id: str, delta: _TopicDelta | TopicImage, number: int, partition: PartitionRegistration
    ) -> None:
        delta.put(number, partition)
        if isinstance(delta, TopicImage):
            self._changed[topic_id] = delta
