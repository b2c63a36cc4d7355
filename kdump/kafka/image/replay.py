"""The image at a moment, from the files of one copy of the metadata log.

Source: docs/spec/metadata.md#2-loading.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kdump.codes import DamageError, KdumpError
from kdump.format import control
from kdump.format.checkpoint import LEADER_EPOCH_CHECKPOINT, QUORUM_STATE, parse_quorum_state
from kdump.kafka.image.faults import Fault, Grade, ReplayError
from kdump.kafka.image.image import MetadataImage
from kdump.kafka.image.loader import ImageLoader, Quorum, Watcher
from kdump.kafka.image.metadatalog import (
    MetadataBatch,
    MetadataLog,
    SnapshotFile,
    UnreadableBatchError,
    snapshot_timestamp,
)
from kdump.kafka.image.snapshotrecords import losses
from kdump.log.opening import read_whole
from kdump.log.siblings import read_leader_epochs
from kdump.releases import Release, newer


class StatePoint(NamedTuple):
    """Up to where a log is read: whole batches up to ``offset``, or before the first one later than ``timestamp`` (ms).

    Neither: all of it. ``is_whole``: the batch that ``offset`` is in counts as a whole.
    """

    offset: int | None = None
    timestamp: int | None = None
    is_whole: bool = False

    def is_before(self, batch: MetadataBatch) -> bool:
        """The batch does not count any more."""
        if self.offset is not None:
            return (batch.base_offset if self.is_whole else batch.last_offset) > self.offset
        return self.timestamp is not None and batch.timestamp > self.timestamp

    def has(self, snapshot: SnapshotFile) -> bool:
        """All of a snapshot counts. Raises as ``snapshot_timestamp``."""
        if self.offset is not None:
            return snapshot.end_offset - 1 <= self.offset
        return self.timestamp is None or snapshot_timestamp(snapshot) <= self.timestamp


@dataclass(slots=True)
class Replayed:
    """An image and how it came about.

    ``snapshot``: from which it was built. ``unreadable``: the batch at which reading ended. ``lost_before``: the log
    starts above 0 and no snapshot has what was before it. ``end_offset``: after the last batch that was read.
    """

    log: MetadataLog
    image: MetadataImage
    quorum: Quorum
    snapshot: SnapshotFile | None = None
    faults: Collection[Fault] = ()
    refused: list[tuple[SnapshotFile, str]] = field(default_factory=list)
    """Newer snapshots that cannot be loaded, and why."""
    unreadable: UnreadableBatchError | None = None
    lost_before: int | None = None
    beyond_log: SnapshotFile | None = None
    """A snapshot after the end of the log: a node that starts throws the log away."""
    end_offset: int = 0
    open_transaction: int | None = None
    left_out: int | None = None
    """The first record of a newer Kafka that is not in the image, see ImageLoader."""

    def doubts(self) -> Iterator[str]:
        """Why the cluster may know more than the image."""
        after = f"what changed in the metadata from offset {self.end_offset} on is not known"
        for snapshot, why in self.refused:
            if self.end_offset < snapshot.end_offset:
                yield f"{snapshot.path}: cannot be loaded ({why}), and {after}"
        if self.unreadable is not None:
            yield f"{self.unreadable.path}: byte {self.unreadable.position:,}: {self.unreadable}, and {after}"
        if self.left_out is not None:
            yield f"{self.log.directory}: {newer(f'offset {self.left_out} holds what is not in the metadata here')}"


def replay(
    log: MetadataLog,
    until: StatePoint,
    watch: Watcher | None = None,
    *,
    since: StatePoint | None = None,
    alone: bool = False,
    release: Release | None = None,
) -> Replayed:
    """The image at a moment, from the latest snapshot that can be loaded and the log after it.

    Args:
        log: the files.
        until: the moment.
        watch: sees the records of the log that are applied.
        since: a moment before: the snapshot is not a later one.
        alone: use no snapshot.
        release: see ImageLoader.

    Raises:
        KdumpError: a file cannot be read.
    """
    refused: list[tuple[SnapshotFile, str]] = []
    loader, snapshot = ImageLoader(watch, release=release), None
    for candidate in () if alone else reversed(log.snapshots):
        if refused and not log.start_offset and _reaches(log, candidate.end_offset, since=0):
            # The whole log says as much as older snapshots, and how it came about.
            break
        try:
            if not (since or until).has(candidate):
                continue
            loader.load_snapshot(candidate)
            snapshot = candidate
            break
        except (UnreadableBatchError, ReplayError) as error:
            refused.append((candidate, str(error)))
            faults = loader.faults
            loader = ImageLoader(watch, release=release)
            loader.faults = faults
    first = 0 if snapshot is None else snapshot.end_offset
    result = Replayed(log, loader.image, loader.quorum, snapshot, refused=refused)
    if log.segments and first < log.start_offset:
        result.lost_before = log.start_offset
    result.end_offset = first
    try:
        for batch in _odd(log.batches(first), loader.faults):
            if batch.last_offset < first:
                continue
            if until.is_before(batch):
                break
            loader.load(batch)
            result.end_offset = batch.last_offset + 1
    except UnreadableBatchError as error:
        result.unreadable = error
    is_end_known = until == StatePoint() and result.end_offset == first
    if snapshot is not None and log.segments and is_end_known and not _reaches(log, first, since=first):
        result.beyond_log = snapshot
    if loader.quorum.leader is None:
        # A snapshot does not hold the election, which was before its end.
        loader.quorum.leader = _leader_of(log, loader.image.provenance.epoch)
    result.open_transaction, result.left_out = loader.open_transaction, loader.left_out
    loader.faults.extend(_last_faults(loader, result))
    result.faults = loader.faults
    return result


def _leader_of(log: MetadataLog, epoch: int) -> int | None:
    """Who leads in an epoch, by the record with which it begins, else by quorum-state. None where neither tells it.

    Source: docs/spec/metadata.md#rule-3-what-is-committed.
    """
    elected = _elected(log, epoch)
    if elected is not None:
        return elected
    try:
        leader_id, leader_epoch = parse_quorum_state(read_whole(os.path.join(log.directory, QUORUM_STATE)))
    except KdumpError:
        return None
    return leader_id if leader_epoch == epoch and leader_id >= 0 else None


def _elected(log: MetadataLog, epoch: int) -> int | None:
    entries = read_leader_epochs(os.path.join(log.directory, LEADER_EPOCH_CHECKPOINT))
    start = next((entry.start_offset for entry in entries if entry.epoch == epoch), None)
    if start is None or start < log.start_offset:
        return None
    try:
        batch = next((batch for batch in log.batches(start) if batch.last_offset >= start), None)
        if batch is None or not batch.is_control or batch.epoch != epoch:
            return None
        for key, value in batch.records:
            schema = control.schema_of(control.parse_type(key))
            if schema is not None and schema.name == "LeaderChangeMessage":
                leader: Any = control.parse_kraft(schema, value)["leaderId"]
                return int(leader)
    except (UnreadableBatchError, DamageError):
        pass
    return None


def _last_faults(loader: ImageLoader, result: Replayed) -> list[Fault]:
    found = []
    if result.open_transaction is not None:
        message = "a metadata transaction is open at the end: its records do not count, and a new leader aborts it"
        found.append(Fault(Grade.ODD, result.open_transaction, "BeginTransactionRecord", message))
    for loss in losses(loader.image):
        level = loader.image.metadata_version
        message = f"metadata.version {level} cannot write {loss}"
        found.append(Fault(Grade.CONTROLLER, loader.image.provenance.offset, "FeatureLevelRecord", message))
    return found


def _reaches(log: MetadataLog, offset: int, *, since: int) -> bool:
    """The batches from offset ``since`` on can be read, up to an offset at least."""
    end = log.start_offset
    try:
        for batch in log.batches(since):
            end = batch.last_offset + 1
    except UnreadableBatchError:
        pass
    return end >= offset


def _odd(batches: Iterator[MetadataBatch], faults: list[Fault]) -> Iterator[MetadataBatch]:
    """Passes the batches on, and notes offsets that do not follow one another and epochs that fall."""
    following: int | None = None
    epoch = -1
    for batch in batches:
        if following is not None and batch.base_offset != following:
            message = f"offset {batch.base_offset} follows offset {following - 1}"
            faults.append(Fault(Grade.ODD, batch.base_offset, "", message))
        if batch.epoch < epoch:
            message = f"the leader epoch falls from {epoch} to {batch.epoch}"
            faults.append(Fault(Grade.ODD, batch.base_offset, "", message))
        following, epoch = batch.last_offset + 1, batch.epoch
        yield batch
