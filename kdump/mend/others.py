"""What becomes of the files of a partition that belong to no single segment: snapshots and leader epochs."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kdump.format.checkpoint import LEADER_EPOCH_CHECKPOINT
from kdump.log.names import Kind, sibling
from kdump.log.partition import segments_behind
from kdump.log.source import read_whole
from kdump.mend.partitionfiles import PartitionFiles, epochs_for
from kdump.mend.plan import PartitionPlan

_NO_END = 2**63
"""Of a log that goes on behind the segments of a plan."""


@dataclass(frozen=True, slots=True)
class ChangedOthers:
    """``dropped``: names of files that go; ``written``: contents of those that are new or another, by name."""

    dropped: tuple[str, ...]
    written: dict[str, bytes]


def changed_others(plan: PartitionPlan) -> ChangedOthers:
    """What is to be done about them so that they fit the logs that a plan leaves.

    Snapshots go that were made with what is gone. A segment that comes back from a replica gets one at its base
    offset, as a broker takes it when it begins a segment. Leader epochs that begin behind the end go, those of batches
    that come back come.

    Raises:
        KdumpError: a file cannot be read.
    """
    end_offset, sound_up_to = plan.ends()
    if segments_behind(plan.segments[-1].path):
        end_offset = _NO_END
    files = PartitionFiles.of(plan.place.directory)
    dropped = files.dropped_snapshots(end_offset=end_offset, sound_up_to=sound_up_to)
    written = _new_snapshots(plan, files)
    data = epochs_for(None if files.epochs is None else read_whole(files.epochs), end_offset, plan.epochs_found)
    if data is not None:
        written[LEADER_EPOCH_CHECKPOINT] = data
    names = (os.path.basename(path) for path in dropped)
    return ChangedOthers(tuple(name for name in names if name not in written), written)


def _new_snapshots(plan: PartitionPlan, files: PartitionFiles) -> dict[str, bytes]:
    """Brokers before 0.11 took none; what is not known for certain is not written."""
    written = {}
    for segment in plan.segments:
        states, name = segment.producers, os.path.basename(sibling(segment.path, Kind.SNAPSHOT))
        is_there = any(offset == segment.base_offset for offset, _ in files.snapshots)
        is_taken = bool(files.snapshots or states.states.by_id)
        if segment.is_missing and segment.base_offset and is_taken and states.is_known and not is_there:
            written[name] = states.states.snapshot()
    return written
