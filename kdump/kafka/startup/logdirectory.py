"""A log directory at a start: what it says of its partitions, and what stops the whole broker.

Source: shared/spec/startup.md rules 28 and 29 (LogManager). Rule 29 is not compared with the real code.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kdump.codes import KdumpError
from kdump.format.checkpoint import (
    CLEAN_SHUTDOWN,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    parse_offset_checkpoint,
)
from kdump.log import files
from kdump.log.names import CLUSTER_METADATA, parse_partition_directory
from kdump.log.source import read_whole

Partition = tuple[str, int]

_IGNORED: Final = frozenset({"remote-log-index-cache"})
"""A directory of the broker's own among the partitions."""
_NOT_SERVED: Final = ("-delete", "-stray")


class LogDirectory(NamedTuple):
    """What a broker reads in a log directory before its partitions.

    ``recovery_points`` and ``log_starts``: by partition; a checkpoint that is missing or malformed holds none.
    """

    is_clean: bool
    recovery_points: Mapping[Partition, int]
    log_starts: Mapping[Partition, int]


class Folders(NamedTuple):
    """Names of the folders of a log directory, each kind sorted; with ``unparsable`` ones a broker does not start."""

    partitions: list[str]
    unparsable: list[str]


def read_log_directory(path: str) -> LogDirectory:
    """The marker of a clean shutdown and the two checkpoints."""
    return LogDirectory(
        files.exists(os.path.join(path, CLEAN_SHUTDOWN)),
        _offsets(os.path.join(path, RECOVERY_POINT_CHECKPOINT)),
        _offsets(os.path.join(path, LOG_START_CHECKPOINT)),
    )


def sort_folders(names: Iterable[str]) -> Folders:
    """Which of the folders of a log directory a broker loads, and over which it stops.

    The metadata of a KRaft cluster are loaded by other code.
    """
    found = Folders([], [])
    for name in sorted(names):
        partition = parse_partition_directory(name)
        if name in _IGNORED or (partition is not None and partition[0] == CLUSTER_METADATA):
            continue
        (found.unparsable if partition is None else found.partitions).append(name)
    return found


def served_partition(name: str) -> tuple[Partition, bool] | None:
    """What a directory of this name serves: a partition, or (True) its copy on the way to here; None: nothing.

    Two directories that serve the same stop the broker.
    """
    partition = parse_partition_directory(name)
    if partition is None or name.endswith(_NOT_SERVED):
        return None
    return partition, name.endswith("-future")


def _offsets(path: str) -> dict[Partition, int]:
    try:
        entries = parse_offset_checkpoint(read_whole(path)) if files.exists(path) else []
    except KdumpError:
        return {}
    return {(topic, partition): offset for topic, partition, offset in entries}
