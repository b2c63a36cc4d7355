"""What the segments of a partition cover together, and what their log once had besides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from kdump.codes import Codes, Finding
from kdump.log.names import INDEX_KINDS, Kind
from kdump.verify.batchtable import BatchTable
from kdump.verify.indexedlog import IndexedLog
from kdump.verify.reach import AlreadyLost, LastSegment, PartitionEvidence, SegmentReach
from kdump.verify.siblings import EpochRange, LogSummary


class PartitionSummary:
    """The segments of a partition together. The files that belong to no segment are compared with it."""

    def __init__(self) -> None:
        self._epochs: list[EpochRange] = []
        self._segments: list[tuple[str, SegmentReach]] = []
        self.is_known = True
        """Whether every segment could be read and has the offsets of its name."""
        self.is_end_known = True
        """Whether the last segment is a log. The offsets in a file of another type are not known."""
        self.are_exchanged = False
        """Whether two logs have each other's names, so that no file beside them fits."""
        self.end_offset: int | None = None
        self.reached: int | None = None
        """The end offset that the log once had, if that was asked for."""
        self.last_log: IndexedLog | None = None
        """The batches of the last segment; None for an empty one."""
        self.is_indexed_later = False
        """Whether an index of the last segment names offsets after its end."""
        self._torn_end = 0
        """See ``LastSegment``."""
        self._was_cleaned: Callable[[], bool] = lambda: False
        """Whether the log cleaner compacted the last segment that is not empty."""

    def skip(self) -> None:
        """Leave out the next segment."""
        self.is_known = False

    def add(self, path: str, rows: BatchTable, base_offset: int | None, *, is_foreign: bool, torn_end: int = 0) -> None:
        """Add the next segment; one without batches ends at its base offset. ``torn_end``: see ``LastSegment``."""
        self.is_end_known = not is_foreign
        self.is_known &= not is_foreign
        self._epochs += rows.epochs()
        last = (base_offset or 0) - 1 if rows.last_offset is None else rows.last_offset
        self.end_offset = end = max(self.end_offset or 0, last + 1)
        if base_offset is not None:
            self._segments.append((path, SegmentReach(base_offset, rows.count == 0, lambda: end)))
        self.last_log = None
        self._torn_end = torn_end
        if rows.count:
            self._was_cleaned = partial(rows.was_cleaned, base_offset or 0)
        self.is_indexed_later = False

    def already_lost(self, evidence: PartitionEvidence) -> Iterator[Finding]:
        """What the logs once had; call it after all segments are added. Names without offsets tell of nothing lost."""
        if not self._segments:
            return
        found = self._lost(evidence)
        self.reached = self._known_end(found)
        for lost in found:
            later = [path for path, segment in self._segments if segment.base_offset > lost.last_offset]
            path = later[0] if later else self._segments[-1][0]
            yield already_lost_finding(lost, path)

    def tail_finding(self, finding: Finding, evidence: PartitionEvidence) -> Finding:
        """The finding of damage at the end of the log, with the offsets that are lost by all that the directory knows.

        Call it after the last segment is added.
        """
        first = self.end_offset
        known = self._known_end(self._lost(evidence) if self.is_known else ())
        message = f"{finding.message}; the log ends here"
        if first is None or known <= first:
            return replace(finding, message=message)
        return replace(finding, message=message, first_offset=first, last_offset=known - 1)

    def _lost(self, evidence: PartitionEvidence) -> Sequence[AlreadyLost]:
        last = self.last_log
        kinds = (
            INDEX_KINDS if last is not None and (self.is_indexed_later or last.ends_in_damage) else (Kind.TXN_INDEX,)
        )
        last_segment = LastSegment(
            self._was_cleaned,
            lambda: () if last is None else evidence.index_ends(last, kinds),
            lambda: self._torn_end,
        )
        segments = [segment for _, segment in self._segments]
        segments[-1:] = [segment._replace(end_offset=lambda: self.end_offset or 0) for segment in segments[-1:]]
        return evidence.already_lost(segments, last_segment)

    def _known_end(self, found: Sequence[AlreadyLost]) -> int:
        """The end of the log that the directory knows of."""
        return max([self.end_offset or 0, self._torn_end, *(lost.last_offset + 1 for lost in found)])

    def reach(self, end_offset: int | None) -> None:
        """Note that the log has grown at least to ``end_offset`` since."""
        if end_offset is not None:
            self.end_offset = max(self.end_offset or 0, end_offset)

    def summary(self) -> LogSummary:
        """What the other files of the directory are compared with."""
        if self.are_exchanged:
            return LogSummary(None)
        if not self.is_end_known:
            return LogSummary(None, self._epochs)
        return LogSummary(self.end_offset, self._epochs, self.reached)


def already_lost_finding(lost: AlreadyLost, path: str) -> Finding:
    """The finding of lost offsets, at the segment that follows them or that they follow."""
    return Finding(
        Codes.ALREADY_LOST,
        f"already lost: {lost}",
        0,
        first_offset=lost.first_offset,
        last_offset=lost.last_offset,
        path=path,
    )
