"""The files beside logs after a repair: the index files of a log, snapshots and leader epochs of a partition."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Self

from kdump.codes import DamageError, KdumpError, Severity
from kdump.format.checkpoint import (
    LEADER_EPOCH_CHECKPOINT,
    EpochEntry,
    parse_leader_epoch_checkpoint,
    write_leader_epoch_checkpoint,
)
from kdump.format.index import AbortedTxn
from kdump.kafka.producers import ProducerStates
from kdump.kafka.recover import RecoveryOutcome
from kdump.log.files import directory_of, file_names
from kdump.log.names import SIBLING_TEXT_FILES, Kind, parse_file_name, sibling
from kdump.log.opening import check_size, open_source, read_whole
from kdump.log.partition import segments_after
from kdump.log.siblings import was_cleaned
from kdump.log.source import Source
from kdump.repair.plan.plan import PartitionPlan, RepairMode, UnfitSnapshot
from kdump.verify.batchtable import BatchTable
from kdump.verify.ordered import OrderedChecks
from kdump.verify.segment import CheckOptions, SegmentReading, check_segment
from kdump.verify.siblings import LogSummary, SegmentFiles, check_segment_files, snapshot_check

_BLOCK: Final = 1 << 20


def has_indexes(path: str) -> bool:
    """The file is a log, which has index files. A KRaft checkpoint has none."""
    name = parse_file_name(path)
    return name is not None and name.kind is Kind.LOG


def has_txn_index(path: str) -> bool:
    """There is a .txnindex beside the log ``path``."""
    return os.path.lexists(sibling(path, Kind.TXN_INDEX))


def differing(path: str, contents: Mapping[Kind, bytes]) -> dict[Kind, bytes]:
    """Those of ``contents`` (the index files of the log ``path`` as they should be) that differ from the files.

    Zeros after the entries, as a running or killed broker leaves them, make no difference.
    """
    return {kind: content for kind, content in contents.items() if not _holds(path, kind, content)}


def _holds(path: str, kind: Kind, content: bytes) -> bool:
    name = sibling(path, kind)
    if not os.path.lexists(name):
        return False
    try:
        with open_source(name) as source:
            # A sparse file has more zeros than anybody can read.
            check_size(name, source.size or 0)
            if source.read(0, len(content)) != content:
                return False
            position = len(content)
            while found := source.read(position, _BLOCK):
                if found.count(0) < len(found):
                    return False
                position += len(found)
    except KdumpError:
        return False
    return True


def unfit_indexes(
    source: Source, base_offset: int, kinds: Set[Kind], *, is_closed: bool, aborted: Sequence[AbortedTxn] | None
) -> set[Kind]:
    """Those of some kinds of index files beside a log of which something is wrong or missing.

    Args:
        source: the log, which is walked once.
        base_offset: of its name.
        kinds: which of them.
        is_closed: nothing is appended to the segment any more.
        aborted: what its .txnindex should hold, None if that is not known.
    """
    beside = SegmentFiles(source.path)
    table = BatchTable(beside.named)
    # Only a .txnindex depends on producers, of which there may be a million.
    ordered = OrderedChecks(
        is_compacted=was_cleaned(directory_of(source.path)) or None, follows_producers=Kind.TXN_INDEX in kinds
    )
    reading = SegmentReading(source, options=CheckOptions(deep=False))
    for _ in check_segment(reading, base_offset, source.path, ordered, on_rows=table.add):
        pass
    log = table.log_view(base_offset, source.size or 0, [])
    findings = check_segment_files(
        beside,
        log,
        is_closed=is_closed,
        aborted=aborted,
        idle_aborts=ordered.idle_aborts,
        is_compacted=ordered.is_compacted,
    )
    names = (parse_file_name(finding.path or "") for finding in findings if finding.severity is not Severity.INFO)
    return {name.kind for name in names if name is not None and name.kind in kinds}


_SAVED: Final = SIBLING_TEXT_FILES - {LEADER_EPOCH_CHECKPOINT}


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """Paths, in the order of their names.

    ``snapshots`` by offset, ``epochs`` the leader-epoch-checkpoint, ``others`` text files and KRaft checkpoints.
    """

    snapshots: tuple[tuple[int, str], ...]
    epochs: str | None
    others: tuple[str, ...]

    @classmethod
    def of(cls, directory: str) -> Self:
        """Of a partition directory; leftovers with a state suffix are left out. Raises as ``file_names``."""
        snapshots: list[tuple[int, str]] = []
        others: list[str] = []
        names = file_names(directory)
        for name in names:
            path = os.path.join(directory, name)
            parsed = parse_file_name(name)
            if parsed is not None and not parsed.state:
                if parsed.kind is Kind.SNAPSHOT and parsed.base_offset is not None:
                    snapshots.append((parsed.base_offset, path))
                elif parsed.kind is Kind.CHECKPOINT:
                    others.append(path)
            elif name in _SAVED:
                others.append(path)
        epochs = os.path.join(directory, LEADER_EPOCH_CHECKPOINT) if LEADER_EPOCH_CHECKPOINT in names else None
        return cls(tuple(snapshots), epochs, tuple(others))

    @property
    def paths(self) -> list[str]:
        """Of all of them."""
        return [*(path for _, path in self.snapshots), *self.others, *([] if self.epochs is None else [self.epochs])]

    def dropped_snapshots(self, *, end_offset: int, valid_up_to: int) -> list[str]:
        """Those that lie above the end of the log, or were made with batches that it does not have."""
        return [path for offset, path in self.snapshots if offset > min(end_offset, valid_up_to)]


def epochs_for(data: bytes | None, end_offset: int, found: Iterable[tuple[int, int]] = ()) -> bytes | None:
    """A leader-epoch-checkpoint that fits a log.

    Epochs that begin at ``end_offset`` or after are removed (docs/spec/startup.md#rule-23-leader-epochs). Epochs of
    batches that were found are added, or begin earlier.

    Args:
        data: the file; None: there is none.
        end_offset: of the log.
        found: (epoch, base offset) of batches that came back from a replica, or lie beside such.

    Returns:
        None if the file stays: it fits, or a broker would refuse it anyway.
    """
    try:
        entries = parse_leader_epoch_checkpoint(data) if data is not None else []
    except DamageError:
        return None
    kept = [entry for entry in entries if entry.start_offset < end_offset]
    starts = dict(kept)
    for epoch, base_offset in found:
        starts[epoch] = min(base_offset, starts.get(epoch, base_offset))
    filled = [EpochEntry(*entry) for entry in sorted(starts.items())]
    if all(before.start_offset <= after.start_offset for before, after in pairwise(filled)):
        kept = filled
    return write_leader_epoch_checkpoint(kept) if kept != entries else None


_NO_END = 2**63
"""The end of a log that has more segments than the plan."""


@dataclass(frozen=True, slots=True)
class ChangedOthers:
    """``dropped``: names of files that go; ``written``: contents of new or changed files by name."""

    dropped: tuple[str, ...]
    written: dict[str, bytes]


def changed_others(plan: PartitionPlan) -> ChangedOthers:
    """How they change so that they fit the logs that a plan leaves.

    A snapshot goes that was made with lost batches, or is unfit. An unfit one whose contents are known is written anew.
    A segment that comes back from a replica gets a snapshot at its base offset, where brokers take them. Leader epochs
    that begin after the end go, those of batches that come back are added.

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
    """The snapshots of a whole partition in which verify finds something wrong, and what they should hold.

    Their contents are known at the base of a segment and at the end of the log, where everything before could be read.
    Metadata of a cluster are left to the other voters.

    Args:
        plan: without unfit snapshots. A log that stays damaged has no known end.
    """
    if not plan.is_whole or plan.is_metadata:
        return ()
    snapshots = PartitionFiles.of(plan.target).snapshots
    stays_damaged = plan.is_damaged if plan.mode is RepairMode.INDEXES else plan.is_refused
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
            unfit.append(UnfitSnapshot(replace(finding, path=path), data))
    return tuple(unfit)


def _ends(plan: PartitionPlan) -> tuple[int, int]:
    """See PartitionPlan.ends; of segments with others after them nobody knows where the log ends."""
    end_offset, valid_up_to = plan.ends()
    return (_NO_END if segments_after(plan.segments[-1].path) else end_offset), valid_up_to


def _known_producers(plan: PartitionPlan, end_offset: int | None) -> dict[int, ProducerStates]:
    """The producers by offset, where they are known for certain."""
    known: dict[int, ProducerStates] = {
        segment.base_offset: segment.producers for segment in plan.segments if segment.producers.is_known
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
    """Snapshots for segments that come back. Brokers before 0.11 took none; only certain contents are written."""
    written = {}
    for segment in plan.segments:
        states, name = segment.producers, os.path.basename(sibling(segment.path, Kind.SNAPSHOT))
        is_there = any(offset == segment.base_offset for offset, _ in files.snapshots)
        is_taken = bool(files.snapshots or states.by_id)
        if segment.is_missing and segment.base_offset and is_taken and states.is_known and not is_there:
            written[name] = states.snapshot()
    return written
