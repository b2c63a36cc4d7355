"""Where bytes come from: regular files and streams of this machine, always opened read-only (``log.opening``).

A source fills a caller's buffer at a position. It never maps files into memory: a file cut by another process while
it is mapped would kill kdump.
"""

from __future__ import annotations

import errno
import os
import select
from abc import ABC, abstractmethod
from functools import lru_cache
from types import TracebackType
from typing import Final, Self

from kdump.codes import Codes, KdumpError
from kdump.log.lock import is_held
from kdump.log.metering import meter
from kdump.log.named import STDIN, unreadable
from kdump.system.paths import absolute_path

LARGEST_HOLLOW: Final = 1 << 27
"""Bytes of an entry from which on it must be stored.

A smaller one may lie in the holes of a sparse file: a copy of a log may have holes in place of zeros. With a larger
one, a file that takes no room on a disk would fill the memory.
"""
_GATHERED: Final = 8 << 20
"""Bytes that are read before their pages are given back: a call for each read would cost too much."""
_PAUSE_SECONDS: Final = 0.05
_KEPT_HEAD: Final = 1 << 16
"""Bytes at the start of a stream that are kept, to recognize its type."""


class Source(ABC):
    """Bytes by position.

    ``size`` is the size when it was opened, None for a stream, whose end is not known before.
    """

    can_skip_errors = True
    """Bytes that cannot be read at one position (a bad block) say nothing about the others."""

    first_offset: int | None = None
    """Records of the log with lower offsets are deleted, though they are in it; None: nothing says so."""

    stop: int | None = None
    """Where its reader will stop; None: at the end. Nothing after it is fetched ahead."""

    def __init__(self, path: str, size: int | None) -> None:
        self.path = path
        self.size = size

    @property
    def is_replaced(self) -> bool:
        """Its path no longer leads to this file: another file has the name, or none."""
        return False

    @property
    def has_changed(self) -> bool:
        """The file was written to, cut, replaced or deleted since it was opened."""
        return False

    @property
    def file_number(self) -> int | None:
        """The inode, which every machine that sees the file sees; None: not known."""
        return None

    @abstractmethod
    def read_into(self, view: memoryview, position: int) -> int:
        """Fill ``view`` with the bytes from ``position`` on; fewer than its length only at the end.

        Raises:
            KdumpError: UNREADABLE, with the position; a stream also when asked to go back.
        """

    def read_some(self, view: memoryview, position: int) -> int:
        """Like ``read_into``, but from a stream only what is there now, one byte or more; 0 only at the end."""
        return self.read_into(view, position)

    def awaits(self, position: int) -> bool:
        """Zeros lie from ``position`` on: wait until something else is there, or the end. False: they stay."""
        return False

    def expects(self, position: int, size: int) -> None:  # noqa: B027  # what does not grow needs no more
        """An entry of ``size`` bytes lies at ``position``, by its length field, and is not whole yet."""

    @property
    def stored(self) -> int | None:
        """Bytes that the file system stores for it, fewer than ``size`` where it is sparse; None: not known."""
        return None

    def is_hollow(self, start: int, end: int) -> bool:
        """What is said to be an entry in these bytes is none: it is huge, and the file is sparse and stores fewer."""
        if end - start < LARGEST_HOLLOW:
            return False
        stored = self.stored
        return stored is not None and end > stored

    def data_from(self, position: int) -> int:
        """The first position from ``position`` on that must be read. All bytes before it are zero.

        In a sparse file it is where the next data begin, or the end; for other sources it is ``position``.
        """
        return position

    def read(self, position: int, size: int) -> bytes:
        """At most ``size`` bytes from ``position`` on."""
        buffer = memoryview(bytearray(size))
        return bytes(buffer[: self.read_into(buffer, position)])

    def head(self, size: int) -> bytes:
        """At most ``size`` of the first bytes, of a stream as far as they were kept."""
        return self.read(0, size)

    @abstractmethod
    def close(self) -> None:
        """Close the descriptor."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def keep_size(source: Source, size: int) -> None:
    """Read no more of a file than the ``size`` bytes that it had when work on it was planned.

    Raises:
        KdumpError: UNREADABLE, it has become shorter.
    """
    if source.size is None or source.size < size:
        what = f"has {source.size} bytes, it had {size} when the job was planned"
        raise KdumpError(Codes.UNREADABLE, what, path=source.path, position=source.size)
    source.size = size


class FileSource(Source):
    """A regular file.

    A broker serves its consumers from the page cache. While one runs, pages that were read are given back to it.
    """

    def __init__(self, path: str, descriptor: int, status: os.stat_result) -> None:
        super().__init__(path, status.st_size)
        self._descriptor = descriptor
        self._opened = status
        self._read_from = self._read_to = 0
        """The bytes that were read since pages were given back."""

    def read_into(self, view: memoryview, position: int) -> int:
        """See Source."""
        filled, counter = 0, meter()
        try:
            while filled < len(view):
                count = os.preadv(self._descriptor, [view[filled:][: counter.most]], position + filled)
                if count == 0:
                    break
                filled += count
                counter.took(self.path, count)
        except OSError as error:
            raise unreadable(self.path, error, position + filled) from error
        self._note_read(position, position + filled)
        return filled

    def read(self, position: int, size: int) -> bytes:
        """See Source."""
        counter = meter()
        if size > counter.most:
            return super().read(position, size)
        try:
            data = os.pread(self._descriptor, size, position)
        except OSError:
            return super().read(position, size)
        if len(data) < size:
            return super().read(position, size)
        counter.took(self.path, len(data))
        self._note_read(position, position + len(data))
        return data

    def _note_read(self, start: int, end: int) -> None:
        if self._read_from == self._read_to:
            self._read_from, self._read_to = start, end
        else:
            self._read_from, self._read_to = min(self._read_from, start), max(self._read_to, end)
        if self._read_to - self._read_from >= _GATHERED:
            self._give_back()

    def _give_back(self) -> None:
        start, end = self._read_from, self._read_to
        if start < end and self.path != STDIN and _broker_runs(os.path.dirname(self.path)):
            os.posix_fadvise(self._descriptor, start, end - start, os.POSIX_FADV_DONTNEED)
        self._read_from = self._read_to = 0

    def data_from(self, position: int) -> int:
        """See Source."""
        if self.path == STDIN:
            # The position of the descriptor is the caller's.
            return position
        try:
            return os.lseek(self._descriptor, position, os.SEEK_DATA)
        except OSError as error:
            # ENXIO: no data up to the end. Other errors: the file system does not know where data are.
            return max(position, self.size or 0) if error.errno == errno.ENXIO else position

    def close(self) -> None:
        """See Source."""
        self._give_back()
        os.close(self._descriptor)

    @property
    def status(self) -> os.stat_result:
        """Of the file, as it was opened."""
        return self._opened

    @property
    def descriptor(self) -> int:
        """For calls of the system about the file."""
        return self._descriptor

    @property
    def stored(self) -> int | None:
        """See Source; now, as a file grows that is followed."""
        return os.fstat(self._descriptor).st_blocks * 512

    @property
    def current_size(self) -> int:
        """Bytes of the file now."""
        return os.fstat(self._descriptor).st_size

    @property
    def is_replaced(self) -> bool:
        """See Source."""
        if self.path == STDIN:
            return False
        try:
            return not os.path.samestat(os.stat(self.path), self._opened)
        except OSError:
            return True

    @property
    def has_changed(self) -> bool:
        """See Source."""
        now = os.fstat(self._descriptor)
        opened = self._opened
        return (now.st_size, now.st_mtime_ns) != (opened.st_size, opened.st_mtime_ns) or self.is_replaced

    @property
    def file_number(self) -> int | None:
        """See Source."""
        return self._opened.st_ino


class StreamSource(Source):
    """A pipe, a terminal, a socket: read once, forwards."""

    def __init__(self, path: str, descriptor: int, *, owned: bool) -> None:
        super().__init__(path, None)
        self._descriptor = descriptor
        self._owned = owned
        self._position = 0
        self._head = bytearray()

    def read_into(self, view: memoryview, position: int) -> int:
        """See Source; ``position`` must be where the last read ended."""
        if position != self._position:
            raise KdumpError(Codes.UNREADABLE, "a stream cannot be read twice", path=self.path, position=position)
        filled = 0
        while filled < len(view) and (count := self._take(view[filled:])):
            filled += count
        return filled

    def read_some(self, view: memoryview, position: int) -> int:
        """See Source: whoever writes slowly is not waited for, a pause of a busy writer is."""
        filled = self.read_into(view[:1], position)
        while 0 < filled < len(view) and select.select([self._descriptor], [], [], _PAUSE_SECONDS)[0]:
            count = self._take(view[filled:])
            if count == 0:
                break
            filled += count
        return filled

    def head(self, size: int) -> bytes:
        """See Source."""
        return bytes(self._head[:size])

    def _take(self, view: memoryview) -> int:
        """Some of the next bytes, one or more; 0 at the end."""
        try:
            count = os.readv(self._descriptor, [view[: meter().most]])
        except OSError as error:
            raise unreadable(self.path, error, self._position) from error
        if self._position < _KEPT_HEAD:
            self._head += view[: min(count, _KEPT_HEAD - self._position)]
        self._position += count
        meter().took(self.path, count)
        return count

    def close(self) -> None:
        """See Source; standard input stays open."""
        if self._owned:
            os.close(self._descriptor)


@lru_cache(maxsize=16)
def _broker_runs(directory: str) -> bool:
    """A broker holds the log directory of a partition."""
    return _is_held(os.path.dirname(absolute_path(directory)))


@lru_cache(maxsize=16)
def _is_held(log_directory: str) -> bool:
    """See ``is_held``. It is asked for once: that would cost more than a small log."""
    return is_held(log_directory)


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
