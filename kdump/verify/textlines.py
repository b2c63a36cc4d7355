"""The text output of ``kdump verify``: a line per finding, per damaged segment, and per partition for the others."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from kdump.codes import Codes, Finding
from kdump.system.blocks import escaped
from kdump.system.units import counted
from kdump.verify.partition import Item
from kdump.verify.report import finding_line, summary_line
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
