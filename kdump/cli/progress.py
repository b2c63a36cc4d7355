"""How far a long run has come, on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_FIRST_AFTER = 1.0
"""Seconds before anything is shown."""


class ProgressLine:
    """A bar of the bytes done, of the bytes in all. It appears after one second.

    Args:
        is_shown: False: never (standard error is no terminal, or the output goes to the same one).

    Attributes:
        in_all: counts the bytes in all, when the bar appears; 0: they are not known.
    """

    def __init__(self, *, is_shown: bool) -> None:
        self.in_all: Callable[[], int] = lambda: 0
        self._is_shown = is_shown
        self._began = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._size: int | None = None
        self._done = 0

    def show(self, what: str, done: int) -> None:
        """``done`` bytes were read; now it is the turn of ``what``."""
        if not self._is_shown or time.monotonic() - self._began < _FIRST_AFTER:
            return
        if self._size is None:
            self._size = self.in_all()
        if self._bar is None or self._task is None:
            self._bar = _bar()
            self._bar.start()
            self._task = self._bar.add_task("", total=self._size or None)
        # Files beside the logs are read too, and some logs twice. This process reads beside those of a pool.
        self._done = max(self._done, min(done, self._size or done))
        self._bar.update(self._task, description=_short(what), completed=self._done)

    def clear(self) -> None:
        """Remove the line until the next ``show``."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = self._task = None


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _short(path: str) -> str:
    """The end of a path, without control characters and markup."""
    return "".join(char if char.isprintable() and char != "[" else "?" for char in path[-40:])
