"""The .index and .timeindex of a segment as a broker maps them: the file, and how many of its entries are used.

Source: docs/spec/startup.md rules 5, 9, 14 and 22 (AbstractIndex, OffsetIndex). Their contents are not checked.
"""

from __future__ import annotations

from typing import Final

from kdump.format.batch import wrap_int64
from kdump.format.index import OFFSET_ENTRY, OFFSET_ENTRY_SIZE
from kdump.kafka.startup.directory import Directory
from kdump.kafka.startup.outcome import ILLEGAL_ARGUMENT, StartFailureError
from kdump.log.content import Content
from kdump.log.source import Source

_WARM_ENTRIES: Final = 8192 // OFFSET_ENTRY_SIZE
"""The last entries, which are searched first."""


class IndexFile:
    """One index file, created with zeros if it is missing. A .timeindex is never read at a start.

    Args:
        directory: where it lies.
        name: of the file.
        entry_size: bytes.
        max_size: segment.index.bytes.
    """

    def __init__(self, directory: Directory, name: str, entry_size: int, max_size: int) -> None:
        self.name = name
        self._directory = directory
        self._entry_size = entry_size
        self._max_size = max_size
        if name in directory:
            self.count = directory[name].size // entry_size
        else:
            directory[name] = Content.zeros(self._whole(max_size))
            self.count = 0

    def rebuild(self, entries: bytes, *, is_complete: bool) -> None:
        """Write the ``entries`` of a recovery. If it failed, the file keeps its full size and old bytes after them."""
        old = self._directory[self.name].resized(self._whole(self._max_size))
        self._directory[self.name] = Content.of_bytes(entries) if is_complete else old.overwritten(entries)
        self.count = len(entries) // self._entry_size

    def empty(self) -> None:
        """Use no entry any more; the bytes stay."""
        self.count = 0

    def grow(self) -> None:
        """Grow the file to its full size."""
        self.resize(self._max_size)

    def resize(self, size: int) -> None:
        """Cut the file, or grow it with zeros.

        Raises:
            StartFailureError: it has more entries than that; the file is cut all the same.
        """
        size = self._whole(size)
        if size == self._directory[self.name].size:
            return
        self._directory.resize(self.name, size)
        if self.count * self._entry_size > size:
            raise StartFailureError(
                ILLEGAL_ARGUMENT, f"{self.name} has {self.count} entries, more than segment.index.bytes takes"
            )

    def _whole(self, size: int) -> int:
        return size // self._entry_size * self._entry_size


class OffsetIndexFile(IndexFile):
    """An .index of the segment ``base_offset``."""

    def __init__(self, directory: Directory, name: str, base_offset: int, max_size: int) -> None:
        super().__init__(directory, name, OFFSET_ENTRY_SIZE, max_size)
        self._base_offset = base_offset

    def last_offset(self) -> int:
        """The offset of the last entry, even of zeros; the base offset without one. Raises KdumpError."""
        if not self.count:
            return self._base_offset
        with self._directory.open(self.name) as source:
            return self._entry(source, self.count - 1)[0]

    def position_of(self, offset: int) -> int:
        """Where to search for an offset: the position of the greatest entry not above it, by the binary search.

        Raises:
            KdumpError: the file cannot be read.
        """
        if not self.count:
            return 0
        with self._directory.open(self.name) as source:
            number = self._search(source, offset)
            return 0 if number is None else max(self._entry(source, number)[1], 0)

    def _search(self, source: Source, offset: int) -> int | None:
        """The number of the entry. Entries that do not rise give what they give a broker."""
        first_warm = max(0, self.count - 1 - _WARM_ENTRIES)
        low, high = 0, first_warm
        if self._entry(source, first_warm)[0] < offset:
            low, high = first_warm, self.count - 1
        elif self._entry(source, 0)[0] > offset:
            return None
        while low < high:
            middle = (low + high + 1) // 2
            found = self._entry(source, middle)[0]
            if found == offset:
                return middle
            if found > offset:
                high = middle - 1
            else:
                low = middle
        return low

    def _entry(self, source: Source, number: int) -> tuple[int, int]:
        relative, position = OFFSET_ENTRY.unpack(source.read(number * OFFSET_ENTRY_SIZE, OFFSET_ENTRY_SIZE))
        return wrap_int64(self._base_offset + relative), position
