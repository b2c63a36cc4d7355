"""What-if: the segments that other retention limits would delete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os.path import dirname
from typing import NamedTuple

from kdump.kafka.remoteretention import RemoteExpiry
from kdump.kafka.remotesegments import RemotePart, RemoteSegment
from kdump.kafka.retention import Reason, RetainedSegment, Retention
from kdump.releases import Release
from kdump.stats.whatif.answer import Answer, Cell
from kdump.system.units import bytes_text, counted, span_text, time_text


@dataclass(frozen=True, slots=True)
class SegmentFate:
    """A segment, and why it would be deleted; None: it stays.

    ``retention``: the limits of its topic. ``blocked_by``: the offset of the record whose timestamp keeps this segment,
    and with it later ones that are old enough; None where nothing is kept so. ``is_file_time``: the segment is as old
    as the last change of its file.
    """

    path: str
    topic: str | None
    partition: int | None
    segment: RetainedSegment
    reason: Reason | None
    retention: Retention
    blocked_by: int | None = None
    is_file_time: bool = False


class PartitionLimits(NamedTuple):
    """The limits of a partition.

    Attributes:
        whole: those of all segments.
        local: those of the local log; None: its segments are not copied to remote storage.
        remote: what is in remote storage; None: the topic has none.
    """

    whole: Retention
    local: Retention | None = None
    remote: RemotePart | None = None


class RemoteFates(NamedTuple):
    """What becomes of the remote segments of a partition.

    ``expiry``: which of them go; None where the partition has no remote storage. ``retention``: the limits.
    """

    segments: Sequence[RemoteSegment] = ()
    expiry: RemoteExpiry | None = None
    retention: Retention = Retention()


class PartitionFates(NamedTuple):
    """What becomes of a partition."""

    local: Sequence[SegmentFate]
    remote: RemoteFates


def retention_answer(partitions: Sequence[PartitionFates], now: int, release: Release) -> Answer:
    """One row per segment, in order: of each partition the remote segments come first.

    ``release``: of the broker. Only what it does with remote segments depends on it.
    """
    answer = Answer("retention")
    for fates in partitions:
        remote = fates.remote
        rows: list[dict[str, Cell]] = []
        if remote.expiry is not None and remote.segments:
            rows += (_remote_row(segment, remote, remote.expiry, now) for segment in remote.segments)
            answer.words.append(_remote_words(remote.segments, remote.expiry))
        start = None if remote.expiry is None else remote.expiry.log_start_offset
        rows += (_row(fate, start, now) for fate in fates.local)
        version = None if remote.expiry is None else release.name
        answer.rows.extend(row | {"brokerVersion": version} for row in rows)
        if not fates.local:
            continue
        directory = dirname(fates.local[0].path) or "."
        answer.words.append(_words(directory, fates.local, now))
        for fate in fates.local:
            if fate.blocked_by is not None:
                when = time_text(fate.segment.largest_timestamp)
                blocked = f"the record at offset {fate.blocked_by}, of {when} UTC, keeps its segment and all after it"
                answer.words.append(f"{directory}: {blocked}.")
    if any(fates.remote.expiry is not None for fates in partitions):
        answer.words.append(f"So does a broker of Kafka {release.name}.")
    return answer


def _row(fate: SegmentFate, start: int | None, now: int) -> dict[str, Cell]:
    """``start``: the log start offset, where remote segments tell it."""
    return {
        "segment": fate.path,
        "goes": fate.reason is not None,
        "reason": None if fate.reason is None else fate.reason.value,
        "bytes": fate.segment.size,
        "largestTimestamp": fate.segment.largest_timestamp,
        "retentionMs": fate.retention.milliseconds,
        "retentionBytes": fate.retention.size,
        "now": now,
        "topic": fate.topic,
        "partition": fate.partition,
        "blockedBy": fate.blocked_by,
        "segmentId": None,
        "logStartOffset": start,
    }


def _remote_row(segment: RemoteSegment, fates: RemoteFates, expiry: RemoteExpiry, now: int) -> dict[str, Cell]:
    reason = expiry.reasons.get(segment.segment_id)
    return {
        "segment": f"{segment.start_offset:020d}-{segment.segment_id}.log",
        "goes": reason is not None,
        "reason": None if reason is None else reason.value,
        "bytes": segment.size,
        "largestTimestamp": segment.max_timestamp,
        "retentionMs": fates.retention.milliseconds,
        "retentionBytes": fates.retention.size,
        "now": now,
        "topic": segment.topic,
        "partition": segment.partition,
        "blockedBy": None,
        "segmentId": segment.segment_id,
        "logStartOffset": expiry.log_start_offset,
    }


def _remote_words(segments: Sequence[RemoteSegment], expiry: RemoteExpiry) -> str:
    going = [one for one in segments if one.segment_id in expiry.reasons]
    words = f"{segments[0].topic}-{segments[0].partition}: {len(going)} of "
    words += f"{counted(len(segments), 'remote segment')} would go"
    if going:
        freed, size = (sum(one.size or 0 for one in some) for some in (going, segments))
        words += f", {bytes_text(freed)} of {bytes_text(size)}"
    return f"{words}; the log would begin with offset {expiry.log_start_offset}."


def _words(directory: str, fates: Sequence[SegmentFate], now: int) -> str:
    going = [fate for fate in fates if fate.reason is not None]
    size = sum(fate.segment.size for fate in fates)
    freed = sum(fate.segment.size for fate in going)
    kind, begin = "segment", "the log"
    words = f"{directory}: "
    if (remote_end := fates[0].retention.remote_end) is not None:
        kind, begin = "local segment", "the local log"
        words += f"remote storage holds {f'up to offset {remote_end}' if remote_end >= 0 else 'nothing'}: "
    words += f"{len(going)} of {counted(len(fates), kind)} would go"
    if not going:
        age = now - fates[0].segment.largest_timestamp
        when = f"{span_text(age)} old" if age >= 0 else f"{span_text(-age)} in the future"
        what = "the last change of the oldest one" if fates[0].is_file_time else "the newest record of the oldest one"
        return f"{words}; {what} is {when}."
    words += f", {bytes_text(freed)} of {bytes_text(size)}"
    if len(going) == len(fates):
        return words + "; the active one too, a new and empty one takes its place."
    return f"{words}; {begin} would begin with offset {fates[len(going)].segment.base_offset}."
