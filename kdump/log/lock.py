"""The lock of a log directory: whether a broker holds its ``.lock``, and taking it; the lock of a partition elsewhere.

Kafka takes a POSIX record lock (fcntl), not flock. Asking for it changes nothing. On network file systems the answer of
the kernel may be wrong. A process loses all its locks on a file when it closes any descriptor of that file, so it must
not ask for a lock that it holds. No broker holds a partition that lies in no log directory: there kdump locks out only
other kdumps, with flock on the partition directory, and no file is made.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from abc import ABC
from contextlib import suppress
from enum import Enum
from types import TracebackType
from typing import Final, Self

from kdump.codes import Codes, KdumpError
from kdump.log.named import not_opened, open_found
from kdump.log.names import LOCK_FILE, is_uri
from kdump.system.files import DIRECTORY, give_to
from kdump.system.mounts import file_system, tells_locks

_OWN: Final[set[str]] = set()
"""Real paths of the log directories whose lock this process holds.

Closing any descriptor of a lock file gives the lock away, so the file must not be opened to ask.
"""
# struct flock of Linux: type, whence, start, length, process id.
_FLOCK: Final = struct.Struct("hhqqi4x")
_MODE: Final = 0o644


class LockState(Enum):
    """Who holds the lock of a log directory."""

    FREE = "free"
    """No process holds it, or there is no lock file."""
    HELD = "held"
    """A process of this machine: a broker runs."""
    UNKNOWN = "unknown"
    """The file system does not tell: a broker may run on another machine."""


def is_held(log_directory: str) -> bool:
    """Another process holds the lock of the log directory: a broker runs on it. Unknown counts as not held.

    False for a URI: stores have no locks.
    """
    if is_uri(log_directory) or (_OWN and os.path.realpath(log_directory) in _OWN):
        return False
    try:
        descriptor, _ = open_found(os.path.join(log_directory, LOCK_FILE))
    except KdumpError:
        return False
    try:
        return _holder(descriptor) is not None
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> int | None:
    """The id of the process that holds the lock of a file; None: nobody does. Raises OSError."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else process


def _holder_text(descriptor: int) -> str:
    """Who holds the lock of a file: another kdump by the name of its program, else a broker."""
    with suppress(OSError):
        process = _holder(descriptor)
        with open(f"/proc/{process}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
        # The interpreter, and its script or "-m kdump".
        if b"kdump" in map(os.path.basename, words[:3]):
            return f"another kdump (process {process}) writes to this log directory"
    return "a broker runs on this log directory"


def lock_state(log_directory: str) -> LockState:
    """Who holds the lock of a log directory."""
    if is_held(log_directory):
        return LockState.HELD
    return LockState.FREE if tells_locks(file_system(log_directory)) else LockState.UNKNOWN


class Lock(ABC):
    """A lock that this process holds until ``release``; a context."""

    _descriptor: int

    def release(self) -> None:
        """Give the lock back."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


class DirectoryLock(Lock):
    """The lock of a log directory. A missing lock file is made, as a broker does, and stays.

    A process can hold it once at a time.

    Raises:
        KdumpError: LOCK_HELD, or UNWRITABLE.
    """

    def __init__(self, log_directory: str) -> None:
        path = os.path.join(log_directory, LOCK_FILE)
        try:
            self._descriptor = _open_or_make(path)
        except OSError as error:
            raise KdumpError(Codes.UNWRITABLE, f"cannot be opened: {error.strerror}", path=path) from error
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            text = _holder_text(self._descriptor)
            os.close(self._descriptor)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise KdumpError(Codes.LOCK_HELD, text, path=path) from error
            raise KdumpError(Codes.UNWRITABLE, f"cannot be locked: {error.strerror}", path=path) from error
        self._directory = os.path.realpath(log_directory)
        _OWN.add(self._directory)

    def release(self) -> None:
        """Give the lock back."""
        _OWN.discard(self._directory)
        super().release()


class PartitionLock(Lock):
    """The lock of a partition directory that lies in no log directory.

    A file system without such locks (NFS) has none to hold.

    Raises:
        KdumpError: LOCK_HELD, MISSING or UNREADABLE.
    """

    def __init__(self, directory: str) -> None:
        try:
            self._descriptor = os.open(directory, DIRECTORY)
        except OSError as error:
            raise not_opened(directory, error) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno == errno.EWOULDBLOCK:
                os.close(self._descriptor)
                message = "another process, such as a kdump that repairs this partition, has locked its directory"
                raise KdumpError(Codes.LOCK_HELD, message, path=directory) from error


def _open_or_make(path: str) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, _MODE)
    else:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is no regular file")
    # A broker that cannot open it does not start.
    owner = os.stat(os.path.dirname(path))
    if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()):
        give_to(descriptor, owner)
    return descriptor
