"""A file or a stream that is bytes in memory."""

from __future__ import annotations

from kdump.codes import Codes, KdumpError
from kdump.log.source import Source


class MemorySource(Source):
    """Counts what is asked for.

    Args:
        data: the bytes.
        sized: False: a stream.
        size: what it claims to have; None: the truth.
        bad: positions that give an I/O error.
    """

    def __init__(self, data: bytes, *, sized: bool = True, size: int | None = None, bad: range = range(0)) -> None:
        super().__init__("memory", (len(data) if size is None else size) if sized else None)
        self.data = data
        self.bad = bad
        self.largest_read = self.bytes_read = 0

    def read_into(self, view: memoryview, position: int) -> int:
        self.largest_read = max(self.largest_read, len(view))
        part = self.data[position : position + len(view)]
        if position < self.bad.stop and position + len(part) > self.bad.start:
            raise KdumpError(Codes.UNREADABLE, "I/O error", path=self.path, position=max(position, self.bad.start))
        view[: len(part)] = part
        self.bytes_read += len(part)
        return len(part)

    def close(self) -> None:
        pass
