"""The partition's own lines in the checkpoints of its log directory, which all partitions share.

Source: Kafka cuts the same offsets when it truncates a log (UnifiedLog.truncateTo, LogCleaner.maybeTruncateCheckpoint).
"""

from __future__ import annotations

import os

from kdump.codes import DamageError
from kdump.format.checkpoint import OFFSET_CHECKPOINTS, with_offset
from kdump.log.names import parse_partition_directory
from kdump.log.siblings import read_checkpoint
from kdump.log.source import read_whole
from kdump.mend import disk
from kdump.mend.manifest import LineChange


def lines_above(directory: str, end_offset: int) -> tuple[LineChange, ...]:
    """The lines of a partition directory with offsets that a log that ends at ``end_offset`` does not reach."""
    found = ((name, read_checkpoint(directory, name)) for name in OFFSET_CHECKPOINTS)
    return tuple(
        LineChange(name, offset, end_offset) for name, offset in found if offset is not None and offset > end_offset
    )


def set_line(directory: str, name: str, offset: int) -> None:
    """Give the partition ``directory`` this offset in the checkpoint ``name``; it changes at one moment, or not at all.

    A checkpoint that is missing or malformed stays as it is.

    Raises:
        KdumpError: UNREADABLE or UNWRITABLE.
    """
    log_directory, folder = os.path.split(directory)
    partition = parse_partition_directory(folder)
    path = os.path.join(log_directory, name)
    if partition is None or not os.path.lexists(path):
        return
    part = os.path.join(log_directory, f".{name}.kdump-part")
    if os.path.lexists(part):
        disk.remove(part)
    data = read_whole(path)
    try:
        changed = with_offset(data, *partition, offset)
    except DamageError:
        return
    if changed == data:
        return
    status = os.stat(path)
    # Its time tells whether a broker ran (``kdump.mend.undo``), so it stays.
    disk.write_file(part, changed, status, keep_owner=True, modified=status.st_mtime_ns)
    disk.replace(part, path)
    disk.sync_directory(log_directory)
