"""Where the pipeline writes: a directory of this machine, or one of a store. A file is there whole or not at all.

Nothing is appended to a file or changed in one. So it is enough for readers that names tell what a file belongs to.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from kdump.codes import Codes, KdumpError
from kdump.log.names import is_uri
from kdump.log.uris import encoded, parse_uri
from kdump.system.files import NewFile, publish
from kdump.system.paths import absolute_path

_BLOCK: Final = 8 << 20
_WITH_DIRECTORIES: Final = frozenset({"local", "hdfs"})
"""File systems of pyarrow in which a directory must be made before a file in it."""


class LakeFile(NamedTuple):
    """A file that is written under ``temporary`` and will be called ``name``."""

    name: str
    temporary: str
    new: NewFile | None


class Lake:
    """TARGET. Names of files in it are relative, with slashes.

    Args:
        given: a path, or a URI with its credentials and options.

    Every method raises KdumpError UNWRITABLE, or UNREADABLE where it reads.
    """

    def __init__(self, given: str) -> None:
        self._uri = parse_uri(given) if is_uri(given) else None
        self._root = "" if self._uri else absolute_path(given)
        self.shown = self._uri.clean if self._uri else self._root

    @cached_property
    def _store(self) -> tuple[Any, str]:
        """The file system of pyarrow, and the directory as it calls it."""
        from pyarrow.fs import FileSystem

        assert self._uri is not None, "a directory of this machine has no store"
        uri = self._uri.for_pyarrow(self._uri.path)
        try:
            # A small file of S3 is one request then, and not three.
            system, name = FileSystem.from_uri(f"{uri}{'&' if self._uri.query else '?'}allow_delayed_open=true")
        except ValueError:
            # Another store, or a pyarrow that does not know this.
            system, name = FileSystem.from_uri(uri)
        return system, name.rstrip("/")

    def read(self, name: str) -> bytes | None:
        """The bytes of a file; None where there is none."""
        with self._errors(Codes.UNREADABLE, name):
            try:
                if self._uri is None:
                    return Path(self._root, name).read_bytes()
                system, root = self._store
                with system.open_input_stream(f"{root}/{name}") as file:
                    data: bytes = file.read()
                    return data
            except FileNotFoundError:
                return None

    def write(self, name: str, data: bytes) -> None:
        """Make a file, in the place of one of this name."""
        file = self.new_file(name)
        Path(file.temporary).write_bytes(data)
        self.publish(file)

    def new_file(self, name: str) -> LakeFile:
        """A file on its way, to be written on this machine."""
        with self._errors(Codes.UNWRITABLE, name):
            if self._uri is None:
                path = os.path.join(self._root, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                new = NewFile(path)
                return LakeFile(name, new.temporary, new)
            descriptor, path = tempfile.mkstemp(prefix="kdump-land-")
            os.close(descriptor)
            return LakeFile(name, path, None)

    def publish(self, file: LakeFile) -> None:
        """Give a file that was written its name."""
        with self._errors(Codes.UNWRITABLE, file.name):
            if file.new is not None:
                publish([file.new.finish()])
                return
            system, root = self._store
            path = f"{root}/{file.name}"
            if system.type_name in _WITH_DIRECTORIES:
                system.create_dir(os.path.dirname(path))
            try:
                with open(file.temporary, "rb") as source, system.open_output_stream(path) as target:
                    while block := source.read(_BLOCK):
                        target.write(block)
            finally:
                self.discard(file)

    @staticmethod
    def discard(file: LakeFile) -> None:
        """Nothing of a file is wanted."""
        if file.new is not None:
            file.new.discard()
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file.temporary)

    def names(self, folder: str) -> list[str]:
        """All files under a folder, also those that were left on their way; none where there is no such folder."""
        with self._errors(Codes.UNREADABLE, folder):
            if self._uri is None:
                walked = os.walk(os.path.join(self._root, folder), onerror=_raise_unless_missing)
                paths = (os.path.join(directory, name) for directory, _, names in walked for name in names)
                return [os.path.relpath(path, self._root) for path in paths]
            from pyarrow.fs import FileSelector, FileType

            system, root = self._store
            infos = system.get_file_info(FileSelector(f"{root}/{folder}", allow_not_found=True, recursive=True))
            return [info.path.removeprefix(f"{root}/") for info in infos if info.type == FileType.File]

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with self._errors(Codes.UNWRITABLE, name), contextlib.suppress(FileNotFoundError):
            if self._uri is None:
                os.unlink(os.path.join(self._root, name))
            else:
                system, root = self._store
                system.delete_file(f"{root}/{name}")

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Nobody else holds this lock of a directory of this machine. A store has no locks."""
        if self._uri is not None:
            yield
            return
        path = os.path.join(self._root, name)
        with self._errors(Codes.UNWRITABLE, name):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            with self._errors(Codes.UNWRITABLE, name):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise KdumpError(Codes.UNWRITABLE, "another run is at work", path=self.shown) from None
            yield
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _errors(self, code: Codes, name: str) -> Iterator[None]:
        """Whatever pyarrow raises has no common base."""
        path = f"{self.shown}/{'/'.join(map(encoded, name.split('/'))) if self._uri else name}"
        try:
            yield
        except KdumpError:
            raise
        except Exception as error:
            text = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
            lines = (self._uri.scrubbed(text) if self._uri else text).splitlines()
            raise KdumpError(code, lines[0], path=path) from None


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
