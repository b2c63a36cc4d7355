"""A file of a store, read in ranges.

A range is fetched when it is asked for. While a reader goes on forwards the next ones are fetched beside its work, no
more of them than it has read in a row so far: little is fetched in vain, and soon requests bring megabytes each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from kdump.codes import KdumpError
from kdump.log.source import Source

_SMALLEST: Final = 1 << 16
_LARGEST: Final = 8 << 20
"""Bytes of a range: at 30 ms a request and 100 MB/s the largest takes 110 ms."""
_AT_ONCE: Final = 3
"""Ranges on their way: a store serves several requests as fast as one."""

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
        self._start = 0
        self._data = b""
        self._row_start = 0
        self._ahead: deque[_Ahead] = deque()
        self._threads: ThreadPoolExecutor | None = None

    def read_into(self, view: memoryview, position: int) -> int:
        """See Source. KdumpError MISSING when the file is gone."""
        filled = 0
        while filled < len(view):
            at = position + filled
            if not self._start <= at < self._end:
                self._move(at, len(view) - filled, is_first=not filled)
            part = memoryview(self._data)[at - self._start :][: len(view) - filled]
            if not part:
                break
            view[filled : filled + len(part)] = part
            filled += len(part)
        return filled

    def close(self) -> None:
        """See Source; waits for ranges that are on their way."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        self._file.close()

    @property
    def _end(self) -> int:
        """Behind the range at hand."""
        return self._start + len(self._data)

    def _move(self, position: int, wanted: int, *, is_first: bool) -> None:
        """Go to the range that begins at ``position`` or covers it.

        ``wanted`` bytes are asked for; ``is_first``: none of the same read are at hand. One long read is no sign yet
        that reading goes on.
        """
        goes_on = self._data and self._end <= position <= 2 * self._end - self._row_start
        if not goes_on:
            self._row_start = position
        in_a_row = position - self._row_start
        while self._ahead and not self._ahead[0].start <= position < self._ahead[0].end:
            self._ahead.popleft().data.cancel()
        if self._ahead:
            is_first = True
            ahead = self._ahead.popleft()
            self._start, self._data = ahead.start, ahead.data.result()
        else:
            size = max(_SMALLEST, wanted, in_a_row if is_first else 0)
            self._start, self._data = position, self._fetch(position, size)
        if goes_on and is_first:
            self._look_ahead(in_a_row)

    def _look_ahead(self, room: int) -> None:
        """Begin to fetch what lies behind the range at hand, ``room`` bytes at most."""
        end = self._ahead[-1].end if self._ahead else self._end
        size = min(max(_SMALLEST, room), _LARGEST)
        while len(self._ahead) < _AT_ONCE and end < self._length and end + size <= self._end + max(_SMALLEST, room):
            self._threads = self._threads or ThreadPoolExecutor(_AT_ONCE)
            self._ahead.append(_Ahead(end, end + size, self._threads.submit(self._fetch, end, size)))
            end += size

    def _fetch(self, position: int, size: int) -> bytes:
        """One request: ``size`` bytes if that is not too much at a time, fewer where the file ends."""
        count = min(size, _LARGEST, self._length - position)
        if count <= 0:
            return b""
        try:
            data: bytes = self._file.read_at(count, position)
        except (OSError, ValueError) as error:
            failure = self._on_error(error, position)
            if failure is not None:
                raise failure from None
            return b""
        return data


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A range on its way, file positions ``start`` to ``end`` (exclusive)."""

    start: int
    end: int
    data: Future[bytes]
