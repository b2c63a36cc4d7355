"""A file of a store, read in ranges.

A range is fetched when it is needed. While a reader goes forwards, the next ranges are fetched at the same time: no
more of them than the reader has read in a row. So little is fetched in vain, and soon each request brings megabytes.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kdump.codes import Codes, KdumpError
from kdump.log.metering import meter
from kdump.log.source import Source

_SMALLEST: Final = 1 << 16
_LARGEST: Final = 8 << 20
"""The largest range in bytes: at 30 ms a request and 100 MB/s it takes 110 ms."""
_AT_ONCE: Final = 3
"""Requests at the same time: a store serves several as fast as one."""


class FileOrigin(Protocol):
    """Where a file comes from."""

    @property
    def path(self) -> str:
        """As messages show it."""

    def open(self) -> Any:
        """A pyarrow file at the beginning of it. Raises whatever pyarrow raises."""

    def size(self) -> int:
        """Its size in bytes now. Raises KdumpError."""

    def failure(self, error: Exception, position: int) -> KdumpError | None:
        """The error to raise for an error at a position; None: the file has become so short that it ends there."""


class ObjectSource(Source):
    """An open file of a pyarrow file system. Raises what ``FileOrigin.open`` raises."""

    can_skip_errors = False

    def __init__(self, path: str, origin: FileOrigin) -> None:
        self._origin = origin
        self._here = _Range(origin)
        file = self._here.open()
        self._length: int = file.size()
        self._version = _version(file)
        super().__init__(path, self._length)
        self._row_start = 0
        self._ahead: deque[_Ahead] = deque()
        self._idle: list[_Range] = []
        self._threads: ThreadPoolExecutor | None = None

    def read_into(self, view: memoryview, position: int) -> int:
        """See Source. KdumpError MISSING when the file is gone."""
        filled, counter = 0, meter()
        while filled < len(view):
            at = position + filled
            if not self._here.start <= at < self._here.end:
                self._move(at, len(view) - filled)
            count = self._here.copy(view[filled:][: counter.most], at)
            if count == 0:
                break
            filled += count
            counter.took(self.path, count)
        return filled

    def close(self) -> None:
        """See Source; waits for ranges that are on their way."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for part in (self._here, *self._idle, *(ahead.part for ahead in self._ahead)):
            part.close()

    def _move(self, position: int, wanted: int) -> None:
        """Go to the range that begins at ``position`` or covers it. ``wanted`` bytes are needed."""
        here = self._here
        goes_on = here.start < here.end <= position <= 2 * here.end - self._row_start
        if not goes_on:
            self._row_start = position
        in_a_row = position - self._row_start
        while self._ahead and not self._ahead[0].start <= position < self._ahead[0].end:
            self._idle.append(self._ahead.popleft().dropped())
        if self._ahead:
            ahead = self._ahead.popleft()
            self._idle.append(here)
            self._here = ahead.part
            ahead.fetching.result()
        else:
            left = self._stop - position
            if left <= 0:
                # A reader that goes on beyond its stop wants a little more.
                left = _SMALLEST
            self._fetch(here, position, max(wanted, min(max(_SMALLEST, in_a_row), left)))
        if goes_on:
            self._look_ahead(max(_SMALLEST, in_a_row))
        if self._version is not None and 0 < self._here.start < self._here.end == self._length:
            # Several requests gave the bytes: it must be the same object still.
            self._check_version()

    def _look_ahead(self, room: int) -> None:
        """Begin to fetch what follows the current range, ``room`` bytes at most."""
        start = self._ahead[-1].end if self._ahead else self._here.end
        size = min(room, _LARGEST)
        while len(self._ahead) < _AT_ONCE and start < self._stop and start + size <= self._here.end + room:
            self._threads = self._threads or ThreadPoolExecutor(_AT_ONCE)
            part = self._idle.pop() if self._idle else _Range(self._origin)
            size = min(size, self._stop - start)
            self._ahead.append(_Ahead(part, start, start + size, self._threads.submit(self._fetch, part, start, size)))
            start += size

    def _check_version(self) -> None:
        """Raises KdumpError OBJECT_CHANGED where the object is another one now."""
        try:
            with self._origin.open() as file:
                now = _version(file)
        except Exception as error:
            failure = self._origin.failure(error, self._here.start)
            if failure is not None:
                raise failure from None
            now = None
        if now != self._version:
            self._version = None
            raise KdumpError(Codes.OBJECT_CHANGED, "the object was replaced while it was read", path=self.path)

    @property
    def _stop(self) -> int:
        """Where a reader that goes on will stop."""
        return self._length if self.stop is None else min(self.stop, self._length)

    def _fetch(self, into: _Range, position: int, size: int) -> None:
        into.fetch(position, max(0, min(size, _LARGEST, self._length - position)))


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A range that is being fetched: positions ``start`` to ``end`` (exclusive), in ``part`` when it is there."""

    part: _Range
    start: int
    end: int
    fetching: Future[None]

    def dropped(self) -> _Range:
        """An empty range in its place, as it is not wanted any more. Its buffer is used for another range."""
        if not self.fetching.cancel():
            self.fetching.exception()
        return self.part


class _Range:
    """Positions ``start`` to ``end`` (exclusive) in a buffer that is used again, with its own file handle.

    A handle has one position, so two threads must not read through the same one.
    """

    def __init__(self, origin: FileOrigin) -> None:
        self._origin = origin
        self._file: Any = None
        self._data = bytearray()
        self.start = self.end = 0

    def open(self) -> Any:
        """The handle, opened now if it is not open yet. Raises what ``FileOrigin.open`` raises."""
        if self._file is None:
            self._file = self._origin.open()
        return self._file

    def fetch(self, start: int, count: int) -> None:
        """One request: the ``count`` bytes from ``start`` on, fewer where the file ends. Raises KdumpError."""
        self.start = self.end = start
        if len(self._data) < count:
            self._data = bytearray(count)
        view = memoryview(self._data)[:count]
        # pyarrow's S3 files say that all bytes came even when the object has become shorter: the mark at the end tells.
        mark = os.urandom(min(count, _MARK))
        view[count - len(mark) :] = mark
        try:
            file = self.open()
            file.seek(start)
            came = file.readinto(view) if count else 0
        except Exception as error:
            failure = self._origin.failure(error, start)
            if failure is not None:
                raise failure from None
            return
        if count and view[count - len(mark) :] == mark:
            size = self._origin.size()
            came = min(came, max(0, size - start))
            if came == count:
                came = self._came(view, start)
                if came == 0:
                    what = f"the store says that the object has {size:,} bytes, and gives none from {start:,} on"
                    raise KdumpError(Codes.UNREADABLE, what, path=self._origin.path, position=start)
        self.end = start + came

    def _came(self, view: memoryview, start: int) -> int:
        """How many bytes one more request brings, which is asked where the store says that it gave all."""
        cells = -(-len(view) // _MARK)
        mark = os.urandom(_MARK)
        view[:] = (mark * cells)[: len(view)]
        try:
            file = self.open()
            file.seek(start)
            file.readinto(view)
        except Exception as error:
            failure = self._origin.failure(error, start)
            if failure is not None:
                raise failure from None
            return 0

        # The bytes that came are in front of those that did not.
        def is_mark(cell: int) -> bool:
            here = bytes(view[cell * _MARK : (cell + 1) * _MARK])
            return here == mark[: len(here)]

        first = bisect_left(range(cells), True, key=is_mark)
        came = min(first * _MARK, len(view))
        while came and view[came - 1] == mark[(came - 1) % _MARK]:
            came -= 1
        return came

    def copy(self, view: memoryview, position: int) -> int:
        """Fill ``view`` with the bytes from ``position`` on, as far as they are here; returns how many."""
        if not self.start <= position < self.end:
            return 0
        count = min(len(view), self.end - position)
        first = position - self.start
        view[:count] = memoryview(self._data)[first : first + count]
        return count

    def close(self) -> None:
        """Give the handle back."""
        if self._file is not None:
            self._file.close()


def _version(file: Any) -> bytes | None:
    """What a store says to tell versions of an object apart; None where it says nothing."""
    try:
        found = file.metadata() or {}
    except (AttributeError, NotImplementedError, OSError):
        return None
    version: bytes | None = found.get("ETag", found.get(b"ETag"))
    return version


_MARK: Final = 16
"""Bytes at the end of a buffer that show whether they were written."""
