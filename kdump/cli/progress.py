"""How far a long run has come, on standard error."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_FIRST_AFTER = 1.0
"""Seconds before anything is shown."""


class ProgressLine:
    """A bar for the file being read. It appears after one second.

    Args:
        is_shown: False: never (standard error is no terminal, or the output goes to the same one).
    """

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown
        self._began = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._path = ""

    def show(self, path: str, done: int, size: int | None) -> None:
        """``done`` of ``size`` bytes (None: unknown) of ``path`` are read."""
        if not self._is_shown or time.monotonic() - self._began < _FIRST_AFTER:
            return
        if self._bar is None:
            self._bar = _bar()
            self._bar.start()
        if self._task is None or path != self._path:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(_short(path), total=size)
            self._path = path
        self._bar.update(self._task, completed=done)

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
