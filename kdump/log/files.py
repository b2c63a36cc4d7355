"""Files and directories by their paths, on this machine or in a store named by a URI.

What is asked here about a URI (``s3://bucket/orders-0``) goes to ``stores``; everything else goes to the operating
system. Nothing is ever written. Bytes of both come from ``opening.open_source`` and ``opening.read_whole``.
"""

from __future__ import annotations

import glob
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias

from kdump.codes import Codes, KdumpError
from kdump.log import tiers
from kdump.log.named import ListingEntry, check_link, note_named, opened_directory, unreadable
from kdump.log.names import is_uri
from kdump.system.paths import absolute_path

if TYPE_CHECKING:
    from kdump.log.stores import Store

DirectoryState: TypeAlias = tuple[int, int, int, int]
"""Device, inode and both times (ns) of a directory."""
FileState: TypeAlias = tuple[int, int, int, int]
"""Inode, both times (ns) and size of a file."""

_MOST_LISTINGS: Final = 80
_SETTLED_NS: Final = 2_000_000_000
"""A directory that changed so long ago has a new time when it changes again, however coarse its times are."""
_listings: Final[dict[str, tuple[DirectoryState, list[ListingEntry]]]] = {}
"""The newest listings of directories that have not changed since."""


def strip_credentials(path: str) -> str:
    """The name that kdump uses for a PATH that a user gave. Every PATH passes here first.

    A URI loses its credentials and its query, so that nothing can print them. They are remembered for this process (the
    newest of each store), and what was known of its directories is forgotten. Any other path stays as it is. It may be
    a link or a pipe: the user knows that, and ``opening.open_source`` opens it. A bucket of remote storage, or what
    lies in one, gets the name that it has in its store of partitions (``log.tiers``).
    """
    if not is_uri(path):
        note_named(path)
    else:
        from kdump.log import stores

        path = stores.strip_credentials(path)
    return tiers.named(path, _listing_of_directory)


def _listing_of_directory(path: str) -> list[ListingEntry]:
    try:
        return listing(path) if is_directory(path) else []
    except KdumpError:
        return []


def is_directory(path: str) -> bool:
    """A directory is there. Of a URI raises KdumpError UNREADABLE when its store cannot be asked."""
    if not is_uri(path):
        return os.path.isdir(path)
    return _store_of(path).is_directory(path)


def exists(path: str) -> bool:
    """Something has this name, even a broken link. Raises as ``is_directory``.

    In a directory of a store that was listed before, no request is made.
    """
    if not is_uri(path):
        return os.path.lexists(path)
    return _store_of(path).exists(path)


def size(path: str) -> int:
    """Bytes of a file now. In a directory of a store that was listed before, its size at that time.

    Raises:
        KdumpError: MISSING or UNREADABLE.
    """
    if is_uri(path):
        return _store_of(path).size(path)
    return status(path).st_size


def allocated(path: str) -> int:
    """Bytes of a file for which there is space on the disk, at most ``size``: the gaps of a sparse file have none.

    Raises as ``size``.
    """
    if is_uri(path):
        return size(path)
    found = status(path)
    return min(found.st_size, found.st_blocks * 512)


def status(path: str) -> os.stat_result:
    """The status of a file of this machine; a link is followed. Raises KdumpError MISSING or UNREADABLE."""
    try:
        return os.stat(path)
    except OSError as error:
        code = Codes.MISSING if isinstance(error, FileNotFoundError) else Codes.UNREADABLE
        raise KdumpError(code, error.strerror or str(error), path=path) from error


def listing(directory: str) -> list[ListingEntry]:
    """What lies in a directory, in no order.

    A directory of a store is asked for once (a request for each thousand names), until the next ``strip_credentials``.
    One of this machine is read again when its times show a change, or a change is so new that they might not show one.

    Raises:
        KdumpError: it cannot be listed: UNREADABLE, of a store also MISSING.
    """
    if is_uri(directory):
        return _store_of(directory).listing(directory)
    known, entries = _listings.get(directory, (None, []))
    try:
        # It has not changed, nor is it a link now.
        if known is not None and known == directory_state(directory, follows=False):
            return list(entries)
        with opened_directory(directory) as opened:
            state = directory_state(opened)
            if known is None or known != state:
                has_links = False
                entries = []
                for entry in os.scandir(opened):
                    has_links |= entry.is_symlink()
                    path = os.path.join(directory, entry.name)
                    entries.append(ListingEntry(entry.name, path, _is_directory(entry, path)))
                _listings.pop(directory, None)
                # What a link leads to can change without a change of the directory.
                if state is not None and not has_links:
                    _listings[directory] = state, entries
                    if len(_listings) > _MOST_LISTINGS:
                        del _listings[next(iter(_listings))]
        return list(entries)
    except OSError as error:
        raise unreadable(directory, error) from error


def tree(directory: str) -> Iterator[ListingEntry]:
    """All files under a directory, in no order; those of a store without a request for each directory.

    Raises:
        KdumpError: as ``listing``.
    """
    if is_uri(directory):
        from kdump.log.stores import object_store

        yield from object_store(directory).tree(directory)
        return
    for entry in listing(directory):
        if entry.is_directory:
            # A link may lead to a directory above.
            if not os.path.islink(entry.path):
                yield from tree(entry.path)
        else:
            with suppress(KdumpError):
                yield entry._replace(size=size(entry.path))


def directory_state(directory: str | int, *, follows: bool = True) -> DirectoryState | None:
    """What shows that a directory of this machine has other names in it; None where it has just changed.

    ``directory``: its path or a descriptor. ``follows``: a link, to what it leads to.

    Raises:
        OSError: it cannot be asked.
    """
    status = os.stat(directory, follow_symlinks=follows or isinstance(directory, int))
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    is_settled = changed + _SETTLED_NS < time.time_ns()
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns) if is_settled else None


def file_state(path: str) -> FileState | None:
    """What changes when a file is written anew: inode, times and size; None: it is not there, or not known."""
    if is_uri(path):
        entry = _store_of(path).entry(path)
        return None if entry is None else (0, 0, 0, entry.size or 0)
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def regular_files(directory: str) -> list[ListingEntry]:
    """The files among what lies in a directory, with their sizes; links to files too. Raises as ``listing``."""
    if is_uri(directory):
        return [
            entry if entry.size is not None else entry._replace(size=size(entry.path))
            for entry in listing(directory)
            if not entry.is_directory
        ]
    with _scanned(directory) as entries:
        return [
            ListingEntry(entry.name, os.path.join(directory, entry.name), False, entry.stat().st_size)
            for entry in entries
            if _is_file(entry)
        ]


def file_names(directory: str) -> list[str]:
    """The names of the files in a directory of this machine, sorted; links to files too. Raises as ``listing``."""
    with _scanned(directory) as entries:
        return sorted(entry.name for entry in entries if _is_file(entry))


def special_files(directory: str) -> list[ListingEntry]:
    """What is neither a file nor a directory: pipes, sockets, devices, links to them. Raises as ``listing``."""
    if is_uri(directory):
        return []
    with _scanned(directory) as entries:
        return [
            ListingEntry(entry.name, os.path.join(directory, entry.name), False)
            for entry in entries
            if _is_special(entry)
        ]


@contextmanager
def _scanned(directory: str) -> Iterator[Iterator[os.DirEntry[str]]]:
    """What lies in a directory of this machine. Raises as ``listing``."""
    try:
        with opened_directory(directory) as opened, os.scandir(opened) as entries:
            yield entries
    except OSError as error:
        raise unreadable(directory, error) from error


def expanded(path: str) -> list[str]:
    """The path itself, or what fits a pattern (``*``, ``?``, ``[...]`` within a name), sorted.

    A path that exists is no pattern. In a URI a ``?`` begins the query. KdumpError UNREADABLE when a store cannot be
    asked.
    """
    if is_uri(path):
        from kdump.log import stores

        return stores.expanded(path)
    return sorted(glob.glob(path)) if glob.has_magic(path) and not os.path.lexists(path) else [path]


def absolute(path: str) -> str:
    """The absolute path. A URI is absolute already."""
    if path.startswith("/") and not ("//" in path or "/." in path or path.endswith("/")):
        return path
    return path if is_uri(path) else absolute_path(path)


def directory_of(path: str) -> str:
    """The directory that a file lies in, as a whole path."""
    return os.path.dirname(absolute(path))


def with_credentials(path: str) -> str:
    """A path that another process can open, or give to ``strip_credentials``.

    A URI has its credentials again, so it must not be shown.
    """
    if not is_uri(path):
        return path
    return _store_of(path).with_credentials(path)


def _store_of(path: str) -> Store:
    from kdump.log.stores import store_of

    return store_of(path)


def _is_directory(entry: os.DirEntry[str], path: str) -> bool:
    """Whether the entry is a directory. False also for a link to itself, or a link that leads elsewhere."""
    try:
        if not entry.is_dir():
            return False
        if entry.is_symlink():
            check_link(path)
    except (OSError, KdumpError):
        return False
    return True


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether the entry is a regular file, or a link to one."""
    try:
        return entry.is_file()
    except OSError:
        return False


def _is_special(entry: os.DirEntry[str]) -> bool:
    """Whether the entry is there and is neither a file nor a directory; a broken link is not there."""
    try:
        mode = entry.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


class FileFingerprint(NamedTuple):
    """Whether a file is still the one that was read: what changes when it is written to or replaced.

    ``modified`` is in ns.
    """

    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of_log(cls, path: str) -> Self:
        """The fingerprint of a log, which may be missing. Raises KdumpError UNREADABLE."""
        return cls.of(path) if os.path.lexists(path) else cls(-1, -1, 0, 0)

    @property
    def is_there(self) -> bool:
        """There is a file."""
        return self.inode >= 0

    @classmethod
    def of(cls, path: str) -> Self:
        """The fingerprint of the file that ``path`` leads to now. Raises KdumpError MISSING or UNREADABLE."""
        try:
            status = os.stat(path)
        except FileNotFoundError as error:
            raise KdumpError(Codes.MISSING, "no such file or directory", path=path) from error
        except OSError as error:
            raise KdumpError(Codes.UNREADABLE, error.strerror or str(error), path=path) from error
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    def check(self, path: str) -> None:
        """Raises KdumpError CHANGED_WHILE_READ where ``path`` has another fingerprint now."""
        try:
            now = FileFingerprint.of_log(path) if not self.is_there else FileFingerprint.of(path)
        except KdumpError:
            now = None
        if now != self:
            what = "is gone" if now is None else "was replaced" if now[:2] != self[:2] else "was written to"
            raise KdumpError(Codes.CHANGED_WHILE_READ, f"{what} while it was read; nothing is written", path=path)
