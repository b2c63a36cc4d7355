"""The result of one verified segment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kdump.codes import Severity

if TYPE_CHECKING:
    from kdump.kafka.recover import Recovery


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """A segment, or a sibling file that was checked alone."""

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
    """What recovery would do; None without an error, or if it cannot be found out (a stream, a name without number)."""
    times: tuple[int, int] | None = None
    """The smallest and the largest timestamp of the batches (ms since 1970); None: there is none."""
