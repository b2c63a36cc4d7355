"""Reading that is watched, and slowed down beside a broker that needs the disk more."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_PIECE: Final = 1 << 18
"""Bytes read at a time at a bounded rate: the pauses stay short."""

Progress = Callable[[str, int], None]
"""Takes the path that is being read, and how many bytes of all files together were read."""


class Meter:
    """Counts what is read of all files together.

    Args:
        rate: bytes a second at most; None: any number.
        progress: is told of each read.

    Attributes:
        most: bytes to read at a time.
    """

    def __init__(self, rate: int | None = None, progress: Progress | None = None) -> None:
        self.most = sys.maxsize if rate is None else _PIECE
        self._rate = rate
        self._progress = progress
        self._began = time.monotonic()
        self._read = 0

    def took(self, path: str, count: int) -> None:
        """``count`` bytes of a file were read; waits where this was too fast."""
        self._read += count
        if self._progress is not None:
            self._progress(path, self._read)
        if self._rate is not None:
            time.sleep(max(0.0, self._read / self._rate - (time.monotonic() - self._began)))


_UNBOUNDED: Final = Meter()
_meter: ContextVar[Meter] = ContextVar("_meter")


def meter() -> Meter:
    """What counts the reads of this process now."""
    return _meter.get(_UNBOUNDED)


@contextmanager
def metered(rate: int | None = None, progress: Progress | None = None) -> Iterator[None]:
    """All sources that are read in here are counted by one meter; see Meter."""
    token = _meter.set(Meter(rate, progress))
    try:
        yield
    finally:
        _meter.reset(token)
