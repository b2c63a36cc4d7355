"""A file of a store, read in ranges.

A range is fetched when it is asked for. While a reader goes on forwards the next one is fetched by a thread beside its
work, as long as what was read in a row so far: little is fetched in vain, and soon a request brings megabytes.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from kdump.codes import KdumpError
from kdump.log.source import Source

_SMALLEST: Final = 1 << 16
_LARGEST: Final = 8 << 20
"""Bytes of a range: at 30 ms a request and 100 MB/s the largest takes 110 ms."""

OnError = Callable[[OSError | ValueError, int], KdumpError | None]


class ObjectSource(Source):
    """An open file of a pyarrow file system.

    Args:
        path: its URI.
        file: the pyarrow file; closed with this source.
        size: its size in bytes.
        on_error: takes what pyarrow raises and a position; gives the error to raise, or None: the file ends there.
    """

    can_skip_errors = False

    def __init__(self, path: str, file: Any, size: int, on_error: OnError) -> None:
        super().__init__(path, size)
        self._length = size
        self._file = file
        self._on_error = on_error
        self._here = _Range()
        self._ahead = _Range()
        self._row_start = 0
        self._fetching: Future[None] | None = None
        self._thread: ThreadPoolExecutor | None = None

    def read_into(self, view: memoryview, position: int) -> int:
        """See Source. KdumpError MISSING when the file is gone."""
        filled = 0
        while filled < len(view):
            at = position + filled
            if at >= self._here.end or at < self._here.start:
                self._move(at, len(view) - filled, is_first=not filled)
            count = self._here.copy(view[filled:], at)
            if count == 0:
                break
            filled += count
        return filled

    def close(self) -> None:
        """See Source; waits for a range that is on its way."""
        if self._thread is not None:
            self._thread.shutdown()
        self._file.close()

    def _move(self, position: int, wanted: int, *, is_first: bool) -> None:
        """Go to the range that begins at ``position`` or covers it.

        ``wanted`` bytes are asked for; ``is_first``: none of the same read are at hand. One long read is no sign yet
        that reading goes on.
        """
        here, fetching = self._here, self._fetching
        goes_on = here.start < here.end <= position <= 2 * here.end - self._row_start
        if not goes_on:
            self._row_start = position
        in_a_row = position - self._row_start
        if fetching is not None:
            # Waited for in any case: the file has one position.
            self._fetching = None
            error = fetching.exception()
            if self._ahead.start <= position < self._ahead.start + self._ahead.asked:
                if error is not None:
                    raise error
                self._here, self._ahead = self._ahead, here
                self._go_ahead(in_a_row)
                return
        self._fetch(here, position, max(_SMALLEST, wanted, in_a_row if is_first else 0))
        if goes_on and is_first:
            self._go_ahead(in_a_row)

    def _go_ahead(self, size: int) -> None:
        """Begin to fetch the bytes behind ``here``."""
        here = self._here
        if here.end == here.start + here.asked < self._length:
            self._thread = self._thread or ThreadPoolExecutor(1)
            self._fetching = self._thread.submit(self._fetch, self._ahead, here.end, size)

    def _fetch(self, into: _Range, position: int, size: int) -> None:
        """One request: at most ``_LARGEST`` bytes, fewer only where the file ends."""
        view = into.begin(position, max(0, min(size, _LARGEST, self._length - position)))
        if not view:
            return
        try:
            self._file.seek(position)
            into.end += self._file.readinto(view)
        except (OSError, ValueError) as error:
            failure = self._on_error(error, position)
            if failure is not None:
                raise failure from None


class _Range:
    """Bytes from file position ``start`` to ``end``, in a buffer that is used again; ``asked`` bytes were wanted."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.start = self.end = self.asked = 0

    def begin(self, start: int, asked: int) -> memoryview:
        """Room for the ``asked`` bytes from ``start`` on, none of which is there yet."""
        if len(self._data) < asked:
            self._data = bytearray(asked)
        self.start = self.end = start
        self.asked = asked
        return memoryview(self._data)[:asked]

    def copy(self, view: memoryview, position: int) -> int:
        """Fill ``view`` with what is here from ``position`` on; returns the count of bytes."""
        if not self.start <= position < self.end:
            return 0
        count = min(len(view), self.end - position)
        first = position - self.start
        view[:count] = memoryview(self._data)[first : first + count]
        return count
