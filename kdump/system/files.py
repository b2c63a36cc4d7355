"""Output files that appear whole or not at all. They are written beside their place, then renamed.

This module imports nothing of kdump, so that every module that writes files can use it. Errors are ``OSError`` with the
path.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
import time
from collections.abc import Container, Iterable, Iterator
from contextvars import ContextVar
from typing import Final, NamedTuple

_UNFINISHED: Final = ".kdump-part"
_MODE: Final = 0o666
_STDOUT: Final = 1
NO_LINKS: Final = frozenset({errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK})
"""Errors that say that a file cannot get a second name. Any other error is one of the disk."""
DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags that open a directory, and no link to one."""
_ACL: Final = "system.posix_acl_access"
"""The extended attribute: a version of 4 bytes, then entries of a tag, permissions and an ID (2, 2 and 4 bytes)."""
_ACL_HEADER: Final = 4
_ACL_NAMED_USER: Final = 2
_ACL_GROUP: Final = 4
_ACL_NAMED_GROUP: Final = 8
_run: ContextVar[str] = ContextVar("_run", default="")


class Staged(NamedTuple):
    """A finished file that is not in its place yet."""

    temporary: str
    path: str


class NewFile:
    """A file on its way to ``path``, whose directory must exist.

    What is written goes to a hidden file beside it, which only the user can read. ``finish`` makes it durable,
    ``publish`` gives it its name.

    Args:
        path: where it goes.
        like: the file that it is made from. The new file gets its owner, where possible, and no permission that this
            file does not give. None: those of any new file.

    Raises:
        OSError: also where a directory, a device, a pipe or a socket has the place, or a link to one.
    """

    def __init__(self, path: str, like: os.stat_result | None = None) -> None:
        import tempfile

        directory, name = os.path.split(path)
        self.path = path
        self.size = 0
        with _named(path):
            _check_place(path)
            self._descriptor, self.temporary = tempfile.mkstemp(_UNFINISHED, f".{name}.{_run.get()}", directory or ".")
        self._like = like

    @property
    def descriptor(self) -> int:
        """Where to write. Who uses it must count the bytes."""
        return self._descriptor

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append ``data``, in one call of the system where that takes it all."""
        with _named(self.path):
            view = memoryview(data).cast("B")
            self.size += len(view)
            while view:
                view = view[os.write(self._descriptor, view) :]

    def finish(self) -> Staged:
        """Make the file durable. Everything was written."""
        descriptor, self._descriptor = self._descriptor, -1
        with _named(self.path):
            try:
                _set_owner_and_mode(descriptor, self._like)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return Staged(self.temporary, self.path)

    def discard(self) -> None:
        """Remove the file: nothing of it is wanted."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        discard([Staged(self.temporary, self.path)])


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[NewFile]:
    """A file that appears when the block ends: whole, or not at all. Raises OSError."""
    file = NewFile(path)
    try:
        yield file
        publish([file.finish()])
    finally:
        file.discard()


def publish(files: Iterable[Staged], removed: Iterable[str] = ()) -> None:
    """Put finished files in their places, over what is there, and remove ``removed``: all or nothing.

    When one of them fails, the files that were replaced come back. No file takes the place of another one of ``files``,
    by whatever path: names may be equal to the file system that are not equal here, and directories may be links.
    """
    done: list[_Change] = []
    placed: set[tuple[int, int]] = set()
    try:
        # First, as an old index does not fit a new log.
        for path in removed:
            with _named(path):
                old = _second_name(path)
                if old is not None:
                    done.append(_Change(path, old, None))
                    if os.path.lexists(path):
                        os.unlink(path)
        for temporary, path in files:
            with _named(path):
                _refuse_placed(path, placed)
                status = os.lstat(temporary)
                placed.add((status.st_dev, status.st_ino))
                old = _second_name(path)
                done.append(_Change(path, old, temporary))
                os.replace(temporary, path)
        for directory in {os.path.dirname(change.path) or "." for change in done}:
            with _named(directory):
                _sync(directory)
    except BaseException:
        for change in reversed(done):
            change.take_back()
        raise
    for change in done:
        if change.old is not None:
            with contextlib.suppress(OSError):
                os.unlink(change.old)


class _Change(NamedTuple):
    """A place that gets another file, or loses its file.

    ``old``: another name of the file that was there, None where there was none. ``temporary``: the name of the new
    file.
    """

    path: str
    old: str | None
    temporary: str | None

    def take_back(self) -> None:
        """Restore what was there before, as far as possible. At no moment it is missing."""
        with contextlib.suppress(OSError):
            if self.old is not None:
                os.replace(self.old, self.path)
                # Two names of one file: the system leaves both.
                os.unlink(self.old)
            elif self.temporary is not None and not os.path.lexists(self.temporary):
                os.replace(self.path, self.temporary)


def _refuse_placed(path: str, placed: Container[tuple[int, int]]) -> None:
    """Raises OSError where one of the files ``placed``, by device and inode, is at ``path``."""
    with contextlib.suppress(FileNotFoundError):
        status = os.lstat(path)
        if (status.st_dev, status.st_ino) in placed:
            raise OSError(errno.EEXIST, "two files of the output would become this one", path)


def _check_place(path: str) -> None:
    """Raises OSError where the place has something that no file may replace; a regular file or nothing may be there."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "is no regular file", path)
    with contextlib.suppress(OSError):
        if not os.path.samestat(status, os.fstat(_STDOUT)):
            return
    # /dev/stdout is a link to it.
    raise OSError(errno.EINVAL, "is standard output", path)


def _second_name(path: str) -> str | None:
    """Give the file at ``path`` a second, hidden name beside it. None where there is no file."""
    if not os.path.lexists(path):
        return None
    _check_place(path)
    directory, name = os.path.split(path)
    other = os.path.join(directory, f".{name}.{os.getpid()}-{time.monotonic_ns()}{_UNFINISHED}")
    try:
        os.link(path, other, follow_symlinks=False)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        # A file system without links: the place is empty for a moment.
        os.rename(path, other)
    return other


def _sync(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def status_of(path: str) -> os.stat_result | None:
    """The ``like_of`` a regular file of this machine; None for anything else."""
    try:
        status = like_of(path)
    except (OSError, ValueError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def like_of(file: str | int) -> os.stat_result:
    """The status of a file or directory (path or descriptor) whose owner and mode a copy gets.

    A copy has no ACL. So the mode gives nobody more than an ACL of the file gives them: where there is one, the group
    bits of ``os.stat`` are the most that any entry gives, not those of the group.

    Raises:
        OSError: as ``os.stat``.

    Source: acl(5), ACCESS CHECK ALGORITHM; linux/posix_acl_xattr.h.
    """
    status = os.stat(file)
    try:
        acl = os.getxattr(file, _ACL)
    except OSError:
        return status
    most, others = status.st_mode >> 3 & 0o7, status.st_mode & 0o7
    group = most
    for tag, permissions, _ in struct.iter_unpack("<HHI", acl[_ACL_HEADER:]):
        if tag in (_ACL_NAMED_USER, _ACL_GROUP, _ACL_NAMED_GROUP):
            group &= permissions
        if tag in (_ACL_NAMED_USER, _ACL_NAMED_GROUP):
            others &= permissions & most
    # The times in nanoseconds are no members of the tuple.
    times = {name: getattr(status, name) for name in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns")}
    return os.stat_result((status.st_mode & ~0o077 | group << 3 | others, *status[1:]), times)


def _set_owner_and_mode(descriptor: int, like: os.stat_result | None) -> None:
    """Set owner and permissions: none that the umask or ``like`` does not give."""
    mask = os.umask(0)
    os.umask(mask)
    mode = _MODE & ~mask
    if like is None:
        os.fchmod(descriptor, mode)
        return
    with contextlib.suppress(PermissionError):
        os.fchown(descriptor, like.st_uid, like.st_gid)
    mode &= like.st_mode
    if os.fstat(descriptor).st_gid != like.st_gid:
        mode = for_another_group(mode)
    set_mode(descriptor, mode)


def give_to(descriptor: int, like: os.stat_result) -> None:
    """Give a file the owner and group of another one. Raises OSError, whose text says who may do so."""
    try:
        os.fchown(descriptor, like.st_uid, like.st_gid)
    except PermissionError as error:
        owner, group = _name_of(like.st_uid, "pwd"), _name_of(like.st_gid, "grp")
        what = f"user {_name_of(os.geteuid(), 'pwd')} may not give it to user {owner} and group {group}"
        raise PermissionError(
            error.errno, f"{what}: run kdump as root, or as user {owner} with group {group}"
        ) from error


def _name_of(number: int, database: str) -> str:
    """The name of a user or group; its number where it has none."""
    try:
        if database == "pwd":
            import pwd

            return pwd.getpwuid(number).pw_name
        import grp

        return grp.getgrgid(number).gr_name
    except (ImportError, KeyError):
        return str(number)


def set_mode(descriptor: int, mode: int) -> None:
    """Set the permissions of a new file or directory: an ACL that it has from its directory gives nobody more."""
    with contextlib.suppress(OSError):
        os.removexattr(descriptor, _ACL)
    os.fchmod(descriptor, mode)


def for_another_group(mode: int) -> int:
    """The mode of a copy that belongs to another group, which gets no more permissions than all others."""
    return mode & (~0o070 | (mode & 0o007) << 3)


def discard(files: Iterable[Staged]) -> None:
    """Remove finished files that are not wanted, as far as possible. Their names are hidden anyway."""
    for temporary, _ in files:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


@contextlib.contextmanager
def written_by(run: str) -> Iterator[None]:
    """Files that are made in this context belong to ``run``, an identifier, until they are in their places."""
    token = _run.set(run)
    try:
        yield
    finally:
        _run.reset(token)


def discard_others(directories: Iterable[str], run: str, kept: Iterable[Staged]) -> None:
    """Remove the files of ``run`` from the directories, except those in ``kept``: they come from failed tasks."""
    known = {os.path.basename(file.temporary) for file in kept}
    for directory in directories:
        for name in set(os.listdir(directory or ".")) - known:
            if name.startswith(".") and f".{run}" in name and name.endswith(_UNFINISHED):
                discard([Staged(os.path.join(directory, name), "")])


def keep_out(directory: str, like: os.stat_result) -> None:
    """Let nobody else into a new directory for copies who may not enter ``like``, the directory of their sources."""
    descriptor = os.open(directory, DIRECTORY)
    try:
        status = os.fstat(descriptor)
        mode = stat.S_IMODE(status.st_mode) & (like.st_mode | ~0o077)
        if status.st_gid != like.st_gid:
            mode = for_another_group(mode)
        set_mode(descriptor, mode)
    finally:
        os.close(descriptor)


def make_directories(path: str, like: os.stat_result | None = None) -> list[str]:
    """Make a directory and its missing parents, or none of them. Returns the new ones, the innermost first.

    ``like``: see ``keep_out``.
    """
    made: list[str] = []
    while path and not os.path.isdir(path):
        made.append(path)
        path = os.path.dirname(path)
    try:
        for directory in reversed(made):
            with contextlib.suppress(FileExistsError), _named(directory):
                os.mkdir(directory)
                if like is not None:
                    keep_out(directory, like)
    except BaseException:
        remove_empty(made)
        raise
    return made


def remove_empty(directories: Iterable[str]) -> None:
    """Remove those of the directories that are empty."""
    for directory in directories:
        with contextlib.suppress(OSError):
            os.rmdir(directory)


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Let errors name the file that they are about, not a descriptor or a hidden name."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise
