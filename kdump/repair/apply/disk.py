"""The system calls of repair that change a file system: the only place of ``kdump.repair`` that writes.

Every function raises KdumpError UNWRITABLE with the path. No symbolic link is followed in the last part of a path, and
nothing that exists is overwritten unless a function says so. A function changes a path, or an entry of an open
directory. No part of an entry's path is looked up again, so nobody can redirect it meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeAlias

from kdump.codes import Codes, KdumpError
from kdump.log.named import errors_at
from kdump.log.source import FileSource
from kdump.system.files import (
    DIRECTORY,
    NO_LINKS,
    Staged,
    for_another_group,
    give_to,
    keep_out,
    like_of,
    set_mode,
)
from kdump.system.files import publish as publish_staged

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LINK_ERRORS: Final = frozenset({errno.ELOOP, errno.ENOTDIR})
_FICLONE: Final = 0x40049409
"""The ioctl of Linux."""
_NO_CLONES: Final = frozenset({*NO_LINKS, errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS})
_PRIVATE: Final = 0o600
"""Mode of a file until it gets its own."""
OTHER_NAME: Final = "has another name (a hard link) through which the change would show: copy it, then try again"


class Folder:
    """A directory that is kept open; a context, which closes it.

    Args:
        where: its path, or an entry of another one; a symbolic link is not followed.

    Raises:
        KdumpError: MISSING, or REPAIR_REFUSED for a link or what is no directory.
    """

    def __init__(self, where: Where) -> None:
        self.where, self.path = where, path_of(where)
        name, at = _named(where)
        try:
            self.descriptor = os.open(name, DIRECTORY, dir_fd=at)
        except FileNotFoundError as error:
            raise KdumpError(Codes.MISSING, Codes.MISSING.value.title, path=self.path) from error
        except (OSError, ValueError) as error:
            is_link = isinstance(error, OSError) and error.errno in _LINK_ERRORS
            message = "is a symbolic link, or no directory" if is_link else f"cannot be opened: {error}"
            raise KdumpError(Codes.REPAIR_REFUSED, message, path=self.path) from error

    @property
    def status(self) -> os.stat_result:
        """The ``like_of`` the directory itself."""
        return like_of(self.descriptor)

    def entry(self, name: str) -> DirectoryEntry:
        """The entry ``name``, which is one part of a path."""
        return DirectoryEntry(self, name)

    def above(self) -> Folder:
        """The directory above."""
        above = Folder(self.entry(os.pardir))
        above.path = os.path.dirname(self.path)
        return above

    def names(self) -> list[str]:
        """The names of all entries, sorted. Raises KdumpError where somebody else has removed the directory."""
        with errors_at(self.path):
            return sorted(os.listdir(self.descriptor))

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class DirectoryEntry(NamedTuple):
    """A name in an open directory."""

    folder: Folder
    name: str


Where: TypeAlias = str | DirectoryEntry


def path_of(where: Where) -> str:
    """The path of a place, as it was when the directory was opened."""
    return where if isinstance(where, str) else os.path.join(where.folder.path, where.name)


def _named(where: Where) -> tuple[str, int | None]:
    """A name and the descriptor of a directory, as system calls take them."""
    return (where, None) if isinstance(where, str) else (where.name, where.folder.descriptor)


def status_of(where: Where) -> os.stat_result | None:
    """The status of a file, a directory or a link itself; None if nothing is there."""
    name, at = _named(where)
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise KdumpError(Codes.UNREADABLE, f"cannot be read: {reason}", path=path_of(where)) from error


def known_status(where: Where) -> os.stat_result:
    """The status of what was there before. Raises KdumpError MISSING where somebody else has removed it."""
    status = status_of(where)
    if status is None:
        raise KdumpError(Codes.MISSING, Codes.MISSING.value.title, path=path_of(where))
    return status


def exists(where: Where) -> bool:
    """Whether something has that name."""
    return status_of(where) is not None


def can_be_cut(path: str) -> bool:
    """Whether a file can be cut where it is: the caller may write to it, and no other name would lose its end too."""
    return os.stat(path).st_nlink == 1 and os.access(path, os.W_OK, effective_ids=True)


def open_file(where: Where) -> FileSource:
    """Open a regular file to read; nothing else is waited for or followed.

    Raises:
        KdumpError: MISSING, UNREADABLE, or REPAIR_REFUSED for what is no regular file.
    """
    name, at = _named(where)
    path = path_of(where)
    try:
        descriptor = os.open(name, _READ, dir_fd=at)
    except FileNotFoundError as error:
        raise KdumpError(Codes.MISSING, Codes.MISSING.value.title, path=path) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _no_file(path) from error
        raise KdumpError(Codes.UNREADABLE, f"cannot be read: {error.strerror}", path=path) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise _no_file(path)
    return FileSource(path, descriptor, status)


def _no_file(path: str) -> KdumpError:
    return KdumpError(Codes.REPAIR_REFUSED, "is a symbolic link, or no regular file", path=path)


class NewDiskFile:
    """A new file, written from its start to its end.

    Used as a context, which closes it; after an error it is removed, if possible.

    Args:
        where: nothing may be there.
        like: owner and mode are those of this file; None: those of a new file.
        keep_owner: it is an error if another owner cannot be given.
    """

    def __init__(self, where: Where, like: os.stat_result | None = None, *, keep_owner: bool = False) -> None:
        self.path = path_of(where)
        self.size = 0
        self._where = where
        name, at = _named(where)
        with _errors_at(where):
            self._descriptor: int | None = os.open(name, _NEW, 0o666 if like is None else _PRIVATE, dir_fd=at)
            try:
                if like is not None:
                    _set_owner_and_mode(self._descriptor, like, keep_owner=keep_owner)
            except BaseException:
                self._discard()
                raise

    def write(self, data: bytes | memoryview) -> None:
        """Append ``data``."""
        view, descriptor = memoryview(data), self._open_descriptor()
        with _errors_at(self.path):
            while view:
                count = os.write(descriptor, view)
                self.size += count
                view = view[count:]

    def clone(self, path: str) -> bool:
        """Share all blocks of a file, until one of the two changes; False if the file system cannot."""
        with _errors_at(self.path):
            source = os.open(path, _READ)
            try:
                fcntl.ioctl(self._open_descriptor(), _FICLONE, source)
                self.size = os.fstat(source).st_size
            except OSError as error:
                if error.errno not in _NO_CLONES:
                    raise
                return False
            finally:
                os.close(source)
        return True

    def take_attributes(self, source: int) -> None:
        """Copy the extended attributes of an open file, also its ACL, as far as the system allows it."""
        descriptor = self._open_descriptor()
        with suppress(OSError):
            for name in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(descriptor, name, os.getxattr(source, name))

    def finish(self, *, size: int | None = None, modified: int | None = None) -> None:
        """Make it durable and close it.

        Args:
            size: cut what was written beyond it.
            modified: the time of the file's last change (ns).
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
        """Close the file as it is."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._discard()

    def _discard(self) -> None:
        self.close()
        with suppress(KdumpError):
            remove(self._where)

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise ValueError(f"{self.path} is closed")
        return self._descriptor


def write_file(
    where: Where,
    data: bytes,
    like: os.stat_result | None = None,
    *,
    keep_owner: bool = False,
    modified: int | None = None,
) -> None:
    """Write a whole small file durably; for the arguments see NewDiskFile."""
    with NewDiskFile(where, like, keep_owner=keep_owner) as file:
        file.write(data)
        file.finish(modified=modified)


def make_directory(where: Where, like: os.stat_result | None = None) -> None:
    """Make a directory; with ``like`` it gets that owner and mode."""
    name, at = _named(where)
    with _errors_at(where):
        os.mkdir(name, 0o777 if like is None else 0o700, dir_fd=at)
        if like is not None:
            try:
                descriptor = os.open(name, DIRECTORY, dir_fd=at)
                try:
                    _set_owner_and_mode(descriptor, like, keep_owner=True)
                finally:
                    os.close(descriptor)
            except BaseException:
                with suppress(OSError):
                    os.rmdir(name, dir_fd=at)
                raise


def make_directory_for_copies(path: str, like: os.stat_result) -> None:
    """Make a directory for copies of files in the directory ``like``, which nobody may enter who may not enter that."""
    make_directory(path)
    try:
        with _errors_at(path):
            keep_out(path, like)
    except BaseException:
        remove_made((path,))
        raise


def remove_directory(where: Where) -> None:
    """Remove an empty directory."""
    name, at = _named(where)
    with _errors_at(where):
        os.rmdir(name, dir_fd=at)


def remove_made(directories: Iterable[Where]) -> None:
    """Remove those directories that are empty, the last one first, if possible."""
    for where in reversed(list(directories)):
        with suppress(KdumpError):
            remove_directory(where)


def remove(where: Where) -> None:
    """Remove a file."""
    name, at = _named(where)
    with _errors_at(where):
        os.unlink(name, dir_fd=at)


def move(source: Where, target: Where) -> None:
    """Give a file or directory another name, which nothing may have."""
    if exists(target):
        raise KdumpError(Codes.UNWRITABLE, os.strerror(errno.EEXIST), path=path_of(target))
    replace(source, target)


def replace(source: Where, target: Where) -> None:
    """Give a file or directory another name. A file with that name is replaced at the same moment."""
    (name, at), (new_name, new_at) = _named(source), _named(target)
    with _errors_at(target):
        os.rename(name, new_name, src_dir_fd=at, dst_dir_fd=new_at)


def publish(files: Iterable[Staged], removed: Iterable[str]) -> None:
    """Give files or directories their names, and remove others: all or nothing; see ``system.files.publish``."""
    try:
        publish_staged(files, removed)
    except OSError as error:
        raise KdumpError(Codes.UNWRITABLE, f"cannot be written: {error.strerror}", path=error.filename) from error


def link(source: Where, target: Where) -> bool:
    """Give a file a second name; False if the file system cannot."""
    (name, at), (new_name, new_at) = _named(source), _named(target)
    with _errors_at(target):
        try:
            os.link(name, new_name, src_dir_fd=at, dst_dir_fd=new_at, follow_symlinks=False)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            return False
    return True


def set_modified(where: Where, modified: int) -> None:
    """Set the time of a file's last change (ns), if it is another one."""
    status = status_of(where)
    if status is not None and status.st_mtime_ns == modified:
        return
    with _errors_at(where), _opened(where, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK) as descriptor:
        os.utime(descriptor, ns=(modified, modified))


def rewrite_end(where: Where, position: int, pieces: Iterable[memoryview], modified: int) -> None:
    """Overwrite an existing file with ``pieces`` from ``position`` on, and end it there, durably.

    ``modified``: the time of its last change (ns), which does not change.
    """
    with _errors_at(where), _opened(where, _OLD) as descriptor:
        for piece in pieces:
            view = piece
            while view:
                count = os.pwrite(descriptor, view, position)
                view = view[count:]
                position += count
        os.ftruncate(descriptor, position)
        os.utime(descriptor, ns=(modified, modified))
        os.fsync(descriptor)


@contextmanager
def _opened(where: Where, flags: int) -> Iterator[int]:
    """A descriptor of an existing file that has one name only. A second name may lie where nothing must change.

    Raises KdumpError REPAIR_REFUSED.
    """
    name, at = _named(where)
    descriptor = os.open(name, flags | os.O_CLOEXEC, dir_fd=at)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _no_file(path_of(where))
        if status.st_nlink > 1:
            raise KdumpError(Codes.REPAIR_REFUSED, OTHER_NAME, path=path_of(where))
        yield descriptor
    finally:
        os.close(descriptor)


def sync_directory(where: Where | Folder) -> None:
    """Make changes of the names in a directory durable."""
    if isinstance(where, Folder):
        with _errors_at(where.path):
            os.fsync(where.descriptor)
        return
    name, at = _named(where)
    with _errors_at(where):
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _set_owner_and_mode(descriptor: int, like: os.stat_result, *, keep_owner: bool) -> None:
    now = os.fstat(descriptor)
    # No file runs with the rights of its owner, who may be another one than that of the bytes in it.
    mode = like.st_mode & (0o7777 if stat.S_ISDIR(now.st_mode) else 0o777)
    if (now.st_uid, now.st_gid) != (like.st_uid, like.st_gid):
        try:
            give_to(descriptor, like)
        except PermissionError:
            if keep_owner:
                raise
            if now.st_gid != like.st_gid:
                mode = for_another_group(mode)
    set_mode(descriptor, mode)


@contextmanager
def _errors_at(where: Where) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise KdumpError(Codes.UNWRITABLE, f"cannot be written: {error.strerror}", path=path_of(where)) from error
