"""What a broker makes of its partition directories when it starts, by the metadata of the cluster.

Source: docs/spec/metadata.md#6-strays (LogManager.loadLog, isStrayKraftReplica, recoverAbandonedFutureLogs).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from kdump.kafka.image.image import MetadataImage
from kdump.kafka.image.names import TopicNames
from kdump.kafka.image.partitions import PartitionRegistration
from kdump.kafka.startup.logdirectory import DELETE, FUTURE, STRAY, parse_folder


class Fate(Enum):
    """What becomes of a directory."""

    SERVED = "served"
    STRAY = "stray"
    """It gets, or has, a name that ends in -stray, and nobody serves it."""
    DELETE = "delete"
    """It is deleted 60 s (file.delete.delay.ms) after the start."""
    FUTURE = "future"
    """A copy that takes the place of the current log."""


class BrokerFolder(NamedTuple):
    """A partition directory of a broker.

    ``directory_id``: of its log directory. ``topic_id``: of partition.metadata, None where there is none.
    ``refusal``: why a broker does not read partition.metadata, after which it does not serve anything.
    """

    path: str
    name: str
    log_directory: str
    directory_id: str | None
    topic_id: str | None
    refusal: str | None = None


class FolderFate(NamedTuple):
    """What becomes of a directory, and why; the fate is None where it cannot be known or the broker stops.

    ``why`` is '' where there is nothing to say. ``is_misnamed``: partition.metadata has the id of another topic.
    """

    fate: Fate | None
    why: str
    is_misnamed: bool = False


class Placement(NamedTuple):
    """The metadata of the cluster, whose directories are asked about, and the names of topics that were deleted."""

    image: MetadataImage
    broker: int
    names: TopicNames

    def assigned(self, folder: BrokerFolder, number: int) -> PartitionRegistration | None:
        """The partition by the id in partition.metadata, if the broker is among its replicas."""
        topic = self.image.topics.by_id.get(folder.topic_id or "")
        partition = None if topic is None else topic.partitions.get(number)
        return partition if partition is not None and self.broker in partition.replicas else None

    def is_assigned_to(self, folder: BrokerFolder, number: int) -> bool:
        """The metadata places the replica in the log directory of this folder."""
        partition = self.assigned(folder, number)
        if partition is None or not partition.directories:
            return False
        return partition.directories[partition.replicas.index(self.broker)] == folder.directory_id

    def why_stray(self, folder: BrokerFolder, topic: str, number: int) -> str:
        """In words."""
        known = self.image.topics.by_id.get(folder.topic_id or "")
        if known is None:
            gone = f"no topic has the id {folder.topic_id}"
            now = self.image.topics.by_name.get(topic)
            if now is not None:
                return f"{gone}, the topic {topic} was made again with the id {now.topic_id}"
            old = self.names.of(folder.topic_id or "", folder.path)
            return gone if old is None else f"{gone}, the topic {old} was deleted"
        if number not in known.partitions:
            return f"the topic {known.name} has no partition {number}"
        replicas = ", ".join(map(str, known.partitions[number].replicas))
        return f"broker {self.broker} is no replica of {known.name}-{number}, whose replicas are {replicas}"


def folder_fates(folders: Sequence[BrokerFolder], placement: Placement | None) -> dict[str, FolderFate]:
    """The fates of all directories of one broker, by path; ``placement`` None: the metadata is not known."""
    found = {folder.path: _fate(folder, placement) for folder in folders}
    current: dict[tuple[str, int], list[BrokerFolder]] = {}
    future: dict[tuple[str, int], list[BrokerFolder]] = {}
    for folder in folders:
        parsed = parse_folder(folder.name)
        fate = found[folder.path].fate
        if parsed is not None and fate is Fate.FUTURE:
            future.setdefault(parsed[0], []).append(folder)
        elif parsed is not None and fate is not Fate.STRAY and not parsed[1]:
            current.setdefault(parsed[0], []).append(folder)
    stops = [*_stops(folders, found), *_duplicates(current), *_duplicates(future)]
    for partition, copies in future.items():
        for copy in copies:
            for folder in current.get(partition, []):
                if folder.log_directory != copy.log_directory:
                    found[folder.path] = FolderFate(Fate.DELETE, f"{copy.path} takes its place")
                elif placement is not None and placement.is_assigned_to(copy, partition[1]):
                    stops.append(f"{copy.path} cannot take the place of {folder.path}: the broker stops")
    if stops:
        kept = (Fate.STRAY, Fate.DELETE)
        return {path: known if known.fate in kept else FolderFate(None, stops[0]) for path, known in found.items()}
    return found


def _fate(folder: BrokerFolder, placement: Placement | None) -> FolderFate:
    parsed = parse_folder(folder.name)
    if parsed is None:
        return FolderFate(None, "the name is not <topic>-<number>: the broker stops")
    (topic, number), form = parsed
    if form == DELETE:
        return FolderFate(Fate.DELETE, "it is about to be deleted")
    if form == STRAY:
        return FolderFate(Fate.STRAY, "it was a stray before")
    if folder.refusal is not None:
        return FolderFate(None, folder.refusal)
    if folder.topic_id is None:
        return FolderFate(Fate.STRAY, "there is no partition.metadata")
    if placement is None:
        return FolderFate(None, "")
    if placement.assigned(folder, number) is None:
        return FolderFate(Fate.STRAY, placement.why_stray(folder, topic, number))
    if form == FUTURE:
        return FolderFate(Fate.FUTURE, "it takes the place of the current log")
    name = placement.image.topics.by_id[folder.topic_id].name
    if name != topic:
        return FolderFate(None, f"it has the topic id of {name}: it stays and is not served", is_misnamed=True)
    return FolderFate(Fate.SERVED, "")


def _stops(folders: Iterable[BrokerFolder], found: dict[str, FolderFate]) -> Iterator[str]:
    for folder in folders:
        if folder.refusal is not None and found[folder.path].fate is None:
            yield f"{folder.path}: {folder.refusal}: the broker stops"


def _duplicates(owners: dict[tuple[str, int], list[BrokerFolder]]) -> Iterator[str]:
    for folders in owners.values():
        if len(folders) > 1:
            yield f"{folders[0].path} and {folders[1].path} are the same partition: the broker stops"
