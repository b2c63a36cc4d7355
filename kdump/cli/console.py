"""Standard output and standard error, kept in order."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import click

from kdump.cli.progress import ProgressLine
from kdump.codes import KdumpError
from kdump.reading.reporter import Reporter
from kdump.system.blocks import BlockWriter, escaped

if TYPE_CHECKING:
    import subprocess

_STDOUT, _STDERR = 1, 2
_WIDTH_OF_A_PIPE = 160
_ESCAPED = ("table", "text")


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
        import shutil

        return shutil.get_terminal_size((_WIDTH_OF_A_PIPE, 24)).columns

    def show_error(self, error: KdumpError) -> None:
        """The error of a file as a line on standard error."""
        self.note(str(error))
        if self._show_traceback:
            import traceback  # slow, as is shutil

            self.complain("".join(traceback.format_exception(error)).rstrip())

    def reporter(self, *, verbose: bool) -> Reporter:
        """A reporter that writes here."""
        return Reporter(self.show_error, self.complain, verbose)

    def close(self) -> None:
        """Write what is pending."""
        self.progress.clear()
        self.out.flush()
        self.errors.flush()


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
