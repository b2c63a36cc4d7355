"""Recovery of the whole log, and the offset at which it ends.

Source: docs/spec/startup.md#4-recovery-of-the-log (rules 13 to 18; LogLoader.recoverLog).
"""

from __future__ import annotations

from typing import Final

from kdump.kafka.failures import KafkaFailureError
from kdump.kafka.startup.errors import StartFailureError
from kdump.kafka.startup.loading import Loading
from kdump.kafka.startup.outcome import RecoveredSegment, RemovalReason
from kdump.kafka.startup.segment import StartSegment

_LONG_MAX: Final = 2**63 - 1


def recover_log(loading: Loading) -> tuple[int, int]:
    """Recover what may not be on disk, and find the end; returns the recovery point and the end offset.

    Raises:
        OffsetOverflowError: a segment would be split.
        StartFailureError: a segment cannot be recovered or read.
    """
    settings = loading.settings
    if not settings.is_clean:
        _recover_segments(loading)
    end: int | None = None
    if loading.segments:
        end = loading.last_segment.next_offset()
        if end < settings.log_start_offset:
            loading.remove_segments(list(loading.segments), RemovalReason.LOG_START)
            loading.epochs.clear()
            loading.producers.truncate_fully(settings.log_start_offset)
            end = None
    if not loading.segments:
        loading.segments[settings.log_start_offset] = loading.open_segment(settings.log_start_offset)
    if end is None:
        end = loading.last_segment.next_offset()
    elif settings.is_clean:
        return end, end
    return min(settings.recovery_point, end), end


def _recover_segments(loading: Loading) -> None:
    """Recover from the segment with the recovery point on, up to the first that is cut; remove later ones."""
    unflushed = _unflushed(loading)
    for number, base in enumerate(unflushed):
        segment = loading.segments[base]
        if _recover(loading, segment) > 0:
            segment.next_offset()
            later = unflushed[number + 1 :]
            loading.remove_segments(later, RemovalReason.BEHIND_CUT)
            for removed in later:
                loading.remove_snapshot(removed)
            return


def _unflushed(loading: Loading) -> list[int]:
    point = loading.settings.recovery_point
    if point == _LONG_MAX:
        return []
    return loading.segments.covering(point)


def _recover(loading: Loading, segment: StartSegment) -> int:
    """Recover a segment, and empty it if its index would go backwards; returns the bytes cut."""
    try:
        return loading.recover_segment(segment)
    except KafkaFailureError as error:
        if not error.kind.empties_segment:
            raise StartFailureError.of(error) from None
        cut = segment.truncate_to(segment.base_offset)
        loading.recovered.append(RecoveredSegment(segment.base_offset, cut, segment.base_offset, is_emptied=True))
        return cut
