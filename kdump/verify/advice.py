"""The command to type next for a finding, and which finding matters most."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable

from kdump.codes import HOSTILE_CODES, Codes, Finding, Severity
from kdump.log.names import Kind, parse_file_name

_RANKS = {Severity.ERROR: 2, Severity.WARNING: 1, Severity.INFO: 0}
_WHOLE_SEGMENTS = HOSTILE_CODES | {
    Codes.ALREADY_LOST,
    Codes.SEGMENT_MISSING,
    Codes.SEGMENT_OVERLAP,
    Codes.SEGMENTS_SWAPPED,
}
"""Findings about a whole segment, which have no position to explain, or about one that is not read without its name."""


def lost_offsets(finding: Finding) -> int:
    """How many offsets a finding says are lost, at most; 0 where it names none."""
    if finding.first_offset is None or finding.last_offset is None:
        return 0
    return max(finding.last_offset - finding.first_offset + 1, 0)


def importance(finding: Finding) -> tuple[int, bool, int]:
    """What sorts findings: an error before a warning, one that names lost offsets before others, more before fewer."""
    return _RANKS[finding.severity], finding.first_offset is not None, lost_offsets(finding)


def most_important(findings: Iterable[Finding]) -> Finding | None:
    """The finding that matters most, the first of several; None: there are none."""
    return max(findings, key=importance, default=None)


def next_command(finding: Finding) -> str | None:
    """The command that shows or mends what a finding is about; None: there is none for it alone."""
    path = finding.path
    if path is None:
        return None
    name = parse_file_name(path)
    folder = shlex.quote(os.path.dirname(path) or ".")
    if finding.code in _WHOLE_SEGMENTS or name is None:
        return None if name is None else f"kdump repair {folder}"
    if name.kind in (Kind.INDEX, Kind.TIME_INDEX):
        return f"kdump repair --indexes {folder}"
    if finding.code is Codes.TRANSACTION_OPEN and finding.first_offset is not None:
        return f"kdump dump --deep-iteration --offset {finding.first_offset}: {folder}"
    if name.kind is Kind.LOG:
        return f"kdump dump --explain {finding.position} {shlex.quote(path)}"
    return f"kdump repair {folder}"
