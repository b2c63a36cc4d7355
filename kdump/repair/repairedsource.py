"""A mended log as a source of bytes, before it is written: to write it, and to look at it as at any log."""

from __future__ import annotations

from collections.abc import Callable

from kdump.log.opening import open_source
from kdump.log.piecewise import PiecewiseSource
from kdump.log.source import Source
from kdump.repair.pieces import LogPiece, RepairedLog


class RepairedSource(PiecewiseSource[LogPiece]):
    """Reads the pieces of a mended log, with what is restored in them.

    Args:
        path: what errors name.
        log: the mended log.
        opened: opens a file that pieces come from.
    """

    def __init__(self, path: str, log: RepairedLog, opened: Callable[[str], Source] = open_source) -> None:
        super().__init__(path, log.pieces, opened)

    def _was_read(self, view: memoryview, piece: LogPiece, start: int) -> None:
        for at, data in piece.patches:
            first, last = max(at - start, 0), min(at + len(data) - start, len(view))
            if first < last:
                view[first:last] = data[first + start - at : last + start - at]
