"""The lines of a file of text, which may be large, and whose lines may be large."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from kdump.codes import Codes, KdumpError
from kdump.log.source import Source
from kdump.wire.compression import DEFAULT_LIMIT

_BLOCK: Final = 1 << 20
"""Bytes that are read at once."""
MOST_IN_A_LINE: Final = 2 * DEFAULT_LIMIT
"""Bytes of the longest line: base64 takes 4 for 3 bytes of the largest record."""


def lines_of(source: Source, end: int = sys.maxsize, longest: int = MOST_IN_A_LINE) -> Iterator[bytes]:
    """The lines without their ends; the last one may be empty.

    Args:
        source: of the text.
        end: where reading stops, in bytes, though the file may have grown.
        longest: bytes that a line may have.

    Raises:
        KdumpError: as ``source.read``; FILE_SIZE for a longer line.
    """
    position = size = 0
    # A line may be many blocks long.
    pieces: list[bytes] = []
    while block := source.read(position, min(_BLOCK, end - position)):
        position += len(block)
        first, *others = block.split(b"\n")
        pieces.append(first)
        size += len(first)
        if max(size, max(map(len, others), default=0)) > longest:
            message = f"a line has more than {longest:,} bytes"
            raise KdumpError(Codes.FILE_SIZE, message, path=source.path, position=position - len(block))
        if others:
            yield _taken(pieces)
            yield from others[:-1]
            pieces = others[-1:]
            size = len(pieces[0])
    yield _taken(pieces)


def _taken(pieces: list[bytes]) -> bytes:
    """What the pieces hold, and then do not: a large line is not held twice."""
    line = b"".join(pieces)
    pieces.clear()
    return line
