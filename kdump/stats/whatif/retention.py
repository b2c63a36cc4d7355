"""What-if: the segments that other retention limits would delete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from os.path import dirname

from kdump.kafka.retention import Reason, RetainedSegment, Retention
from kdump.stats.whatif.answer import Answer
from kdump.system.units import bytes_text, counted, span_text


@dataclass(frozen=True, slots=True)
class SegmentFate:
    """A segment, and why it would be deleted; None: it stays."""

    path: str
    topic: str | None
    partition: int | None
    segment: RetainedSegment
    reason: Reason | None


def retention_answer(fates: Sequence[SegmentFate], retention: Retention, now: int) -> Answer:
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
                "retentionMs": retention.milliseconds,
                "retentionBytes": retention.size,
                "now": now,
                "topic": fate.topic,
                "partition": fate.partition,
            }
        )
    for directory, group in groupby(fates, key=lambda fate: dirname(fate.path) or "."):
        answer.words.append(_words(directory, list(group), now))
    return answer


def _words(directory: str, fates: list[SegmentFate], now: int) -> str:
    going = [fate for fate in fates if fate.reason is not None]
    size = sum(fate.segment.size for fate in fates)
    freed = sum(fate.segment.size for fate in going)
    words = f"{directory}: {len(going)} of {counted(len(fates), 'segment')} would go"
    if not going:
        age = now - fates[0].segment.largest_timestamp
        when = f"{span_text(age)} old" if age >= 0 else f"{span_text(-age)} in the future"
        return f"{words}; the newest record of the oldest one is {when}."
    words += f", {bytes_text(freed)} of {bytes_text(size)}"
    if len(going) == len(fates):
        return words + "; the active one too, a new and empty one takes its place."
    return f"{words}; the log would begin with offset {fates[len(going)].segment.base_offset}."
