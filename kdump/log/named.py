"""Which paths a user named, and how all other paths are opened.

Files may be made to attack the person who examines them. A path that a user named (``files.strip_credentials``) may be
a link or a pipe: the user knows what it is. Every other path is one that kdump found: it is opened without blocking,
must be a regular file, and a link must lead to a file of the same log directory. That holds as well when a link takes
the place of a partition directory after the log directory was listed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from kdump.codes import Codes, KdumpError
from kdump.log.names import LOCK_FILE, LOG_DIRECTORY_TEXT_FILES, is_uri, parse_partition_directory
from kdump.system.files import DIRECTORY
from kdump.system.paths import absolute_path

STDIN: Final = "-"
STDIN_DESCRIPTOR: Final = 0
_FOUND: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY
_IS_LINK: Final = frozenset((errno.ELOOP, errno.ENOTDIR))
"""Errors of opening a link that is not to be followed; the second where a directory is wanted."""
_named: Final[set[str]] = set()
"""Paths that a user named, also in their absolute form, for as long as the process lives."""


class ListingEntry(NamedTuple):
    """A file or directory in a listing. ``size`` is in bytes, None where the listing does not have it.

    A link to a directory is no directory where it must not be followed; see ``check_link``.
    """

    name: str
    path: str
    is_directory: bool
    size: int | None = None


def note_named(path: str) -> None:
    """Remember that a user named this path: a link there is followed, and a pipe is read."""
    # The second is the directory in the paths of what is in it.
    _named.update((path, os.path.dirname(os.path.join(path, "")), absolute_path(path)))


def is_named(path: str) -> bool:
    """A user named this path."""
    return path in _named


def open_found(path: str) -> tuple[int, os.stat_result]:
    """Open a file that no user named, read-only. The call neither blocks nor follows a link to elsewhere.

    Returns:
        Its descriptor, to be closed, and its status.

    Raises:
        KdumpError: MISSING, UNREADABLE (a directory too), SPECIAL_FILE, LINK_OUTSIDE.
    """
    try:
        descriptor = _open(path, _FOUND)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENXIO:
            # The error of opening a socket.
            raise _special(path) from error
        raise not_opened(path, error) from error
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return descriptor, status
    os.close(descriptor)
    raise is_a_directory(path) if stat.S_ISDIR(status.st_mode) else _special(path)


@contextmanager
def opened_directory(directory: str) -> Iterator[str | int]:
    """A directory that can be listed: its path if a user named it, else a descriptor.

    Raises:
        KdumpError: LINK_OUTSIDE.
        OSError: it cannot be opened.
    """
    if not _is_found(directory):
        yield directory
        return
    descriptor = _open(directory, DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_found(directory: str) -> bool:
    """Whether kdump found this directory in one that a user named."""
    return directory not in _named and os.path.dirname(directory) in _named


def _open(path: str, flags: int) -> int:
    """Open what no user named. Raises OSError, and KdumpError as ``check_link``."""
    directory, name = os.path.split(path)
    try:
        if _is_found(directory):
            return _open_below(directory, (name,), flags)
        return os.open(path, flags)
    except OSError as error:
        if error.errno not in _IS_LINK or not (os.path.islink(path) or os.path.islink(directory)):
            raise
    # Not by the link again: it may lead elsewhere now.
    root, target = _root_of(path), check_link(path)
    return _open_below(root, os.path.relpath(target, root).split(os.sep), flags)


def _open_below(root: str, parts: Sequence[str], flags: int) -> int:
    """Open what lies below a directory. Raises OSError, also where the directory or what is below it is a link."""
    descriptor = os.open(root, DIRECTORY)
    for place, part in enumerate(parts, 1):
        above = descriptor
        try:
            descriptor = os.open(part, flags if place == len(parts) else DIRECTORY, dir_fd=above)
        finally:
            os.close(above)
    return descriptor


def check_link(path: str) -> str:
    """Where a link leads that no user named. Raises KdumpError LINK_OUTSIDE if that is out of its log directory.

    The log directory is the one above a partition directory, by its real name. For a directory with any other name, and
    for one that holds partitions, checkpoints or a lock, it is the directory itself.
    """
    root = _root_of(path)
    target = os.path.realpath(path)
    if os.path.commonpath((root, target)) != root:
        what = f"a link to {target}, outside of {root}: it is not followed; name {target} itself to read it"
        raise KdumpError(Codes.LINK_OUTSIDE, what, path=path)
    return target


def _root_of(path: str) -> str:
    """The directory that a link may not lead out of, by its real name."""
    directory, name = os.path.split(path)
    if _is_found(directory):
        # By its own real name it may be elsewhere now.
        return os.path.realpath(os.path.dirname(directory))
    root = os.path.realpath(directory or ".")
    is_above = name in LOG_DIRECTORY_TEXT_FILES or name == LOCK_FILE or parse_partition_directory(name) is not None
    if not is_above and parse_partition_directory(os.path.basename(root)) is not None:
        root = os.path.dirname(root)
    return root


def is_stream(path: str) -> bool:
    """Standard input, or what ``is_stream_mode`` says that a user named: what a shell's ``<(command)`` gives."""
    if path == STDIN:
        return True
    if is_uri(path) or not is_named(path):
        return False
    try:
        return is_stream_mode(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def is_stream_mode(mode: int) -> bool:
    """``mode`` is that of a pipe, a socket or a character device; as in ``os.stat_result``."""
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)


def reads_once(path: str) -> bool:
    """``path`` is a stream, which can be read once. A file on standard input can be read again."""
    if path != STDIN:
        return is_stream(path)
    try:
        return not stat.S_ISREG(os.fstat(STDIN_DESCRIPTOR).st_mode) or os.lseek(STDIN_DESCRIPTOR, 0, os.SEEK_CUR) != 0
    except OSError:
        return True


def not_opened(path: str, error: OSError | ValueError) -> KdumpError:
    """MISSING, or UNREADABLE with the reason of the operating system."""
    if isinstance(error, FileNotFoundError):
        return KdumpError(Codes.MISSING, "no such file or directory", path=path)
    return unreadable(path, error)


@contextmanager
def errors_at(path: str) -> Iterator[None]:
    """An error of the operating system becomes ``not_opened``: of the file that it names, else of ``path``.

    It encloses the work on one partition. Files that go, or change their kind, meanwhile do not end the whole run. A
    closed pipe is the end of it, because nobody reads what it prints.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise not_opened(error.filename if isinstance(error.filename, str) else path, error) from error


def is_a_directory(path: str) -> KdumpError:
    """UNREADABLE, because the path is that of a directory."""
    return KdumpError(Codes.UNREADABLE, "is a directory", path=path)


def _special(path: str) -> KdumpError:
    return KdumpError(Codes.SPECIAL_FILE, "is a pipe, a socket or a device, it is not read", path=path)


def unreadable(path: str, error: OSError | ValueError, position: int | None = None) -> KdumpError:
    """UNREADABLE with the reason of the operating system; ``position``: in the file."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return KdumpError(Codes.UNREADABLE, reason, path=path, position=position)
