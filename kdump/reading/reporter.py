"""Where a reader reports what is not its output."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kdump.codes import OnError


class Reporter(NamedTuple):
    """Takes what is not the output of a run."""

    show_error: OnError
    """Takes the error of a file."""
    complain: Callable[[str], None]
    """Takes a line for standard error, without line end."""
    verbose: bool = False
    """Report of each log what was read and how."""

    def note(self, line: str) -> None:
        """Show a line after the program's name."""
        self.complain(f"kdump: {line}")
