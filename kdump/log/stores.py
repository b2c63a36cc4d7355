"""What a URI names: object stores, HDFS, and any other file system that pyarrow has.

A request to an object store costs tens of milliseconds, whatever it asks for. So a directory is listed once, and bytes
come in large ranges (``objects``). pyarrow is imported when the first URI is used.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import has_magic
from types import ModuleType
from typing import Any, Final
from urllib.parse import unquote

from kdump.codes import Codes, KdumpError
from kdump.log.named import ListingEntry
from kdump.log.names import parse_file_name
from kdump.log.objects import ObjectSource
from kdump.log.source import Source
from kdump.log.uris import Uri, encoded, parse_uri
from kdump.worlds import world_of_store

_NEEDS: Final = "a path with a scheme needs pyarrow: pip install pyarrow"


class Store(ABC):
    """Everything under one root: what ``files`` and ``opening`` ask of it. Paths are URIs without credentials."""

    @abstractmethod
    def forget_listings(self) -> None:
        """Forget the directories that were listed: they may have changed."""

    @abstractmethod
    def entry(self, path: str) -> ListingEntry | None:
        """The entry of this name in the listing of its directory; None also where that was not listed."""

    @abstractmethod
    def is_directory(self, path: str) -> bool:
        """See ``files.is_directory``."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """See ``files.exists``."""

    @abstractmethod
    def size(self, path: str) -> int:
        """See ``files.size``."""

    @abstractmethod
    def listing(self, directory: str) -> list[ListingEntry]:
        """See ``files.listing``."""

    @abstractmethod
    def open(self, path: str) -> Source:
        """A file, to be read in ranges. Raises as ``opening.open_source``."""

    @abstractmethod
    def with_credentials(self, path: str) -> str:
        """See ``files.with_credentials``."""


class ObjectStore(Store):
    """A store that pyarrow reads (``s3://bucket``). It is connected at the first request.

    Args:
        given: a URI of it, with credentials and options.
    """

    def __init__(self, given: Uri) -> None:
        self.given = given
        self._system: Any = None
        self._prefix = ""
        self._listings: dict[str, dict[str, ListingEntry]] = {}

    def forget_listings(self) -> None:
        """See Store."""
        self._listings.clear()

    def entry(self, path: str) -> ListingEntry | None:
        """See Store."""
        directory, _, name = path.rpartition("/")
        return self._listings.get(directory, {}).get(name)

    def known(self, path: str) -> bool | None:
        """Whether something has this name in the listing of its directory; None: that was not listed."""
        return self.entry(path) is not None if path.rpartition("/")[0] in self._listings else None

    def info(self, path: str) -> Any:
        """The FileInfo of ``path``, requested now. KdumpError when it cannot be told."""
        with self._errors(path):
            system, name = self._place(path)
            return system.get_file_info(name)

    def is_directory(self, path: str) -> bool:
        """See Store. A segment file's name is taken for one, without a request."""
        return parse_file_name(path) is None and _is_directory(self.info(path))

    def exists(self, path: str) -> bool:
        """See Store."""
        known = self.known(path)
        return self.info(path).type != _pyarrow_fs().FileType.NotFound if known is None else known

    def size(self, path: str) -> int:
        """See Store."""
        listed = self.entry(path)
        found: int | None = self.info(path).size if listed is None else listed.size
        if found is None:
            raise KdumpError(Codes.MISSING, "no such file", path=path)
        return found

    def with_credentials(self, path: str) -> str:
        """See Store."""
        return self.given.with_path(parse_uri(path).path)

    def tree(self, directory: str) -> Iterator[ListingEntry]:
        """See ``files.tree``: the whole of it in requests of a thousand names."""
        with self._errors(directory):
            system, name = self._place(directory)
            infos = system.get_file_info(_pyarrow_fs().FileSelector(name, recursive=True))
        for info in infos:
            if not _is_directory(info):
                rest = "/".join(map(encoded, info.path.removeprefix(name).strip("/").split("/")))
                yield ListingEntry(encoded(info.base_name), f"{directory}/{rest}", False, info.size)

    def listing(self, directory: str) -> list[ListingEntry]:
        """See Store."""
        if directory in self._listings:
            return list(self._listings[directory].values())
        with self._errors(directory):
            system, name = self._place(directory)
            infos = system.get_file_info(_pyarrow_fs().FileSelector(name))
        entries = {}
        for info in infos:
            name = encoded(info.base_name)
            is_directory = _is_directory(info)
            entries[name] = ListingEntry(name, f"{directory}/{name}", is_directory, None if is_directory else info.size)
        self._listings[directory] = entries
        return list(entries.values())

    def open(self, path: str) -> ObjectSource:
        """See Store."""
        known = self.known(path)
        if known is False:
            raise KdumpError(Codes.MISSING, "no such file or directory", path=path)
        # In an object store a directory is only the beginning of other names.
        if known is None and self.is_directory(path):
            raise KdumpError(Codes.UNREADABLE, "is a directory", path=path)
        with self._errors(path):
            return ObjectSource(path, _Origin(self, path))

    def open_file(self, path: str) -> Any:
        """A pyarrow file. Raises what pyarrow raises."""
        system, name = self._place(path)
        return system.open_input_file(name)

    def failure(self, path: str, error: Exception, position: int | None = None) -> KdumpError:
        """The error for an exception, in one line without credentials."""
        if isinstance(error, FileNotFoundError):
            return KdumpError(Codes.MISSING, "no such file or directory", path=path, position=position)
        lines = self.given.scrubbed(str(error)).splitlines()
        return KdumpError(Codes.UNREADABLE, lines[0] if lines else "cannot be read", path=path, position=position)

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        """Turns whatever pyarrow raises into the error of ``path``.

        pyarrow also raises exceptions of its own, which have no common base.
        """
        try:
            yield
        except KdumpError:
            raise
        except Exception as error:
            # A traceback shows it as the cause, unless it holds credentials.
            is_clean = self.given.scrubbed(str(error)) == str(error)
            raise self.failure(path, error) from (error if is_clean else None)

    def _place(self, path: str) -> tuple[Any, str]:
        """The file system, and ``path`` as it calls it. Raises what pyarrow raises."""
        place = unquote(path.removeprefix(self.given.root)[1:])
        if self._system is None:
            uri = self.given.for_pyarrow(path.removeprefix(self.given.root))
            system, name = _pyarrow_fs(path).FileSystem.from_uri(uri)
            prefix = name.removesuffix(place)
            self._prefix = prefix if prefix.endswith("/") or not prefix else f"{prefix}/"
            self._system = system
        return self._system, (self._prefix + place).rstrip("/") or self._prefix


@dataclass(frozen=True, slots=True)
class _Origin:
    """See ``objects.FileOrigin``."""

    store: ObjectStore
    path: str

    def open(self) -> Any:
        return self.store.open_file(self.path)

    def size(self) -> int:
        size: int | None = self.store.info(self.path).size
        return size or 0

    def failure(self, error: Exception, position: int) -> KdumpError | None:
        try:
            info = self.store.info(self.path)
        except KdumpError:
            return self.store.failure(self.path, error, position)
        if info.type == _pyarrow_fs().FileType.NotFound:
            return KdumpError(Codes.MISSING, "vanished while it was read", path=self.path, position=position)
        if info.size is not None and info.size <= position:
            return None
        return self.store.failure(self.path, error, position)


_stores: Final[dict[str, ObjectStore]] = {}
"""By their roots, for as long as the process lives, so that each is connected once."""


def strip_credentials(path: str) -> str:
    """See ``files.strip_credentials``."""
    # Whoever opens it tells why there is no store.
    with suppress(KdumpError):
        store_of(path).forget_listings()
    return parse_uri(path).clean


def expanded(path: str) -> list[str]:
    """See ``files.expanded``."""
    uri = parse_uri(path)
    if not has_magic(unquote(uri.path)) or store_of(path).exists(path):
        return [path]
    found = [uri.root]
    for name in uri.path.split("/")[1:]:
        wanted = unquote(name)
        if has_magic(wanted):
            found = [entry.path for folder in found for entry in _listed(folder) if _fits(unquote(entry.name), wanted)]
        else:
            found = [f"{folder}/{name}" for folder in found]
    return sorted(one for one in found if store_of(one).exists(one))


def _listed(folder: str) -> list[ListingEntry]:
    """Nothing where there is no such directory."""
    try:
        return store_of(folder).listing(folder)
    except KdumpError as error:
        if error.code is Codes.MISSING:
            return []
        raise


def _fits(name: str, wanted: str) -> bool:
    """As in ``glob``, hidden files fit only a pattern that begins with a dot."""
    return fnmatchcase(name, wanted) and (wanted.startswith(".") or not name.startswith("."))


def store_of(path: str) -> Store:
    """The store of a URI. New credentials or options make it a new store.

    Raises:
        KdumpError: of a bucket of remote storage: it is none, or cannot be listed.
    """
    if (world := world_of_store(path)) is not None:
        found: Store = world.answer("mount").store_of(path)
        return found
    return object_store(path)


def object_store(path: str) -> ObjectStore:
    """The store of a URI that pyarrow reads. Raises KdumpError where a URI of S3 has no bucket."""
    uri = parse_uri(path)
    if uri.lacks_bucket:
        raise KdumpError(Codes.MISSING, f"names no bucket, as {uri.scheme}://BUCKET/PATH does", path=uri.clean)
    store = _stores.get(uri.root)
    if store is None or (uri.has_options and uri.options != store.given.options):
        store = _stores[uri.root] = ObjectStore(uri)
    return store


def _is_directory(info: Any) -> bool:
    return bool(info.type == _pyarrow_fs().FileType.Directory)


def _pyarrow_fs(path: str | None = None) -> ModuleType:
    try:
        return importlib.import_module("pyarrow.fs")
    except ImportError:
        raise KdumpError(Codes.UNREADABLE, _NEEDS, path=path) from None
