"""A log that does not exist as a file: pieces of files and of memory, read as one source."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final, Generic, Protocol, TypeVar

from kdump.codes import Codes, KdumpError
from kdump.log.opening import open_source
from kdump.log.source import Source

_ZEROS: Final = bytes(1 << 20)


class Piece(Protocol):
    """``length`` bytes of the file ``path`` from ``position`` on.

    Without a path, the bytes are ``data``, and zeros after it.
    """

    @property
    def path(self) -> str | None:
        """Of the file."""

    @property
    def position(self) -> int:
        """In the file."""

    @property
    def length(self) -> int:
        """Bytes."""

    @property
    def data(self) -> bytes:
        """Bytes that no file holds."""


PieceT = TypeVar("PieceT", bound=Piece)


class PiecewiseSource(Source, Generic[PieceT]):
    """Reads pieces one after the other. Files are opened when they are needed and stay open until ``close``.

    Args:
        path: what errors name.
        pieces: what to read.
        opened: opens a file.
    """

    def __init__(self, path: str, pieces: Sequence[PieceT], opened: Callable[[str], Source] = open_source) -> None:
        self._starts = array("q", accumulate((piece.length for piece in pieces), initial=0))
        super().__init__(path, self._starts[-1])
        self._pieces = pieces
        self._open = opened
        self._sources: dict[str, Source] = {}

    def read_into(self, view: memoryview, position: int) -> int:
        """See Source."""
        filled = 0
        number = bisect_right(self._starts, position) - 1
        while filled < len(view) and number < len(self._pieces):
            start = position + filled - self._starts[number]
            length = min(len(view) - filled, self._pieces[number].length - start)
            self._read_piece(view[filled : filled + length], self._pieces[number], start)
            filled += length
            number += 1
        return filled

    @property
    def stored(self) -> int | None:
        """See Source. Of several pieces of a sparse file each counts as if it were the one that is stored."""
        return sum(map(self._stored_of, self._pieces))

    def data_from(self, position: int) -> int:
        """See Source."""
        number = bisect_right(self._starts, position) - 1
        while number < len(self._pieces):
            piece, first = self._pieces[number], self._starts[number]
            if piece.path is None:
                at = position if position - first < len(piece.data) else first + piece.length
            else:
                shift = first - piece.position
                at = self._source_of(piece.path).data_from(position - shift) + shift
            if at < first + piece.length:
                return at
            number += 1
            position = first + piece.length
        return position

    def close(self) -> None:
        """See Source."""
        for source in self._sources.values():
            source.close()
        self._sources.clear()

    def _stored_of(self, piece: PieceT) -> int:
        if piece.path is None:
            return len(piece.data)
        stored = self._source_of(piece.path).stored
        return piece.length if stored is None else min(piece.length, stored)

    def _read_piece(self, view: memoryview, piece: PieceT, start: int) -> None:
        """Fill ``view`` with the bytes of a piece from its byte ``start`` on."""
        if piece.path is None:
            data = piece.data[start : start + len(view)]
            view[: len(data)] = data
            for at in range(len(data), len(view), len(_ZEROS)):
                end = min(at + len(_ZEROS), len(view))
                view[at:end] = _ZEROS[: end - at]
            return
        position = piece.position + start
        if self._source_of(piece.path).read_into(view, position) < len(view):
            raise KdumpError(Codes.CHANGED_WHILE_READ, "has become shorter", path=piece.path, position=position)
        self._was_read(view, piece, start)

    def _source_of(self, path: str) -> Source:
        source = self._sources.get(path)
        if source is None:
            source = self._sources[path] = self._open(path)
        return source

    def _was_read(self, view: memoryview, piece: PieceT, start: int) -> None:
        """Called with the bytes of a file, which may be changed."""
