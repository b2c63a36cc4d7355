"""Findings as text for people, as JSON lines, as JUnit XML and as commands of GitHub Actions."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kdump.codes import Finding, KdumpError, Severity
from kdump.rows.filetables import finding_row
from kdump.rows.scalarlines import json_line
from kdump.system.blocks import escaped
from kdump.system.units import counted
from kdump.verify.summary import SegmentSummary

if TYPE_CHECKING:
    from xml.etree import ElementTree

    from kdump.kafka.recover import Recovery

SEVERITY_STYLES: Final = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.INFO: "2"}
"""ANSI codes."""
_ANNOTATIONS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_IN_MESSAGE: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTIES: Final = _IN_MESSAGE | str.maketrans({":": "%3A", ",": "%2C"})
_ILLEGAL_IN_XML: Final = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF), "\N{REPLACEMENT CHARACTER}")


def finding_line(finding: Finding, *, color: bool) -> str:
    """A finding in one line: file, severity, code, position, what is wrong, what is lost, where consumers continue."""
    code = finding.code.value
    severity = finding.severity.value
    if color:
        severity = f"\x1b[{SEVERITY_STYLES[finding.severity]}m{severity}\x1b[0m"
    return f"{escaped(finding.path or '')}: {severity} {code.code} {code.name} {escaped(str(finding))}\n"


def summary_line(summary: SegmentSummary) -> str:
    """A segment in one line, with ``if recovered`` where recovery would change it."""
    parts = [] if summary.batches is None else [f"{summary.batches:,} batches"]
    if summary.size is not None:
        parts.append(f"{summary.size:,} bytes")
    if summary.first_offset is not None:
        parts.append(f"offsets {summary.first_offset}..{summary.last_offset}")
    text = f"{escaped(summary.path)}: {', '.join(parts)}: {counts_text(summary.counts)}"
    return text + (f"; if recovered: {recovery_text(summary.recovery)}" if summary.recovery is not None else "") + "\n"


def counts_text(counts: Mapping[Severity, int]) -> str:
    """How many findings there are of each severity; ``clean`` without any."""
    found = [
        counted(count, severity.value, severity.value if severity is Severity.INFO else None)
        for severity, count in counts.items()
        if count
    ]
    return ", ".join(found) or "clean"


def recovery_text(recovery: Recovery) -> str:
    """What LogSegment.recover would do to a segment, in words."""
    from kdump.kafka.recover import RecoveryOutcome  # loaded by whoever made a recovery

    if recovery.failure is not None:
        return f"fails, {recovery.failure.message}"
    if recovery.outcome is RecoveryOutcome.TRUNCATED:
        end = f"the log ends at {recovery.end:,} before offset {recovery.next_offset}"
        return f"{recovery.bytes_cut:,} {'byte is' if recovery.bytes_cut == 1 else 'bytes are'} cut, {end}"
    return "nothing is cut"


def finding_json(finding: Finding) -> str:
    """A finding as a JSON line: a row of the table FINDING."""
    return json_line(finding_row(finding))


def github_line(finding: Finding) -> str:
    """A finding as an annotation of GitHub Actions; a file has no lines, so the message tells the position."""
    code = finding.code.value
    kind = _ANNOTATIONS[finding.severity]
    return _annotation(kind, finding.path, f"{code.code} {code.name}", str(finding))


def github_error(error: KdumpError) -> str:
    """A PATH that cannot be read as an annotation of GitHub Actions."""
    code = error.code.value
    return _annotation("error", error.path, f"{code.code} {code.name}", error.message)


def _annotation(kind: str, path: str | None, title: str, message: str) -> str:
    """A command of a workflow. Its properties and its message are escaped as actions/toolkit does it."""
    properties = ({} if path is None else {"file": path}) | {"title": title}
    listed = ",".join(f"{name}={_in_command(value, _IN_PROPERTIES)}" for name, value in properties.items())
    return f"::{kind} {listed}::{_in_command(message, _IN_MESSAGE)}\n"


def _in_command(text: str, escapes: Mapping[int, str]) -> str:
    return escaped(text, keep="\r\n").translate(escapes)


class JUnitReport:
    """JUnit XML as CI systems read it: a suite per directory, a case per file.

    Args:
        failing: the severities that fail a case.
        name: of the whole.
    """

    def __init__(self, failing: frozenset[Severity], name: str = "kdump verify") -> None:
        self._failing = failing
        self._name = name
        self._cases: defaultdict[str, dict[str, list[Finding]]] = defaultdict(dict)
        self._errors: list[KdumpError] = []

    def add_finding(self, finding: Finding) -> None:
        """Add a finding to the case of its file."""
        self._case(finding.path or "").append(finding)

    def add_segment(self, summary: SegmentSummary) -> None:
        """Add the case of a segment, which may have no findings."""
        self.add_case(summary.path)

    def add_case(self, path: str) -> None:
        """Add the case of a file or directory, which may have no findings."""
        self._case(path)

    def add_error(self, error: KdumpError) -> None:
        """Add a PATH that cannot be read."""
        self._errors.append(error)

    def document(self) -> bytes:
        """The whole document."""
        from xml.etree import ElementTree as Xml  # not needed by other outputs

        root = Xml.Element("testsuites", name=self._name)
        for folder, cases in self._cases.items():
            failed = sum(any(finding.severity in self._failing for finding in found) for found in cases.values())
            suite = Xml.SubElement(
                root, "testsuite", name=_legal(folder), tests=str(len(cases)), failures=str(failed), errors="0"
            )
            for name, found in cases.items():
                self._add_case(suite, folder, name, found)
        if self._errors:
            count = str(len(self._errors))
            suite = Xml.SubElement(root, "testsuite", name="paths", tests=count, failures="0", errors=count)
            for error in self._errors:
                case = Xml.SubElement(suite, "testcase", classname="paths", name=_legal(error.path or ""))
                element = Xml.SubElement(case, "error", type=error.code.value.name, message=_legal(error.message))
                element.text = _legal(str(error))
        for name in ("tests", "failures", "errors"):
            root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
        Xml.indent(root)
        document: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
        return document + b"\n"

    def _add_case(self, suite: ElementTree.Element, folder: str, name: str, found: list[Finding]) -> None:
        from xml.etree import ElementTree as Xml

        case = Xml.SubElement(suite, "testcase", classname=_legal(folder), name=_legal(name))
        failing = [finding for finding in found if finding.severity in self._failing]
        if failing:
            # One element with a line per finding: most readers show only the text of the first element.
            first = failing[0]
            count = "" if len(failing) == 1 else f" (and {len(failing) - 1} more)"
            failure = Xml.SubElement(
                case, "failure", type=first.code.value.name, message=_legal(f"{first.code.value.code} {first}{count}")
            )
            failure.text = _lines(failing)
        others = [finding for finding in found if finding.severity not in self._failing]
        if others:
            Xml.SubElement(case, "system-out").text = _lines(others)

    def _case(self, path: str) -> list[Finding]:
        folder, name = os.path.split(path)
        return self._cases[folder or "."].setdefault(name, [])


def _lines(found: list[Finding]) -> str:
    return "".join(
        _legal(f"{finding.severity.value} {finding.code.value.code} {finding.code.value.name} {finding}\n")
        for finding in found
    )


def _legal(text: str) -> str:
    """The text without characters that XML cannot represent."""
    return text.encode("utf-8", "replace").decode().translate(_ILLEGAL_IN_XML)
