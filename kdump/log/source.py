"""Where bytes come from: regular files, streams, and (``stores``) what a URI names, always opened read-only.

A source fills a caller's buffer at a position. It never maps files into memory: a file cut by another process while
it is mapped would kill kdump.

Files may be there to attack whoever examines them. What a user names (``files.strip_credentials``) may be a link or a
pipe, as the user knows what it is. All else is what kdump finds by itself: it is opened without blocking, is a regular
file, and a link leads to a file of the same log directory. What is read whole has a size that its kind can have.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import PurePosixPath
from types import TracebackType
from typing import Final, NamedTuple, Self

from kdump.codes import Codes, KdumpError
from kdump.log.names import LOCK_FILE, LOG_DIRECTORY_TEXT_FILES, TEXT_FILES, is_uri, parse_partition_directory

STDIN = "-"
_STDIN_DESCRIPTOR = 0
_POLL_SECONDS = 0.25
_PAUSE_SECONDS = 0.05
_KEPT_HEAD = 1 << 16
"""Bytes at the start of a stream that are kept, to tell its type by."""
_HEAD_SIZE = 17
"""Bytes of which some are not zero where an entry begins: up to its magic."""
_PIECE_SIZE = 1 << 20
_MOST_TEXT: Final = 16 << 20
"""Bytes of a text file: a line for each leader epoch, or for each of 50,000 partitions with the longest names."""
_MOST_BINARY: Final = 128 << 20
"""Bytes of an index or a snapshot: 12 times segment.index.bytes as it comes, 2.9 million producers."""
_FOUND: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY
_named: Final[set[str]] = set()
"""Paths that a user named, also in their absolute form, for as long as the process lives."""


class Source(ABC):
    """Bytes by position.

    ``size`` is the size when it was opened, None for a stream (its end is where it ends).
    """

    can_skip_errors = True
    """What cannot be read at one position (a bad block) says nothing about the others."""

    stop: int | None = None
    """Where its reader means to stop; None: at the end. Nothing that lies behind is fetched ahead of the reader."""

    def __init__(self, path: str, size: int | None) -> None:
        self.path = path
        self.size = size

    @property
    def is_replaced(self) -> bool:
        """Its path does not lead to the file any more: another one has the name, or none."""
        return False

    @property
    def has_changed(self) -> bool:
        """The file was written to, cut, replaced or deleted since it was opened."""
        return False

    @property
    def file_number(self) -> int | None:
        """What another file has another one of, on every machine that sees the file (the inode); None: not known."""
        return None

    @abstractmethod
    def read_into(self, view: memoryview, position: int) -> int:
        """Fill ``view`` with the bytes from ``position`` on; fewer than its length only at the end.

        Raises:
            KdumpError: UNREADABLE, with the position; a stream also when asked to go back.
        """

    def read_some(self, view: memoryview, position: int) -> int:
        """Like ``read_into``, but of a stream what is there now, at least a byte; 0 only at the end."""
        return self.read_into(view, position)

    def awaits(self, position: int) -> bool:
        """Zeros lie from ``position`` on: wait until something else is there, or nothing; False: they stay."""
        return False

    def data_from(self, position: int) -> int:
        """The first position from ``position`` on whose bytes need to be read: up to there all bytes are zero.

        That is where the next stretch of data of a sparse file begins, or its end; for other sources ``position``.
        """
        return position

    def read(self, position: int, size: int) -> bytes:
        """At most ``size`` bytes from ``position`` on."""
        buffer = memoryview(bytearray(size))
        return bytes(buffer[: self.read_into(buffer, position)])

    def head(self, size: int) -> bytes:
        """At most ``size`` of the first bytes, as far as they can still be had: of a stream those that went by."""
        return self.read(0, size)

    @abstractmethod
    def close(self) -> None:
        """Give the descriptor back."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class FileSource(Source):
    """A regular file."""

    def __init__(self, path: str, descriptor: int, status: os.stat_result) -> None:
        super().__init__(path, status.st_size)
        self._descriptor = descriptor
        self._opened = status

    def read_into(self, view: memoryview, position: int) -> int:
        """See Source."""
        filled = 0
        try:
            while filled < len(view):
                count = os.preadv(self._descriptor, [view[filled:]], position + filled)
                if count == 0:
                    break
                filled += count
        except OSError as error:
            raise _unreadable(self.path, error, position + filled) from error
        return filled

    def data_from(self, position: int) -> int:
        """See Source."""
        if self.path == STDIN:
            # The position of the descriptor is the caller's.
            return position
        try:
            return os.lseek(self._descriptor, position, os.SEEK_DATA)
        except OSError as error:
            # ENXIO: no data up to the end. Other errors: the file system does not know of stretches without data.
            return max(position, self.size or 0) if error.errno == errno.ENXIO else position

    def close(self) -> None:
        """See Source."""
        os.close(self._descriptor)

    @property
    def status(self) -> os.stat_result:
        """Of the file, as it was opened."""
        return self._opened

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
        """What there is now of the next bytes, at least one; 0 at the end."""
        try:
            count = os.readv(self._descriptor, [view])
        except OSError as error:
            raise _unreadable(self.path, error, self._position) from error
        if self._position < _KEPT_HEAD:
            self._head += view[: min(count, _KEPT_HEAD - self._position)]
        self._position += count
        return count

    def close(self) -> None:
        """See Source; standard input stays open."""
        if self._owned:
            os.close(self._descriptor)


class _Ending(NamedTuple):
    """Of a growing file: its path does not lead to it any more; nothing more will come."""

    is_replaced: bool
    is_over: bool


class GrowingFile(Source):
    """A file that is still written to, read like a stream.

    Args:
        path: the file.
        is_over: says whether nothing more will come (a later segment is there).
        on_wait: called before each wait for more.
    """

    def __init__(self, path: str, is_over: Callable[[], bool], on_wait: Callable[[], None]) -> None:
        super().__init__(path, None)
        file = open_source(path)
        if not isinstance(file, FileSource):
            file.close()
            raise KdumpError(Codes.UNREADABLE, "only a file can be followed", path=path)
        self._file = file
        self._is_over = is_over
        self._on_wait = on_wait

    def read_into(self, view: memoryview, position: int) -> int:
        """See Source; waits until the view is full or nothing more will come."""
        filled = 0
        while filled < len(view):
            count = self.read_some(view[filled:], position + filled)
            if count == 0:
                break
            filled += count
        return filled

    def read_some(self, view: memoryview, position: int) -> int:
        """See Source; waits for at least a byte."""
        while True:
            ending = self._ending()
            count = self._file.read_into(view, position)
            if count or ending.is_over:
                return count
            self._wait(position, ending)

    def awaits(self, position: int) -> bool:
        """See Source: a file that was allocated ahead, which is cut to its contents when the next segment is made."""
        while True:
            ending = self._ending()
            head = self._file.read(position, _HEAD_SIZE)
            if any(head) or not head:
                # The rest of what is being written there follows at once.
                time.sleep(_PAUSE_SECONDS)
                return True
            if ending.is_over:
                return False
            self._wait(position, ending)

    def head(self, size: int) -> bytes:
        """See Source: what is there now."""
        return self._file.read(0, size)

    def _ending(self) -> _Ending:
        """To be asked before a look at the file: what was written before the next segment was made is still read.

        The next segment is made before an old one goes.
        """
        is_replaced = self._file.is_replaced
        return _Ending(is_replaced, self._is_over())

    def _wait(self, position: int, ending: _Ending) -> None:
        """Nothing new was at ``position``. Raises UNREADABLE where nothing ever will be."""
        what = ""
        if ending.is_replaced:
            what = "was deleted or replaced"
        elif self._file.current_size < position:
            what = "was cut"
        if what:
            what += " while it was followed"
            raise KdumpError(Codes.UNREADABLE, what, path=self.path, position=position)
        self._on_wait()
        time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """See Source."""
        self._file.close()


def note_named(path: str) -> None:
    """A user named this path of this machine: a link there is followed, and a pipe read."""
    _named.update((path, os.path.abspath(path)))


def is_named(path: str) -> bool:
    """A user named this path."""
    return path in _named


def open_source(path: str) -> Source:
    """Open a path or a URI read-only; ``-`` is standard input.

    Raises:
        KdumpError: MISSING or UNREADABLE (a directory too); SPECIAL_FILE or LINK_OUTSIDE where no user named it.
    """
    if is_uri(path):
        from kdump.log.stores import open_object

        return open_object(path)
    if path != STDIN and not is_named(path):
        return FileSource(path, *open_found(path))
    try:
        if path == STDIN:
            if reads_once(path):
                os.fstat(_STDIN_DESCRIPTOR)
                return StreamSource(path, _STDIN_DESCRIPTOR, owned=False)
            descriptor = os.dup(_STDIN_DESCRIPTOR)
        else:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise _not_opened(path, error) from error
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return FileSource(path, descriptor, status)
    if stat.S_ISDIR(status.st_mode):
        os.close(descriptor)
        raise _is_a_directory(path)
    return StreamSource(path, descriptor, owned=True)


def open_found(path: str) -> tuple[int, os.stat_result]:
    """Open a file of this machine that no user named, read-only: it neither blocks nor leads elsewhere.

    Returns:
        Its descriptor, to be closed, and its status.

    Raises:
        KdumpError: MISSING, UNREADABLE (a directory too), SPECIAL_FILE, LINK_OUTSIDE.
    """
    try:
        try:
            descriptor = os.open(path, _FOUND)
        except OSError as error:
            if error.errno != errno.ELOOP or not os.path.islink(path):
                raise
            check_link(path)
            descriptor = os.open(os.path.realpath(path), _FOUND)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENXIO:
            # What a socket says.
            raise _special(path) from error
        raise _not_opened(path, error) from error
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return descriptor, status
    os.close(descriptor)
    raise _is_a_directory(path) if stat.S_ISDIR(status.st_mode) else _special(path)


def check_link(path: str) -> None:
    """Raises KdumpError LINK_OUTSIDE where a link that no user named leads out of its log directory.

    The log directory is the one above a partition directory, by its real name. A directory of another name stands for
    itself, and so does the one that holds partitions, checkpoints of all of them or a lock.
    """
    directory, name = os.path.split(path)
    root = os.path.realpath(directory or ".")
    is_above = name in LOG_DIRECTORY_TEXT_FILES or name == LOCK_FILE or parse_partition_directory(name) is not None
    if not is_above and parse_partition_directory(os.path.basename(root)) is not None:
        root = os.path.dirname(root)
    target = os.path.realpath(path)
    if os.path.commonpath((root, target)) != root:
        what = f"a link to {target}, outside of {root}: it is not followed; name {target} itself to read it"
        raise KdumpError(Codes.LINK_OUTSIDE, what, path=path)


def is_stream(path: str) -> bool:
    """Standard input, or what ``is_stream_mode`` says that a user named: what a shell's ``<(command)`` gives."""
    if path == STDIN:
        return True
    if is_uri(path) or not is_named(path):
        return False
    try:
        return is_stream_mode(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def is_stream_mode(mode: int) -> bool:
    """``mode`` is that of a pipe, a socket or a character device; as in ``os.stat_result``."""
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)


def reads_once(path: str) -> bool:
    """``path`` is a stream, which cannot be read again; a file on standard input can, from its start on."""
    if path != STDIN:
        return is_stream(path)
    try:
        return not stat.S_ISREG(os.fstat(_STDIN_DESCRIPTOR).st_mode) or os.lseek(_STDIN_DESCRIPTOR, 0, os.SEEK_CUR) != 0
    except OSError:
        return True


def read_whole(path: str) -> bytes:
    """All bytes of a small file (an index, a snapshot, a text file).

    Raises:
        KdumpError: FILE_SIZE, and as open_source and read_into do.
    """
    with open_source(path) as source:
        if source.size is not None:
            check_size(path, source.size)
            return source.read(0, source.size)
        parts: list[bytes] = []
        position = 0
        while part := source.read(position, _PIECE_SIZE):
            parts.append(part)
            position += len(part)
            check_size(path, position)
        return b"".join(parts)


def check_size(path: str, size: int) -> None:
    """Raises KdumpError FILE_SIZE where a file that is to be read whole is larger than its kind can be."""
    most = _MOST_TEXT if PurePosixPath(path).name in TEXT_FILES else _MOST_BINARY
    if size > most:
        raise KdumpError(Codes.FILE_SIZE, f"has {size:,} bytes or more, {most:,} are the most it can have", path=path)


def _not_opened(path: str, error: OSError | ValueError) -> KdumpError:
    if isinstance(error, FileNotFoundError):
        return KdumpError(Codes.MISSING, "no such file or directory", path=path)
    return _unreadable(path, error)


def _is_a_directory(path: str) -> KdumpError:
    return KdumpError(Codes.UNREADABLE, "is a directory", path=path)


def _special(path: str) -> KdumpError:
    return KdumpError(Codes.SPECIAL_FILE, "is a pipe, a socket or a device, it is not read", path=path)


def _unreadable(path: str, error: OSError | ValueError, position: int | None = None) -> KdumpError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return KdumpError(Codes.UNREADABLE, reason, path=path, position=position)
