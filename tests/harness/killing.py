"""Disks that fail and processes that are killed: at the Nth system call that changes a file system, whoever makes it.

The functions of the module ``os`` are replaced, and the file that pyarrow writes to. That holds for a whole process, so
it is done in a child. Standard output and standard error are no disk.
"""

from __future__ import annotations

import errno
import io
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

_CHANGING: Final = (
    *("write", "writev", "pwrite", "pwritev", "ftruncate", "truncate", "fsync", "fdatasync"),
    *("rename", "replace", "link", "symlink", "unlink", "remove", "mkdir", "rmdir"),
    *("utime", "chmod", "fchmod", "chown", "fchown", "lchown", "posix_fallocate", "sendfile", "copy_file_range"),
)
_GROWING: Final = frozenset({"open", "write", "writev", "pwrite", "pwritev", "link", "symlink", "mkdir"})
"""What a full disk has no room for; other names and less content it still takes."""
_OF_PIECES: Final = frozenset({"write", "pwrite"})
_STANDARD: Final = (1, 2)


class Trouble(Enum):
    """What happens at a system call. Of the bytes of a write the first half is written before."""

    ERROR = "error"
    """It fails once with EIO."""
    GONE = "gone"
    """It and all that come later fail with EIO: the device is gone."""
    FULL = "full"
    """It fails with ENOSPC, and so does all that needs room later; a write is short first."""
    KILL = "kill"
    """SIGKILL."""

    @property
    def reason(self) -> str:
        """What the system says."""
        return os.strerror(errno.ENOSPC if self is Trouble.FULL else errno.EIO)


class Point(NamedTuple):
    """Trouble at the call with that number, from 1 on."""

    number: int
    trouble: Trouble


class FaultyDisk:
    """All system calls of this process that change a file system, with trouble at some of them.

    Attributes:
        calls: the names of those that were made.
    """

    def __init__(self, points: Sequence[Point] = ()) -> None:
        self.calls: list[str] = []
        self._points = {point.number: point.trouble for point in points}
        self._lasting: Trouble | None = None

    def install(self) -> None:
        """From now on, for the rest of the process."""
        opens = os.open

        def call_open(path: Any, flags: int, *words: Any, **named: Any) -> int:
            if flags & (os.O_CREAT | os.O_TRUNC):
                self._count("open", path)
            return opens(path, flags, *words, **named)

        for name in _CHANGING:
            setattr(os, name, self._counted(name, getattr(os, name)))
        os.open = call_open
        if (arrow := sys.modules.get("pyarrow")) is not None:
            arrow.OSFile = lambda path, mode: arrow.PythonFile(_Stream(path), mode="w")

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **named: Any) -> Any:
            if name in _OF_PIECES and words[0] in _STANDARD:
                return function(*words, **named)
            half = None
            if name in _OF_PIECES:
                data = memoryview(words[1]).cast("B")
                half = data[: len(data) // 2]
            return self._count(name, words[0], lambda: function(words[0], half, *words[2:]) if half else 0) or function(
                *words, **named
            )

        return call

    def _count(self, name: str, what: Any, do_half: Callable[[], int] = lambda: 0) -> int:
        """One more call, with ``what``. A number of bytes, if not 0: they are written, and the call is done with that.

        Raises:
            OSError: as the call does, with the path if it got one.
        """
        self.calls.append(name)
        trouble = self._points.get(len(self.calls))
        if trouble is None:
            if self._lasting is Trouble.GONE or (self._lasting is Trouble.FULL and name in _GROWING):
                raise _failure(self._lasting, what)
            return 0
        written = do_half()
        if trouble is Trouble.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        if trouble is not Trouble.ERROR:
            self._lasting = trouble
        if trouble is Trouble.FULL and written:
            return written
        raise _failure(trouble, what)


def _failure(trouble: Trouble, what: Any) -> OSError:
    number = errno.ENOSPC if trouble is Trouble.FULL else errno.EIO
    return OSError(number, trouble.reason) if isinstance(what, int) else OSError(number, trouble.reason, what)


class _Stream(io.RawIOBase):
    """A file that pyarrow writes to through ``os``."""

    def __init__(self, path: bytes) -> None:
        super().__init__()
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        while view:
            count = os.write(self._descriptor, view)
            self._size += count
            view = view[count:]
        return len(memoryview(data).cast("B"))

    def tell(self) -> int:
        return self._size

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


def in_child(work: Callable[[], None]) -> int | None:
    """Run ``work`` in a forked process; gives its exit status, 1 after an exception, None where it was killed.

    Raises:
        AssertionError: another signal ended it.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    try:
        _, status = os.waitpid(child, 0)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, f"the child ended with {status}"
        return None
    return os.WEXITSTATUS(status)


def limit_files(size: int) -> None:
    """From now on no file of this process gets more bytes; a write fails with EFBIG."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    # Python 3.11 leaves a part of a module's bytecode there, and no later process could import it.
    sys.dont_write_bytecode = True


def killed_at(number: int, work: Callable[[], None]) -> bool:
    """Run ``work`` in a child that is killed at that call; False: it came to its end before.

    Raises:
        AssertionError: it ended in another way.
    """

    def killed() -> None:
        FaultyDisk([Point(number, Trouble.KILL)]).install()
        work()

    status = in_child(killed)
    assert not status, f"the child ended with {status}"
    return status is None
