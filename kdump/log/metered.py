"""Reading that is reported as progress, and slowed down beside a broker that needs the disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from kdump.log.source import Source

_PIECE: Final = 1 << 18
"""Bytes read at a time at a limited rate. It keeps the pauses short."""
_rate: ContextVar[int | None] = ContextVar("_rate", default=None)


@contextmanager
def limited_rate(rate: int | None) -> Iterator[None]:
    """Sources from ``at_limited_rate`` read at most ``rate`` bytes a second in this context; None: any number."""
    token = _rate.set(rate)
    try:
        yield
    finally:
        _rate.reset(token)


def at_limited_rate(source: Source) -> Source:
    """The source, slowed down where the process has a limit."""
    rate = _rate.get()
    return source if rate is None else MeteredSource(source, rate, lambda path, done, size: None)


class MeteredSource(Source):
    """Another source; what is read of it is reported, and bounded.

    Args:
        source: where the bytes come from; closed with this one.
        rate: bytes a second at most; None: unbounded.
        progress: takes the path, the position reached, and the size (None: a stream).
    """

    def __init__(self, source: Source, rate: int | None, progress: Callable[[str, int, int | None], None]) -> None:
        super().__init__(source.path, source.size)
        self._source = source
        self.can_skip_errors = source.can_skip_errors
        self._rate = rate
        self._progress = progress
        self._began = time.monotonic()
        self._read = 0

    @property
    def is_replaced(self) -> bool:
        """See Source."""
        return self._source.is_replaced

    @property
    def has_changed(self) -> bool:
        """See Source."""
        return self._source.has_changed

    @property
    def file_number(self) -> int | None:
        """See Source."""
        return self._source.file_number

    def read_into(self, view: memoryview, position: int) -> int:
        """See Source."""
        if self._rate is None:
            return self._noted(self._source.read_into(view, position), position)
        filled = 0
        while filled < len(view):
            piece = view[filled : filled + _PIECE]
            count = self._noted(self._source.read_into(piece, position + filled), position + filled)
            filled += count
            self._read += count
            time.sleep(max(0.0, self._read / self._rate - (time.monotonic() - self._began)))
            if count < len(piece):
                break
        return filled

    def read_some(self, view: memoryview, position: int) -> int:
        """See Source."""
        if self._rate is not None:
            return self.read_into(view, position)
        return self._noted(self._source.read_some(view, position), position)

    def data_from(self, position: int) -> int:
        """See Source."""
        return self._source.data_from(position)

    def head(self, size: int) -> bytes:
        """See Source; it is neither reported nor bounded."""
        return self._source.head(size)

    def close(self) -> None:
        """See Source."""
        self._source.close()

    def _noted(self, count: int, position: int) -> int:
        self._progress(self.path, position + count, self.size)
        return count
