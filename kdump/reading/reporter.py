"""Where reading says what is not its output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kdump.codes import KdumpError


class ReadSummary(Protocol):
    """What is known of a log after it was read."""

    @property
    def bytes_read(self) -> int:
        """Bytes of the entries that were looked at."""

    @property
    def is_columnar(self) -> bool:
        """The columnar decoder was used."""


@dataclass(frozen=True, slots=True)
class Reporter:
    """Where a run says what is not its output."""

    show_error: Callable[[KdumpError], None]
    """Takes what is wrong with a file."""
    complain: Callable[[str], None]
    """Takes a line (without line end) for standard error."""
    progress: Callable[[str, int, int | None], None] = lambda path, done, size: None
    """Takes a path, the bytes of it that are done, and its size (None: a stream)."""
    verbose: bool = False
    """Say of each log what was read and how."""

    def note(self, line: str) -> None:
        """A line with the program's name."""
        self.complain(f"kdump: {line}")
