"""What becomes of the files of a partition that belong to no single segment: snapshots and leader epochs."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from kdump.codes import KdumpError
from kdump.format.checkpoint import LEADER_EPOCH_CHECKPOINT
from kdump.kafka.producers import ProducerStates
from kdump.kafka.recover import RecoveryOutcome
from kdump.log.names import Kind, sibling
from kdump.log.partition import segments_after
from kdump.log.source import read_whole
from kdump.repair.partitionfiles import PartitionFiles, epochs_for
from kdump.repair.plan import PartitionPlan, RepairMode, UnfitSnapshot
from kdump.verify.siblings import LogSummary, snapshot_check

_NO_END = 2**63
"""Of a log that goes on behind the segments of a plan."""


@dataclass(frozen=True, slots=True)
class ChangedOthers:
    """``dropped``: names of files that go; ``written``: contents of those that are new or another, by name."""

    dropped: tuple[str, ...]
    written: dict[str, bytes]


def changed_others(plan: PartitionPlan) -> ChangedOthers:
    """What is to be done about them so that they fit the logs that a plan leaves.

    Snapshots go that were made with what is gone, or are unfit; an unfit one whose contents are known is written anew.
    A segment that comes back from a replica gets one at its base offset, as a broker takes it when it begins a segment.
    Leader epochs that begin behind the end go, those of batches that come back come.

    Raises:
        KdumpError: a file cannot be read.
    """
    end_offset, valid_up_to = _ends(plan)
    files = PartitionFiles.of(plan.place.directory)
    dropped = files.dropped_snapshots(end_offset=end_offset, valid_up_to=valid_up_to)
    unfit = unfit_others(plan)
    written = unfit.written | _new_snapshots(plan, files)
    data = epochs_for(None if files.epochs is None else read_whole(files.epochs), end_offset, plan.epochs_found)
    if data is not None:
        written[LEADER_EPOCH_CHECKPOINT] = data
    names = dict.fromkeys((*map(os.path.basename, dropped), *unfit.dropped))
    return ChangedOthers(tuple(name for name in names if name not in written), written)


def unfit_snapshots(plan: PartitionPlan) -> tuple[UnfitSnapshot, ...]:
    """The snapshots of a whole partition that verify finds something wrong with, and what they should hold.

    That is known at the base of a segment and at the end of the log, where everything before it was there to read.
    The files of a cluster's metadata are left to the other voters.

    Args:
        plan: without them. A log that stays damaged is not taken for the end of anything.
    """
    if not plan.is_whole or plan.is_metadata:
        return ()
    snapshots = PartitionFiles.of(plan.target).snapshots
    stays_damaged = plan.is_damaged if plan.way is RepairMode.INDEXES else plan.is_refused
    end_offset, valid_up_to = (None, _NO_END) if stays_damaged or not snapshots else _ends(plan)
    known = _known_producers(plan, end_offset)
    unfit = []
    for offset, path in snapshots:
        try:
            finding = next(snapshot_check(offset, LogSummary(end_offset))(read_whole(path)), None)
        except KdumpError:
            continue
        if finding is not None:
            states = known.get(offset) if offset <= valid_up_to else None
            data = None if states is None else states.snapshot()
            unfit.append(UnfitSnapshot(offset, replace(finding, path=path), data))
    return tuple(unfit)


def _ends(plan: PartitionPlan) -> tuple[int, int]:
    """See PartitionPlan.ends; of segments with others after them nobody knows where the log ends."""
    end_offset, valid_up_to = plan.ends()
    return (_NO_END if segments_after(plan.segments[-1].path) else end_offset), valid_up_to


def _known_producers(plan: PartitionPlan, end_offset: int | None) -> dict[int, ProducerStates]:
    """The producers by offset, where they are known for certain."""
    known: dict[int, ProducerStates] = {
        segment.base_offset: segment.producers.states for segment in plan.segments if segment.producers.is_known
    }
    last = plan.segments[-1]
    is_good = last.recovered.recovery.outcome is RecoveryOutcome.UNCHANGED and not plan.changes_log(last)
    if end_offset is not None and is_good and last.producers.is_known:
        known.setdefault(end_offset, last.recovered.producers)
    return known


def unfit_others(plan: PartitionPlan) -> ChangedOthers:
    """What is done about the unfit snapshots alone."""
    unfit = plan.unfit_snapshots
    written = {snapshot.name: snapshot.data for snapshot in unfit if snapshot.data is not None}
    return ChangedOthers(tuple(snapshot.name for snapshot in unfit if snapshot.name not in written), written)


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
