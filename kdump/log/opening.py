"""Opening sources by their paths: files and streams of this machine, and what a URI names (``log.stores``)."""

from __future__ import annotations

import os
import stat
from typing import Final

from kdump.codes import Codes, KdumpError
from kdump.log.named import STDIN, STDIN_DESCRIPTOR, is_a_directory, is_named, not_opened, open_found, reads_once
from kdump.log.names import PROPERTY_FILES, TEXT_FILES, is_uri
from kdump.log.source import FileSource, Source, StreamSource

_PIECE_SIZE: Final = 1 << 20
_STORED_PIECE: Final = 1 << 16
"""Bytes of an index that are read at a time."""
_MOST_TEXT: Final = 16 << 20
"""The largest checkpoint: a line for each leader epoch, or for each of 50,000 partitions with the longest names."""
_MOST_PROPERTIES: Final = 1 << 20
"""The largest file of a few properties."""
LARGEST_SIBLING: Final = 128 << 20
"""The largest index or snapshot: 12 times the default segment.index.bytes, 2.9 million producers."""
_MOST_HOLES: Final = 4 << 30
"""Bytes of a sparse file that are not stored, and that a digest is made of all the same.

A broker allocates 2 GiB ahead at most.
"""


def open_source(path: str) -> Source:
    """Open a path or a URI read-only; ``-`` is standard input.

    Raises:
        KdumpError: MISSING or UNREADABLE (a directory too); SPECIAL_FILE or LINK_OUTSIDE where no user named it.
    """
    if is_uri(path):
        from kdump.log.stores import store_of
        from kdump.log.uris import parse_uri

        return store_of(path).open(parse_uri(path).clean)
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
        return read_all(source)


def read_index(path: str, entry_size: int) -> bytes:
    """All bytes of an .index or a .timeindex; of a preallocated one most of the zeros after its entries are left out.

    A broker makes an index of segment.index.bytes (10 MiB), most of which its file system does not store, and cuts it
    when it rolls the segment or stops. Some zeros are kept, as they show that this was not done.

    Raises:
        KdumpError: as ``read_whole``.
    """
    with open_source(path) as source:
        size = source.size
        if size is None or size <= _STORED_PIECE or size % entry_size or is_uri(path):
            return read_all(source)
        check_size(path, size)
        data = bytearray()
        while (start := source.data_from(len(data))) < size:
            data += bytes(start - len(data))
            part = source.read(start, min(_STORED_PIECE, size - start))
            data += part
            if not part:
                # The file has been cut since.
                return bytes(data)
        kept = min(size, (len(data) // entry_size + 2) * entry_size)
        return bytes(data.ljust(kept, b"\0"))


def read_all(source: Source) -> bytes:
    """All bytes of a small file that is open, also of a stream. Raises KdumpError as ``read_whole``."""
    if source.size is not None:
        check_size(source.path, source.size)
        return source.read(0, source.size)
    parts: list[bytes] = []
    position = 0
    while part := source.read(position, _PIECE_SIZE):
        parts.append(part)
        position += len(part)
        check_size(source.path, position)
    return b"".join(parts)


def check_size(path: str, size: int) -> None:
    """Raises KdumpError FILE_SIZE where a file that is to be read whole is larger than its kind can be."""
    if size <= _MOST_PROPERTIES:
        return
    name = os.path.basename(path)
    most = _MOST_PROPERTIES if name in PROPERTY_FILES else _MOST_TEXT if name in TEXT_FILES else LARGEST_SIBLING
    if size > most:
        raise KdumpError(Codes.FILE_SIZE, f"has {size:,} bytes or more, {most:,} are the most it can have", path=path)


def check_holes(source: Source) -> None:
    """Raises KdumpError FILE_SIZE for a sparse file whose holes would make a digest of it take hours."""
    if source.size is None or source.stored is None:
        return
    holes = source.size - source.stored
    if holes > _MOST_HOLES:
        message = f"has {holes:,} bytes that are not stored, {_MOST_HOLES:,} are the most that a digest is made of"
        raise KdumpError(Codes.FILE_SIZE, message, path=source.path)
