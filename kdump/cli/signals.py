"""Signals that end the process, where something has to be put right first."""

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
    """SIGTERM and SIGHUP unwind what runs in here, as an interrupt does, and end the process then.

    One that is ignored (``nohup``) stays so. For the main thread only.
    """
    caught: list[int] = []

    def unwind(number: int, frame: FrameType | None) -> None:
        # A second one must not stop the tidying up.
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
