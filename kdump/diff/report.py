"""A comparison as a page for people, as rows and as findings."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from kdump.codes import Finding, Severity
from kdump.diff.against import FileDifference
from kdump.diff.comparison import CopyDifference, DifferenceKind
from kdump.diff.copies import CopySummary
from kdump.diff.losses import CopyTruncation
from kdump.diff.places import PartitionName
from kdump.diff.run import PartitionReport
from kdump.diff.shown import RecordDifference
from kdump.kafka.image.partitions import NO_LEADER
from kdump.log.names import partition_of_file
from kdump.rows.columns import Row
from kdump.rows.scalarlines import json_text, plain
from kdump.system.blocks import escaped
from kdump.verify.report import SEVERITY_STYLES

_FEWEST_COPIES = 2
_FEWEST_SIDES = 3
"""Copies of which it is told who agrees with whom."""
_FEW_RANGES = 3
_LONGEST = 60
"""Characters of a key or a value in a table."""
_BEFORE = 20
"""How many of these come before the first one in which copies differ."""


def report_rows(report: PartitionReport) -> Iterator[Row]:
    """A row for each copy, each difference, each ordered pair, and the recommendation."""
    place = _place(report.name)
    for copy in report.copies:
        yield {
            "type": "copy",
            **place,
            "copy": copy.path,
            "logStart": copy.log_start,
            "logEnd": copy.log_end,
            "highWatermark": copy.high_watermark,
            "epochs": copy.epochs,
            "topicId": copy.topic_id,
            "clusterId": copy.cluster_id,
            "nodeId": copy.node_id,
            "isDamaged": copy.is_damaged,
            "isFuture": copy.is_future,
            "directory": copy.directory,
        }
    if report.common is not None:
        first, last = report.common
        yield {
            "type": "common",
            **place,
            "firstOffset": first,
            "lastOffset": last,
            "equalTo": report.equal_to,
        }
    for path in report.absent:
        yield {"type": "absent", **place, "copy": path}
    for one in report.differences:
        yield {
            "type": "difference",
            **place,
            "kind": one.kind.word,
            "code": one.kind.value.value.code,
            "severity": one.kind.severity.value,
            "explained": one.kind.is_explained,
            "firstOffset": one.first_offset,
            "lastOffset": one.last_offset,
            "copies": _paths(report, one.copies),
            "message": one.message + _told_sides(report, one),
        }
    for pair in report.truncations:
        yield {
            "type": "truncation",
            **place,
            "leader": report.copies[pair.leader].path,
            "follower": report.copies[pair.follower].path,
            "truncationOffset": pair.truncation_offset,
            "recordsLost": pair.records_lost,
            "recordsLostRanges": pair.lost_ranges,
            "loops": pair.loops,
            "fails": pair.fails,
            "refused": pair.is_refused,
            "recordsNowhereElse": pair.nowhere_else,
            "recordsNowhereElseRanges": pair.nowhere_else_ranges,
        }
    best = report.recommendation
    if best is not None:
        yield {
            "type": "recommendation",
            **place,
            "copy": report.copies[best.copy].path,
            "recordsLost": best.records_lost,
            "recordsNowhereElse": best.nowhere_else,
            **_expected_members(report),
            "message": "; ".join([_recommendation(report), *_expected_lines(report)]),
        }


def _place(name: PartitionName | None) -> Row:
    topic, partition = name or (None, None)
    return {"topic": topic, "partition": partition}


def _expected_members(report: PartitionReport) -> dict[str, Any]:
    expected = report.expected
    possible = None if expected is None else expected.election.possible
    only, number = (possible[0], expected.copies[0]) if expected and possible and len(possible) == 1 else (None, None)
    return {
        "possibleLeaders": possible,
        "expectedLeader": only,
        "expectedLeaderCopy": None if number is None else report.copies[number].path,
        "expectedRecordsLost": expected and expected.records_lost,
        "expectedRecordsNowhereElse": expected and expected.nowhere_else,
    }


def record_row(record: RecordDifference) -> Row:
    """A record in which copies differ, with what each of them holds; null where it holds nothing."""
    return {
        "type": "record",
        **_place(record.name),
        "offset": record.offset,
        "kind": record.kind.word,
        "copies": record.copies,
        "records": [
            None
            if one is None
            else {
                "timestamp": one.timestamp,
                "key": one.key,
                "value": one.value,
                "partitionLeaderEpoch": one.leader_epoch,
                "isControl": one.is_control,
            }
            for one in record.records
        ],
    }


def file_row(found: FileDifference) -> Row:
    """A file that is not what a manifest says, as a difference."""
    finding, path = found.finding, found.finding.path or ""
    return {
        "type": "difference",
        **_place(partition_of_file(path)),
        "kind": "file",
        "code": finding.code.value.code,
        "severity": finding.severity.value,
        "explained": False,
        "firstOffset": None,
        "lastOffset": None,
        "copies": [found.root],
        "message": f"{path}: {finding.message}",
    }


def file_text(finding: Finding, *, color: bool) -> str:
    """The finding of a file as a line for people."""
    code = finding.code.value
    severity = _severity(finding.severity, color=color)
    return f"{escaped(finding.path or '')}: {severity} {code.code} {code.name} {finding.message}\n"


def findings_of(report: PartitionReport) -> Iterator[Finding]:
    """What is not explained; a finding for each difference, of the first copy that it is about."""
    for one in report.differences:
        if not one.kind.is_explained:
            path = report.copies[one.copies[0]].directory
            message = f"{_range(one)}{one.message} ({_told_copies(report, one)})"
            yield Finding(one.kind.value, message, 0, path=path)


def report_text(report: PartitionReport, *, color: bool, is_brief: bool) -> str:
    """The partition as a page; one line where nothing differs and ``is_brief``."""
    name = "partition" if report.name is None else f"{report.name[0]}-{report.name[1]}"
    lines = [f"{escaped(name)}: {_summary(report)}\n"]
    if report.differences or not is_brief:
        lines += _copies_table(report)
        lines += [_difference_line(report, one, color=color) for one in report.differences]
        lines += [
            f"  {_pair(report, pair)}\n"
            for pair in report.truncations
            if (pair.records_lost or pair.loops or pair.fails or not is_brief) and not pair.is_refused
        ]
        if report.recommendation is not None:
            lines += [f"  {line}\n" for line in (_recommendation(report), *_expected_lines(report))]
    return "".join(lines)


class Totals:
    """How many partitions there are, for the end of the page."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, report: PartitionReport) -> None:
        """One more partition."""
        if any(not one.kind.is_explained for one in report.differences):
            what = "with findings"
        elif len(report.copies) < _FEWEST_COPIES:
            what = "with a single copy"
        else:
            what = "with explained differences" if report.differences else "equal"
        self._counts[what] += 1

    def text(self) -> str:
        """A line; nothing if there is a single partition."""
        count = self._counts.total()
        if count <= 1:
            return ""
        order = ("with findings", "with explained differences", "with a single copy", "equal")
        told = ", ".join(f"{self._counts[what]:,} {what}" for what in order if self._counts[what])
        return f"{count:,} partitions: {told}\n"


def record_text(record: RecordDifference) -> str:
    """A record in which copies differ: a line for each of them."""
    name = "partition" if record.name is None else f"{record.name[0]}-{record.name[1]}"
    lines = [f"{escaped(name)}: offset {record.offset}, {record.kind.word}\n"]
    width = max(map(len, record.copies))
    there = [one for one in record.records if one is not None]
    keys, values = (iter(_cells(parts)) for parts in ([one.key for one in there], [one.value for one in there]))
    for path, one in zip(record.copies, record.records, strict=True):
        held = "no record"
        if one is not None:
            held = f"epoch {one.leader_epoch}  time {one.timestamp}  key {next(keys)}  value {next(values)}"
        lines.append(f"  {escaped(path):{width}}  {held}\n")
    return "".join(lines)


def _paths(report: PartitionReport, copies: Sequence[int]) -> list[str]:
    return list(dict.fromkeys(report.copies[number].path for number in copies))


def _told_copies(report: PartitionReport, one: CopyDifference) -> str:
    """The copies that a difference is about; of three or more, which of them agree."""
    if len(one.copies) < _FEWEST_SIDES or not one.sides:
        return ", ".join(_paths(report, one.copies))
    return " against ".join(", ".join(_paths(report, side)) for side in one.sides)


def _told_sides(report: PartitionReport, one: CopyDifference) -> str:
    return f": {_told_copies(report, one)}" if one.sides and len(one.copies) >= _FEWEST_SIDES else ""


def _summary(report: PartitionReport) -> str:
    count = len(report.copies)
    text = f"{count} {'copies' if count != 1 else 'copy'}"
    findings = sum(not one.kind.is_explained for one in report.differences)
    if count < _FEWEST_COPIES:
        text += "".join(f", {_held(copy)}" for copy in report.copies)
    elif any(one.kind is DifferenceKind.TOPIC_ID for one in report.differences):
        text += " of different topics"
    elif report.common is not None:
        lower, upper = report.common
        equal = (
            "nothing is equal" if report.equal_to is None else f"offsets {lower}..{report.equal_to} are equal in all"
        )
        text += f", {equal}" if (lower, upper) != (lower, report.equal_to) else f", offsets {lower}..{upper} are equal"
    elif all(copy.log_start == copy.log_end for copy in report.copies):
        text += ", all of them empty"
    else:
        text += ", no offset is in all of them"
    if findings:
        text += f", {findings} finding{'s' if findings != 1 else ''}"
    elif report.differences:
        text += ", all differences are explained"
    if report.absent:
        text += f"; not in {', '.join(map(escaped, report.absent))}"
    return text


def _held(copy: CopySummary) -> str:
    return "empty" if copy.log_start == copy.log_end else f"offsets {copy.log_start}..{copy.log_end - 1}"


def _copies_table(report: PartitionReport) -> Iterator[str]:
    head = ("copy", "node", "log start", "log end", "high watermark", "epochs (epoch:start)", "topic id", "")
    rows = [
        (
            escaped(copy.path),
            "" if copy.node_id is None else str(copy.node_id),
            str(copy.log_start),
            str(copy.log_end),
            str(copy.high_watermark),
            _epochs(copy.epochs),
            escaped(copy.topic_id or ""),
            ", ".join(word for word, holds in (("damaged", copy.is_damaged), ("future", copy.is_future)) if holds),
        )
        for copy in report.copies
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = (f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells).rstrip()}\n"


def _epochs(epochs: Sequence[tuple[int, int]]) -> str:
    first, last = (epochs, ()) if len(epochs) <= 6 else (epochs[:2], epochs[-3:])
    return " ... ".join(" ".join(f"{epoch}:{start}" for epoch, start in part) for part in (first, last) if part)


def _difference_line(report: PartitionReport, one: CopyDifference, *, color: bool) -> str:
    severity = _severity(one.kind.severity, color=color)
    paths = escaped(_told_copies(report, one))
    code = one.kind.value.value
    return f"  {severity} {code.code} {code.name} {paths}: {_range(one)}{escaped(one.message)}\n"


def _severity(severity: Severity, *, color: bool) -> str:
    word = "explained" if severity is Severity.INFO else severity.value
    return f"\x1b[{SEVERITY_STYLES[severity]}m{word}\x1b[0m" if color else word


def _range(one: CopyDifference) -> str:
    if one.first_offset is None:
        return ""
    if one.last_offset is None:
        return f"from offset {one.first_offset}: "
    if one.first_offset == one.last_offset:
        return f"offset {one.first_offset}: "
    return f"offsets {one.first_offset}..{one.last_offset}: "


def _pair(report: PartitionReport, pair: CopyTruncation) -> str:
    leader, follower = (escaped(report.copies[number].path) for number in (pair.leader, pair.follower))
    if pair.truncation_offset is None:
        what = "drops everything"
    elif pair.truncation_offset >= report.copies[pair.follower].log_end:
        what = "truncates nothing"
    else:
        what = f"truncates to {pair.truncation_offset}"
    if pair.records_lost:
        what += f" and loses {_records(pair.records_lost)}, {pair.nowhere_else:,} of them nowhere else"
    if pair.loops:
        what += "; it truncates and fetches for ever"
    if pair.fails:
        what += "; it gives the partition up"
    return f"if {leader} leads, {follower} {what}"


def _recommendation(report: PartitionReport) -> str:
    best = report.recommendation
    assert best is not None
    text = f"keep {escaped(report.copies[best.copy].path)}: as the leader "
    text += f"it costs {_cost(best.records_lost, best.nowhere_else)}"
    if best.troubled:
        text += f"; {best.troubled} of the others cannot follow it"
    if best.faults:
        text += f"; {best.faults} finding{'s are' if best.faults != 1 else ' is'} about this copy"
    return text


def _expected_lines(report: PartitionReport) -> Iterator[str]:
    """Whom the cluster elects, what that costs, and what saves it."""
    expected, best = report.expected, report.recommendation
    if expected is None or best is None or report.name is None:
        yield "the cluster may elect another one: its metadata is not at hand"
        return
    election = expected.election
    nodes = " or ".join(
        f"node {node} ({'no PATH has its copy' if copy is None else escaped(report.copies[copy].path)})"
        for node, copy in zip(election.possible, expected.copies, strict=True)
    )
    members = ", ".join(map(str, election.isr)) or "none"
    eligible = f", ELR {', '.join(map(str, election.elr))}" if election.elr else ""
    leader = "none" if election.leader == NO_LEADER else str(election.leader)
    known = f"leader {leader}, ISR {members}{eligible} at offset {election.offset} of {escaped(election.directory)}"
    unclean = "" if election.is_unclean_enabled else ", unless server.properties enables unclean elections"
    yield f"the cluster elects {nodes or 'nobody'}{unclean} ({known})"
    yield from (f"perhaps it elects another one: {escaped(doubt)}" for doubt in election.doubts)
    if not election.possible:
        return
    if expected.records_lost is None or expected.nowhere_else is None:
        yield "what starting all nodes costs is not known: copy the partition directories away before the start"
    else:
        most = "at most " if len(election.possible) > 1 and expected.records_lost else ""
        led = "with it as leader" if len(election.possible) == 1 else "with the worst of them as leader"
        yield f"{led}, starting all nodes costs {most}{_cost(expected.records_lost, expected.nowhere_else)}"
    for number, count, ranges in expected.losers:
        offsets = ", ".join(f"{first}..{last}" for first, last in ranges[:_FEW_RANGES])
        more = f" and {len(ranges) - _FEW_RANGES:,} more ranges" if len(ranges) > _FEW_RANGES else ""
        directory = escaped(report.copies[number].directory)
        gone = f"the start destroys {_records(count)} of it, offsets {offsets}{more}"
        yield f"before the start, copy {directory} away: {gone}"
    node = report.copies[best.copy].node_id
    if node is not None and expected.copies != (best.copy,) and (expected.nowhere_else or 0) > best.nowhere_else:
        topic, number = report.name
        yield (
            f"to let {escaped(report.copies[best.copy].path)} lead, start node {node} and the controllers without the "
            f"other replicas, run kafka-leader-election.sh --bootstrap-server HOST:9092 --election-type UNCLEAN "
            f"--topic {escaped(topic)} --partition {number}, then start the others"
        )


def _cost(lost: int, nowhere_else: int) -> str:
    return f"{_records(lost)}, {nowhere_else:,} of them nowhere else" if lost else "no record"


def _records(count: int) -> str:
    return f"{count:,} record{'s' if count != 1 else ''}"


def _cells(values: Sequence[bytes | None]) -> list[str]:
    """Values of several copies, cut so that the place where they begin to differ is seen."""
    texts = [json_text(plain(value)) for value in values]
    same = len(os.path.commonprefix(texts)) if len(set(texts)) > 1 else 0  # noqa: RUF071  # no paths
    first = same - _BEFORE if same > _LONGEST - _BEFORE and max(map(len, texts)) > _LONGEST else 0
    cells = []
    for text in texts:
        part = text[first : first + _LONGEST + 1]
        before, after = "..." if first else "", "..." if len(part) > _LONGEST else ""
        cells.append(escaped(f"{before}{part[:_LONGEST]}{after}"))
    return cells
