"""The text output of ``kdump verify``: a line per finding, per damaged segment, and per partition for the others."""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from kdump.codes import Codes, Finding, Severity
from kdump.system.blocks import escaped
from kdump.system.units import bytes_text, counted
from kdump.verify.advice import importance, next_command
from kdump.verify.partition import Item
from kdump.verify.report import counts_text, finding_line, recovery_text, summary_line
from kdump.verify.summary import SegmentSummary

_MOST_NAMED = 3


class TextLines:
    """Makes the lines of a run. Segments of a partition that are clean, and its leftovers, are one line each.

    Args:
        color: ANSI colours.
    """

    def __init__(self, *, color: bool) -> None:
        self._color = color
        self._folder: str | None = None
        self._clean: list[SegmentSummary] = []
        self._leftovers: list[Finding] = []
        self._has_others = False

    def of(self, item: Item) -> Iterator[str]:
        """The lines that can be shown, with the next item of the run."""
        folder = os.path.dirname(item.path or "")
        if folder != self._folder:
            yield from self.rest()
            self._folder = folder
        if isinstance(item, SegmentSummary):
            if item.batches is None or any(item.counts.values()) or item.recovery is not None:
                self._has_others |= item.batches is not None
                yield summary_line(item)
            else:
                self._clean.append(item)
        elif item.code is Codes.LEFTOVER:
            self._leftovers.append(item)
        else:
            yield finding_line(item, color=self._color)

    def rest(self) -> Iterator[str]:
        """The lines about the partition that were held back."""
        if self._leftovers:
            yield _leftovers_line(self._folder or "", self._leftovers, color=self._color)
            self._leftovers = []
        if self._clean:
            yield _clean_line(self._folder or "", self._clean, are_all=not self._has_others)
            self._clean = []
        self._has_others = False


def _clean_line(folder: str, segments: Sequence[SegmentSummary], *, are_all: bool) -> str:
    """``are_all``: the partition has no others, so these tell its offsets."""
    if len(segments) == 1:
        return summary_line(segments[0])
    what = "segment" if are_all else "other segment"
    parts = [counted(len(segments), what), f"{sum(one.batches or 0 for one in segments):,} batches"]
    if all(one.size is not None for one in segments):
        parts.append(f"{sum(one.size or 0 for one in segments):,} bytes")
    firsts = [one.first_offset for one in segments if one.first_offset is not None]
    lasts = [one.last_offset for one in segments if one.last_offset is not None]
    if are_all and firsts and lasts:
        parts.append(f"offsets {min(firsts)}..{max(lasts)}")
    return f"{escaped(folder or '.')}: {', '.join(parts)}: clean\n"


def _leftovers_line(folder: str, found: Sequence[Finding], *, color: bool) -> str:
    first = found[0]
    if len(found) == 1:
        return finding_line(first, color=color)
    names = sorted(os.path.basename(one.path or "") for one in found)
    more = ", ..." if len(names) > _MOST_NAMED else ""
    message = f"{counted(len(found), 'leftover')}: {', '.join(names[:_MOST_NAMED])}{more}"
    return finding_line(Finding(first.code, message, 0, path=folder, graded=first.graded), color=color)


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
