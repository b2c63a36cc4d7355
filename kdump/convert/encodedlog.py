"""A log that is made while it is read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from kdump.codes import Codes, KdumpError
from kdump.format.batch import LENGTH_OFFSET, LOG_OVERHEAD
from kdump.log.resync import CheckedChunk
from kdump.log.source import Source
from kdump.wire.checksum import Buffer

_LENGTH: Final = struct.Struct(">i")


class EncodedLog(Source):
    """Log entries that are made of another source. They are valid whatever their size, so no walk looks for them.

    Args:
        of: the other source, which is closed with this one.
        pieces: the log, some whole entries at a time.
    """

    def __init__(self, of: Source, pieces: Iterator[Buffer]) -> None:
        super().__init__(of.path, None)
        self._of = of
        self._pieces = pieces

    def chunks(self) -> Iterator[CheckedChunk]:
        """All entries, once. Raises as what makes the pieces."""
        position = 0
        for piece in self._pieces:
            starts = []
            end, size = 0, len(piece)
            while end < size:
                starts.append(end)
                end += LOG_OVERHEAD + _LENGTH.unpack_from(piece, end + LENGTH_OFFSET)[0]
            if starts:
                yield CheckedChunk(memoryview(piece), position, starts, end)
            position += end

    def read_into(self, view: memoryview, position: int) -> int:
        """See Source; there are only chunks."""
        raise KdumpError(Codes.UNREADABLE, "entries that are made have no bytes", path=self.path, position=position)

    def close(self) -> None:
        """See Source."""
        self._of.close()
