"""The cluster that takes restored partitions: ids, leader epochs and limits, from its metadata or as they were given.

Source: docs/spec/metadata.md#3-from-records-to-the-image, docs/spec/metadata.md#6-strays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kdump.codes import Codes, KdumpError
from kdump.kafka.image.copies import MetadataCopy, find_copies, newest, read_properties
from kdump.kafka.image.image import MetadataImage
from kdump.kafka.image.partitions import LOST, MIGRATING, UNASSIGNED
from kdump.kafka.image.replay import StatePoint, replay
from kdump.kafka.image.topicsettings import DEFAULT_RETENTION, MAX_MESSAGE_BYTES, TopicSettings
from kdump.kafka.retention import Retention
from kdump.system.paths import absolute_path

_ANY_DIRECTORY: Final = frozenset({MIGRATING, UNASSIGNED, LOST})


@dataclass(frozen=True, slots=True)
class TargetPartition:
    """A partition that is to be restored, as the target cluster knows it.

    Attributes:
        topic: its name.
        partition: its number.
        topic_id: 22 characters.
        highest_epoch: the leader epoch; no batch may have a higher one. 0 where the metadata is not given.
        max_message_bytes: a producer could write no larger batch.
        next_producer_id: the cluster gives out this producer id and higher ones; None where that is not known.
        replicas: the brokers that have the partition; () where that is not known.
        retention: which segments the cluster deletes. Local limits do not count: what they delete was copied before.
    """

    topic: str
    partition: int
    topic_id: str
    highest_epoch: int = 0
    max_message_bytes: int = MAX_MESSAGE_BYTES
    next_producer_id: int | None = None
    replicas: tuple[int, ...] = ()
    retention: Retention = DEFAULT_RETENTION

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"{self.topic}-{self.partition}"


class TargetCluster:
    """The metadata of the target cluster.

    Attributes:
        image: as it is at the end of the metadata log.
        doubts: why ids and leader epochs may be others by now.

    Args:
        path: a metadata directory, or a log directory that holds one.
        log_directory: where partitions are restored to.

    Raises:
        KdumpError: the metadata cannot be read; REPAIR_REFUSED where the log directory is of another cluster.
    """

    def __init__(self, path: str, log_directory: str) -> None:
        errors: list[KdumpError] = []
        copies = find_copies([path], errors.append)
        if errors:
            raise errors[0]
        if not copies:
            raise KdumpError(Codes.NO_SEGMENTS, "holds no __cluster_metadata-0", path=path)
        copy = newest(copies)
        replayed = replay(copy.log, StatePoint())
        self.image: MetadataImage = replayed.image
        self.doubts = tuple(replayed.doubts())
        self._own = read_properties(log_directory)
        self._check_cluster(copy, log_directory)
        self._settings = TopicSettings(self.image, self.node_id)

    def topic_id(self, topic: str) -> str | None:
        """The id of a topic; None: the cluster has none of this name."""
        known = self.image.topics.by_name.get(topic)
        return None if known is None else known.topic_id

    @property
    def node_id(self) -> int | None:
        """The broker of the log directory; None where it does not say."""
        return None if self._own is None else self._own.node_id

    def partition(self, topic: str, number: int) -> TargetPartition | str:
        """A partition that the log directory may hold, or why it must not."""
        image = self.image.topics.by_name.get(topic)
        if image is None:
            return "the target cluster has no topic of this name"
        known = image.partitions.get(number)
        if known is None:
            return f"topic {topic} has no partition {number} in the target cluster"
        if self.node_id is not None and self.node_id not in known.replicas:
            named = ", ".join(map(str, known.replicas))
            return f"broker {self.node_id} has no replica of it (brokers: {named}), and would put the directory aside"
        if self._is_elsewhere(known.replicas, known.directories):
            return f"broker {self.node_id} has it in another log directory"
        return TargetPartition(
            topic,
            number,
            image.topic_id,
            known.leader_epoch,
            self._settings.max_message_bytes(topic),
            max(self.image.next_producer_id, 0),
            tuple(known.replicas),
            self._settings.retention(topic),
        )

    def _is_elsewhere(self, replicas: Sequence[int], directories: Sequence[str]) -> bool:
        own = None if self._own is None else self._own.directory_id
        if own is None or self.node_id not in replicas:
            return False
        assigned = directories[replicas.index(self.node_id)]
        return assigned not in _ANY_DIRECTORY and assigned != own

    def _check_cluster(self, copy: MetadataCopy, log_directory: str) -> None:
        own = None if self._own is None else self._own.cluster_id
        if own is not None and copy.cluster_id is not None and own != copy.cluster_id:
            message = f"is of cluster {own}, and the metadata are of cluster {copy.cluster_id}"
            raise KdumpError(Codes.REPAIR_REFUSED, message, path=absolute_path(log_directory))
