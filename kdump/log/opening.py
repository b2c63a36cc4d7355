"""Opening sources by their paths: files and streams of this machine, and what a URI names (``log.stores``)."""

from __future__ import annotations

import os
import stat
from typing import Final

from kdump.codes import Codes, KdumpError
from kdump.log.named import STDIN, STDIN_DESCRIPTOR, is_a_directory, is_named, not_opened, open_found, reads_once
from kdump.log.names import TEXT_FILES, is_uri
from kdump.log.source import FileSource, Source, StreamSource

_PIECE_SIZE: Final = 1 << 20
_MOST_TEXT: Final = 16 << 20
"""The largest text file: a line for each leader epoch, or for each of 50,000 partitions with the longest names."""
_MOST_BINARY: Final = 128 << 20
"""The largest index or snapshot: 12 times the default segment.index.bytes, 2.9 million producers."""


def open_source(path: str) -> Source:
    """Open a path or a URI read-only; ``-`` is standard input.

    Raises:
        KdumpError: MISSING or UNREADABLE (a directory too); SPECIAL_FILE or LINK_OUTSIDE where no user named it.
    """
    if is_uri(path):
        from kdump.log.stores import open_object

        return open_object(path)
    if path != STDIN and not is_named(path):
        return FileSource(path, *open_found(path))
    try:
        if path == STDIN:
            if reads_once(path):
                os.fstat(STDIN_DESCRIPTOR)
                return StreamSource(path, STDIN_DESCRIPTOR, owned=False)
            descriptor = os.dup(STDIN_DESCRIPTOR)
        else:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise not_opened(path, error) from error
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return FileSource(path, descriptor, status)
    if stat.S_ISDIR(status.st_mode):
        os.close(descriptor)
        raise is_a_directory(path)
    return StreamSource(path, descriptor, owned=True)


def read_whole(path: str) -> bytes:
    """All bytes of a small file (an index, a snapshot, a text file).

    Raises:
        KdumpError: FILE_SIZE, and as open_source and read_into do.
    """
    with open_source(path) as source:
        if source.size is not None:
            check_size(path, source.size)
            return source.read(0, source.size)
        parts: list[bytes] = []
        position = 0
        while part := source.read(position, _PIECE_SIZE):
            parts.append(part)
            position += len(part)
            check_size(path, position)
        return b"".join(parts)


def check_size(path: str, size: int) -> None:
    """Raises KdumpError FILE_SIZE where a file that is to be read whole is larger than its kind can be."""
    if size <= _MOST_TEXT:
        return
    most = _MOST_TEXT if os.path.basename(path) in TEXT_FILES else _MOST_BINARY
    if size > most:
        raise KdumpError(Codes.FILE_SIZE, f"has {size:,} bytes or more, {most:,} are the most it can have", path=path)
