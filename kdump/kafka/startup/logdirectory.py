"""A log directory at a start: what it says of its partitions, and what stops the whole broker.

Source: shared/spec/startup.md rules 28 and 29 (LogManager). Rule 29 is not compared with the real code.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
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
    """Names of the folders of a log directory, each kind sorted.

    ``unparsable``: a broker does not start with them. ``duplicates``: two names of one partition, likewise.
    """

    partitions: list[str]
    unparsable: list[str]
    duplicates: list[str]


def read_log_directory(path: str) -> LogDirectory:
    """The marker of a clean shutdown and the two checkpoints."""
    return LogDirectory(
        files.exists(os.path.join(path, CLEAN_SHUTDOWN)),
        _offsets(os.path.join(path, RECOVERY_POINT_CHECKPOINT)),
        _offsets(os.path.join(path, LOG_START_CHECKPOINT)),
    )


def sort_folders(names: list[str]) -> Folders:
    """Which of the folders of a log directory a broker loads, and over which it stops.

    The metadata of a KRaft cluster are loaded by other code.
    """
    found = Folders([], [], [])
    owners: dict[tuple[Partition, bool], str] = {}
    for name in sorted(names):
        partition = parse_partition_directory(name)
        if name in _IGNORED or (partition is not None and partition[0] == CLUSTER_METADATA):
            continue
        if partition is None:
            found.unparsable.append(name)
            continue
        found.partitions.append(name)
        if not name.endswith(_NOT_SERVED):
            owner = owners.setdefault((partition, name.endswith("-future")), name)
            if owner != name:
                found.duplicates.extend([name] if owner in found.duplicates else [owner, name])
    return found


def _offsets(path: str) -> dict[Partition, int]:
    try:
        entries = parse_offset_checkpoint(read_whole(path)) if files.exists(path) else []
    except KdumpError:
        return {}
    return {(topic, partition): offset for topic, partition, offset in entries}
