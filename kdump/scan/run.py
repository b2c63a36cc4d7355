"""A run over several files: what goes wrong with one is said and the next one follows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kdump.codes import INPUT_CODES, KdumpError
from kdump.scan.target import Target


class FileRun(ABC):
    """Remembers what was met, for the exit status.

    Args:
        show_error: takes what is wrong with a file.

    ``damaged`` calls for exit status 1, ``unreadable`` for 3.
    """

    def __init__(self, show_error: Callable[[KdumpError], None]) -> None:
        self._show_error = show_error
        self.damaged = False
        self.unreadable = False

    @abstractmethod
    def dump(self, target: Target) -> None:
        """Dump one file; whatever is wrong with it is one error and the run goes on."""

    @abstractmethod
    def ignore(self, name: str) -> None:
        """A name of ``--files`` that is no segment file."""

    @abstractmethod
    def finish(self) -> Iterator[str]:
        """What is left to say on standard error behind the last file, line by line with line ends."""

    def fail(self, error: KdumpError) -> None:
        """Say what is wrong and remember it."""
        if error.code in INPUT_CODES:
            self.unreadable = True
        else:
            self.damaged = True
        self._show_error(error)

    @contextmanager
    def file(self, path: str) -> Iterator[None]:
        """Whatever kdump raises in here is this file's failure."""
        try:
            yield
        except KdumpError as error:
            self.fail(error.located(path))
