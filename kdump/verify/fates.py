"""What a start makes of the directories that paths stand for, by the metadata of the cluster among the paths."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kdump.codes import Codes, Finding, KdumpError, OnError, Severity, ignore_error
from kdump.format.checkpoint import PARTITION_METADATA, MetaProperties
from kdump.inputs import Input, PathDirectory
from kdump.kafka.image.copies import MetadataCopy, find_copies, newest, read_properties
from kdump.kafka.image.image import MetadataImage
from kdump.kafka.image.names import TopicNames
from kdump.kafka.image.replay import StatePoint, replay
from kdump.kafka.image.topicsettings import TopicSettings
from kdump.kafka.startup.fate import BrokerFolder, Fate, FolderFate, Placement, folder_fates
from kdump.kafka.startup.logdirectory import STRAY, parse_folder, sort_folders
from kdump.kafka.startup.outcome import StartFailureError
from kdump.kafka.startup.textfiles import read_topic_id
from kdump.log import files
from kdump.log.opening import read_whole

_Broker = tuple[str | None, int | None]
"""Cluster and node."""


class ClusterImages:
    """The images of the clusters whose metadata logs lie in some log directories, each read once.

    Attributes:
        doubts: why the clusters may know more than the images that were asked for.
    """

    def __init__(self, paths: Iterable[str], on_error: OnError) -> None:
        self._copies: dict[str | None, list[MetadataCopy]] = {}
        self._on_error = on_error
        self.doubts: list[str] = []
        self._images: dict[str | None, MetadataImage | None] = {}
        for copy in find_copies(paths, ignore_error):
            self._copies.setdefault(copy.cluster_id, []).append(copy)

    def of(self, cluster: str | None) -> MetadataImage | None:
        """The newest image of a cluster; None without a metadata log."""
        if cluster not in self._images:
            self._images[cluster] = self._read(self._copies.get(cluster, []))
        return self._images[cluster]

    def _read(self, copies: list[MetadataCopy]) -> MetadataImage | None:
        if not copies:
            return None
        try:
            replayed = replay(newest(copies).log, StatePoint())
        except KdumpError as error:
            self._on_error(error)
            return None
        self.doubts += replayed.doubts()
        return None if replayed.image.metadata_version is None else replayed.image


class Fates:
    """What the metadata of the clusters among some paths says of the directories there.

    Args:
        folders: the fates of partition directories, by path.
        clusters: the images of the clusters.
    """

    def __init__(self, folders: Mapping[str, FolderFate], clusters: ClusterImages) -> None:
        self.folders = folders
        self._clusters = clusters
        self._brokers: dict[str, _Broker | None] = {}

    @classmethod
    def unknown(cls) -> Fates:
        """Nothing is known of any."""
        return cls({}, ClusterImages((), ignore_error))

    @classmethod
    def of(cls, inputs: Iterable[Input], on_error: OnError) -> Fates:
        """Those of the partition directories that inputs mean.

        Log directories of one cluster and node are those of one broker. One without meta.properties beside others
        keeps the broker from starting.
        """
        directories = [found for found in inputs if isinstance(found, PathDirectory)]
        paths, places = [found.path for found in directories], _places(directories)
        clusters = ClusterImages([*paths, *places], on_error)
        return cls(_start_fates(paths, places, clusters), clusters)

    @property
    def strays(self) -> set[str]:
        """The paths of all that are or become strays."""
        return {path for path, known in self.folders.items() if known.fate is Fate.STRAY}

    def becomes_stray(self, path: str) -> bool:
        """A broker puts the directory aside, by the metadata of its cluster: without that, older ones may serve it."""
        known = self.folders.get(path)
        return known is not None and known.fate is Fate.STRAY and not path.endswith(STRAY) and self._has_image(path)

    def is_misnamed(self, path: str) -> bool:
        """The directory has the topic id of another topic: it stays and is not served."""
        known = self.folders.get(path)
        return known is not None and known.is_misnamed

    def why_it_stops(self, path: str) -> str | None:
        """Why the broker stops that has this directory; without a meta.properties it may be only a copy."""
        known = self.folders.get(path)
        if known is None or known.fate is not None or known.is_misnamed or self._broker_of(path) is None:
            return None
        return known.why or None

    def registered(self, broker: _Broker | None) -> Collection[str]:
        """The ids of the log directories that a broker named when it registered; none where that is not known."""
        image = self._image(broker)
        if image is None or broker is None or broker[1] is None:
            return ()
        registration = image.cluster.brokers.get(broker[1])
        return frozenset(registration["logDirs"]) if registration else ()

    def topic_settings(self, broker: _Broker | None) -> TopicSettings | None:
        """The settings of the topics of a broker; None: the metadata of its cluster is not there."""
        image = self._image(broker)
        return None if image is None or broker is None else TopicSettings(image, broker[1])

    def _image(self, broker: _Broker | None) -> MetadataImage | None:
        return None if broker is None or broker[0] is None else self._clusters.of(broker[0])

    def _has_image(self, path: str) -> bool:
        return self._image(self._broker_of(path)) is not None

    def _broker_of(self, path: str) -> _Broker | None:
        directory = os.path.dirname(files.absolute(path))
        if directory not in self._brokers:
            known = read_properties(directory)
            self._brokers[directory] = None if known is None else _broker(known)
        return self._brokers[directory]


def _places(directories: Iterable[PathDirectory]) -> dict[str, list[tuple[str, str]]]:
    """(path, name) of the partition directories that directories are or hold, by log directory."""
    places: dict[str, list[tuple[str, str]]] = {}
    for found in directories:
        try:
            directory, folders = _folders(found)
        except KdumpError:
            # The start says what is wrong with it.
            continue
        places.setdefault(directory, []).extend(folders)
    return places


def _start_fates(
    paths: Sequence[str], places: Mapping[str, list[tuple[str, str]]], images: ClusterImages
) -> dict[str, FolderFate]:
    properties = {directory: read_properties(directory) for directory in places}
    names = TopicNames([*paths, *places])
    fates: dict[str, FolderFate] = {}
    for broker in dict.fromkeys(map(_broker, properties.values())):
        own = {directory: known for directory, known in properties.items() if _broker(known) == broker}
        folders = [
            _read_folder(path, name, directory, known)
            for directory, known in own.items()
            for path, name in places[directory]
        ]
        image = None if broker[0] is None else images.of(broker[0])
        placement = None if image is None or broker[1] is None else Placement(image, broker[1], names)
        fates |= folder_fates(folders, placement)
    missing = [directory for directory, known in properties.items() if known is None]
    unparsable = [os.path.join(place, name) for place in places for name in _unparsable(place, places[place])]
    if (missing and len(properties) > len(missing)) or unparsable:
        why = f"{unparsable[0]}: no broker starts with this name" if unparsable else f"{missing[0]}: no meta.properties"
        return dict.fromkeys(fates, FolderFate(None, why))
    return fates


def placement_findings(directory: str, paths: Sequence[str]) -> Iterator[Finding]:
    """What of a log directory the metadata of its cluster contradicts; nothing where no metadata log is found.

    Args:
        directory: the log directory.
        paths: others, which may hold the metadata log or directories of the same broker.
    """
    known = read_properties(directory)
    if known is None or known.cluster_id is None or known.node_id is None:
        return
    places = dict.fromkeys([directory, *paths])
    image = ClusterImages(places, ignore_error).of(known.cluster_id)
    if image is None:
        return
    fates = Fates.of(map(PathDirectory, places), ignore_error).folders
    there = {parse_folder(os.path.basename(path)) for path, found in fates.items() if found.fate is not Fate.STRAY}
    for path, found in fates.items():
        if os.path.dirname(path) != directory.rstrip("/"):
            continue
        if found.fate is Fate.STRAY and not path.endswith(STRAY):
            yield Finding(Codes.STRAY, found.why, 0, path=path)
        elif found.is_misnamed:
            yield Finding(Codes.WRONG_TOPIC_ID, found.why, 0, path=path)
    placed = (topic for topic in image.topics.by_id.values() if topic.partitions)
    for topic in sorted(placed, key=lambda topic: topic.name):
        for number, partition in sorted(topic.partitions.items()):
            if known.node_id not in partition.replicas or not partition.directories:
                continue
            is_here = partition.directories[partition.replicas.index(known.node_id)] == known.directory_id
            if is_here and ((topic.name, number), "") not in there:
                alone = len(partition.replicas) == 1
                why = f"{topic.name}-{number} is placed here"
                why += ", and no other broker has it: what it held is lost" if alone else ""
                graded = Severity.ERROR if alone else None
                yield Finding(Codes.PARTITION_NOT_HERE, why, 0, path=directory, graded=graded)


def _broker(known: MetaProperties | None) -> _Broker:
    return (None, None) if known is None else (known.cluster_id, known.node_id)


def _folders(found: PathDirectory) -> tuple[str, list[tuple[str, str]]]:
    """The log directory of a PATH, and (path, name) of its partition directories that are asked about."""
    path = found.path
    entries = files.listing(path)
    whole = files.absolute(path)
    if found.is_partition(entries):
        return os.path.dirname(whole), [(path, os.path.basename(whole))]
    names = [entry.name for entry in entries if entry.is_directory]
    return path, [(os.path.join(path, name), name) for name in sort_folders(names).partitions]


def _unparsable(directory: str, folders: Sequence[tuple[str, str]]) -> list[str]:
    """Names in a log directory that stop a broker; none where only a partition was named."""
    if not any(os.path.join(directory, name) == path for path, name in folders):
        return []
    return sort_folders([entry.name for entry in files.listing(directory) if entry.is_directory]).unparsable


def _read_folder(path: str, name: str, directory: str, known: MetaProperties | None) -> BrokerFolder:
    directory_id = None if known is None else known.directory_id
    file = os.path.join(path, PARTITION_METADATA)
    topic_id = refusal = None
    try:
        if files.exists(file):
            topic_id = read_topic_id(read_whole(file))
    except (KdumpError, StartFailureError) as error:
        refusal = str(error) if isinstance(error, KdumpError) else error.message
    return BrokerFolder(path, name, directory, directory_id, topic_id, refusal)
