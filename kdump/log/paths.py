"""What a PATH means: a stream, a segment, a sibling file, a text file, or a directory with partitions.

This is the only place that decides it (docs/contract.md#11-paths). A command takes the values from here, and decides
which of them it accepts.

A directory is one value: only its listing tells whether it is a partition or a log directory, and a command lists a
directory when its turn comes. ``PathDirectory.partitions`` gives the partitions of both.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, TypeAlias

from kdump.codes import Codes, KdumpError
from kdump.log import files
from kdump.log.listing import ListingEntry
from kdump.log.named import STDIN, is_named, is_stream_mode
from kdump.log.names import (
    CLUSTER_METADATA,
    SIBLING_TEXT_FILES,
    TEXT_FILES,
    Kind,
    is_uri,
    parse_file_name,
    parse_offset,
    parse_partition_directory,
    partition_of_file,
    sibling,
)
from kdump.log.opening import open_source
from kdump.log.partition import files_by_partition, is_log_directory, segment_files
from kdump.log.source import Source
from kdump.worlds import World, world_of_log


@dataclass(frozen=True, slots=True)
class _Path:
    """A PATH. Most subclasses are no dataclasses themselves, as each dataclass costs 2 ms of every start."""

    path: str


class Stream(_Path):
    """Standard input, or a pipe that a user named. It holds a log without a known base offset."""

    __slots__ = ()

    def open(self) -> Source:
        """The bytes. Raises as ``open_source``."""
        return open_source(self.path)


@dataclass(frozen=True, slots=True)
class _KafkaFile(_Path):
    """A file of a segment by its name; it need not exist.

    ``base_offset``: None where the name has none. ``state``: a suffix of ``names.STATE_SUFFIXES``, or ''. ``world``:
    whose log it is; None: a file of today.
    """

    kind: Kind
    base_offset: int | None
    state: str = ""
    world: World | None = None

    def open(self) -> Source:
        """The file, read-only. Raises as ``open_source``."""
        return open_source(self.path)

    @property
    def size(self) -> int:
        """Bytes of the file now. Raises as ``files.size``."""
        return files.size(self.path)

    @property
    def stem(self) -> str:
        """What the file's name shares with the names of its siblings."""
        return PurePosixPath(self.path).name.partition(".")[0]

    @property
    def topic(self) -> str | None:
        """See ``topic_of``."""
        return topic_of(self.path, self.kind)

    @property
    def partition(self) -> int | None:
        """The partition of the directory that the file lies in; None when that is no ``<topic>-<n>``."""
        return (partition_of_file(self.path) or (None, None))[1]


class LogSegment(_KafkaFile):
    """A file of batches: a .log, or a .checkpoint of the cluster metadata."""

    __slots__ = ()


class WorldLog(_KafkaFile):
    """A log of another world: by its name, or because the user says so."""

    __slots__ = ()


class Sibling(_KafkaFile):
    """An index, a transaction index or a snapshot, which belongs to a log."""

    __slots__ = ()

    @property
    def log(self) -> str:
        """The path of that log, which need not exist."""
        return sibling(self.path, Kind.LOG)


class OtherFile(_Path):
    """A file whose name is not that of a segment file. It need not exist."""

    __slots__ = ()

    @property
    def error(self) -> KdumpError:
        """The error that it is no log: MISSING or NOT_A_SEGMENT_FILE. Raises as ``files.exists``."""
        code = Codes.NOT_A_SEGMENT_FILE if files.exists(self.path) else Codes.MISSING
        return KdumpError(code, code.value.title, path=self.path)


class TextFile(OtherFile):
    """A text file of a broker, one of ``names.TEXT_FILES``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """A listed directory with the names of its segment files, in offset order.

    ``of_worlds``: those of the logs of other worlds.
    ``is_given``: it is the directory that was resolved, and not one inside it.
    """

    path: str
    names: tuple[str, ...]
    is_given: bool
    of_worlds: tuple[str, ...] = ()

    @property
    def paths(self) -> list[str]:
        """The segment files, without logs of other worlds."""
        return [os.path.join(self.path, name) for name in self.names]

    @property
    def world_logs(self) -> dict[World, list[str]]:
        """The logs of each other world that has some here."""
        found: dict[World, list[str]] = {}
        for name in self.of_worlds:
            if (world := world_of_log(name)) is not None:
                found.setdefault(world, []).append(os.path.join(self.path, name))
        return found


class PathDirectory(_Path):
    """A directory: a partition, a log directory, or neither."""

    __slots__ = ()

    @property
    def folder(self) -> str:
        """The path as the paths of the files in it have it: ``orders-0`` of ``orders-0/``."""
        return _folder_of(self.path)

    def is_partition(self, entries: Sequence[ListingEntry]) -> bool:
        """Whether it is one partition, by the files in its listing; without any, by its name."""
        if is_log_directory(entries):
            return False
        for entry in entries:
            name = parse_file_name(entry.name)
            is_own = entry.name in SIBLING_TEXT_FILES or (name is not None and name.kind is not Kind.CHECKPOINT)
            if is_own and not entry.is_directory:
                return True
        return parse_partition_directory(os.path.basename(files.absolute(self.path))) is not None

    def partitions(
        self, on_error: Callable[[KdumpError], None], *, all_files: bool = False
    ) -> Iterator[PartitionFolder]:
        """The directory itself, or the partitions in it, each listed when its turn comes; see ``segment_files``."""
        for folder, names in files_by_partition(self.path, on_error, all_files=all_files):
            of_worlds = tuple(name for name in names if world_of_log(name) is not None)
            today = tuple(name for name in names if name not in of_worlds)
            yield PartitionFolder(_folder_of(folder), today, folder == self.path, of_worlds)

    def files(
        self, on_error: Callable[[KdumpError], None], *, all_files: bool = False
    ) -> Iterator[LogSegment | WorldLog | Sibling]:
        """The segment files of all ``partitions``."""
        for folder, names in files_by_partition(self.path, on_error, all_files=all_files):
            for name in names:
                file = file_by_name(os.path.join(folder, name))
                if file is not None:
                    yield file

    def paths(self, on_error: Callable[[KdumpError], None]) -> Iterator[str]:
        """The paths of ``logs``."""
        return segment_files(self.path, on_error)

    def logs(self, on_error: Callable[[KdumpError], None]) -> Iterator[LogSegment]:
        """The .log files of all ``partitions``."""
        return (file for file in self.files(on_error) if isinstance(file, LogSegment))


Resolved: TypeAlias = Stream | LogSegment | WorldLog | Sibling | TextFile | OtherFile | PathDirectory


def resolve(path: str) -> Resolved:
    """What a PATH means, or a path that kdump found.

    The operating system is asked once. The store of a URI is asked only where the name is not that of a segment file.
    Only a path that a user named is a stream (see ``files.strip_credentials``).

    Raises:
        KdumpError: UNREADABLE, when a store cannot be asked.
    """
    if path == STDIN:
        return Stream(path)
    if is_uri(path):
        mode = stat.S_IFDIR if files.is_directory(path) else 0
    else:
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError):
            mode = 0
    if stat.S_ISDIR(mode):
        return PathDirectory(path)
    if is_text_file(path):
        return TextFile(path)
    if is_stream_mode(mode) and is_named(path):
        return Stream(path)
    return file_by_name(path) or OtherFile(path)


def as_log_of(world: World | None, found: Resolved) -> Resolved:
    """What a PATH means to a user who says that its files are logs of a world, whatever their names; None: of today."""
    if (
        world is None
        or isinstance(found, Stream | PathDirectory)
        or (isinstance(found, OtherFile) and not files.exists(found.path))
    ):
        return found
    base_offset = parse_offset(PurePosixPath(found.path).name.partition(".")[0])
    return WorldLog(found.path, Kind.WORLD_LOG, base_offset, world=world)


def file_by_name(path: str) -> LogSegment | WorldLog | Sibling | None:
    """The segment file that has this name, which need not exist; None for any other name."""
    name = parse_file_name(path)
    if name is None:
        return None
    of_kind = _CLASSES.get(name.kind, Sibling)
    return of_kind(path, name.kind, name.base_offset, name.state, name.world)


_CLASSES: Final[dict[Kind, type[LogSegment | WorldLog]]] = {
    Kind.LOG: LogSegment,
    Kind.CHECKPOINT: LogSegment,
    Kind.WORLD_LOG: WorldLog,
}


def topic_of(path: str, kind: Kind | None) -> str | None:
    """The topic of the directory that a file lies in; None when that is no ``<topic>-<n>``.

    A .checkpoint is a snapshot of the cluster metadata wherever it lies.
    """
    return CLUSTER_METADATA if kind is Kind.CHECKPOINT else (partition_of_file(path) or (None, None))[0]


def is_text_file(path: str) -> bool:
    """By its name a text file of a broker, which is dumped when it is named, and not where a directory is."""
    return PurePosixPath(path).name in TEXT_FILES


def expanded(path: str, on_error: Callable[[KdumpError], None]) -> list[str]:
    """The files and directories that fit a PATH, which may be a pattern.

    Args:
        path: as ``files.strip_credentials`` gave it.
        on_error: takes MISSING where nothing fits, and UNREADABLE where a store cannot be asked.
    """
    try:
        paths = files.expanded(path)
    except KdumpError as error:
        on_error(error)
        return []
    if not paths:
        on_error(KdumpError(Codes.MISSING, "no file or directory fits", path=path))
    return paths


def _folder_of(directory: str) -> str:
    return os.path.dirname(os.path.join(directory, "file"))
