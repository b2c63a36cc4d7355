"""Standard output and standard error, kept in order."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from kdump.codes import KdumpError
from kdump.log.names import Kind
from kdump.reading.reporter import Reporter
from kdump.system.blocks import BlockWriter, escaped
from kdump.system.units import bytes_text, counted, span_text
from kdump.worlds import world_of_log

if TYPE_CHECKING:
    import subprocess

_STDOUT, _STDERR = 1, 2
_WIDTH_OF_A_PIPE = 160
_ESCAPED = ("table", "text")
_FIRST_AFTER: Final = 1.0
"""Seconds before anything is shown."""
_EACH: Final = 0.2
"""Seconds between two lines."""
_ERASE: Final = b"\r\x1b[K"
_MOST_FILES: Final = 1 << 20


class Console:
    """Where a command's output goes.

    Args:
        color: ``auto``, ``always`` or ``never``.
        output: the form of the output. A table and a text have colors, and escape what they show. All other forms are
            exact, so on a terminal their control characters are escaped here.
        at_once: write every piece as it comes, also into a pipe.
        pager: show standard output in ``$PAGER`` when it is a terminal.
        show_traceback: with every error.

    Attributes:
        progress: how far the run has come.
    """

    def __init__(
        self,
        *,
        color: str = "auto",
        output: str = "",
        at_once: bool = False,
        pager: bool = False,
        show_traceback: bool = False,
    ) -> None:
        self.is_terminal = os.isatty(_STDOUT)
        self.color = color == "always" or (color == "auto" and self.is_terminal and not os.environ.get("NO_COLOR"))
        self._pager = _start_pager() if pager and self.is_terminal else None
        if self._pager is not None:
            # Always wait: without it a pager and the shell would share the terminal.
            click.get_current_context().call_on_close(partial(_wait_for_user, self._pager))
        descriptor = self._pager.stdin.fileno() if self._pager and self._pager.stdin else _STDOUT
        escapes = self.is_terminal and output not in _ESCAPED
        is_shown = os.isatty(_STDERR) and (not self.is_terminal or (output in _ESCAPED and self._pager is None))
        self.progress = ProgressLine(is_shown=is_shown)
        before = self.progress.clear if self.is_terminal else None
        self.out = BlockWriter(descriptor, at_once=self.is_terminal or at_once, escapes=escapes, before=before)
        self.errors = BlockWriter(_STDERR)
        self._is_github = output == "github"
        self._show_traceback = show_traceback

    def complain(self, line: str) -> None:
        """A line on standard error, after all that was written before it."""
        self.progress.clear()
        self.out.flush()
        # The exit status tells the same where nobody can read this.
        with suppress(OSError):
            self.errors.write(os.fsencode(line) + b"\n")
            self.errors.flush()

    def note(self, line: str) -> None:
        """A line on standard error, after the program's name."""
        # GitHub Actions takes a line there for a command, too.
        self.complain(f"kdump: {escaped(line) if self._is_github else line}")

    @property
    def width(self) -> int:
        """Characters in a line."""
        return _columns(_WIDTH_OF_A_PIPE)

    def show_error(self, error: KdumpError) -> None:
        """The error of a file as a line on standard error."""
        self.note(str(error))
        if self._show_traceback:
            import traceback  # slow, and rarely needed

            self.complain("".join(traceback.format_exception(error)).rstrip())

    def reporter(self, *, verbose: bool) -> Reporter:
        """A reporter that writes here."""
        return Reporter(self.show_error, self.complain, verbose)

    def show_log(self, *, verbose: bool) -> None:
        """Note what kdump itself logs: warnings, with ``verbose`` more. What others log is not shown.

        py4j would show the traceback of an interrupt. The messages begin with the program's name, for processes without
        a command line.
        """
        import logging

        note = self.note

        class Notes(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                note(record.getMessage().removeprefix("kdump: "))

        logging.getLogger().addHandler(logging.NullHandler())
        log = logging.getLogger("kdump")
        log.handlers[:] = [Notes(logging.INFO if verbose else logging.WARNING)]
        log.setLevel(log.handlers[0].level)

    def close(self) -> None:
        """Write what is pending."""
        self.progress.clear()
        self.out.flush()
        self.errors.flush()


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
        width = _columns(80) - 1
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
            parts.append(counted(self.findings, "finding"))
        if 0 < self._done <= size:
            left = int(seconds * (size - self._done) / self._done)
            parts.append(f"{span_text(1000 * left)} left" if left else "nearly done")
        return f"{', '.join(parts)}: {os.path.join(os.path.basename(os.path.dirname(what)), os.path.basename(what))}"


def _start_pager() -> subprocess.Popen[bytes] | None:
    """The pager. None, after a message, where ``$PAGER`` cannot be started."""
    import shlex
    import subprocess

    command = os.environ.get("PAGER") or "less -R"
    try:
        return subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        sys.stderr.write(f"kdump: PAGER={command}: {reason}; shown without a pager\n")
        return None


def _wait_for_user(pager: subprocess.Popen[bytes]) -> None:
    """Wait until the user leaves the pager. An interrupt is meant for the pager: in less it stops a search."""
    assert pager.stdin is not None
    with suppress(OSError):
        pager.stdin.close()
    while pager.returncode is None:
        with suppress(KeyboardInterrupt):
            pager.wait()


def _columns(default: int) -> int:
    """Of the terminal."""
    import shutil  # slow, and not needed by most runs

    return shutil.get_terminal_size((default, 24)).columns
