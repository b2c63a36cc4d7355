"""The map from the byte positions of a log of Kafka 0.7 to the numbers that its messages get: CSV, a line an entry.

A consumer of Kafka 0.7 keeps the position of the entry that it reads next; every such position is in the map, the end
of the log too.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Final, Self

from kdump.system.files import NewFile, Staged, discard

_TITLE: Final = b"byteOffset,offset\n"
_HELD: Final = 1 << 20


class OffsetMap:
    """A map that is being written; a context, after which nothing is left of one that is not finished.

    Args:
        path: where it goes; None: it is not wanted.
        like: see NewFile.
    """

    def __init__(self, path: str | None, like: os.stat_result | None) -> None:
        self._file = None if path is None else NewFile(path, like)
        self._held = bytearray(_TITLE)
        self._staged: list[Staged] = []

    def note(self, position: int, number: int) -> None:
        """The entry at a byte position, and the number of its first message."""
        if self._file is not None:
            self._held += b"%d,%d\n" % (position, number)
            if len(self._held) >= _HELD:
                self._flush(self._file)

    def staged(self) -> list[Staged]:
        """The whole map, staged. Raises OSError."""
        if self._file is not None:
            self._flush(self._file)
            self._staged = [self._file.finish()]
        return self._staged

    def _flush(self, file: NewFile) -> None:
        file.write(self._held)
        self._held.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            if self._file is not None:
                self._file.discard()
            discard(self._staged)
