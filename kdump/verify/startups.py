"""``kdump verify --startup`` in this process: which partition directories there are, and what a start makes of each."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from kdump.codes import Codes, KdumpError, OnError
from kdump.format.checkpoint import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
)
from kdump.inputs import Input, PathDirectory, Stream
from kdump.kafka.segmentindexes import DEFAULT_INDEX_SIZE
from kdump.kafka.startup.directory import Directory, FileAction, LoadSettings
from kdump.kafka.startup.logdirectory import (
    LogDirectory,
    Partition,
    parse_folder,
    partition_settings,
    read_log_directory,
    served_partition,
    sort_folders,
)
from kdump.kafka.startup.node import node_refusals
from kdump.kafka.startup.outcome import (
    ILLEGAL_STATE,
    KAFKA,
    KAFKA_STORAGE,
    OpenTransaction,
    RecoveredSegment,
    RemovalReason,
    Served,
    Start,
    StartFailure,
    StartOutcome,
)
from kdump.log import files
from kdump.log.content import Content
from kdump.log.lock import is_held
from kdump.log.named import ListingEntry
from kdump.log.names import CLUSTER_METADATA, no_partition_name
from kdump.log.opening import read_whole
from kdump.log.partition import no_segments
from kdump.log.siblings import read_checkpoint
from kdump.releases import NEWEST, Release
from kdump.tasks.plaindata import PlainData
from kdump.tasks.work import Runner, Work, Workplace, in_process
from kdump.verify.fates import Fates
from kdump.verify.reach import AlreadyLost, KnownOffsets, PartitionEvidence
from kdump.verify.settling import Watch, settled
from kdump.verify.startcheck import (
    LogDirectoryCheck,
    LossReason,
    LostRange,
    Obstacle,
    StartCheck,
    StartedFile,
    TransactionStart,
    check_start,
    worst_outcome,
)
from kdump.verify.transactioncoordinator import coordinators_of
from kdump.worlds import World, world_of_log, world_of_path, world_of_store

_OF_LOG_DIRECTORIES: Final = {META_PROPERTIES, CLEAN_SHUTDOWN, RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT}


class WorldStarts(Protocol):
    """What a broker of another world does: the module ``start`` of its package."""

    def check_start(self, directory: Directory, settings: LoadSettings, *, checksums: bool) -> StartCheck:
        """What its start makes of a partition directory; see ``startcheck.check_start``."""

    def obstacles(self, path: str, folders: Iterable[str]) -> list[Obstacle]:
        """Which of the ``folders`` in ``path`` stop it by their names."""


def _starts_of(world: World) -> WorldStarts:
    starts: WorldStarts = world.answer("start")
    return starts


class StartOptions(NamedTuple):
    """What is used instead of what the log directory says; None: nothing.

    ``max_index_size``: segment.index.bytes; ``now``: the time, ms; ``checksums``: see check_start; ``world``: the
    broker is one of this world, also where no file of a directory says so; ``release``: of the broker.
    """

    is_clean: bool | None = None
    recovery_point: int | None = None
    log_start_offset: int | None = None
    max_index_size: int = DEFAULT_INDEX_SIZE
    now: int | None = None
    checksums: bool = False
    world: World | None = None
    release: Release = NEWEST


class Task(NamedTuple):
    """The start of one partition directory. ``tells_begins``: it tells when open transactions began."""

    path: str
    settings: LoadSettings
    checksums: bool
    world: World | None = None
    tells_begins: bool = True

    def run(self) -> StartCheck | KdumpError:
        """The answer, or why there is none. If a broker changes the files meanwhile: what two answers agree in."""
        watch = Watch(self.path)
        coordinators = cache(partial(coordinators_of, self.path))

        def transactional_id(producer_id: int) -> str | None:
            return coordinators().transactional_id(producer_id)

        def start() -> StartCheck | KdumpError:
            nonlocal watch
            try:
                directory = Directory.on_disk(self.path)
                watch = Watch(self.path, *(os.path.join(self.path, name) for name in directory.before))
                if self.world is not None:
                    return _starts_of(self.world).check_start(directory, self.settings, checksums=self.checksums)
                return check_start(
                    directory,
                    self.settings,
                    checksums=self.checksums,
                    evidence=self._evidence(directory.before),
                    transactional_id=transactional_id if self.tells_begins else None,
                )
            except KdumpError as error:
                return error.located(self.path)

        def is_changing(result: StartCheck | KdumpError) -> bool:
            return watch.has_changed or is_held(_above(self.path))

        result, undecided = settled(start, _harm, is_changing)
        if undecided:
            return KdumpError(Codes.CHANGED_WHILE_READ, "cannot be told: the files keep changing", path=self.path)
        return result

    def _evidence(self, contents: Mapping[str, Content]) -> PartitionEvidence:
        """The files beside the logs. An offset that is not given has no line in its checkpoint."""
        settings = self.settings
        return PartitionEvidence(
            self.path,
            contents,
            lambda name: read_whole(os.path.join(self.path, name)),
            KnownOffsets(
                settings.is_clean,
                settings.recovery_point or None,
                read_checkpoint(self.path, HIGH_WATERMARK_CHECKPOINT),
                settings.log_start_offset or None,
            ),
        )


def _harm(result: StartCheck | KdumpError) -> frozenset[object]:
    """What is wrong with a start, to be recognized in the next round.

    A file that cannot be read while it changes is a new fault each time: it may have been cut in both rounds.
    """
    if isinstance(result, KdumpError):
        return frozenset({object()})
    outcome = {result.start.outcome} - {StartOutcome.STARTS}
    losses = ((loss.reason, loss.first_offset) for loss in result.lost)
    return frozenset({*outcome, *losses, *result.already_lost, *result.forgotten, *result.swapped})


class KeepsChanging(NamedTuple):
    """A partition directory that a broker keeps changing, so that nothing can be predicted."""

    path: str
    message: str


Item = StartCheck | Obstacle | LogDirectoryCheck | KeepsChanging
_RESULT: Final = PlainData(
    (
        AlreadyLost, FileAction, LoadSettings, LossReason, LostRange, OpenTransaction, RecoveredSegment, Release,
        RemovalReason,
        Served, Start, StartCheck, StartedFile, StartFailure, StartOutcome, TransactionStart,
    )
)  # fmt: skip
_MOST_GROUPS: Final = 256
"""One task per directory would cost more than most starts."""


class _StartTarget(NamedTuple):
    """What one PATH stands for. ``log_directory`` is above a partition directory if the PATH is not ``is_whole``."""

    path: str
    log_directory: LogDirectory
    is_whole: bool
    tasks: list[Task]
    obstacles: list[Obstacle]
    world: World | None = None

    @property
    def directory(self) -> str:
        """The path of the log directory."""
        return self.path if self.is_whole else _above(self.path)


class _Nodes:
    """What stops whole nodes; what was found out of one log directory is known for the next ones."""

    def __init__(self, fates: Fates, release: Release, on_error: OnError) -> None:
        self._fates = fates
        self._release = release
        self._on_error = on_error
        self._refusals: dict[str, list[Obstacle]] = {}
        self._offline: set[str | None] = set()

    def obstacles(self, place: _StartTarget, failed: Sequence[StartCheck], known: Sequence[Obstacle]) -> list[Obstacle]:
        """Those of a log directory beside what is known: its files, its directories, and that none is left."""
        if place.world is not None:
            return []
        if place.directory not in self._refusals:
            # Above a partition that is a PATH lies a log directory only if there is a meta.properties.
            is_known = place.is_whole or place.log_directory.broker is not None
            self._refusals[place.directory] = self._read_refusals(place.directory) if is_known else []
        found = [*self._refusals[place.directory]]
        if worst_outcome(failed, [*known, *found]) is not StartOutcome.BROKER_STOPS:
            reasons = filter(None, (self._fates.why_it_stops(task.path) for task in place.tasks))
            found += (Obstacle(place.path, None, why) for why in islice(reasons, 1))
        if worst_outcome(failed, [*known, *found]) is StartOutcome.DIR_OFFLINE:
            self._offline.add(place.log_directory.directory_id)
            registered = self._fates.registered(place.log_directory.broker)
            if registered and self._offline.issuperset(registered):
                found.append(Obstacle(place.directory, None, "the broker has no other log directory"))
        return found

    def _read_refusals(self, directory: str) -> list[Obstacle]:
        try:
            found = node_refusals(directory, self._release)
        except KdumpError as error:
            self._on_error(error.located(directory))
            return []
        outcomes = {True: StartOutcome.DIR_OFFLINE, False: StartOutcome.BROKER_STOPS}
        return [Obstacle(path, java_class, message, outcomes[is_io]) for path, java_class, message, is_io in found]


def _start(task: Task) -> Iterator[StartCheck | KdumpError]:
    yield task.run()


def _died(task: Task, count: int, error: KdumpError) -> Iterator[KdumpError]:
    """The process was killed that worked out a start; see ``Work.lost``."""
    yield KdumpError(error.code, error.message, path=task.path)


def start_all(
    inputs: Iterable[Input],
    options: StartOptions,
    on_error: OnError,
    run: Runner = in_process,
    fates: Fates | None = None,
) -> Iterator[Item]:
    """Predict what one broker would make of partition directories and log directories.

    If the meta.properties of two log directories name two brokers, they count as two brokers.

    Args:
        inputs: partition directories and log directories.
        options: see StartOptions.
        on_error: takes what is wrong with one directory; the others follow.
        run: runs the tasks.
        fates: what the metadata of the clusters says of the directories; None: it is not known.
    """
    inputs = list(inputs)
    fates = fates or Fates.unknown()
    work = Work(_start, _RESULT.pack, _RESULT.unpack, Workplace.of(found.path for found in inputs), lost=_died)
    places = []
    for found in inputs:
        try:
            place = _place(found, options)
            places.append(place._replace(tasks=[_with_config(task, place, fates) for task in place.tasks]))
        except KdumpError as error:
            on_error(error.located(found.path))
    duplicates = _duplicates((place for place in places if place.world is None), fates.strays)
    told: set[Obstacle] = set()
    nodes = _Nodes(fates, options.release, on_error)
    tasks = [task for place in places for task in place.tasks]
    size = max(1, -(-len(tasks) // _MOST_GROUPS))
    results = run([tasks[first : first + size] for first in range(0, len(tasks), size)], work)
    for place in places:
        failed = []
        unread = 0
        for task, result in zip(place.tasks, islice(results, len(place.tasks)), strict=True):
            if isinstance(result, KdumpError):
                if place.is_whole and not files.exists(task.path):
                    # Deleted after the log directory was listed.
                    continue
                unread += 1
                if result.code is Codes.CHANGED_WHILE_READ:
                    yield KeepsChanging(task.path, result.message)
                else:
                    on_error(result)
                continue
            if result.start.outcome is not StartOutcome.STARTS:
                failed.append(result)
            yield result
        obstacles = [*place.obstacles, *(duplicates[task.path] for task in place.tasks if task.path in duplicates)]
        obstacles += nodes.obstacles(place, failed, obstacles)
        for obstacle in obstacles:
            # An obstacle of a log directory comes up with each of its partitions that is a PATH.
            if obstacle not in told:
                told.add(obstacle)
                yield obstacle
        if place.is_whole:
            is_clean = place.log_directory.is_clean if options.is_clean is None else options.is_clean
            yield LogDirectoryCheck(
                place.path,
                is_clean,
                len(place.tasks),
                tuple(failed),
                unread,
                tuple(obstacles),
                "" if place.world is None else place.world.title,
                sum(fates.becomes_stray(task.path) for task in place.tasks),
                sum(fates.is_misnamed(task.path) for task in place.tasks),
            )


def task_of(directory: str, options: StartOptions) -> Task:
    """The task for one partition directory, with what the log directory above knows of it."""
    return _task(directory, read_log_directory(_above(directory)), options)


def tasks_of(directory: PathDirectory, options: StartOptions) -> list[Task]:
    """The tasks for all partitions of a log directory."""
    return _place(directory, options).tasks


def _above(directory: str) -> str:
    return os.path.dirname(files.absolute(directory))


def _task(directory: str, known: LogDirectory, options: StartOptions) -> Task:
    given: dict[str, Any] = {
        "is_clean": options.is_clean,
        "recovery_point": options.recovery_point,
        "log_start_offset": options.log_start_offset,
    }
    settings = partition_settings(directory, known)._replace(
        **{name: value for name, value in given.items() if value is not None},
        max_index_size=options.max_index_size,
        now=options.now,
        release=options.release,
    )
    return Task(directory, settings, options.checksums, options.world)


def _place(found: Input, options: StartOptions) -> _StartTarget:
    path = found.path
    if (owner := world_of_store(path) or world_of_path(path)) is not None:
        raise KdumpError(Codes.UNREADABLE, f"is of {owner.title}: no broker starts on it, but on log directories")
    if not isinstance(found, PathDirectory):
        if isinstance(found, Stream):
            raise KdumpError(Codes.UNREADABLE, "is a stream: a broker starts on directories of partitions")
        if not files.exists(path):
            raise KdumpError(Codes.MISSING, Codes.MISSING.value.title)
        raise KdumpError(Codes.UNREADABLE, "is no directory: a broker starts on those of partitions")
    entries = files.listing(path)
    if _is_metadata(path):
        raise KdumpError(Codes.UNREADABLE, "the log of a KRaft cluster's metadata, which other code loads: no answer")
    world = options.world or _world_among(entries) or _world_below(found, entries)
    if world is not None:
        return _place_in(world, path, entries, options._replace(world=world))
    if found.is_partition(entries):
        above = _above(path)
        known = read_log_directory(above)
        return _StartTarget(path, known, False, [_task(path, known, options)], _refusals(above, known))
    folders = sort_folders([entry.name for entry in entries if entry.is_directory])
    is_broker_s = any(entry.name in _OF_LOG_DIRECTORIES for entry in entries if not entry.is_directory)
    if not folders.partitions and not (is_broker_s and folders.unparsable):
        raise no_segments(path, entries)
    known = read_log_directory(path)
    tasks = [_task(os.path.join(path, name), known, options) for name in folders.partitions]
    obstacles = [Obstacle(os.path.join(path, name), KAFKA, no_partition_name(name)) for name in folders.unparsable]
    return _StartTarget(path, known, True, tasks, obstacles + _refusals(path, known))


def _with_config(task: Task, place: _StartTarget, fates: Fates) -> Task:
    """The task, with what the metadata of the cluster says of the topic's remote storage."""
    folder = parse_folder(_name_of(task.path))
    if folder is None or not fates.is_tiered(place.log_directory.broker, folder[0][0]):
        return task
    return task._replace(settings=task.settings._replace(tiered_by=CLUSTER_METADATA))


def _is_metadata(path: str) -> bool:
    return _name_of(path).startswith(f"{CLUSTER_METADATA}-")


def _world_among(entries: Iterable[ListingEntry]) -> World | None:
    """The world whose logs are among the entries of a directory."""
    return next(filter(None, (world_of_log(entry.name) for entry in entries)), None)


def _world_below(found: PathDirectory, entries: Sequence[ListingEntry]) -> World | None:
    """The world whose logs lie in the folders of a directory in which no file of a broker of today lies."""
    if any(entry.name in _OF_LOG_DIRECTORIES - {CLEAN_SHUTDOWN} for entry in entries):
        return None
    if found.is_partition(entries):
        return None
    folders = (entry.path for entry in entries if entry.is_directory)
    return next(filter(None, (_world_among(files.listing(folder)) for folder in folders)), None)


def _place_in(world: World, path: str, entries: Sequence[ListingEntry], options: StartOptions) -> _StartTarget:
    starts = _starts_of(world)
    known = read_log_directory(path)
    folders = sorted(entry.name for entry in entries if entry.is_directory)
    if _world_among(entries) is not None or (not folders and parse_folder(_name_of(path))):
        above = _above(path)
        obstacles = starts.obstacles(above, [_name_of(path)])
        return _StartTarget(path, known, False, [_task(path, read_log_directory(above), options)], obstacles, world)
    tasks = [_task(os.path.join(path, name), known, options) for name in folders]
    return _StartTarget(path, known, True, tasks, starts.obstacles(path, folders), world)


def _name_of(path: str) -> str:
    return os.path.basename(files.absolute(path))


def _refusals(path: str, known: LogDirectory) -> list[Obstacle]:
    return [
        Obstacle(os.path.join(path, name), KAFKA_STORAGE, message, StartOutcome.DIR_OFFLINE)
        for name, message in known.refusals
    ]


def is_partition(found: Input) -> bool:
    """Whether it is the directory of one partition; False if that cannot be found out."""
    try:
        return isinstance(found, PathDirectory) and found.is_partition(files.listing(found.path))
    except KdumpError:
        return False


def _duplicates(places: Iterable[_StartTarget], strays: Container[str]) -> dict[str, Obstacle]:
    """The directories of partitions that one broker has twice, by path."""
    owners: dict[tuple[Partition, bool], list[tuple[str, LogDirectory]]] = {}
    for place in places:
        for task in place.tasks:
            served = served_partition(os.path.basename(files.absolute(task.path)))
            if served is not None and task.path not in strays:
                owners.setdefault(served, []).append((task.path, place.log_directory))
    found: dict[str, Obstacle] = {}
    for several in owners.values():
        if len(several) > 1:
            found |= _conflicts(several)
    return found


def _conflicts(several: Iterable[tuple[str, LogDirectory]]) -> Iterator[tuple[str, Obstacle]]:
    """Each pair of directories that conflict. One without a topic id is a stray, which conflicts with none."""
    served = [owner for owner in several if files.exists(os.path.join(owner[0], PARTITION_METADATA))]
    for path, known in served:
        for other, of_other in served:
            if files.absolute(path) != files.absolute(other) and _is_one_broker(known, of_other):
                yield path, Obstacle(path, ILLEGAL_STATE, f"the same partition as {other}")
                break


def _is_one_broker(one: LogDirectory, other: LogDirectory) -> bool:
    """Whether both may belong to one broker: without a meta.properties they may."""
    return one.broker is None or other.broker is None or one.broker == other.broker
