"""Offsets that are missing where nothing is damaged: normal in a compacted log, a loss elsewhere.

Only the batches show whether a log is compacted, often later ones. So findings wait until that is known or the
partition ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from kdump.codes import Codes, Finding, Severity
from kdump.verify.table import BatchRow, first_offset

_MOST_GAPS: Final = 1000
"""Gaps of a segment that are reported one by one; of more only their number and sum is."""
MANY_GAPS: Final = 3
"""Gaps between neighbouring batches that the log cleaner leaves at least."""
_GAP_SHARE: Final = 10
"""If one batch in this many follows a gap, and there are many gaps, the log looks compacted."""


@dataclass(slots=True)
class _MissingInSegment:
    """What is missing in one segment, and right before it."""

    path: str | None
    before: Finding | None = None
    gaps: list[Finding] = field(default_factory=list)
    gap_count: int = 0
    missing: int = 0
    row_count: int = 0

    def findings(self, *, is_compacted: bool) -> Iterator[Finding]:
        if self.before is not None:
            if is_compacted:
                # Nothing is lost: compaction took what was there.
                yield replace(
                    self.before, code=Codes.SEGMENT_GAP, first_offset=None, last_offset=None, continue_at=None
                )
            else:
                yield replace(self.before, code=Codes.SEGMENT_MISSING)
        if is_compacted or self.gap_count > _MOST_GAPS:
            if self.gaps:
                reason = ", as compaction leaves them" if is_compacted else ""
                gaps = "1 gap" if self.gap_count == 1 else f"{self.gap_count:,} gaps"
                message = f"{self.missing:,} offsets are missing in {gaps}{reason}"
                graded = Severity.INFO if is_compacted else None
                yield Finding(Codes.OFFSET_GAP, message, self.gaps[0].position, path=self.path, graded=graded)
        else:
            yield from self.gaps


class MissingOffsets:
    """Collects the gaps of a partition.

    ``is_compacted``: whether the topic is; None: decided by ``note_cleaned`` and the number of gaps.
    """

    def __init__(self, is_compacted: bool | None) -> None:
        self._is_known = is_compacted is not None
        self.is_compacted = bool(is_compacted)
        self._held: list[_MissingInSegment] = []
        self._segment = _MissingInSegment(None)

    @property
    def is_decided(self) -> bool:
        """Whether ``is_compacted`` is final."""
        return self._is_known or self.is_compacted

    @property
    def is_suspect(self) -> bool:
        """Whether something is missing and it is not yet known if compaction took it."""
        return not self.is_decided and any(segment.before or segment.gaps for segment in self._held)

    def start_segment(self, path: str | None) -> None:
        """Start the next segment: the gaps to come are in this file."""
        self._segment = _MissingInSegment(path)
        self._held.append(self._segment)

    def note_rows(self, count: int, *, are_cleaned: bool) -> None:
        """Count batches; ``are_cleaned``: the log cleaner compacted one of them."""
        self._segment.row_count += count
        if are_cleaned and not self._is_known:
            self.is_compacted = True

    def note_before(self, first: int, base_offset: int) -> None:
        """Note that offsets from ``first`` on are missing before the segment, which begins at ``base_offset``."""
        message = f"{base_offset - first:,} offsets are missing between the segment before and this one"
        self._segment.before = Finding(
            Codes.SEGMENT_MISSING, message, 0, None, first, base_offset - 1, base_offset, self._segment.path
        )

    def note_gap(self, row: BatchRow, expected: int) -> None:
        """Note that offsets from ``expected`` on are missing before ``row``."""
        segment, first = self._segment, first_offset(row)
        segment.gap_count += 1
        segment.missing += first - expected
        if len(segment.gaps) < _MOST_GAPS:
            message = f"{first - expected:,} offsets are missing, {expected}..{first - 1}"
            segment.gaps.append(
                Finding(Codes.OFFSET_GAP, message, row.position, None, expected, first - 1, first, segment.path)
            )

    def finish_segment(self) -> Iterator[Finding]:
        """End the segment: the findings that are certain by now."""
        segment = self._segment
        if not self._is_known and segment.gap_count >= max(MANY_GAPS, segment.row_count // _GAP_SHARE):
            self.is_compacted = True
        if self.is_decided:
            yield from self.finish()

    def finish(self) -> Iterator[Finding]:
        """End the partition: the findings that had to wait."""
        for segment in self._held:
            yield from segment.findings(is_compacted=self.is_compacted)
        self._held = []
