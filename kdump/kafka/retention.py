"""Which segments a broker deletes: UnifiedLog.deleteOldSegments of the Kafka release named in kdump.kafka.failures.

Each rule goes through the segments from the oldest on, and stops at the first one that it keeps. It may delete the
active segment, too, unless that is empty: the broker then makes a new one first. tests/oracle/test_maintenance.py
compares this with the real code. It is assumed that every record is replicated (the high watermark is at the end of the
log). What a broker deletes in remote storage itself is no question here: these are the local segments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from kdump.format.index import TimeEntry
from kdump.releases import Release


class Reason(Enum):
    """Which rule deletes a segment."""

    LOG_START_OFFSET = "logStartOffset"
    """Everything in it lies before the log's start (kafka-delete-records)."""
    SIZE = "retention.bytes"
    TIME = "retention.ms"
    DELETION_STARTED = "deleteSegmentStarted"
    """Its deletion in remote storage has begun, and is tried again."""
    LEADER_EPOCH = "leaderEpoch"
    """It lies in remote storage, and its leader epochs are older than those of the log."""


class RetainedSegment(NamedTuple):
    """A segment as these rules see it: ``size`` in bytes, ``largest_timestamp`` in ms."""

    base_offset: int
    size: int
    largest_timestamp: int


class Retention(NamedTuple):
    """The limits of a partition with ``cleanup.policy=delete``; None: without limit.

    Attributes:
        milliseconds: retention.ms, of a topic that is copied to remote storage local.retention.ms.
        size: retention.bytes, of such a topic local.retention.bytes.
        remote_end: the last offset that remote storage holds, -1: none; None: the topic is not copied. A local segment
            of one that is goes only when remote storage holds it (UnifiedLog.isSegmentEligibleForDeletion).
    """

    milliseconds: int | None = None
    size: int | None = None
    remote_end: int | None = None


def largest_timestamp(time_index: Sequence[TimeEntry] | None, newest: int | None, modified: int) -> int:
    """The age of a segment, in ms since 1970 (LogSegment.largestTimestamp).

    A broker goes by the last entry of the time index, whatever the log says, and zeros after the used entries are an
    entry too. Of the active segment that it did not close, and of one whose time index is missing and thus rebuilt, it
    knows the largest timestamp itself.

    Args:
        time_index: the last entry of a segment's .timeindex, if it has any; None if the broker does not go by it.
        newest: the largest timestamp of the log's batches, used without a time index; None or -1 where there is none.
        modified: when the file was last changed; it counts where no timestamp is known (messages of magic 0).
    """
    known = newest if time_index is None else time_index[-1].timestamp if time_index else None
    return known if known is not None and known >= 0 else modified


def deleted_segments(
    segments: Sequence[RetainedSegment],
    retention: Retention,
    *,
    now: int,
    log_start_offset: int | None = None,
    log_end_offset: int | None = None,
) -> list[Reason]:
    """Why each of the oldest segments goes, in their order; those after them stay.

    Args:
        segments: of one partition, in offset order; the last one is the active one.
        retention: the limits.
        now: ms since 1970.
        log_start_offset: from which on the log has records; None: from its first segment on.
        log_end_offset: where the log ends. Without it the active segment of a log that is copied to remote storage
            stays.
    """
    reasons: list[Reason] = []

    def is_eligible(number: int) -> bool:
        if retention.remote_end is None:
            return True
        is_last = number + 1 == len(segments)
        end = log_end_offset if is_last else segments[number + 1].base_offset
        if end is None:
            return False
        return 0 < end <= retention.remote_end + 1 or (not is_last and end <= (log_start_offset or 0))

    def apply(reason: Reason, goes: Callable[[int, RetainedSegment], bool]) -> None:
        for number in range(len(reasons), len(segments)):
            segment = segments[number]
            is_last_and_empty = number == len(segments) - 1 and segment.size == 0
            if is_last_and_empty or not goes(number, segment) or not is_eligible(number):
                break
            reasons.append(reason)

    if log_start_offset is not None:
        start = log_start_offset
        apply(
            Reason.LOG_START_OFFSET,
            lambda number, _: number + 1 < len(segments) and segments[number + 1].base_offset <= start,
        )
    if retention.size is not None and retention.size >= 0:
        excess = sum(segment.size for segment in segments[len(reasons) :]) - retention.size

        def exceeds(_: int, segment: RetainedSegment) -> bool:
            nonlocal excess
            if excess < segment.size:
                return False
            excess -= segment.size
            return True

        apply(Reason.SIZE, exceeds)
    if retention.milliseconds is not None and retention.milliseconds >= 0:
        limit = retention.milliseconds
        apply(Reason.TIME, lambda _, segment: now - segment.largest_timestamp > limit)
    return reasons


def only_local_bytes(segments: Sequence[RetainedSegment], remote_end: int, release: Release) -> int:
    """The bytes of the local segments that are not in remote storage yet (UnifiedLog.onlyLocalLogSegmentsSize).

    ``remote_end``: the last offset there, -1: none.
    """
    last = remote_end - release.counts_last_copied_as_local
    return sum(segment.size for segment in segments if segment.base_offset > last)
