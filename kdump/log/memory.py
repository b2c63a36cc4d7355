"""A log whose bytes are in memory."""

from __future__ import annotations

from kdump.log.source import Source


class MemorySource(Source):
    """Bytes in memory, such as those of a stream that cannot be read twice."""

    def __init__(self, path: str, data: bytes | memoryview) -> None:
        super().__init__(path, len(data))
        self._data = data

    def read_into(self, view: memoryview, position: int) -> int:
        """See Source."""
        part = self._data[position : position + len(view)]
        view[: len(part)] = part
        return len(part)

    def close(self) -> None:
        """See Source; there is nothing to close."""
