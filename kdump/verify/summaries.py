"""The end of ``kdump verify``: the segments with findings, what matters most, and what to run next; or one line."""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Iterator
from typing import Final

from kdump.codes import Finding, Severity
from kdump.system.blocks import escaped
from kdump.system.units import bytes_text, counted
from kdump.verify.advice import importance, next_command
from kdump.verify.report import counts_text, finding_line, recovery_text
from kdump.verify.summary import SegmentSummary

_BESIDE_NAMES: Final = 40
"""Columns of a terminal that the table takes beside the names."""
_BESIDE_COUNTS: Final = 25
"""The same without what a recovery does."""


class TerminalSummary:
    """Collects what a run found.

    Args:
        width: characters of the terminal.
        color: ANSI colours.
    """

    def __init__(self, *, width: int, color: bool) -> None:
        self._width = width
        self._color = color
        self._wrong: list[SegmentSummary] = []
        self._worst: Finding | None = None
        self._counts = dict.fromkeys(Severity, 0)
        self._partitions: set[str] = set()
        self._segments = self._bytes = 0

    def add_finding(self, finding: Finding) -> None:
        """The next finding."""
        self._counts[finding.severity] += 1
        if self._worst is None or importance(finding) > importance(self._worst):
            self._worst = finding

    def add_segment(self, summary: SegmentSummary) -> None:
        """The next segment."""
        if summary.batches is not None:
            self._partitions.add(os.path.dirname(summary.path))
            self._segments += 1
            self._bytes += summary.size or 0
        if summary.counts[Severity.ERROR] or summary.counts[Severity.WARNING]:
            self._wrong.append(summary)

    def text(self) -> str:
        """The table (one segment has only its line), what matters most, the next commands, and what was read."""
        return (self._table() if len(self._wrong) > 1 else "") + "".join(self._end())

    def last_line(self) -> str:
        """How many segments there are, and how many findings of each severity."""
        return f"{counted(self._segments, 'segment')}: {counts_text(self._counts)}\n"

    def _table(self) -> str:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        names = self._names()
        longest = max(map(len, names))
        # The line of each segment says it, too.
        says_recovery = longest + _BESIDE_NAMES <= self._width
        grid = Table(pad_edge=False)
        # A name is never cut: its digits tell the segment.
        grid.add_column("segment", no_wrap=True, overflow="ignore", min_width=longest)
        for name in ("errors", "warnings"):
            grid.add_column(name, justify="right", no_wrap=True)
        if says_recovery:
            grid.add_column("if recovered", overflow="fold")
        for segment, name in zip(self._wrong, names, strict=True):
            errors, warnings = segment.counts[Severity.ERROR], segment.counts[Severity.WARNING]
            cells = [name, str(errors or ""), str(warnings or "")]
            if says_recovery:
                cells.append("" if segment.recovery is None else recovery_text(segment.recovery))
            grid.add_row(*map(Text, cells), style="bold red" if errors else "yellow")
        text = io.StringIO()
        width = max(self._width, longest + _BESIDE_COUNTS)
        Console(file=text, width=width, force_terminal=self._color, no_color=not self._color).print(grid)
        return text.getvalue()

    def _names(self) -> list[str]:
        """The paths without the directories that all have in common."""
        paths = [segment.path for segment in self._wrong]
        logs = {os.path.dirname(os.path.dirname(path)) for path in paths}
        # The directory of the partition stays.
        front = len(os.path.join(logs.pop(), "")) if len(logs) == 1 else 0
        return [escaped(path[front:]) for path in paths]

    def _end(self) -> Iterator[str]:
        worst = self._worst
        if worst is None or worst.severity is Severity.INFO:
            read = f"{counted(len(self._partitions), 'partition')}, {counted(self._segments, 'segment')}"
            if self._segments > 1:
                yield f"nothing is wrong: {read}, {bytes_text(self._bytes)}\n"
            return
        others = ", ".join(
            counted(self._counts[severity], severity.value)
            for severity in (Severity.ERROR, Severity.WARNING)
            if self._counts[severity]
        )
        if self._counts[Severity.ERROR] + self._counts[Severity.WARNING] > 1:
            yield f"{others}; the most important one:\n"
            yield finding_line(worst, color=self._color)
        command = next_command(worst)
        if command is not None:
            folder = shlex.quote(os.path.dirname(worst.path or "") or ".")
            more = f"kdump repair {folder}"
            yield f"next: {escaped(command)}\n"
            if worst.severity is Severity.ERROR and command != more:
                yield f"      {escaped(more)}\n"
