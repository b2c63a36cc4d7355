"""The maps of offsets that a conversion changes: CSV, a line where a new stretch begins.

Of a log of another world: from the byte positions of its entries to the numbers that its messages get. A consumer there
keeps the position of the entry that it reads next; every such position is in the map, the end of the log too.

Of a log that is renumbered: from old offsets to new ones. From the offset in a line on, both count on side by side, up
to the next line; the last line is the end of the log.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from kdump.rows.scalarlines import csv_line
from kdump.system.files import NewFile, Staged, discard

OFFSET_MAP: Final = ".offsets.csv"
"""Suffix of these files, in place of that of the log."""
POSITIONS: Final = ("byteOffset", "offset")
"""The columns of the map of a log of another world."""
RENUMBERED: Final = ("topic", "partition", "offset", "newTopic", "newPartition", "newOffset")
"""The columns of the map of a log that is renumbered; topics and partitions are those of its directories."""
_HELD: Final = 1 << 20


class OffsetMap:
    """A map that is being written; a context, after which nothing is left of one that is not finished.

    Args:
        path: where it goes; None: it is not wanted.
        like: see NewFile.
        columns: POSITIONS or RENUMBERED.
        names: what stands before each of the two numbers: nothing, or a topic and a partition.
    """

    def __init__(
        self,
        path: str | None,
        like: os.stat_result | None,
        columns: Sequence[str] = POSITIONS,
        names: tuple[Sequence[object], Sequence[object]] = ((), ()),
    ) -> None:
        self._file = None if path is None else NewFile(path, like)
        self._held = bytearray(csv_line(columns).encode())
        self._line = b"%s%%d,%s%%d\n" % (_before(names[0]), _before(names[1]))
        self._staged: list[Staged] = []
        self._next: tuple[int, int] | None = None

    def note(self, position: int, number: int) -> None:
        """A position or an old offset, and the new offset that it becomes."""
        if self._file is not None:
            self._held += self._line % (position, number)
            if len(self._held) >= _HELD:
                self._flush(self._file)

    def see(self, old: NDArray[np.int64], first: int) -> None:
        """Note where old and new offsets stop counting side by side.

        The next old offsets, rising, become ``first`` and those after it; shape (records,).
        """
        if not old.size:
            return
        begins = np.flatnonzero(np.diff(old, prepend=old[0] - 2) != 1)
        for place in begins.tolist():
            found = int(old[place]), first + place
            if found != self._next:
                self.note(*found)
        self._next = int(old[-1]) + 1, first + old.size

    def end(self) -> None:
        """The log ends after what ``see`` got."""
        if self._next is not None:
            self.note(*self._next)

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


def _before(names: Sequence[object]) -> bytes:
    """Names as the first cells of a line; a percent sign stays one."""
    text = csv_line(names).rstrip("\r\n") + "," if names else ""
    return text.encode("utf-8", "surrogateescape").replace(b"%", b"%%")
