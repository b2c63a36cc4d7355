"""What the segments of a partition cover together, and what their log once had besides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from kdump.codes import Codes, Finding
from kdump.log.names import INDEX_KINDS, Kind
from kdump.verify.batchtable import BatchTable, TailEnd
from kdump.verify.indexedlog import IndexedLog
from kdump.verify.reach import AlreadyLost, LastSegment, PartitionEvidence, SegmentReach
from kdump.verify.siblings import EpochRange, LogSummary

_NO_TAIL: Final = TailEnd(0, 0)


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
        self.tail_end = _NO_TAIL
        """See ``LastSegment``."""
        self._was_cleaned: Callable[[], bool] = lambda: False
        """Whether the log cleaner compacted the last segment that is not empty."""

    def skip(self) -> None:
        """Leave out the next segment."""
        self.is_known = False

    def add(self, path: str, rows: BatchTable, base_offset: int | None, *, is_foreign: bool) -> None:
        """Add the next segment; one without sound batches ends at its base offset."""
        self.is_end_known = not is_foreign
        self.is_known &= not is_foreign
        self._epochs += rows.epochs
        self.end_offset = end = max(self.end_offset or 0, base_offset or 0, rows.end_offset or 0)
        if base_offset is not None:
            self._segments.append((path, SegmentReach(base_offset, rows.count == 0, lambda: end)))
        self.last_log = None
        self.tail_end = _NO_TAIL
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

    def tail_findings(self, found: Sequence[Finding], evidence: PartitionEvidence) -> Iterator[Finding]:
        """The findings of what follows the sound part of the last log. Call it after that is added.

        The first has all the offsets that are lost, by the best that the directory knows. The others have none: they
        tell of the same loss. No consumer goes on after it.

        Args:
            found: in the order of the log.
            evidence: of the directory.
        """
        first = self.end_offset
        known = self._known_end(self._lost(evidence) if self.is_known else ())
        is_known = first is not None and known > first
        last = known - 1 if is_known else max((one.last_offset or -1 for one in found), default=-1)
        for number, finding in enumerate(found):
            if number:
                yield replace(finding, first_offset=None, last_offset=None, continue_at=None)
                continue
            yield replace(
                finding,
                message=f"{finding.message}; the log ends here",
                first_offset=first if is_known else finding.first_offset,
                last_offset=None if last < 0 else last,
                continue_at=None,
            )

    def _lost(self, evidence: PartitionEvidence) -> Sequence[AlreadyLost]:
        last = self.last_log
        kinds = (
            INDEX_KINDS if last is not None and (self.is_indexed_later or last.ends_in_damage) else (Kind.TXN_INDEX,)
        )
        last_segment = LastSegment(
            self._was_cleaned,
            lambda: () if last is None else evidence.index_ends(last, kinds),
            lambda: self.tail_end,
        )
        segments = [segment for _, segment in self._segments]
        segments[-1:] = [segment._replace(end_offset=lambda: self.end_offset or 0) for segment in segments[-1:]]
        return evidence.already_lost(segments, last_segment)

    def _known_end(self, found: Sequence[AlreadyLost]) -> int:
        """The end of the log that the directory knows of."""
        return max([self.end_offset or 0, self.tail_end.torn, *(lost.last_offset + 1 for lost in found)])

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
