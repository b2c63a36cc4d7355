"""A mended log as a source of bytes, before it is written: to write it, and to look at it as at any log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

from kdump.codes import Codes, KdumpError
from kdump.log.source import Source, open_source
from kdump.mend.pieces import MendedLog


class MendedSource(Source):
    """Reads the pieces one after the other; files are opened as they are needed and stay open until ``close``.

    Args:
        path: what errors name.
        log: the mended log.
        opened: opens a file that pieces come from.
    """

    def __init__(self, path: str, log: MendedLog, opened: Callable[[str], Source] = open_source) -> None:
        super().__init__(path, log.size)
        self._pieces = log.pieces
        self._starts = [0, *accumulate(piece.length for piece in log.pieces)]
        self._open = opened
        self._sources: dict[str, Source] = {}

    def read_into(self, view: memoryview, position: int) -> int:
        """See Source."""
        filled = 0
        number = bisect_right(self._starts, position) - 1
        while filled < len(view) and number < len(self._pieces):
            start = position + filled - self._starts[number]
            length = min(len(view) - filled, self._pieces[number].length - start)
            self._read_piece(view[filled : filled + length], number, start)
            filled += length
            number += 1
        return filled

    def close(self) -> None:
        """See Source."""
        for source in self._sources.values():
            source.close()
        self._sources.clear()

    def _read_piece(self, view: memoryview, number: int, start: int) -> None:
        """Fill ``view`` with the bytes of a piece from its byte ``start`` on."""
        piece = self._pieces[number]
        if piece.path is None:
            view[:] = piece.data[start : start + len(view)]
            return
        source = self._sources.get(piece.path)
        if source is None:
            source = self._sources[piece.path] = self._open(piece.path)
        if source.read_into(view, piece.position + start) < len(view):
            raise KdumpError(Codes.UNREADABLE, "has become shorter", path=piece.path, position=piece.position + start)
        for at, data in piece.patches:
            first, last = max(at - start, 0), min(at + len(data) - start, len(view))
            if first < last:
                view[first:last] = data[first + start - at : last + start - at]
