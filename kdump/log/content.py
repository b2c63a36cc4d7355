"""The contents of a file without its bytes in memory: ranges of files on disk, a few new bytes, and zeros."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from kdump.codes import Codes, KdumpError
from kdump.log.opening import check_holes, check_size, open_source
from kdump.log.source import Source

_BLOCK: Final = 1 << 20
_ZEROS: Final = bytes(_BLOCK)


@dataclass(frozen=True, slots=True)
class ContentPiece:
    """``length`` bytes of the file ``path`` from ``position`` on; without a path of ``data``, and zeros after them."""

    path: str | None
    position: int
    length: int
    data: bytes = b""

    def part(self, start: int, end: int) -> ContentPiece:
        """The bytes from ``start`` to ``end`` (exclusive)."""
        if self.path is None:
            return ContentPiece(None, 0, end - start, self.data[start:end])
        return ContentPiece(self.path, self.position + start, end - start)


@dataclass(frozen=True, slots=True)
class Content:
    """Pieces in file order, ``size`` bytes in all."""

    pieces: Sequence[ContentPiece]
    size: int

    @classmethod
    def of_file(cls, path: str, size: int) -> Content:
        """The contents of a file on disk."""
        return cls((ContentPiece(path, 0, size),), size)

    @classmethod
    def of_bytes(cls, data: bytes) -> Content:
        """The contents of a small new file."""
        return cls((ContentPiece(None, 0, len(data), data),), len(data))

    @classmethod
    def zeros(cls, size: int) -> Content:
        """Zeros only."""
        return cls((ContentPiece(None, 0, size),), size)

    def read(self) -> bytes:
        """All bytes of a small file.

        Raises:
            KdumpError: FILE_SIZE where it is too large for one, or a file cannot be read.
        """
        check_size(self.pieces[0].path or "" if self.pieces else "", self.size)
        with ContentSource("", self) as source:
            return source.read(0, self.size)

    def part(self, start: int, end: int) -> Content:
        """The bytes from ``start`` to ``end`` (exclusive, at most the size)."""
        pieces = []
        at = 0
        for piece in self.pieces:
            first, last = max(start - at, 0), min(end - at, piece.length)
            if first < last:
                pieces.append(piece.part(first, last))
            at += piece.length
        return Content(tuple(pieces), max(min(end, self.size) - start, 0))

    def resized(self, size: int) -> Content:
        """The contents cut, or with zeros added."""
        if size <= self.size:
            return self if size == self.size else self.part(0, size)
        return self + Content.zeros(size - self.size)

    def overwritten(self, data: bytes) -> Content:
        """The contents with ``data`` over the first bytes."""
        return Content.of_bytes(data) + self.part(len(data), self.size)

    def starts_as(self, other: Content) -> bool:
        """Whether these are the first bytes of ``other``, from the same place."""
        return self == other.resized(self.size) if self.size <= other.size else False

    def __add__(self, other: Content) -> Content:
        return Content((*self.pieces, *other.pieces), self.size + other.size)


class ContentSource(Source):
    """Reads a content. Files are opened when they are needed and stay open until ``close``.

    Args:
        path: what errors name.
        content: what to read.
        on_read: takes the bytes of every read of a file.
        opened: opens a file.
    """

    def __init__(
        self,
        path: str,
        content: Content,
        on_read: Callable[[int], None] = lambda count: None,
        opened: Callable[[str], Source] = open_source,
    ) -> None:
        self._starts = list(accumulate((piece.length for piece in content.pieces), initial=0))
        super().__init__(path, self._starts[-1])
        self._pieces = content.pieces
        self._on_read = on_read
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

    def _stored_of(self, piece: ContentPiece) -> int:
        if piece.path is None:
            return len(piece.data)
        stored = self._source_of(piece.path).stored
        return piece.length if stored is None else min(piece.length, stored)

    def _read_piece(self, view: memoryview, piece: ContentPiece, start: int) -> None:
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
        self._on_read(len(view))

    def _source_of(self, path: str) -> Source:
        source = self._sources.get(path)
        if source is None:
            source = self._sources[path] = self._open(path)
        return source


def _open_for_digest(path: str) -> Source:
    """As ``open_source``. Raises KdumpError FILE_SIZE too, see ``check_holes``."""
    source = open_source(path)
    try:
        check_holes(source)
    except KdumpError:
        source.close()
        raise
    return source


def sha256(content: Content) -> str:
    """The checksum of a content, in hexadecimal. Raises KdumpError when a file cannot be read."""
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(min(_BLOCK, content.size)))
    with ContentSource("", content, opened=_open_for_digest) as source:
        for position in range(0, content.size, _BLOCK):
            view = buffer[: content.size - position]
            source.read_into(view, position)
            digest.update(view)
    return digest.hexdigest()
