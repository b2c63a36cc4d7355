"""Segments of a partition whose .log is gone, as far as names and other copies of the partition tell of them.

A segment whose log is gone is one like any other: a log without a byte, at a path where no file is. What comes to it
from a replica is written there. Segments that neither a name nor the log start tells of are found when the gap that
they leave behind the segment before them is filled (``MendedLog.rolls``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kdump.format.checkpoint import LOG_START_CHECKPOINT
from kdump.log.names import INDEX_KINDS, Kind, parse_file_name
from kdump.log.siblings import read_checkpoint

if TYPE_CHECKING:
    from kdump.repair.replica import Replica

_LAST: Final = 2**63 - 1


def missing_segments(directory: str, segments: Sequence[str], replicas: Sequence[Replica]) -> list[str]:
    """Paths of the logs that are not there, in offset order.

    That are those of index files without their log, and one where the log starts: with the offset of
    log-start-offset-checkpoint, or where that does not have the partition with the earliest one of the replicas.

    Args:
        directory: of the partition; it starts every path given back.
        segments: paths of the logs that are there.
        replicas: other copies.
    """
    there = {name.base_offset for name in map(parse_file_name, segments) if name is not None}
    bases = _named(directory) - there
    bases.discard(None)
    first = min((base for base in (*bases, *there) if base is not None), default=_LAST)
    starts = [replica.log_start for replica in replicas]
    start = min((one for one in starts if one is not None), default=_LAST)
    own_start = read_checkpoint(directory, LOG_START_CHECKPOINT)
    start = start if own_start is None else max(start, own_start)
    if start < first:
        bases.add(min(replica.start_of_batch(start) for replica in replicas))
    known = sorted(base for base in (*bases, *there) if base is not None)
    # What ends below the log start was deleted.
    needed = [
        base for base, end in zip(known, [*known[1:], _LAST], strict=True) if own_start is None or end > own_start
    ]
    return [log_path(directory, base) for base in needed if base not in there]


def log_path(directory: str, base_offset: int) -> str:
    """The path of the log with a base offset."""
    return os.path.join(directory, f"{base_offset:020d}{Kind.LOG.value}")


def _named(directory: str) -> set[int | None]:
    """Base offsets that index files have in their names, as a broker writes them."""
    names = [parse_file_name(entry.name) for entry in os.scandir(directory or ".") if entry.is_file()]
    return {
        name.base_offset
        for name in names
        if name is not None
        and name.kind in INDEX_KINDS
        and not name.state
        and name.base_offset is not None
        and name.stem == f"{name.base_offset:020d}"
    }
