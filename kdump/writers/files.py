"""Output files that appear whole or not at all: written beside their place, then renamed.

Nothing of kdump is imported here, so that whatever writes files can use it. Errors are ``OSError`` with the path.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Final, NamedTuple

_UNFINISHED: Final = ".kdump-part"
_MODE: Final = 0o666
_run: ContextVar[str] = ContextVar("_run", default="")


class Staged(NamedTuple):
    """A finished file that is not in its place yet."""

    temporary: str
    path: str


class NewFile:
    """A file on its way to ``path``; its directory must exist.

    What is written goes to a hidden file beside it. ``finish`` makes that durable; ``publish`` puts it in place.
    """

    def __init__(self, path: str) -> None:
        directory, name = os.path.split(path)
        self.path = path
        self.size = 0
        with _named(path):
            self._descriptor, self.temporary = tempfile.mkstemp(_UNFINISHED, f".{name}.{_run.get()}", directory or ".")
        # mkstemp is stricter than what the user asks for.
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(self._descriptor, _MODE & ~mask)

    @property
    def descriptor(self) -> int:
        """Where to write; whoever does so counts for himself."""
        return self._descriptor

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append ``data``, in one call of the system where that takes it all."""
        with _named(self.path):
            view = memoryview(data).cast("B")
            self.size += len(view)
            while view:
                view = view[os.write(self._descriptor, view) :]

    def finish(self) -> Staged:
        """Everything was written; it is made durable."""
        descriptor, self._descriptor = self._descriptor, -1
        with _named(self.path):
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return Staged(self.temporary, self.path)

    def discard(self) -> None:
        """Nothing of it is wanted."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        discard([Staged(self.temporary, self.path)])


def publish(files: Iterable[Staged]) -> None:
    """Put finished files in their places, over what is there."""
    directories = set()
    for temporary, path in files:
        with _named(path):
            os.replace(temporary, path)
        directories.add(os.path.dirname(path) or ".")
    for directory in directories:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def discard(files: Iterable[Staged]) -> None:
    """Remove finished files that are not wanted after all."""
    for temporary, _ in files:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


@contextlib.contextmanager
def written_by(run: str) -> Iterator[None]:
    """Files that are made in here are those of ``run``, an identifier, until they are in their places."""
    token = _run.set(run)
    try:
        yield
    finally:
        _run.reset(token)


def discard_others(directories: Iterable[str], run: str, kept: Iterable[Staged]) -> None:
    """Remove what ``run`` has left in the directories but for what is ``kept``: files of tasks that do not count."""
    known = {os.path.basename(file.temporary) for file in kept}
    for directory in directories:
        for name in set(os.listdir(directory or ".")) - known:
            if name.startswith(".") and f".{run}" in name and name.endswith(_UNFINISHED):
                discard([Staged(os.path.join(directory, name), "")])


def make_directories(path: str) -> list[str]:
    """Make a directory and those above it that are missing; the new ones, the innermost first."""
    made: list[str] = []
    while path and not os.path.isdir(path):
        made.append(path)
        path = os.path.dirname(path)
    for directory in reversed(made):
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory)
    return made


def remove_empty(directories: Iterable[str]) -> None:
    """Remove those of the directories that are empty."""
    for directory in directories:
        with contextlib.suppress(OSError):
            os.rmdir(directory)


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """An error says which file it is about, not which descriptor or hidden name."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise
