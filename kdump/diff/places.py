"""Which copies of which partitions the PATHs hold, and whose they are.

Source: docs/spec/replicas.md#1-what-belongs-to-a-copy.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import permutations
from typing import Final, NamedTuple

from kdump.codes import Codes, KdumpError, OnError
from kdump.format.checkpoint import CLEANER_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT
from kdump.inputs import Input, LogSegment, OtherFile, PathDirectory, WorldLog
from kdump.kafka.startup.directory import LoadSettings
from kdump.kafka.startup.logdirectory import DELETE, FUTURE, STRAY, LogDirectory, read_log_directory
from kdump.log import files
from kdump.log.names import (
    CLUSTER_METADATA,
    LOG_DIRECTORY_TEXT_FILES,
    Kind,
    is_uri,
    parse_partition_directory,
    partition_of_file,
)
from kdump.log.partition import is_log_directory, no_segments, not_read
from kdump.log.siblings import is_put_aside, read_checkpoint, read_topic_id

PartitionName = tuple[str, int]
_LEAVING: Final = (DELETE, STRAY)
_WITHOUT_LOG_DIRECTORY: Final = LogDirectory(True, {}, {}, (), None)
_END_OF_ALL: Final = 2**63 - 1


class CopyPlace(NamedTuple):
    """Where a copy of a partition lies, and what is known of it before its logs are read.

    Attributes:
        path: the PATH that holds it, as it was given.
        directory: of the partition.
        log: the one segment that was given; None: all of the directory.
        name: topic and partition; None where the directory has another name.
        topic_id: of partition.metadata.
        cluster_id: of meta.properties, as ``node_id``.
        settings: what a broker knows of it at its start; None: a start is not modelled.
        high_watermark: the checkpoint's; None without one. Where no log directory is around the partition, none is
            higher: all that is there counts as replicated.
        cleaned_to: the offset up to which the log cleaner says it was; None where it says nothing.
        has_cleaner_checkpoint: the log cleaner of that broker says something of some partition.
        is_future: it is on its way to another log directory of its broker.
    """

    path: str
    directory: str
    log: str | None
    name: PartitionName | None
    topic_id: str | None
    cluster_id: str | None
    node_id: int | None
    settings: LoadSettings | None
    high_watermark: int | None
    cleaned_to: int | None
    has_cleaner_checkpoint: bool
    is_future: bool = False

    @property
    def node(self) -> tuple[str | None, int | None] | None:
        """Whose it is; None where nothing tells."""
        return None if self.node_id is None else (self.cluster_id, self.node_id)

    @property
    def known_high_watermark(self) -> int | None:
        """The one that a checkpoint has; None without one."""
        return None if self.high_watermark == _END_OF_ALL else self.high_watermark


@dataclass(frozen=True, slots=True)
class PathCopies:
    """What one PATH holds.

    ``is_log_directory``: its partitions are matched by their names. ``node``: whose log directory it is, and
    ``directory_id`` which of its log directories; None where nothing tells.
    """

    path: str
    copies: tuple[CopyPlace, ...]
    is_log_directory: bool
    node: tuple[str | None, int | None] | None = None
    directory_id: str | None = None


class PartitionCopies(NamedTuple):
    """The copies of one partition, in the order of the PATHs; ``absent``: PATHs that hold none."""

    name: PartitionName | None
    copies: tuple[CopyPlace, ...]
    absent: tuple[str, ...]


def copies_of(found: Input, on_error: OnError) -> PathCopies:
    """The copies that a PATH holds.

    Args:
        found: what the PATH means: a segment, a partition directory, or a log directory.
        on_error: takes what is wrong with one partition of a log directory.

    Raises:
        KdumpError: the PATH cannot be looked at, or is none of these.
    """
    if found.world is not None and not isinstance(found, WorldLog):
        raise KdumpError(Codes.NOT_A_SEGMENT_FILE, f"files of {found.world.title} are not compared")
    match found:
        case PathDirectory() as directory:
            return _of_directory(directory, on_error)
        case LogSegment(path=path, kind=Kind.LOG):
            files.size(path)
            return PathCopies(path, (_segment(path),), False)
        case OtherFile() as other:
            raise other.error
    raise KdumpError(Codes.NOT_A_SEGMENT_FILE, "copies are segments, partition directories or log directories")


def matched(paths: Iterable[PathCopies]) -> list[PartitionCopies]:
    """The partitions of all PATHs, sorted by name.

    Where no PATH is a log directory, all are copies of one partition, whatever they are called.
    """
    known = list(paths)
    if not any(one.is_log_directory for one in known):
        copies = tuple(copy for one in known for copy in one.copies)
        name = next((copy.name for copy in copies if copy.name is not None), None)
        return [PartitionCopies(name, copies, ())]
    joined = {(one.path, other.path) for one, other in permutations(known, 2) if _are_joined(one, other)}
    by_name: dict[PartitionName | None, list[CopyPlace]] = {}
    for one in known:
        for copy in one.copies:
            by_name.setdefault(copy.name, []).append(copy)
    found = []
    for name in sorted(by_name, key=lambda name: name or ("", -1)):
        copies = tuple(by_name[name])
        holders = {copy.path for copy in copies}
        absent = tuple(
            one.path
            for one in known
            if one.path not in holders and not any((one.path, holder) in joined for holder in holders)
        )
        found.append(PartitionCopies(name, copies, absent))
    return found


def _are_joined(one: PathCopies, other: PathCopies) -> bool:
    """Two log directories of one node, which are one copy together; not a log directory and a backup of it.

    Without directory ids those that hold a partition both are taken for copies: no broker starts on them together.
    """
    if one.node is None or one.node != other.node:
        return False
    if one.directory_id is not None and other.directory_id is not None:
        return one.directory_id != other.directory_id
    held = [{copy.name for copy in path.copies if not copy.is_future} for path in (one, other)]
    return not held[0] & held[1]


def _of_directory(directory: PathDirectory, on_error: OnError) -> PathCopies:
    path = directory.path
    entries = files.listing(path)
    if directory.is_partition(entries):
        return PathCopies(path, (_copy(path, path, *_known_above(path)),), False)
    names = {entry.name for entry in entries if not entry.is_directory}
    if not is_log_directory(entries) and not names & LOG_DIRECTORY_TEXT_FILES:
        raise no_segments(path, entries)
    folders = [entry for entry in entries if entry.is_directory and parse_partition_directory(entry.name) is not None]
    known = read_log_directory(path)
    for error in not_read(entries):
        on_error(error)
    copies = []
    for entry in sorted(folders, key=lambda entry: entry.name):
        if entry.name.endswith(_LEAVING):
            continue
        try:
            copies.append(_copy(path, entry.path, known, path))
        except KdumpError as error:
            on_error(error.located(entry.path))
    return PathCopies(path, tuple(copies), True, _node(known), known.directory_id)


def _known_above(directory: str) -> tuple[LogDirectory, str | None]:
    """The log directory around a partition, and its path; None: there is none."""
    above = os.path.dirname(files.absolute(directory))
    if is_uri(above):
        # Checkpoints are only looked for in directories of a store that were listed.
        with suppress(KdumpError):
            files.listing(above)
    if not any(files.exists(os.path.join(above, name)) for name in sorted(LOG_DIRECTORY_TEXT_FILES)):
        return _WITHOUT_LOG_DIRECTORY, None
    return read_log_directory(above), above


def _node(known: LogDirectory) -> tuple[str | None, int | None] | None:
    return None if known.broker is None or known.broker[1] is None else known.broker


def _copy(path: str, directory: str, known: LogDirectory, above: str | None) -> CopyPlace:
    folder = os.path.basename(files.absolute(directory))
    name = parse_partition_directory(folder)
    cluster_id, node_id = known.broker or (None, None)
    if above is not None and is_put_aside(directory):
        known, above = _WITHOUT_LOG_DIRECTORY, None
    cleaned_to = None if above is None else read_checkpoint(directory, CLEANER_CHECKPOINT)
    has_cleaner = above is not None and files.exists(os.path.join(above, CLEANER_CHECKPOINT))
    return CopyPlace(
        path,
        directory,
        None,
        name,
        read_topic_id(directory),
        cluster_id,
        node_id,
        None if name is not None and name[0] == CLUSTER_METADATA else _settings(name, known, above),
        _END_OF_ALL if above is None else read_checkpoint(directory, HIGH_WATERMARK_CHECKPOINT),
        cleaned_to,
        has_cleaner,
        folder.endswith(FUTURE),
    )


def _settings(name: PartitionName | None, known: LogDirectory, above: str | None) -> LoadSettings:
    """What a start goes by. Where no log directory is around the partition it counts as stopped cleanly."""
    if above is None or name is None:
        return LoadSettings(is_clean=above is None or known.is_clean, recovery_point=_END_OF_ALL)
    return LoadSettings(known.is_clean, _of(known.recovery_points, name), _of(known.log_starts, name))


def _of(offsets: Mapping[PartitionName, int], name: PartitionName) -> int:
    return offsets.get(name, 0)


def _segment(path: str) -> CopyPlace:
    """A segment alone: what lies beside it says nothing of it."""
    directory = os.path.dirname(path) or "."
    return CopyPlace(
        path,
        directory,
        path,
        partition_of_file(path),
        read_topic_id(directory),
        None,
        None,
        None,
        _END_OF_ALL,
        None,
        False,
    )
