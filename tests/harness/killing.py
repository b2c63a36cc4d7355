"""A repair that is killed: SIGKILL to a child at the Nth system call of ``kdump.repair.disk`` that writes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from kdump.repair import disk

_CHANGING = frozenset(
    {"write", "pwrite", "ftruncate", "rename", "unlink", "link", "mkdir", "rmdir", "utime", "fchown", "fchmod", "fsync"}
)


class KillingOs:
    """The module ``os``; the process is killed in front of its Nth call that changes a file system.

    Of the bytes of a write the first half is written before.
    """

    def __init__(self, number: int) -> None:
        self._left = number

    def __getattr__(self, name: str) -> Any:
        function = getattr(os, name)
        if name == "open":
            return self._open
        return self._counted(name, function) if name in _CHANGING else function

    def _open(self, path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            self._count()
        return os.open(path, flags, mode, dir_fd=dir_fd)

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **named: Any) -> Any:
            if self._left == 1 and name in ("write", "pwrite"):
                function(words[0], words[1][: len(words[1]) // 2], *words[2:])
            self._count()
            return function(*words, **named)

        return call

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def killed_at(number: int, work: Callable[[], None]) -> bool:
    """Run ``work`` in a child that is killed at that call; False: it came to its end before.

    Raises:
        AssertionError: it ended in another way.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            disk.os = KillingOs(number)  # type: ignore[assignment]
            work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return True
    assert status == 0, f"the child ended with {status}"
    return False
