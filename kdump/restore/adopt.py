"""The plan for log directories without their cluster: what is there, which copy is the best, and what is missing.

Nothing is written. Source: docs/spec/replicas.md for the copy that keeps most, docs/spec/metadata.md for what the
cluster knew.
"""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from kdump.codes import KdumpError, OnError, ignore_error
from kdump.diff.contents import DiffOptions
from kdump.diff.copies import CopySummary
from kdump.diff.places import CopyPlace, PartitionCopies, PartitionName, copies_of
from kdump.diff.run import PartitionReport, PartitionTask
from kdump.inputs import PathDirectory
from kdump.kafka.coordinatorstate import OFFSETS
from kdump.kafka.image.copies import find_copies, newest
from kdump.kafka.image.image import TOPIC_RESOURCE, MetadataImage
from kdump.kafka.image.replay import StatePoint, replay
from kdump.kafka.startup.logdirectory import DELETE, FUTURE, parse_folder
from kdump.kafka.transactionends import EndingOf
from kdump.log import files
from kdump.log.names import CLUSTER_METADATA, is_topic_name
from kdump.payloads.topics import INTERNAL_TOPICS
from kdump.repair.salvage.pieces import TxnPolicy
from kdump.restore.plan import UNFINISHED_COPY, LeftPartition, NoteKind, RestoreNote, RestoreOptions, plan_restore
from kdump.restore.source import read_place
from kdump.restore.target import TargetPartition
from kdump.verify.coordinators import coordinator_states
from kdump.verify.partitionentries import PartitionEntries
from kdump.verify.transactioncoordinator import ending_beside

_INTERNAL: Final = frozenset({*INTERNAL_TOPICS.values(), CLUSTER_METADATA})
"""Topics that the brokers of a new cluster make themselves."""


@dataclass(frozen=True)
class AdoptedPartition:
    """A partition of which at least one copy is left.

    Attributes:
        name: topic and partition.
        copies: all that are left of one topic id.
        high_watermarks: of each copy, by its checkpoint; None without one.
        best: the number of the copy to restore.
        elsewhere: records that only other copies have.
        notes: what cannot be restored of the best copy, and what to know.
        transactions: what becomes of those that have no end in it, by producer id.
        replicas: the brokers that had it by the metadata; () where that is not known.
        other_ids: directories of topics that had the same name.
    """

    name: PartitionName
    copies: tuple[CopySummary, ...]
    high_watermarks: tuple[int | None, ...]
    best: int
    elsewhere: int
    notes: tuple[RestoreNote, ...]
    transactions: Mapping[int, TxnPolicy]
    replicas: tuple[int, ...] = ()
    other_ids: tuple[str, ...] = ()

    @property
    def best_copy(self) -> CopySummary:
        """The copy to restore."""
        return self.copies[self.best]

    @property
    def is_whole(self) -> bool:
        """Nothing of it is lost, as far as can be told."""
        return not (self.elsewhere or any(note.is_loss for note in self.notes))


@dataclass(frozen=True)
class AdoptedTopic:
    """A topic, by name; ``configs``: those of the metadata.

    ``partitions``: how many it has or had. ``missing``: those of which no directory is left, in ranges: the name of one
    directory may say that there were billions.
    """

    name: str
    topic_id: str | None
    partitions: int
    missing: tuple[range, ...]
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AdoptionPlan:
    """What can be made of the log directories.

    Attributes:
        paths: as they were given.
        topics: sorted by name, without those that brokers make themselves.
        partitions: sorted.
        left: partitions that cannot be restored from any directory.
        offsets: committed offsets of groups, the columns of ``kdump state``.
        has_metadata: the metadata of the cluster is among the paths.
        unknown: topics of the metadata of which no directory is left.
    """

    paths: tuple[str, ...]
    topics: tuple[AdoptedTopic, ...]
    partitions: tuple[AdoptedPartition, ...]
    left: tuple[LeftPartition, ...]
    offsets: tuple[Mapping[str, Any], ...]
    has_metadata: bool
    unknown: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Nothing is missing."""
        return not (self.unknown or self.left) and all(
            (*(one.is_whole for one in self.partitions), *(not one.missing for one in self.topics))
        )


def plan_adoption(paths: Sequence[str], on_error: OnError) -> AdoptionPlan:
    """Read the log directories of one broker, or of several.

    Args:
        paths: log directories, or partition directories.
        on_error: takes what cannot be read; the rest is planned.
    """
    image = _image(paths, on_error)
    found = _Found(on_error)
    found.look(paths)
    partitions: list[AdoptedPartition] = []
    coordinators: list[AdoptedPartition] = []
    for name in sorted(found.places):
        if name[0] == INTERNAL_TOPICS[OFFSETS]:
            coordinators += _adopted(name, found, image)
        elif name[0] not in _INTERNAL:
            partitions += _adopted(name, found, image)
    adopted = {one.name for one in (*partitions, *coordinators)}
    # One copy that can be restored is enough.
    left = sorted((one for one in found.left if one.name not in adopted), key=lambda one: (one.name, one.directory))
    topics = {name for name, _ in (*found.places, *(one.name for one in left)) if name not in _INTERNAL}
    known = set() if image is None else set(image.topics.by_name) - _INTERNAL
    return AdoptionPlan(
        tuple(paths),
        tuple(_topic(name, partitions, left, image) for name in sorted(topics) if is_topic_name(name)),
        tuple(partitions),
        tuple(left),
        tuple(_offsets([one.best_copy.directory for one in coordinators], found)),
        image is not None,
        tuple(sorted(known - topics)),
    )


def _image(paths: Sequence[str], on_error: OnError) -> MetadataImage | None:
    """The newest metadata among the paths."""
    copies = find_copies(paths, ignore_error)
    if not copies:
        return None
    try:
        return replay(newest(copies).log, StatePoint()).image
    except KdumpError as error:
        on_error(error)
        return None


class _Found:
    """What lies in the paths.

    Attributes:
        places: all copies of each partition, those that a broker has put aside too.
        left: directories that cannot be restored.

    Args:
        on_error: takes what cannot be read.
    """

    def __init__(self, on_error: OnError) -> None:
        self.places: dict[PartitionName, list[CopyPlace]] = {}
        self.left: list[LeftPartition] = []
        self.on_error = on_error
        self._seen: set[str] = set()

    def look(self, paths: Sequence[str]) -> None:
        """Look into log directories, or partition directories. One that comes again counts once."""
        unfinished: dict[PartitionName, str] = {}
        for path in paths:
            try:
                entries = [entry for entry in files.listing(path) if entry.is_directory]
            except KdumpError as error:
                self.on_error(error.located(path))
                continue
            held = {entry.path: parsed for entry in entries if (parsed := parse_folder(entry.name)) is not None}
            unfinished.update((name, folder) for folder, (name, form) in held.items() if form == FUTURE)
            # No broker was about to delete or to replace these.
            kept = [
                folder
                for folder, (name, form) in held.items()
                if name[0] != CLUSTER_METADATA and form not in (DELETE, FUTURE)
            ]
            for folder in sorted(kept) if held else [path]:
                if (real := os.path.realpath(folder)) not in self._seen:
                    self._seen.add(real)
                    self._look_into(folder)
        for name, folder in unfinished.items():
            if name not in self.places and name[0] not in _INTERNAL:
                self.left.append(LeftPartition(name, folder, UNFINISHED_COPY))

    def ending(self, directory: str) -> EndingOf:
        """What the coordinators would do, whose logs are found, about transactions that are open in a partition."""
        return ending_beside(directory, *self._above)

    @cached_property
    def _above(self) -> list[str]:
        """The directories that those of the partitions lie in."""
        return sorted({files.directory_of(place.directory) for own in self.places.values() for place in own})

    def _look_into(self, folder: str) -> None:
        try:
            for place in copies_of(PathDirectory(folder), self.on_error).copies:
                if place.name is None or place.name[0] == CLUSTER_METADATA:
                    continue
                if is_topic_name(place.name[0]):
                    self.places.setdefault(place.name, []).append(place)
                else:
                    note = RestoreNote(NoteKind.NO_TARGET, _NO_NAME)
                    self.left.append(LeftPartition(place.name, place.directory, note))
        except KdumpError as error:
            name = parse_folder(os.path.basename(files.absolute(folder)))
            self.unreadable(None if name is None else name[0], folder, error)

    def unreadable(self, name: PartitionName | None, directory: str, error: KdumpError) -> None:
        """Note a directory that cannot be read."""
        self.on_error(error.located(directory))
        if name is not None and name[0] not in _INTERNAL:
            message = str(error.located(directory)) if error.path != directory else error.message
            self.left.append(LeftPartition(name, directory, RestoreNote(NoteKind.UNREADABLE, message)))


_OPTIONS: Final = RestoreOptions(forgets_producers=True)
_NO_NAME: Final = "no topic can have this name; kdump restore -o --topic restores it under another one"


def _adopted(name: PartitionName, found: _Found, image: MetadataImage | None) -> Iterator[AdoptedPartition]:
    """One partition: the copies of one topic id are compared as ``kdump diff`` compares them."""
    places = found.places[name]
    chosen = _topic_id(name[0], places, image)
    own = tuple(place for place in places if place.topic_id in (chosen, None))
    others = tuple(place.directory for place in places if place not in own)
    by_directory = {place.directory: place for place in own}
    for report in PartitionTask(PartitionCopies(name, own, ()), DiffOptions()).run():
        if isinstance(report, KdumpError):
            found.unreadable(name, report.path or own[0].directory, report)
        if not isinstance(report, PartitionReport) or not report.copies:
            continue
        best, elsewhere = 0, 0
        if report.recommendation is not None:
            best, elsewhere = report.recommendation.copy, report.recommendation.nowhere_else
        own_places = [by_directory[copy.directory] for copy in report.copies]
        target = TargetPartition(*name, chosen or "")
        # The best copy, or another one if that cannot be read as a whole.
        for number in sorted(range(len(own_places)), key=lambda number: number != best):
            try:
                place = own_places[number]
                plan = plan_restore(read_place(place), target, _OPTIONS, found.ending(place.directory))
            except KdumpError as error:
                found.unreadable(name, own_places[number].directory, error)
            else:
                best = number
                break
        else:
            continue
        known = None if image is None else image.topics.by_name.get(name[0])
        registered = None if known is None else known.partitions.get(name[1])
        yield AdoptedPartition(
            name,
            report.copies,
            tuple(place.known_high_watermark for place in own_places),
            best,
            elsewhere,
            plan.notes,
            plan.transactions,
            () if registered is None else tuple(registered.replicas),
            others,
        )


def _topic_id(topic: str, places: Sequence[CopyPlace], image: MetadataImage | None) -> str | None:
    """That of the metadata where a copy has it, else that of most copies."""
    ids = Counter(place.topic_id for place in places if place.topic_id is not None)
    known = None if image is None else image.topics.by_name.get(topic)
    if known is not None and (known.topic_id in ids or not ids):
        return known.topic_id
    return max(ids, key=lambda topic_id: (ids[topic_id], topic_id)) if ids else None


def _topic(
    name: str, partitions: Sequence[AdoptedPartition], left: Sequence[LeftPartition], image: MetadataImage | None
) -> AdoptedTopic:
    own = [one for one in partitions if one.name[0] == name]
    known = None if image is None else image.topics.by_name.get(name)
    numbers = {one.name[1] for one in own} | {one.name[1] for one in left if one.name[0] == name}
    wanted = numbers if known is None else numbers | set(known.partitions)
    count = max(wanted, default=-1) + 1
    return AdoptedTopic(
        name,
        next((copy.topic_id for one in own for copy in one.copies if copy.topic_id is not None), None),
        count,
        tuple(_missing(numbers, count)),
        max((len(one.replicas) or len(one.copies) for one in own), default=1),
        {} if image is None else dict(image.configs.get((TOPIC_RESOURCE, name), {})),
    )


def _missing(numbers: Iterable[int], count: int) -> Iterator[range]:
    """The numbers below ``count`` that are not in ``numbers``."""
    following = 0
    for number in (*sorted(numbers), count):
        if number > following:
            yield range(following, number)
        following = number + 1


def _offsets(directories: Sequence[str], found: _Found) -> Iterator[Mapping[str, Any]]:
    """The committed offsets in partitions of __consumer_offsets, sorted; also of transactions that are committed."""
    if not directories:
        return
    logs = PartitionEntries([*map(PathDirectory, directories)], on_error=found.on_error)
    # Those of each partition are sorted.
    rows = [state.rows for state in coordinator_states(logs, None, found.on_error, found.ending)]
    yield from heapq.merge(*rows, key=lambda row: (row["group"], row["topic"], row["partition"]))
