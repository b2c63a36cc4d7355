"""The Python process that Spark runs a task in."""

from __future__ import annotations

import gc
import os
import socket
import stat
import sys
import traceback
from contextlib import suppress
from types import ModuleType, SimpleNamespace
from typing import Final

_DAEMON: Final = "pyspark.daemon"
_OPEN_FILES: Final = "/proc/self/fd"
"""Of Linux; elsewhere the option does not exist either."""
_FIRST_TASKS: Final = iter(range(2))


class BeginsTask:
    """What is unpickled where a task begins, before the task's input is read: the readers of the data sources."""

    def __setstate__(self, state: dict[str, object]) -> None:
        begin_task()
        self.__dict__.update(state)


def begin_task() -> None:
    """Prepares a worker of Spark's Python daemon before a task's input is read. In other processes it does nothing.

    The JVM holds the second of two small parts back until the first is acknowledged (Nagle), and the kernel delays that
    (delayed ACK): 40 ms for each task, as long as verifying 20 MiB takes.
    """
    main = sys.modules["__main__"]
    if getattr(getattr(main, "__spec__", None), "name", None) != _DAEMON:
        return
    if next(_FIRST_TASKS, None) is not None:
        _settle_in(main)
    with suppress(OSError):
        for number in map(int, os.listdir(_OPEN_FILES)):
            with suppress(OSError):
                if stat.S_ISSOCK(os.stat(number).st_mode):
                    _acknowledge_at_once(number)


def _settle_in(daemon: ModuleType) -> None:
    """Make this process fast, and keep it from printing tracebacks."""
    # The daemon collects garbage after every task, and goes through all modules of pandas and pyarrow each time, unless
    # they are spared: those that came before the first task, and those that came with it.
    gc.freeze()
    # It would print a traceback when the JVM closes its end because it needs no more rows.
    daemon.__dict__["traceback"] = SimpleNamespace(print_exc=_print_unless_hung_up, format_exc=traceback.format_exc)


def _acknowledge_at_once(descriptor: int) -> None:
    peer = socket.socket(fileno=descriptor)
    try:
        if peer.family in {socket.AF_INET, socket.AF_INET6}:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    finally:
        peer.detach()


def _print_unless_hung_up() -> None:
    if not isinstance(sys.exception(), BrokenPipeError):
        traceback.print_exc()
