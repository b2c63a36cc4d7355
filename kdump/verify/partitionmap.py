"""The picture of a run: each partition as a row, its copies as lanes, its segments as blocks, what was found as marks.

It is data for ``map.js``, which draws it. Nothing is read but transaction indexes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.format.batch import MAX_INT32
from kdump.log.names import Kind, parse_file_name, parse_partition_directory
from kdump.log.siblings import read_txn_index
from kdump.system.blocks import escaped
from kdump.verify.advice import next_command
from kdump.verify.report import recovery_text
from kdump.verify.summary import SegmentSummary

_MOST_BLOCKS: Final = 20_000
"""Segments that are drawn. Of partitions beyond it, those that are all right are one block each."""
_GROUPS: Final = (Severity.ERROR, Severity.WARNING, Severity.INFO)
_MOST_MARKS: Final = 2_000
"""Aborted transactions that are drawn of a segment."""
_GAPS: Final = frozenset({Codes.OFFSET_GAP, Codes.SEGMENT_MISSING, Codes.SEGMENT_GAP, Codes.ALREADY_LOST})


@dataclass(slots=True)
class _Lane:
    """A copy of a partition: a directory."""

    directory: str
    segments: list[SegmentSummary] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def grade(self) -> Severity:
        """The worst that was found."""
        for severity in (Severity.ERROR, Severity.WARNING):
            if any(segment.counts[severity] for segment in self.segments):
                return severity
            if any(finding.severity is severity for finding in self.findings):
                return severity
        return Severity.INFO

    @property
    def size(self) -> int:
        """Bytes of the logs."""
        return sum(segment.size or 0 for segment in self.segments)


def partition_map(segments: Iterable[SegmentSummary], findings: Iterable[Finding]) -> dict[str, Any]:
    """The rows of the picture: those with errors, those with warnings only, and those that are all right.

    Args:
        segments: of the run, in their order.
        findings: of the run.
    """
    lanes: dict[str, _Lane] = {}
    for segment in segments:
        if segment.batches is not None:
            directory = os.path.dirname(segment.path)
            lanes.setdefault(directory, _Lane(directory)).segments.append(segment)
    elsewhere = 0
    for finding in findings:
        lane = lanes.get(os.path.dirname(finding.path or "")) or lanes.get(finding.path or "")
        if lane is not None:
            lane.findings.append(finding)
        elif finding.severity is not Severity.INFO:
            elsewhere += 1
    rows: dict[str, list[_Lane]] = {}
    for lane in lanes.values():
        name = os.path.basename(lane.directory)
        rows.setdefault(name if parse_partition_directory(name) else lane.directory, []).append(lane)
    groups: dict[Severity, list[str]] = {severity: [] for severity in _GROUPS}
    for name in sorted(rows, key=_by_topic):
        grades = {lane.grade for lane in rows[name]}
        groups[next(severity for severity in _GROUPS if severity in grades)].append(name)
    room = _MOST_BLOCKS
    found: dict[str, Any] = {"elsewhere": elsewhere}
    for severity, names in groups.items():
        drawn = []
        for name in names:
            own = rows[name]
            blocks = sum(len(lane.segments) for lane in own)
            is_whole = severity is not Severity.INFO or blocks <= room
            room -= blocks
            drawn.append({"name": escaped(name or "."), "lanes": [_drawn(lane, is_whole=is_whole) for lane in own]})
        all_lanes = [lane for name in names for lane in rows[name]]
        found[severity.value] = {
            "rows": drawn,
            "segments": sum(len(lane.segments) for lane in all_lanes),
            "bytes": sum(lane.size for lane in all_lanes),
        }
    return found


def _by_topic(name: str) -> tuple[str, int]:
    return parse_partition_directory(name) or (name, -1)


def _drawn(lane: _Lane, *, is_whole: bool) -> dict[str, Any]:
    """A lane; not ``is_whole``: its segments are one block."""
    spans = list(_spans(lane.segments))
    blocks = [
        [first, end, *(segment.times or (None, None)), segment.size, _state(segment), _file(segment.path)]
        for segment, (first, end) in zip(lane.segments, spans, strict=True)
    ]
    marks = list(_marks(lane, spans)) if is_whole else []
    if not is_whole:
        times = [time for block in blocks for time in block[2:4] if time is not None]
        whole = (min(times), max(times)) if times else (None, None)
        blocks = [[spans[0][0], spans[-1][1], *whole, lane.size, 0, f"{len(blocks):,} segments"]]
    drawn: dict[str, Any] = {"where": escaped(lane.directory or "."), "segments": blocks, "marks": marks}
    start = next(_starts(lane), None)
    return drawn if start is None else drawn | {"start": start}


def _spans(segments: Sequence[SegmentSummary]) -> Iterator[tuple[int, int]]:
    """The offsets of each segment: from its name on, and not over the next one, whatever damage says."""
    bases = [_base_of(segment) for segment in segments]
    for number, segment in enumerate(segments):
        base = bases[number]
        limit = min([base + MAX_INT32, *(after for after in bases[number + 1 : number + 2] if after >= base)])
        last = -1 if segment.last_offset is None else segment.last_offset
        yield base, last + 1 if base <= last < limit else base


def _base_of(segment: SegmentSummary) -> int:
    name = parse_file_name(segment.path)
    if name is not None and name.base_offset is not None:
        return name.base_offset
    return segment.first_offset or 0


def _file(path: str) -> str:
    return escaped(os.path.basename(path))


def _state(segment: SegmentSummary) -> int:
    return 2 if segment.counts[Severity.ERROR] else 1 if segment.counts[Severity.WARNING] else 0


def _marks(lane: _Lane, spans: Sequence[tuple[int, int]]) -> Iterator[list[Any]]:
    """Kind, first offset, end offset, words, and the command that goes on."""
    numbers = {os.path.basename(segment.path).partition(".")[0]: number for number, segment in enumerate(lane.segments)}
    for segment in lane.segments:
        yield from _aborted(segment)
    for finding in lane.findings:
        code = finding.code.value
        file = os.path.basename(finding.path or "")
        number = numbers.get(file.partition(".")[0])
        kind, first, end = _place(finding, lane, spans, number)
        if kind is not None:
            words = escaped(f"{finding.severity.value} {code.code} {code.name}, {file} {finding}")
            command = next_command(finding)
            yield [kind, first, end, words, None if command is None else escaped(command)]


def _place(
    finding: Finding, lane: _Lane, spans: Sequence[tuple[int, int]], number: int | None
) -> tuple[str | None, int, int]:
    """Kind and offsets of a finding's mark. Kind None: it has none."""
    first, end = (spans[0][0], spans[-1][1]) if number is None else spans[number]
    is_open = finding.code is Codes.TRANSACTION_OPEN
    if finding.severity is Severity.INFO and not is_open and finding.code not in _GAPS:
        return None, 0, 0
    name = parse_file_name(finding.path or "")
    if name is None or name.kind is not Kind.LOG:
        return "beside", first, end
    grade = "damage" if finding.severity is Severity.ERROR else "warning"
    if finding.code in _GAPS:
        grade = "gap"
    if finding.first_offset is not None and finding.last_offset is not None:
        return grade, finding.first_offset, finding.last_offset + 1
    if number is None:
        return grade, first, end
    size = lane.segments[number].size or 0
    at, until = finding.position, finding.position + (finding.length or 0)
    low, high = (first + (end - first) * min(place, size) // size if size else first for place in (at, until))
    return ("open", low, end) if is_open else (grade, low, high)


def _aborted(segment: SegmentSummary) -> Iterator[list[Any]]:
    if not segment.path.endswith(Kind.LOG.value):
        return
    try:
        found = read_txn_index(segment.path) or ()
    except KdumpError:
        # The checks of the segment have said what is wrong with it.
        return
    for one in islice(found, _MOST_MARKS):
        words = f"aborted: offsets {one.first_offset}..{one.last_offset} of producer {one.producer_id}"
        yield ["aborted", one.first_offset, one.last_offset + 1, words, None]


def _starts(lane: _Lane) -> Iterator[Mapping[str, Any]]:
    """Where a start that recovers a segment would end the log, and what it would do there."""
    for segment in lane.segments:
        recovery = segment.recovery
        if recovery is not None and (recovery.cut is not None or recovery.failure is not None):
            words = f"a start that recovers {_file(segment.path)}: {recovery_text(recovery)}"
            yield {"at": recovery.next_offset, "words": words}
