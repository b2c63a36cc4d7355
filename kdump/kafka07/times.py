"""What a broker of Kafka 0.7 does by time: by that of the last change of a file, because messages have none.

Source: docs/spec/old-kafka.md#18-rolling-and-retention, docs/spec/old-kafka.md#3-wire-frames-of-07 (offsets by time).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from kdump.codes import Codes, KdumpError
from kdump.kafka import retention
from kdump.kafka.retention import Reason, RetainedSegment, Retention
from kdump.log.files import FileFingerprint
from kdump.log.names import is_uri
from kdump.tasks.logs import LogFile

_MILLION: Final = 1_000_000


def retained_segment(log: LogFile) -> RetainedSegment:
    """See WorldTimes."""
    if is_uri(log.path):
        raise KdumpError(Codes.UNREADABLE, "a store does not keep when the broker last wrote the file", path=log.path)
    return RetainedSegment(log.base_offset or 0, log.size, FileFingerprint.of(log.path).modified // _MILLION)


def deleted_segments(segments: Sequence[RetainedSegment], limits: Retention, *, now: int) -> list[Reason]:
    """See WorldTimes. The cleaner goes by age first, then by size."""
    aged = retention.deleted_segments(segments, Retention(limits.milliseconds), now=now)
    return aged + retention.deleted_segments(segments[len(aged) :], Retention(size=limits.size), now=now)


def offset_for_time(segments: Sequence[RetainedSegment], timestamp: int) -> tuple[int, int] | None:
    """See WorldTimes: the start of the newest segment that was last changed by then, or the end of the log."""
    times = [(segment.base_offset, segment.largest_timestamp) for segment in segments]
    last = segments[-1]
    if last.size:
        times.append((last.base_offset + last.size, int(time.time() * 1000)))
    return next((entry for entry in reversed(times) if entry[1] <= timestamp), None)
