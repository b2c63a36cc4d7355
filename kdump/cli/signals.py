"""Signals that end the process after it has cleaned up."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def unwound() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind this context, as an interrupt does, and then end the process.

    An ignored signal (``nohup``) stays ignored. For the main thread only.
    """
    caught: list[int] = []

    def unwind(number: int, frame: FrameType | None) -> None:
        # A second signal must not stop the cleaning up.
        for each in taken:
            signal.signal(each, signal.SIG_IGN)
        caught.append(number)
        raise KeyboardInterrupt

    taken = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, unwind)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
        if caught:
            os.kill(os.getpid(), caught[0])
