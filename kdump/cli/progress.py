"""How far a long run has come: one line on standard error, for the whole run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from kdump.log.names import Kind
from kdump.system.blocks import escaped
from kdump.system.units import bytes_text, span_text
from kdump.worlds import world_of_log

_FIRST_AFTER: Final = 1.0
"""Seconds before anything is shown."""
_EACH: Final = 0.2
"""Seconds between two lines."""
_STDERR: Final = 2
_ERASE: Final = b"\r\x1b[K"
_MOST_FILES: Final = 1 << 20


class ProgressLine:
    """A line of the bytes done of the bytes in all, the files, what was found, and the time left.

    It appears after one second, and is erased before anything else is written to the terminal.

    Args:
        is_shown: False: never (standard error is no terminal, or a long output goes to the same one).

    Attributes:
        in_all: counts bytes and files in all, when the line appears; 0: they are not known.
        findings: errors and warnings so far.
    """

    def __init__(self, *, is_shown: bool) -> None:
        self.in_all: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self.findings = 0
        self._is_shown = is_shown
        self._began = self._last = time.monotonic()
        self._totals: tuple[int, int] | None = None
        self._done = 0
        self._files: set[int] = set()
        self._is_there = False

    def show(self, what: str, done: int) -> None:
        """``done`` bytes were read; now it is the turn of ``what``."""
        if not self._is_shown:
            return
        # Files beside the logs are read too, and processes of a pool name none.
        is_log = what.endswith(Kind.LOG.value) or world_of_log(what) is not None
        if is_log and len(self._files) < _MOST_FILES:
            self._files.add(hash(what))
        # This process reads beside those of a pool.
        self._done = max(self._done, done)
        now = time.monotonic()
        if now - self._began < _FIRST_AFTER or now - self._last < _EACH:
            return
        self._last = now
        if self._totals is None:
            self._totals = self.in_all()
        import shutil  # with all that it can unpack: few runs take long enough

        width = shutil.get_terminal_size((80, 24)).columns - 1
        line = escaped(self._line(what, now - self._began))
        os.write(_STDERR, _ERASE + line[:width].encode("utf-8", "replace"))
        self._is_there = True

    def clear(self) -> None:
        """Remove the line until the next ``show``."""
        if self._is_there:
            self._is_there = False
            os.write(_STDERR, _ERASE)

    def _line(self, what: str, seconds: float) -> str:
        size, files = self._totals or (0, 0)
        parts = [f"{bytes_text(self._done)} of {bytes_text(size)}" if self._done <= size else bytes_text(self._done)]
        if seen := len(self._files):
            parts.append(f"{seen:,} of {files:,} logs" if seen <= files else f"{seen:,} logs")
        if self.findings:
            parts.append(f"{self.findings:,} {'finding' if self.findings == 1 else 'findings'}")
        if 0 < self._done <= size:
            left = int(seconds * (size - self._done) / self._done)
            parts.append(f"{span_text(1000 * left)} left" if left else "nearly done")
        return f"{', '.join(parts)}: {os.path.join(os.path.basename(os.path.dirname(what)), os.path.basename(what))}"
