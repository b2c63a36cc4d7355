"""Topics in the metadata image, and how records change them.

Source: docs/spec/metadata.md#3-from-records-to-the-image (TopicsDelta, TopicDelta).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from kdump.kafka.image.faults import ReplayError
from kdump.kafka.image.partitions import PartitionRegistration, Partitions

PARTITION_CHANGE: Final = 5
"""The type of a PartitionChangeRecord."""


@dataclass(slots=True)
class TopicImage:
    """A topic with its partitions."""

    name: str
    topic_id: str
    partitions: Partitions = field(default_factory=Partitions)

    def put(self, number: int, partition: PartitionRegistration) -> None:
        """Add a partition, or replace it."""
        self.partitions[number] = partition

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
        self.partitions.clear_elr()


@dataclass(slots=True)
class TopicsImage:
    """All topics. Two topics of one name are in ``by_id``; ``by_name`` has the last."""

    by_id: dict[str, TopicImage] = field(default_factory=dict)
    by_name: dict[str, TopicImage] = field(default_factory=dict)
    with_elr: set[str] = field(default_factory=set)
    """Ids of the topics that a ClearElrRecord may change."""

    def is_changed(self, values: dict[str, Any]) -> bool:
        """Apply a PartitionChangeRecord alone. False where it does not apply, of which TopicsDelta says the reason."""
        topic, number = self.by_id.get(values["topicId"]), values["partitionId"]
        partition = None if topic is None else topic.get(number)
        if topic is None or partition is None:
            return False
        try:
            changed = partition.merged(values)
        except ReplayError:
            return False
        topic.put(number, changed)
        if changed.has_elr:
            self.with_elr.add(topic.topic_id)
        self.put(topic)
        return True

    def put(self, topic: TopicImage) -> None:
        """Add a topic, or replace it. Of two topics with one name the one that was changed last counts."""
        self.by_id[topic.topic_id] = topic
        self.by_name[topic.name] = topic

    def remove(self, topic_id: str) -> None:
        """Remove a topic. KeyError where none has the id."""
        self.by_name.pop(self.by_id[topic_id].name, None)
        del self.by_id[topic_id]
        self.with_elr.discard(topic_id)

    def apply(self, changed: _TopicDelta | TopicImage) -> None:
        """Change a topic, or add one."""
        topic = changed.applied()
        self.put(topic)
        (self.with_elr.add if topic.partitions.with_elr else self.with_elr.discard)(topic.topic_id)


class _TopicDelta:
    """Changes of a topic that is in the image.

    ``image``: None where none has the id: then they cannot be applied. ``is_cleared``: a ClearElrRecord changes those
    partitions of the image that are not in ``changes``. They are many, and the changes may never be applied.
    """

    __slots__ = ("changes", "image", "is_cleared")

    def __init__(self, image: TopicImage | None, changes: Partitions, *, is_cleared: bool = False) -> None:
        self.image = image
        self.changes = changes
        self.is_cleared = is_cleared

    def known(self) -> TopicImage:
        """Raises ReplayError."""
        if self.image is None:
            raise ReplayError("no topic has this id")
        return self.image

    def get(self, number: int) -> PartitionRegistration | None:
        found = self.changes.get(number)
        if found is None:
            found = self.known().get(number)
            if found is not None and found.has_elr and self.is_cleared:
                return found.without_elr()
        return found

    def put(self, number: int, partition: PartitionRegistration) -> None:
        self.changes[number] = partition

    def clear_elr(self) -> None:
        self.changes.clear_elr()
        self.known()
        self.is_cleared = True

    def applied(self) -> TopicImage:
        topic = self.known()
        if self.is_cleared:
            topic.clear_elr()
        topic.partitions.apply(self.changes)
        return topic


class TopicsDelta:
    """Changes of topics that wait until their batch or transaction is complete."""

    def __init__(self, image: TopicsImage) -> None:
        self._image = image
        self._changed: dict[str, _TopicDelta | TopicImage] = {}
        self._deleted: set[str] = set()
        self._created: dict[str, str] | None = None
        """By name, the ids of the topics that were created and not removed; None: as ``_changed`` has them. Few ask."""
        self._with_elr: set[str] = set()
        """Ids of the topics that got eligible leader replicas after the last ClearElrRecord of all topics."""
        self._is_image_cleared = False
        """There was a ClearElrRecord of all topics. It changes those of the image that are not in ``_changed``, too."""

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
        topic = self._image.by_id.get(topic_id)
        if topic is not None:
            self._deleted.add(topic_id)
        delta = self._changed.get(topic_id)
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
        if name:
            topic = self._image.by_name.get(name)
            topic_id = created.get(name) or (None if topic is None else topic.topic_id)
            if topic_id is None:
                raise ReplayError(f"there is no topic {name}")
            self._clear_elr(topic_id)
            return
        for topic_id in self._with_elr:
            topic = self._topic(topic_id)
            if topic is not None and (topic_id in self._image.by_id or created.get(topic.name) == topic_id):
                self._clear_elr(topic_id)
        if not self._is_image_cleared:
            changes = self._changed.items()
            for topic_id in [key for key, delta in changes if isinstance(delta, _TopicDelta) and delta.image]:
                self._clear_elr(topic_id)
        self._with_elr, self._is_image_cleared = set(), True

    def name_of(self, topic_id: str) -> str | None:
        """The name of a topic, with the changes so far; None where there is none."""
        topic = self._topic(topic_id)
        return None if topic is None else topic.name

    def partition_of(self, topic_id: str, number: int) -> PartitionRegistration | None:
        """A partition with the changes so far."""
        delta = self._changed.get(topic_id) or self._unchanged(topic_id)
        if isinstance(delta, _TopicDelta) and delta.image is None:
            return delta.changes.get(number)
        return delta.get(number)

    def finish_snapshot(self) -> None:
        """A snapshot is complete: what it does not name is gone. A ClearElrRecord of all topics names all."""
        if not self._is_image_cleared:
            self._deleted.update(topic_id for topic_id in self._image.by_id if topic_id not in self._changed)

    def check(self) -> None:
        """Raises ReplayError where the changes cannot be applied."""
        for delta in self._changed.values():
            delta.known()

    def apply(self) -> None:
        """Change the image."""
        for topic_id in self._deleted:
            self._image.remove(topic_id)
        if self._is_image_cleared:
            for topic_id in [key for key in self._image.with_elr if key not in self._changed]:
                topic = self._image.by_id[topic_id]
                topic.clear_elr()
                self._image.apply(topic)
        for delta in self._changed.values():
            self._image.apply(delta)

    def _clear_elr(self, topic_id: str) -> None:
        if topic_id not in self._deleted:
            self._delta(topic_id).clear_elr()

    def _created_ids(self) -> dict[str, str]:
        """``_created``, which is kept from now on."""
        if self._created is None:
            self._created = {}
            for change in self._changed.values():
                if isinstance(change, TopicImage):
                    self._created[change.name] = change.topic_id
        return self._created

    def _topic(self, topic_id: str) -> TopicImage | None:
        """A topic without the changes that wait beside it."""
        delta = self._changed.get(topic_id)
        if delta is None:
            return self._image.by_id.get(topic_id)
        return delta.image if isinstance(delta, _TopicDelta) else delta

    def _delta(self, topic_id: str) -> _TopicDelta | TopicImage:
        delta = self._changed.get(topic_id)
        if delta is None:
            delta = self._changed[topic_id] = self._unchanged(topic_id)
        return delta

    def _unchanged(self, topic_id: str) -> _TopicDelta:
        """No changes of a topic but those of a ClearElrRecord of all topics."""
        is_cleared = self._is_image_cleared and topic_id not in self._deleted
        return _TopicDelta(self._image.by_id.get(topic_id), Partitions(), is_cleared=is_cleared)

    def _put(
        self, topic_id: str, delta: _TopicDelta | TopicImage, number: int, partition: PartitionRegistration
    ) -> None:
        delta.put(number, partition)
        if partition.has_elr:
            self._with_elr.add(topic_id)
