"""Where a partition lies: its directory, its log directory, and whether a broker uses that."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kdump.format.checkpoint import CLEAN_SHUTDOWN
from kdump.log.lock import LockState, lock_state
from kdump.log.names import (
    LOCK_FILE,
    LOG_DIRECTORY_MARKERS,
    METADATA_DIRECTORY,
    Kind,
    owner_of_lines,
    parse_file_name,
)
from kdump.system.paths import absolute_path


@dataclass(frozen=True, slots=True)
class PartitionLocation:
    """Where a partition lies.

    Attributes:
        directory: of the partition, absolute.
        log_directory: the directory above; None if that is no log directory.
        lock: who holds the lock of the log directory.
        was_stopped_cleanly: the log directory has the marker of a clean shutdown.
    """

    directory: str
    log_directory: str | None
    lock: LockState
    was_stopped_cleanly: bool

    @property
    def clean_shutdown(self) -> str | None:
        """The marker of a clean shutdown if there is one."""
        if self.log_directory is None or not self.was_stopped_cleanly:
            return None
        return os.path.join(self.log_directory, CLEAN_SHUTDOWN)

    @property
    def has_lines(self) -> bool:
        """Lines in the checkpoints of the log directory may be those of this directory; see ``owner_of_lines``."""
        above, name = os.path.split(self.directory)
        if self.log_directory is None:
            return False
        return owner_of_lines(name, lambda other: os.path.lexists(os.path.join(above, other))) is not None


def place_of(directory: str) -> PartitionLocation:
    """The location of a partition directory; nothing is changed."""
    directory = absolute_path(directory)
    above: str | None = os.path.dirname(directory)
    if above is None or not is_of_broker(above):
        above = None
    return PartitionLocation(
        directory,
        above,
        LockState.FREE if above is None else lock_state(above),
        above is not None and os.path.lexists(os.path.join(above, CLEAN_SHUTDOWN)),
    )


def is_metadata(path: str) -> bool:
    """Whether it is a file of a KRaft cluster's metadata: of their log, or a checkpoint."""
    name = parse_file_name(path)
    if name is not None and name.kind is Kind.CHECKPOINT:
        return True
    return os.path.basename(os.path.dirname(absolute_path(path))) == METADATA_DIRECTORY


def is_of_broker(directory: str) -> bool:
    """Whether a broker keeps, or kept, its partitions there, according to the files beside them."""
    names = (LOCK_FILE, *LOG_DIRECTORY_MARKERS)
    return any(os.path.lexists(os.path.join(directory, name)) for name in names)
