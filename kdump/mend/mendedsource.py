"""A mended log as a source of bytes: read before it is written, copied while it is checked."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from contextlib import ExitStack
from itertools import accumulate

from kdump.codes import Codes, KdumpError
from kdump.log.source import Source, open_source
from kdump.mend.pieces import MendedLog, Piece


class MendedSource(Source):
    """The bytes of the pieces, one behind the other.

    Args:
        path: what messages call it.
        log: the mended log.
        opened: opens the files that pieces come from.
    """

    def __init__(self, path: str, log: MendedLog, opened: Callable[[str], Source] = open_source) -> None:
        super().__init__(path, log.size)
        self._pieces = log.pieces
        self._starts = [0, *accumulate(piece.length for piece in log.pieces)]
        with ExitStack() as stack:
            self._files = {
                name: stack.enter_context(opened(name))
                for name in {piece.path for piece in log.pieces}
                if name is not None
            }
            self._closing = stack.pop_all()

    def read_into(self, view: memoryview, position: int) -> int:
        """See Source. Raises KdumpError CHANGED_WHILE_READ too, where a file ends before its piece."""
        filled = 0
        number = bisect_right(self._starts, position) - 1
        while filled < len(view) and number < len(self._pieces):
            offset = position + filled - self._starts[number]
            target = view[filled : filled + self._pieces[number].length - offset]
            self._read_piece(self._pieces[number], offset, target)
            filled += len(target)
            number += 1
        return filled

    def close(self) -> None:
        """See Source."""
        self._closing.close()

    def _read_piece(self, piece: Piece, offset: int, target: memoryview) -> None:
        """Fill ``target`` from ``offset`` of a piece on."""
        if piece.path is None:
            target[:] = piece.data[offset : offset + len(target)]
            return
        position = piece.position + offset
        if self._files[piece.path].read_into(target, position) < len(target):
            raise KdumpError(Codes.CHANGED_WHILE_READ, "it became shorter", path=piece.path, position=position)
        for patched, data in piece.patches:
            first, last = max(patched, offset), min(patched + len(data), offset + len(target))
            if first < last:
                target[first - offset : last - offset] = data[first - patched : last - patched]
