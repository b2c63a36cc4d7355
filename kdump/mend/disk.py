"""The system calls of repair that change a file system: the only place of ``kdump.mend`` that writes.

Every function raises KdumpError UNWRITABLE with the path. No symbolic link is followed in the last part of a path, and
nothing that exists is written over unless a function says so.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from kdump.codes import Codes, KdumpError

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS: Final = frozenset({errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK})
_PRIVATE: Final = 0o600
"""Mode of a file until it has its own."""


class NewFile:
    """A file that was not there before, written from its start to its end.

    Used as a context, which closes it where ``finish`` did not come about.

    Args:
        path: where; it must not exist.
        like: owner and mode are those of this file; None: those of a new file.
        keep_owner: another owner that cannot be given is an error.
    """

    def __init__(self, path: str, like: os.stat_result | None = None, *, keep_owner: bool = False) -> None:
        self.path = path
        self.size = 0
        with _errors_at(path):
            self._descriptor: int | None = os.open(path, _NEW, 0o666 if like is None else _PRIVATE)
            try:
                if like is not None:
                    _set_owner_and_mode(self._descriptor, like, keep_owner=keep_owner)
            except BaseException:
                self.close()
                raise

    def write(self, data: bytes | memoryview) -> None:
        """Append ``data``."""
        view, descriptor = memoryview(data), self._open_descriptor()
        with _errors_at(self.path):
            while view:
                count = os.write(descriptor, view)
                self.size += count
                view = view[count:]

    def finish(self, *, size: int | None = None, modified: int | None = None) -> None:
        """Make it durable and close it.

        Args:
            size: cut what is written beyond it.
            modified: the time of its last change (ns).
        """
        descriptor = self._open_descriptor()
        with _errors_at(self.path):
            if size is not None and size < self.size:
                os.ftruncate(descriptor, size)
            if modified is not None:
                os.utime(descriptor, ns=(modified, modified))
            os.fsync(descriptor)
        self.close()

    def close(self) -> None:
        """Close it as it is."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise ValueError(f"{self.path} is closed")
        return self._descriptor


def write_file(
    path: str, data: bytes, like: os.stat_result | None = None, *, keep_owner: bool = False, modified: int | None = None
) -> None:
    """A whole small file, durable; see NewFile."""
    with NewFile(path, like, keep_owner=keep_owner) as file:
        file.write(data)
        file.finish(modified=modified)


def make_directory(path: str, like: os.stat_result | None = None) -> None:
    """A new directory; with ``like`` its owner and mode, else those of a new directory."""
    with _errors_at(path):
        os.mkdir(path, 0o777 if like is None else 0o700)
        if like is not None:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                _set_owner_and_mode(descriptor, like, keep_owner=True)
            finally:
                os.close(descriptor)


def remove_directory(path: str) -> None:
    """An empty directory."""
    with _errors_at(path):
        os.rmdir(path)


def remove(path: str) -> None:
    """A file."""
    with _errors_at(path):
        os.unlink(path)


def move(source: str, target: str) -> None:
    """Give a file or directory another name, in whose place nothing may be."""
    if os.path.lexists(target):
        raise KdumpError(Codes.UNWRITABLE, os.strerror(errno.EEXIST), path=target)
    replace(source, target)


def replace(source: str, target: str) -> None:
    """The same; a file that is there is gone at the same moment."""
    with _errors_at(target):
        os.rename(source, target)


def link(source: str, target: str) -> bool:
    """A second name for a file; False where the file systems cannot give it one."""
    with _errors_at(target):
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return False
    return True


def set_modified(path: str, modified: int) -> None:
    """The time of a file's last change (ns)."""
    with _errors_at(path):
        os.utime(path, ns=(modified, modified), follow_symlinks=False)


def rewrite_end(path: str, position: int, pieces: Iterable[memoryview], modified: int) -> None:
    """Let an existing file go on with ``pieces`` from ``position`` on and end there, durably.

    ``modified``: the time of its last change (ns), which stays what it was.
    """
    with _errors_at(path):
        descriptor = os.open(path, _OLD)
        try:
            for piece in pieces:
                view = piece
                while view:
                    count = os.pwrite(descriptor, view, position)
                    view = view[count:]
                    position += count
            os.ftruncate(descriptor, position)
            os.utime(descriptor, ns=(modified, modified))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_directory(path: str) -> None:
    """Make what changed of the names in a directory durable."""
    with _errors_at(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _set_owner_and_mode(descriptor: int, like: os.stat_result, *, keep_owner: bool) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (like.st_uid, like.st_gid):
        try:
            os.fchown(descriptor, like.st_uid, like.st_gid)
        except PermissionError:
            if keep_owner:
                raise
    os.fchmod(descriptor, like.st_mode & 0o7777)


@contextmanager
def _errors_at(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise KdumpError(Codes.UNWRITABLE, f"cannot be written: {error.strerror}", path=path) from error
