"""The partition's own lines in the checkpoints of its log directory, which all partitions share.

Source: Kafka cuts the same offsets when it truncates a log (UnifiedLog.truncateTo, LogCleaner.maybeTruncateCheckpoint).
"""

from __future__ import annotations

from kdump.codes import DamageError
from kdump.format.checkpoint import OFFSET_CHECKPOINTS, with_offset
from kdump.log.names import parse_partition_directory
from kdump.log.siblings import read_checkpoint
from kdump.repair import disk
from kdump.repair.disk import Folder
from kdump.repair.manifest import LineChange


def lines_above(directory: str, end_offset: int) -> tuple[LineChange, ...]:
    """The lines of a partition directory with offsets that a log that ends at ``end_offset`` does not reach."""
    found = ((name, read_checkpoint(directory, name)) for name in OFFSET_CHECKPOINTS)
    return tuple(
        LineChange(name, offset, end_offset) for name, offset in found if offset is not None and offset > end_offset
    )


def set_line(log_directory: Folder, partition_directory: str, name: str, offset: int) -> None:
    """Give a partition this offset in the checkpoint ``name``; it changes at one moment, or not at all.

    A checkpoint that is missing or malformed stays as it is. ``partition_directory`` is its name.

    Raises:
        KdumpError: UNREADABLE or UNWRITABLE; REPAIR_REFUSED where the checkpoint is a symbolic link.
    """
    partition, checkpoint = parse_partition_directory(partition_directory), log_directory.entry(name)
    if partition is None or not disk.exists(checkpoint):
        return
    part = log_directory.entry(f".{name}.kdump-part")
    if disk.exists(part):
        disk.remove(part)
    with disk.open_file(checkpoint) as source:
        status = source.status
        data = source.read(0, status.st_size)
    try:
        changed = with_offset(data, *partition, offset)
    except DamageError:
        return
    if changed == data:
        return
    # Its time tells whether a broker ran (``kdump.repair.undo``), so it stays.
    disk.write_file(part, changed, status, keep_owner=True, modified=status.st_mtime_ns)
    disk.replace(part, checkpoint)
    disk.sync_directory(log_directory)
