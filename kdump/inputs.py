"""The one way in: from the PATHs of a command to values, which know their partitions, their files and their bytes.

``inputs_of`` makes the values, once; commands, tasks and the library get them and never text. This is the only place
that decides what a PATH means (docs/contract.md#11-paths); a command decides which kinds it accepts.

A directory is one value until its files are asked for: only its listing tells whether it is a partition or a log
directory. Streams and the pipeline of Spark list directories again and again, in ``spark.partitions``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final, NamedTuple, TypeAlias

from kdump.codes import Codes, KdumpError, OnError, ignore_error
from kdump.log import files, tiers
from kdump.log.named import STDIN, ListingEntry, is_stream_mode
from kdump.log.named import is_named as was_named
from kdump.log.names import (
    CLUSTER_METADATA,
    SIBLING_TEXT_FILES,
    TEXT_FILES,
    Kind,
    is_uri,
    last_name,
    parse_file_name,
    parse_offset,
    parse_partition_directory,
    partition_of_file,
    sibling,
)
from kdump.log.opening import open_source
from kdump.log.partition import files_by_partition, is_log_directory, partition_directories
from kdump.log.source import Source
from kdump.worlds import World, world_of_log, world_of_path

_MOST_NAMED: Final = 8


@dataclass(frozen=True, slots=True)
class Input:
    """What a PATH means. Most kinds are no dataclasses themselves, as each dataclass costs 2 ms of every start.

    ``path``: as messages show it. ``is_named``: a user named it; False: it fits a pattern.
    """

    path: str
    is_named: bool = field(default=True, kw_only=True)

    @property
    def world(self) -> World | None:
        """The world whose it is; None: it is of today, or may be."""
        return world_of_path(self.path)

    def files(self, on_error: OnError, *, all_files: bool = False) -> Iterator[InputFile]:
        """The files that it means: itself, or the segment files of all partitions of a directory.

        Args:
            on_error: takes what is wrong with a directory, see ``log.partition.files_by_partition``.
            all_files: of a directory the siblings of the logs too.

        Raises:
            KdumpError: MISSING or NOT_A_SEGMENT_FILE.
        """
        raise NotImplementedError


class Stream(Input):
    """Standard input, or a pipe that a user named. It holds a log without a known base offset."""

    __slots__ = ()

    def open(self) -> Source:
        """The bytes. Raises as ``open_source``."""
        return open_source(self.path)

    def files(self, on_error: OnError, *, all_files: bool = False) -> Iterator[InputFile]:
        """Itself; see Input."""
        yield self


@dataclass(frozen=True, slots=True)
class KafkaFile(Input):
    """A file of a segment by its name; it need not exist.

    ``base_offset``: None where the name has none. ``state``: a suffix of ``names.STATE_SUFFIXES``, or ''. ``of_world``:
    whose log it is; None: a file of today.
    """

    kind: Kind
    base_offset: int | None
    state: str = ""
    of_world: World | None = None

    @property
    def world(self) -> World | None:
        """See Input."""
        return self.of_world

    def files(self, on_error: OnError, *, all_files: bool = False) -> Iterator[InputFile]:
        """Itself; see Input."""
        yield self

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
        return last_name(self.path).partition(".")[0]

    @property
    def topic(self) -> str | None:
        """See ``topic_of``."""
        return topic_of(self.path, self.kind)

    @property
    def partition(self) -> int | None:
        """The partition of the directory that the file lies in; None when that is no ``<topic>-<n>``."""
        return (partition_of_file(self.path) or (None, None))[1]


class LogSegment(KafkaFile):
    """A file of batches: a .log, or a .checkpoint of the cluster metadata."""

    __slots__ = ()


class WorldLog(KafkaFile):
    """A log of another world: by its name, or because the user says so."""

    __slots__ = ()


class Sibling(KafkaFile):
    """An index, a transaction index or a snapshot, which belongs to a log."""

    __slots__ = ()

    @property
    def log(self) -> str:
        """The path of that log, which need not exist."""
        return sibling(self.path, Kind.LOG)


class OtherFile(Input):
    """A file whose name is not that of a segment file. It need not exist."""

    __slots__ = ()

    @property
    def error(self) -> KdumpError:
        """The error that it is no log: MISSING or NOT_A_SEGMENT_FILE. Raises as ``files.exists``."""
        code = Codes.NOT_A_SEGMENT_FILE if files.exists(self.path) else Codes.MISSING
        return KdumpError(code, code.value.title, path=self.path)

    def files(self, on_error: OnError, *, all_files: bool = False) -> Iterator[InputFile]:
        """None; raises ``error``."""
        raise self.error


class TextFile(OtherFile):
    """A text file of a broker, one of ``names.TEXT_FILES``."""

    __slots__ = ()

    def files(self, on_error: OnError, *, all_files: bool = False) -> Iterator[InputFile]:
        """Itself; see Input."""
        yield self


class PartitionFolder(NamedTuple):
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


class PathDirectory(Input):
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

    def partitions(self, on_error: OnError) -> Iterator[PartitionFolder]:
        """The directory itself, or the partitions in it, each listed when its turn comes."""
        for folder, names in files_by_partition(self.path, on_error):
            of_worlds = tuple(name for name in names if world_of_log(name) is not None)
            today = tuple(name for name in names if name not in of_worlds)
            yield PartitionFolder(_folder_of(folder), today, folder == self.path, of_worlds)

    def files(self, on_error: OnError, *, all_files: bool = False) -> Iterator[LogSegment | WorldLog | Sibling]:
        """The segment files of all ``partitions``; see Input."""
        for folder, names in files_by_partition(self.path, on_error, all_files=all_files):
            for name in names:
                file = file_by_name(os.path.join(folder, name))
                if file is not None:
                    yield file

    def logs(self, on_error: OnError) -> Iterator[LogSegment]:
        """The .log files of all ``partitions``."""
        return (file for file in self.files(on_error) if isinstance(file, LogSegment))


InputFile: TypeAlias = Stream | KafkaFile | TextFile


def inputs_of(
    paths: Iterable[str | os.PathLike[str]],
    on_error: OnError,
    *,
    choice: PartitionChoice | None = None,
    world: World | None = None,
    with_patterns: bool = False,
    apart: bool = False,
) -> list[Input]:
    """What the PATHs of a command mean.

    Args:
        paths: as the user gave them.
        on_error: takes MISSING for a pattern that nothing fits, UNREADABLE for a store that cannot be asked what fits,
            NO_SEGMENTS for a topic or number that no partition has. The others follow.
        choice: of log directories only these partitions.
        world: files are logs of this world, whatever their names.
        with_patterns: paths of this machine may be patterns, too; elsewhere the shell replaces those.
        apart: what --tier joins are two inputs, the files of the broker and those of the bucket.
    """
    found: list[Input] = []
    told: set[str] = set()
    for given in paths:
        path = files.strip_credentials(os.fspath(given))
        try:
            fitting = files.expanded(path) if with_patterns or is_uri(path) else [path]
            if not fitting:
                raise KdumpError(Codes.MISSING, "no file or directory fits", path=path)
            is_named = fitting == [path]
            parts = (part for one in fitting for part in (tiers.apart(one) if apart else (one,)))
            found += (resolve(part, world, is_named=is_named) for part in parts)
        except KdumpError as error:
            # A bucket that is not there is told once, not with every PATH.
            located = error.located(path)
            if str(located) not in told:
                told.add(str(located))
                on_error(located)
    return found if choice is None or choice.is_all else list(_chosen(found, choice, world, on_error))


def paths_with_tier(paths: Iterable[str], tier: tiers.Tier) -> tuple[str, ...]:
    """PATHs that name what they mean with --tier and --key-ring, in any process. Raises KdumpError as ``resolve``."""
    if tier == tiers.Tier():
        return tuple(paths)
    with tiers.told(tier):
        return tuple(files.with_credentials(files.strip_credentials(path)) for path in paths)


def input_of(path: str | os.PathLike[str], world: World | None = None) -> Input:
    """What one PATH means, as a user gave it; see ``inputs_of``."""
    return resolve(files.strip_credentials(os.fspath(path)), world)


def log_paths(inputs: Iterable[Input]) -> Iterator[str]:
    """The paths of the logs that inputs mean; for a sibling that of its log. What cannot be looked at is left out."""
    for found in inputs:
        with suppress(KdumpError):
            for file in found.files(ignore_error):
                if isinstance(file, LogSegment | Sibling):
                    yield file.log if isinstance(file, Sibling) else file.path


def resolve(path: str, world: World | None = None, *, is_named: bool = True) -> Input:
    """What a PATH means, or a path that kdump found; ``world`` and ``is_named`` as of ``inputs_of`` and Input.

    The operating system is asked once. The store of a URI is asked only where the name is not that of a segment file.
    Only a path that a user named is a stream (see ``files.strip_credentials``).
    """
    if path == STDIN:
        return _stream(path, world)
    mode = 0
    if is_uri(path):
        # Where the store cannot be asked, who opens the file says so in its turn.
        with suppress(KdumpError):
            mode = stat.S_IFDIR if files.is_directory(path) else 0
    else:
        with suppress(OSError, ValueError):
            mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        return PathDirectory(path, is_named=is_named)
    if is_stream_mode(mode) and not is_text_file(path) and was_named(path):
        return _stream(path, world)
    found = TextFile(path) if is_text_file(path) else file_by_name(path) or OtherFile(path)
    if world is not None and not (isinstance(found, OtherFile) and not files.exists(path)):
        found = WorldLog(path, Kind.WORLD_LOG, parse_offset(last_name(path).partition(".")[0]), of_world=world)
    return replace(found, is_named=is_named) if not is_named else found


def _stream(path: str, world: World | None) -> Stream | WorldLog:
    return Stream(path) if world is None else WorldLog(path, Kind.WORLD_LOG, 0, of_world=world)


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
    return last_name(path) in TEXT_FILES


def fits(topic: str, patterns: Collection[str]) -> bool:
    """Whether a topic has one of these names, or fits a pattern (``*``, ``?``, ``[...]``)."""
    return topic in patterns or any(fnmatchcase(topic, pattern) for pattern in patterns)


class PartitionChoice(NamedTuple):
    """The partitions that a user wants: of these topics (names or patterns, see ``fits``) with these numbers.

    Without topics of all, without numbers all of them.
    """

    topics: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()

    @property
    def is_all(self) -> bool:
        """Every partition is wanted."""
        return not self.topics and not self.numbers


class MetPartitions:
    """Which of the partitions that a user wants were met."""

    def __init__(self, choice: PartitionChoice) -> None:
        self._choice = choice
        self._topics: set[str] = set()
        self._numbers: set[int] = set()
        """Those of wanted topics."""

    def takes(self, name: tuple[str, int] | None) -> bool:
        """Whether a partition is wanted; None is none."""
        if name is None:
            return False
        topic, number = name
        self._topics.add(topic)
        if self._choice.topics and not fits(topic, self._choice.topics):
            return False
        self._numbers.add(number)
        return not self._choice.numbers or number in self._choice.numbers

    def unmatched(self) -> Iterator[KdumpError]:
        """NO_SEGMENTS for each pattern and each number that no partition fits so far."""
        there = sorted(self._topics)
        topics = f"there are partitions of {_listed(there)}" if there else "there are no partitions"
        unmatched = [one for one in self._choice.topics if not any(fits(topic, (one,)) for topic in there)]
        for pattern in unmatched:
            yield KdumpError(Codes.NO_SEGMENTS, f"--topic {pattern}: no partition is of such a topic; {topics}")
        if self._choice.topics and len(unmatched) == len(self._choice.topics):
            return
        numbers = f"there are {_listed(list(map(str, sorted(self._numbers))))}" if there else topics
        for number in self._choice.numbers:
            if number not in self._numbers:
                yield KdumpError(Codes.NO_SEGMENTS, f"--partition {number}: no partition has this number; {numbers}")


def _listed(there: list[str]) -> str:
    others = len(there) - _MOST_NAMED
    return ", ".join(there[:_MOST_NAMED]) + (f" and {others} others" if others > 0 else "")


def _chosen(found: Iterable[Input], choice: PartitionChoice, world: World | None, on_error: OnError) -> Iterator[Input]:
    """The partition directories that are wanted; see ``inputs_of``.

    Of a log directory these are the ones in it. A partition directory, or a file in one, is kept if it is wanted. A
    path where nothing is stays: who opens it says that it is missing.
    """
    met = MetPartitions(choice)
    for one in found:
        try:
            if isinstance(one, PathDirectory) and not one.is_partition(entries := files.listing(one.path)):
                for path in partition_directories(entries, met.takes, on_error):
                    yield resolve(files.strip_credentials(path), world, is_named=one.is_named)
                continue
            is_missing = isinstance(one, OtherFile) and not files.exists(one.path)
            if is_missing or met.takes(_name(one)):
                yield one
        except KdumpError as error:
            on_error(error.located(one.path))
    for unmatched in met.unmatched():
        on_error(unmatched)


def _name(found: Input) -> tuple[str, int] | None:
    """Topic and number of a partition directory, or of that of a file."""
    if isinstance(found, PathDirectory):
        return parse_partition_directory(os.path.basename(files.absolute(found.path.rstrip("/"))))
    return partition_of_file(found.path)


def _folder_of(directory: str) -> str:
    return os.path.dirname(os.path.join(directory, "file"))
