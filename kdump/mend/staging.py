"""Repaired copies: written beside their place, durable, then put there all at once."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Self

from kdump.codes import Codes, KdumpError
from kdump.mend import disk


class Staging:
    """A hidden directory in ``directory`` (made if it is missing) that holds new files until they are complete.

    Used as a context: what is not committed is removed. Raises KdumpError UNWRITABLE.

    Args:
        directory: for the copies.
        overwrites: files that are there are replaced, but never a directory.
    """

    def __init__(self, directory: str, *, overwrites: bool = False) -> None:
        self._target = directory
        self._overwrites = overwrites
        self._names: list[str] = []
        missing = directory
        to_make: list[str] = []
        while missing and not os.path.lexists(missing):
            to_make.append(missing)
            missing = os.path.dirname(missing)
        for path in reversed(to_make):
            disk.make_directory(path)
        self._directory = os.path.join(directory, f".kdump-{os.getpid()}-{time.time_ns()}")
        disk.make_directory(self._directory)

    def file(self, name: str, like: os.stat_result | None = None) -> disk.NewFile:
        """A new file; the caller finishes it."""
        self._names.append(name)
        return disk.NewFile(os.path.join(self._directory, name), like)

    def write(self, name: str, data: bytes, like: os.stat_result | None = None, modified: int | None = None) -> None:
        """A whole new file."""
        self._names.append(name)
        disk.write_file(os.path.join(self._directory, name), data, like, modified=modified)

    def path(self, name: str) -> str:
        """Where a file is until it is committed."""
        return os.path.join(self._directory, name)

    def commit_files(self) -> None:
        """Give every file its name in the directory."""
        self.refuse_existing(self._names)
        placed: list[str] = []
        try:
            for name in self._names:
                placed.append(name)
                target = os.path.join(self._target, name)
                if disk.exists(target) and not disk.link(target, self._old(name)):
                    disk.replace(target, self._old(name))
                disk.replace(self.path(name), target)
        except BaseException:
            for name in reversed(placed):
                self._take_back(name)
            raise
        for name in self._names:
            if disk.exists(self._old(name)):
                disk.remove(self._old(name))
        self._names.clear()
        disk.remove_directory(self._directory)
        disk.sync_directory(self._target)

    def _old(self, name: str) -> str:
        """Where the file is meanwhile whose place another one takes."""
        return self.path(f"{name}.old")

    def _take_back(self, name: str) -> None:
        target = os.path.join(self._target, name)
        if disk.exists(target) and not disk.exists(self.path(name)):
            disk.replace(target, self.path(name))
        if disk.exists(self._old(name)):
            disk.replace(self._old(name), target)
            if disk.exists(self._old(name)):
                # Two names of one file: the system leaves both.
                disk.remove(self._old(name))

    def commit_directory(self, name: str) -> None:
        """All files become the new directory ``name`` at one moment."""
        self.refuse_existing([name])
        disk.sync_directory(self._directory)
        disk.move(self._directory, os.path.join(self._target, name))
        self._names.clear()
        disk.sync_directory(self._target)

    def refuse_existing(self, names: list[str]) -> None:
        """Raises KdumpError OUTPUT_EXISTS for a name that is taken in the directory."""
        for name in names:
            path = os.path.join(self._target, name)
            if self._overwrites and os.path.isfile(path) and not os.path.islink(path):
                continue
            if os.path.lexists(path):
                message = "is there already; give another directory, or --overwrite"
                raise KdumpError(Codes.OUTPUT_EXISTS, message, path=path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not os.path.lexists(self._directory):
            return
        for name in self._names:
            if os.path.lexists(self.path(name)):
                disk.remove(self.path(name))
        disk.remove_directory(self._directory)
