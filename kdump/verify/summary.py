"""A verified segment in a few words."""

from __future__ import annotations

from dataclasses import dataclass

from kdump.codes import Severity
from kdump.kafka.recover import Recovery


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """A segment, or a file beside one that was looked at alone."""

    path: str
    size: int | None
    """Bytes; None: a stream."""
    batches: int | None
    """None: a file without batches of its own."""
    first_offset: int | None
    last_offset: int | None
    counts: dict[Severity, int]
    """Findings of the segment and its siblings by severity."""
    recovery: Recovery | None
    """What recovery would do; None where there is no error, or where it cannot be told (a stream, a name without
    number)."""
