"""A log directory at a start: what it says of its partitions, and what stops the whole broker.

Source: docs/spec/startup.md#7-what-stops-what (rules 28 and 29; LogManager, UnifiedLog).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from kdump.codes import DamageError
from kdump.format.checkpoint import (
    CLEAN_SHUTDOWN,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    MetaProperties,
    parse_meta_properties,
)
from kdump.kafka.remotesegments import REMOTE_METADATA, remote_ranges
from kdump.kafka.startup.directory import LoadSettings
from kdump.kafka.startup.outcome import NUMBER_FORMAT, StartFailureError
from kdump.kafka.startup.textfiles import checkpoint_words
from kdump.log import files
from kdump.log.names import CLUSTER_METADATA, NO_PARTITIONS, is_uri
from kdump.log.opening import read_whole
from kdump.payloads.java import parse_int, parse_long

Partition = tuple[str, int]

DELETE, FUTURE, STRAY = _FORMS = ("-delete", "-future", "-stray")
_LONG_NAME: Final = re.compile(r"\S+-\S+\.\S+", re.ASCII)
"""Stands before the suffix of a directory."""


class LogDirectory(NamedTuple):
    """What a broker reads in a log directory before it loads the partitions.

    ``recovery_points`` and ``log_starts``: by partition; empty if the checkpoint is missing or refused. ``refusals``:
    (name, why) of a checkpoint because of which the directory goes offline once its partitions are loaded. ``broker``:
    cluster and node of meta.properties, None without them. ``directory_id``: also of it, None before Kafka 3.7.
    """

    is_clean: bool
    recovery_points: Mapping[Partition, int]
    log_starts: Mapping[Partition, int]
    refusals: Sequence[tuple[str, str]]
    broker: tuple[str | None, int | None] | None
    directory_id: str | None = None


class FolderNames(NamedTuple):
    """Names of directories in a log directory, each kind sorted; a broker does not start with ``unparsable`` ones."""

    partitions: list[str]
    unparsable: list[str]


def read_log_directory(path: str) -> LogDirectory:
    """Read the marker of a clean shutdown, the two checkpoints and meta.properties. Raises KdumpError."""
    refusals: list[tuple[str, str]] = []
    properties = _properties(os.path.join(path, META_PROPERTIES))
    return LogDirectory(
        files.exists(os.path.join(path, CLEAN_SHUTDOWN)),
        _offsets(path, RECOVERY_POINT_CHECKPOINT, refusals),
        _offsets(path, LOG_START_CHECKPOINT, refusals),
        refusals,
        None if properties is None else (properties.cluster_id, properties.node_id),
        None if properties is None else properties.directory_id,
    )


def parse_folder(name: str) -> tuple[Partition, str] | None:
    """The partition of a directory, and the suffix of its name: -delete, -future, -stray or nothing.

    None: the broker stops because of it. Source: UnifiedLog.parseTopicPartitionName.
    """
    form = next((form for form in _FORMS if name.endswith(form)), "")
    if form:
        name = name.removesuffix(form)
        if not _LONG_NAME.fullmatch(name):
            return None
        name = name[: name.rindex(".")]
    topic, _, number = name.rpartition("-")
    partition = parse_int(number)
    return ((topic, partition), form) if topic and partition is not None else None


def partition_settings(directory: str, known: LogDirectory) -> LoadSettings:
    """What the log directory above knows of a partition directory."""
    folder = parse_folder(os.path.basename(files.absolute(directory)))
    point = start = 0
    if folder is not None:
        point, start = known.recovery_points.get(folder[0], 0), known.log_starts.get(folder[0], 0)
    remote_by = REMOTE_METADATA if remote_ranges(directory) else None
    return LoadSettings(known.is_clean, point, start, remote_by=remote_by)


def sort_folders(names: Iterable[str]) -> FolderNames:
    """Which directories of a log directory a broker loads, and because of which it stops.

    Other code loads the metadata of a KRaft cluster.
    """
    found = FolderNames([], [])
    for name in sorted(names):
        folder = parse_folder(name)
        if name in NO_PARTITIONS or (folder is not None and folder[0][0] == CLUSTER_METADATA):
            continue
        (found.unparsable if folder is None else found.partitions).append(name)
    return found


def served_partition(name: str) -> tuple[Partition, bool] | None:
    """What a directory of this name serves: a partition, or (True) its future copy; None: nothing.

    Two directories that serve the same partition stop the broker.
    """
    folder = parse_folder(name)
    if folder is None or folder[1] in (DELETE, STRAY):
        return None
    return folder[0], folder[1] == FUTURE


def _offsets(directory: str, name: str, refusals: list[tuple[str, str]]) -> Mapping[Partition, int]:
    path = os.path.join(directory, name)
    if not files.exists(path):
        return {}
    # A store tells too little of a file. Of this machine's files thousands of partitions ask.
    state = None if is_uri(path) else files.file_state(path)
    offsets, refusal = _read_offsets(path) if state is None else _known_offsets(path, state)
    if refusal is not None:
        refusals.append((name, refusal))
    return offsets


@lru_cache(maxsize=2)
def _known_offsets(path: str, state: files.FileState) -> tuple[Mapping[Partition, int], str | None]:
    """``_read_offsets`` of a file that has not changed: of the two of one log directory, which may be large.

    ``state``: see ``files.file_state``.
    """
    return _read_offsets(path)


def _read_offsets(path: str) -> tuple[Mapping[Partition, int], str | None]:
    """The entries of a checkpoint, and why it is refused if the log directory goes offline for that."""
    name = os.path.basename(path)
    offsets = {}
    try:
        for topic, *numbers in checkpoint_words(name, read_whole(path), ("topic", "partition", "offset")):
            partition, offset = parse_int(numbers[0]), parse_long(numbers[1])
            if partition is None or offset is None:
                raise StartFailureError(NUMBER_FORMAT, f"{name}: {' '.join(numbers)!r} are no two numbers")
            offsets[topic, partition] = offset
    except StartFailureError as error:
        return {}, error.message if error.is_io else None
    return offsets, None


def _properties(path: str) -> MetaProperties | None:
    if not files.exists(path):
        return None
    try:
        return parse_meta_properties(read_whole(path))
    except DamageError:
        return None
