"""The contents of a file without its bytes in memory: ranges of files on disk, a few new bytes, and zeros."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kdump.codes import KdumpError
from kdump.log.opening import check_holes, check_size, open_source
from kdump.log.piecewise import PiecewiseSource
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


class ContentSource(PiecewiseSource[ContentPiece]):
    """Reads a content.

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
        super().__init__(path, content.pieces, opened)
        self._on_read = on_read

    def _was_read(self, view: memoryview, piece: ContentPiece, start: int) -> None:
        self._on_read(len(view))


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
        start = 0
        for piece in content.pieces:
            end = start + piece.length
            if piece.path is None:
                digest.update(piece.data[:])
                for at in range(len(piece.data), piece.length, _BLOCK):
                    digest.update(memoryview(_ZEROS)[: piece.length - at])
            else:
                for position in range(start, end, _BLOCK):
                    view = buffer[: end - position]
                    source.read_into(view, position)
                    digest.update(view)
            start = end
    return digest.hexdigest()
