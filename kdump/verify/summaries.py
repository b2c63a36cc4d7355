"""The end of ``kdump verify``: all segments in a table, and what to run next, or one line with their numbers."""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterable

from kdump.codes import HOSTILE_CODES, Codes, Finding, Severity
from kdump.system.blocks import escaped
from kdump.system.units import counted
from kdump.verify.report import counts_text, recovery_text
from kdump.verify.summary import SegmentSummary


class TerminalSummary:
    """Collects what a run found.

    Args:
        width: characters of the terminal.
        color: ANSI colours.
    """

    def __init__(self, *, width: int, color: bool) -> None:
        self._width = width
        self._color = color
        self._segments: list[SegmentSummary] = []
        self._first_errors: dict[str, Finding] = {}
        self._counts = dict.fromkeys(Severity, 0)

    def add_finding(self, finding: Finding) -> None:
        """The next finding."""
        self._counts[finding.severity] += 1
        if finding.severity is Severity.ERROR and finding.path is not None:
            self._first_errors.setdefault(finding.path, finding)

    def add_segment(self, summary: SegmentSummary) -> None:
        """The next segment."""
        self._segments.append(summary)

    def text(self) -> str:
        """The table (one segment has only its line) and, where there is damage, the next commands."""
        return (self._table() if len(self._segments) > 1 else "") + "".join(self._next())

    def last_line(self) -> str:
        """How many segments there are, and how many findings of each severity."""
        return f"{counted(len(self._segments), 'segment')}: {counts_text(self._counts)}\n"

    def _table(self) -> str:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        grid = Table(pad_edge=False)
        for name in ("segment", "batches", "bytes", "offsets", "errors", "warnings", "if recovered"):
            grid.add_column(name, justify="left" if name in ("segment", "offsets", "if recovered") else "right")
        for segment in self._segments:
            errors, warnings = segment.counts[Severity.ERROR], segment.counts[Severity.WARNING]
            offsets = "" if segment.first_offset is None else f"{segment.first_offset}..{segment.last_offset}"
            cells = (
                escaped(segment.path),
                "" if segment.batches is None else f"{segment.batches:,}",
                "" if segment.size is None else f"{segment.size:,}",
                offsets,
                str(errors or ""),
                str(warnings or ""),
                "" if segment.recovery is None else recovery_text(segment.recovery),
            )
            style = "bold red" if errors else "yellow" if warnings else ""
            grid.add_row(*map(Text, cells), style=style)
        text = io.StringIO()
        Console(file=text, width=self._width, force_terminal=self._color, no_color=not self._color).print(grid)
        return text.getvalue()

    def _next(self) -> Iterable[str]:
        for path, finding in self._first_errors.items():
            if finding.code in _WITHOUT_BYTES or not path.endswith(".log"):
                continue
            name = escaped(shlex.quote(path))
            yield f"next: kdump dump --explain {finding.position} {name}\n"
            yield f"      kdump dump --resync --deep-iteration {name}\n"


_WITHOUT_BYTES = HOSTILE_CODES | {
    Codes.ALREADY_LOST,
    Codes.SEGMENT_MISSING,
    Codes.SEGMENT_OVERLAP,
    Codes.SEGMENTS_SWAPPED,
}
"""Findings about a whole segment, which have no position to explain, or about one that is not read without its name."""
