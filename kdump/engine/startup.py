"""``kdump verify --startup`` in this process: which partition directories there are, and what a start makes of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kdump.checks.startup import LogDirectoryCheck, Obstacle, StartCheck, check_start
from kdump.codes import Codes, KdumpError
from kdump.kafka.segmentindexes import DEFAULT_INDEX_SIZE
from kdump.kafka.startup.directory import Directory
from kdump.kafka.startup.errors import ILLEGAL_STATE, KAFKA
from kdump.kafka.startup.loading import Settings
from kdump.kafka.startup.logdirectory import (
    LogDirectory,
    Partition,
    read_log_directory,
    served_partition,
    sort_folders,
)
from kdump.kafka.startup.outcome import Outcome
from kdump.log import files
from kdump.log.names import SIBLING_TEXT_FILES, parse_file_name, parse_partition_directory


class StartOptions(NamedTuple):
    """What is given instead of read from the log directory; None: nothing.

    ``max_index_size``: segment.index.bytes; ``now``: the clock, ms; ``checksums``: see check_start.
    """

    now: int
    is_clean: bool | None = None
    recovery_point: int | None = None
    log_start_offset: int | None = None
    max_index_size: int = DEFAULT_INDEX_SIZE
    checksums: bool = False


class Task(NamedTuple):
    """One partition directory to be started."""

    path: str
    settings: Settings
    checksums: bool

    def run(self) -> StartCheck | KdumpError:
        """The answer, or why there is none."""
        try:
            return check_start(Directory.on_disk(self.path), self.settings, checksums=self.checksums)
        except KdumpError as error:
            return error.located(self.path)


Item = StartCheck | Obstacle | LogDirectoryCheck
Runner = Callable[[Sequence[Task]], Iterable[StartCheck | KdumpError]]


class _Place(NamedTuple):
    """What one PATH stands for. ``log_directory`` is None when it is a partition directory."""

    path: str
    log_directory: LogDirectory | None
    tasks: list[Task]
    obstacles: list[Obstacle]


def in_process(tasks: Sequence[Task]) -> Iterator[StartCheck | KdumpError]:
    """One after the other."""
    return (task.run() for task in tasks)


def start_all(
    paths: Iterable[str],
    options: StartOptions,
    on_error: Callable[[KdumpError], None],
    run: Runner = in_process,
) -> Iterator[Item]:
    """What a broker would make of partition directories and log directories, as one broker's.

    Args:
        paths: of both kinds.
        options: see StartOptions.
        on_error: takes what is wrong with one of them; the others follow.
        run: does the work.
    """
    places = []
    for path in paths:
        try:
            places.append(_place(path, options))
        except KdumpError as error:
            on_error(error.located(path))
    duplicates = _duplicates(places)
    for place in places:
        failed = []
        for result in run(place.tasks):
            if isinstance(result, KdumpError):
                on_error(result)
                continue
            if result.start.outcome is not Outcome.STARTS:
                failed.append(result)
            yield result
        obstacles = [*place.obstacles, *(duplicates[task.path] for task in place.tasks if task.path in duplicates)]
        yield from obstacles
        if place.log_directory is not None:
            is_clean = place.log_directory.is_clean if options.is_clean is None else options.is_clean
            yield LogDirectoryCheck(place.path, is_clean, len(place.tasks), tuple(failed), tuple(obstacles))


def task_of(directory: str, options: StartOptions) -> Task:
    """The start of one partition directory, with what the log directory above says of it."""
    above = os.path.dirname(files.absolute(directory))
    return _task(directory, read_log_directory(above), options)


def _task(directory: str, known: LogDirectory, options: StartOptions) -> Task:
    partition = parse_partition_directory(os.path.basename(files.absolute(directory)))
    recovery_point, log_start = options.recovery_point, options.log_start_offset
    if recovery_point is None:
        recovery_point = known.recovery_points.get(partition, 0) if partition is not None else 0
    if log_start is None:
        log_start = known.log_starts.get(partition, 0) if partition is not None else 0
    is_clean = known.is_clean if options.is_clean is None else options.is_clean
    settings = Settings(is_clean, recovery_point, log_start, options.max_index_size, options.now)
    return Task(directory, settings, options.checksums)


def _place(path: str, options: StartOptions) -> _Place:
    if not files.is_directory(path):
        if not files.exists(path):
            raise KdumpError(Codes.MISSING, Codes.MISSING.value.title)
        raise KdumpError(Codes.UNREADABLE, "is no directory: a broker starts on those of partitions")
    entries = files.listing(path)
    if _is_partition(path, entries):
        return _Place(path, None, [task_of(path, options)], [])
    folders = sort_folders([entry.name for entry in entries if entry.is_directory])
    if not folders.partitions:
        raise KdumpError(Codes.NO_SEGMENTS, Codes.NO_SEGMENTS.value.title)
    known = read_log_directory(path)
    tasks = [_task(os.path.join(path, name), known, options) for name in folders.partitions]
    message = "the name is not <topic>-<number>"
    obstacles = [Obstacle(os.path.join(path, name), KAFKA, message) for name in folders.unparsable]
    return _Place(path, known, tasks, obstacles)


def _is_partition(path: str, entries: Sequence[files.Entry]) -> bool:
    """By the files in it; an empty directory by its name."""
    for entry in entries:
        if not entry.is_directory and (entry.name in SIBLING_TEXT_FILES or parse_file_name(entry.name) is not None):
            return True
    has_partitions = any(entry.is_directory and parse_partition_directory(entry.name) for entry in entries)
    name = os.path.basename(files.absolute(path))
    return not has_partitions and parse_partition_directory(name) is not None


def _duplicates(places: Iterable[_Place]) -> dict[str, Obstacle]:
    """Directories of one partition, by path."""
    owners: dict[tuple[Partition, bool], str] = {}
    found: dict[str, Obstacle] = {}
    for place in places:
        for task in place.tasks:
            served = served_partition(os.path.basename(files.absolute(task.path)))
            if served is None:
                continue
            owner = owners.setdefault(served, task.path)
            if files.absolute(owner) != files.absolute(task.path):
                for path, other in ((owner, task.path), (task.path, owner)):
                    found.setdefault(path, Obstacle(path, ILLEGAL_STATE, f"the same partition as {other}"))
    return found
