"""What-if: the segments that other retention limits would delete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from os.path import dirname

from kdump.kafka.retention import Reason, RetainedSegment, Retention
from kdump.stats.whatif.answer import Answer
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


def retention_answer(fates: Sequence[SegmentFate], now: int) -> Answer:
    """One row per segment, in order."""
    answer = Answer("retention")
    for fate in fates:
        answer.rows.append(
            {
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
            }
        )
    for directory, group in groupby(fates, key=lambda fate: dirname(fate.path) or "."):
        own = list(group)
        answer.words.append(_words(directory, own, now))
        for fate in own:
            if fate.blocked_by is not None:
                when = time_text(fate.segment.largest_timestamp)
                blocked = f"the record at offset {fate.blocked_by}, of {when} UTC, keeps its segment and all after it"
                answer.words.append(f"{directory}: {blocked}.")
    return answer


def _words(directory: str, fates: list[SegmentFate], now: int) -> str:
    going = [fate for fate in fates if fate.reason is not None]
    size = sum(fate.segment.size for fate in fates)
    freed = sum(fate.segment.size for fate in going)
    words = f"{directory}: {len(going)} of {counted(len(fates), 'segment')} would go"
    if (remote_end := fates[0].retention.remote_end) is not None:
        held = f"up to offset {remote_end}" if remote_end >= 0 else "nothing"
        words = f"{directory}: the topic is tiered, the limits are local ones, and remote storage holds {held}: "
        words += f"{len(going)} of {counted(len(fates), 'local segment')} would go"
    if not going:
        age = now - fates[0].segment.largest_timestamp
        when = f"{span_text(age)} old" if age >= 0 else f"{span_text(-age)} in the future"
        what = "the last change of the oldest one" if fates[0].is_file_time else "the newest record of the oldest one"
        return f"{words}; {what} is {when}."
    words += f", {bytes_text(freed)} of {bytes_text(size)}"
    if len(going) == len(fates):
        return words + "; the active one too, a new and empty one takes its place."
    return f"{words}; the log would begin with offset {fates[len(going)].segment.base_offset}."
