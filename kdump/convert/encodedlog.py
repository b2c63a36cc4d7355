"""A log that is made while it is read."""

from __future__ import annotations

from collections.abc import Iterator

from kdump.codes import Codes, KdumpError
from kdump.log.source import Source
from kdump.wire.checksum import Buffer


class EncodedLog(Source):
    """A stream of log entries made of another source.

    Args:
        of: the other source, which is closed with this one.
        pieces: the log, some entries at a time.
        what: the other source holds, for messages.
    """

    def __init__(self, of: Source, pieces: Iterator[Buffer], what: str) -> None:
        super().__init__(of.path, None)
        self._of = of
        self._pieces = pieces
        self._what = what
        self._rest = memoryview(b"")
        self._position = 0

    def read_into(self, view: memoryview, position: int) -> int:
        """See Source; ``position`` must be where the last read ended."""
        if position != self._position:
            raise KdumpError(Codes.UNREADABLE, f"{self._what} cannot be read twice", path=self.path, position=position)
        filled = 0
        while filled < len(view):
            if not self._rest:
                piece = next(self._pieces, None)
                if piece is None:
                    break
                self._rest = memoryview(piece)
            count = min(len(self._rest), len(view) - filled)
            view[filled : filled + count] = self._rest[:count]
            self._rest = self._rest[count:]
            filled += count
        self._position += filled
        return filled

    def close(self) -> None:
        """See Source."""
        self._of.close()
