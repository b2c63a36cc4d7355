"""What one run of a broker's expiration task deletes of a partition in remote storage.

Source: RemoteLogManager.RLMExpirationTask.cleanupExpiredRemoteLogSegments and isRemoteSegmentWithinLeaderEpochs of
Kafka 4.4.0; those of 4.3.1 differ only in ``Release.counts_last_copied_as_local``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from kdump.format.checkpoint import EpochEntry
from kdump.kafka.remotesegments import RemotePart, RemoteSegment, SegmentState
from kdump.kafka.retention import Reason, Retention


class RemoteExpiry(NamedTuple):
    """What a run does. ``reasons``: why each segment goes, by its id. ``log_start_offset``: of the partition, then."""

    reasons: Mapping[str, Reason]
    log_start_offset: int


def expired_segments(
    part: RemotePart,
    epochs: Sequence[EpochEntry],
    retention: Retention,
    *,
    now: int,
    log_start_offset: int,
    log_end_offset: int,
    only_local: int,
) -> RemoteExpiry:
    """What a run deletes.

    Args:
        part: what is in remote storage. No copy is under way.
        epochs: the leader epochs of the log, as the checkpoint has them.
        retention: the limits of the topic, of remote and local segments together.
        now: ms since 1970.
        log_start_offset: of the partition, which may be in remote storage.
        log_end_offset: of the local log.
        only_local: bytes of the local segments that remote storage does not have yet.
    """
    lineage = _Lineage(loaded_epochs(epochs, log_start_offset, log_end_offset), log_end_offset)
    listed = [one for epoch in lineage.epochs for one in part.listed(epoch)]
    run = _Run(retention, now)
    if retention.size is not None and retention.size >= 0:
        finished = {
            one.segment_id: one.size or 0
            for one in listed
            if one.state is SegmentState.COPY_SEGMENT_FINISHED and lineage.has(one)
        }
        run.excess = max(0, only_local + sum(finished.values()) - retention.size)
    for one in listed:
        if one.segment_id in run.reasons:
            continue
        if one.state is SegmentState.DELETE_SEGMENT_STARTED:
            run.reasons[one.segment_id] = Reason.DELETION_STARTED
        elif _is_before(one, log_start_offset, lineage.epochs[0]):
            run.reasons[one.segment_id] = Reason.LOG_START_OFFSET
        elif lineage.has(one) and not run.deletes(one):
            break
    start = max(log_start_offset, run.start)
    earliest = next((one.epoch for one in loaded_epochs(epochs, start, log_end_offset)), None)
    if earliest is not None:
        for one in (one for epoch in sorted(part.epochs) if epoch < earliest for one in part.listed(epoch)):
            if max(one.leader_epochs) < earliest:
                run.reasons.setdefault(one.segment_id, Reason.LEADER_EPOCH)
    return RemoteExpiry(run.reasons, start)


def loaded_epochs(epochs: Sequence[EpochEntry], start: int, end: int) -> list[EpochEntry]:
    """What a broker knows of leader epochs that a checkpoint has, for a log from ``start`` to ``end`` (exclusive).

    Source: docs/spec/replicas.md#2-the-epoch-cache (LeaderEpochFileCache): no two epochs begin at one offset, and the
    first one begins with the log.
    """
    # Of those that begin at one offset the last one counts.
    known = list({one.start_offset: one for one in epochs if one.start_offset < end}.values())
    before = [one for one in known if one.start_offset <= start]
    return [*(EpochEntry(one.epoch, start) for one in before[-1:]), *known[len(before) :]]


class _Lineage:
    """The leader epochs of a log, as ``loaded_epochs`` gives them.

    Attributes:
        epochs: their numbers, rising.
        end: the end offset of the log.
    """

    def __init__(self, entries: Sequence[EpochEntry], end: int) -> None:
        self.epochs = [one.epoch for one in entries]
        self.end = end
        self._starts = [one.start_offset for one in entries]

    def has(self, segment: RemoteSegment) -> bool:
        """The leader epochs of a segment are those of the log (isRemoteSegmentWithinLeaderEpochs)."""
        rising = sorted(segment.leader_epochs.items())
        # An epoch in which nothing was written begins where the next one does (buildFilteredLeaderEpochMap).
        own = [one for one, after in pairwise(rising) if one[1] != after[1]] + rising[-1:]
        within = [one for one in own if one[0] >= self.epochs[0]]
        last = segment.end_offset or 0
        if not within or last >= self.end:
            return False
        first = bisect_left(self.epochs, within[0][0])
        after = first + len(within)
        if self.epochs[first:after] != [epoch for epoch, _ in within]:
            return False
        if self._starts[first + 1 : after] != [start for _, start in within[1:]]:
            return False
        if first and within[0][1] < self._starts[first]:
            return False
        return after == len(self.epochs) or last < self._starts[after]


class _Run:
    """The rules of time and size (RemoteLogRetentionHandler). ``excess``: bytes over the limit that are still there."""

    def __init__(self, retention: Retention, now: int) -> None:
        limit = retention.milliseconds
        self._oldest = None if limit is None or not 0 <= limit <= now else now - limit
        self.excess = 0
        self.start = -1
        """After the last offset that goes by time or size."""
        self.reasons: dict[str, Reason] = {}

    def deletes(self, segment: RemoteSegment) -> bool:
        """Whether a segment goes; it is noted."""
        size = segment.size or 0
        if self._oldest is not None and (segment.max_timestamp or 0) < self._oldest:
            self.excess = max(0, self.excess - size)
            reason = Reason.TIME
        elif 0 < self.excess >= size:
            self.excess -= size
            reason = Reason.SIZE
        else:
            return False
        self.reasons[segment.segment_id] = reason
        self.start = max(self.start, (segment.end_offset or 0) + 1)
        return True


def _is_before(segment: RemoteSegment, log_start_offset: int, first_epoch: int) -> bool:
    """Everything in a segment is before the log start offset (isSegmentBreachByLogStartOffset)."""
    return max(segment.leader_epochs) <= first_epoch and (segment.end_offset or 0) < log_start_offset
