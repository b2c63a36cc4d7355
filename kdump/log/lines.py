"""The lines of a file of text, which may be large, and whose lines may be large."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from kdump.log.source import Source

_BLOCK: Final = 1 << 20
"""Bytes that are read at once."""


def lines_of(source: Source, end: int = sys.maxsize) -> Iterator[bytes]:
    """The lines without their ends; the last one may be empty.

    Args:
        source: of the text.
        end: where reading stops, in bytes, though the file may have grown.

    Raises:
        KdumpError: as ``source.read``.
    """
    position = 0
    # A line may be many blocks long.
    pieces: list[bytes] = []
    while block := source.read(position, min(_BLOCK, end - position)):
        position += len(block)
        first, *others = block.split(b"\n")
        pieces.append(first)
        if others:
            yield b"".join(pieces)
            yield from others[:-1]
            pieces = others[-1:]
    yield b"".join(pieces)
