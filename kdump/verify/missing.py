"""Offsets that are missing where nothing is damaged: normal in a compacted log, a loss elsewhere.

Only the batches show whether a log is compacted, often later ones. So findings wait until that is known or the
partition ends.
"""

from __future__ import annotations

from array import array
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
_BY_COMPACTION: Final = ", as compaction leaves them"


@dataclass(slots=True)
class _MissingInSegment:
    """What is missing in one segment, and right before it.

    ``gaps``: position, first offset and end of each gap, flat. ``inside``: offsets without a record in batches.
    """

    path: str | None
    before: Finding | None = None
    gaps: array[int] = field(default_factory=lambda: array("q"))
    gap_count: int = 0
    missing: int = 0
    row_count: int = 0
    inside: int = 0

    def findings(self, *, is_compacted: bool, lists_all: bool) -> Iterator[Finding]:
        if self.before is not None:
            if not is_compacted:
                yield replace(self.before, code=Codes.SEGMENT_MISSING)
            elif lists_all:
                message = f"{self.before.message}, {self.before.first_offset}..{self.before.last_offset}"
                yield replace(self.before, code=Codes.SEGMENT_GAP, message=message, continue_at=None)
            else:
                # Nothing is lost: compaction took what was there.
                yield replace(
                    self.before, code=Codes.SEGMENT_GAP, first_offset=None, last_offset=None, continue_at=None
                )
        if lists_all or (not is_compacted and self.gap_count <= _MOST_GAPS):
            yield from self._listed(is_compacted=is_compacted)
        elif self.gaps:
            gaps = "1 gap" if self.gap_count == 1 else f"{self.gap_count:,} gaps"
            message = f"{self.missing:,} offsets are missing in {gaps}{_BY_COMPACTION * is_compacted}"
            graded = Severity.INFO if is_compacted else None
            yield Finding(Codes.OFFSET_GAP, message, self.gaps[0], path=self.path, graded=graded)
        if self.inside:
            message = f"{self.inside:,} offsets have no record inside of batches{_BY_COMPACTION}"
            yield Finding(Codes.OFFSET_GAP, message, 0, path=self.path, graded=Severity.INFO)

    def _listed(self, *, is_compacted: bool) -> Iterator[Finding]:
        """A finding for each gap."""
        gaps = iter(self.gaps)
        for position, first, end in zip(gaps, gaps, gaps, strict=True):
            message = f"{end - first:,} offsets are missing, {first}..{end - 1}{_BY_COMPACTION * is_compacted}"
            continue_at, graded = (None, Severity.INFO) if is_compacted else (end, None)
            yield Finding(
                Codes.OFFSET_GAP, message, position, None, first, end - 1, continue_at, self.path, graded=graded
            )


class MissingOffsets:
    """Collects the gaps of a partition.

    Args:
        is_compacted: whether the topic is; None: decided by ``note_cleaned`` and the number of gaps.
        lists_all: each gap is a finding of its own, also where compaction left it, and however many they are.
    """

    def __init__(self, is_compacted: bool | None, *, lists_all: bool = False) -> None:
        self._lists_all = lists_all
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
        if self._lists_all or segment.gap_count <= _MOST_GAPS:
            segment.gaps.extend((row.position, expected, first))

    def note_inside(self, count: int) -> None:
        """Note so many offsets without a record inside of batches."""
        self._segment.inside += count

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
            yield from segment.findings(is_compacted=self.is_compacted, lists_all=self._lists_all)
        self._held = []
