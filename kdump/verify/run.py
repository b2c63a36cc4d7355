"""``kdump verify`` in this process: segments, partition directories, log directories, streams.

What a PATH stands for is checked partition by partition (``verify.partition``), then a log directory as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeAlias

from kdump.codes import HOSTILE_CODES, REMOTE_CODES, Finding, KdumpError, OnError, Severity, ignore_error, raise_error
from kdump.inputs import (
    Input,
    LogSegment,
    OtherFile,
    PartitionFolder,
    PathDirectory,
    Sibling,
    Stream,
    WorldLog,
    inputs_of,
)
from kdump.kafka.image.names import TopicNames
from kdump.log import files
from kdump.log.names import METADATA_DIRECTORY, Kind, parse_file_name, parse_partition_directory
from kdump.log.opening import read_whole
from kdump.log.siblings import owns_lines
from kdump.verify.logdir import Checkpoints, PartitionExtent, check_log_directory
from kdump.verify.partition import (
    Item,
    Judgement,
    PartitionCheck,
    counted,
)
from kdump.verify.partitionsummary import already_lost_finding
from kdump.verify.reach import PartitionEvidence
from kdump.verify.segment import CheckOptions
from kdump.verify.siblings import (
    LogSummary,
    PartitionListing,
    check_names,
    check_partition_files,
    check_snapshot,
    check_txn_index,
)
from kdump.verify.startfinding import with_start
from kdump.verify.summary import SegmentSummary
from kdump.wire.compression import DEFAULT_LIMIT
from kdump.worlds import World, world_of_log, world_of_store, world_of_topic

SeeEntries: TypeAlias = Callable[[World, str, Sequence[Any]], None]
"""Takes the path of a log of a world and the next entries of it; none when the log was opened."""


class WorldChecks(Protocol):
    """What is wrong with the logs of another world: the module ``verify`` of its package."""

    def check_logs(
        self,
        paths: Sequence[str],
        options: CheckOptions,
        *,
        named: bool = True,
        see: Callable[[str, Sequence[Any]], None],
    ) -> Iterator[Item | KdumpError]:
        """Check the logs of one partition. A log that cannot be read is an error among the items.

        Args:
            paths: the logs, in the order of their offsets; or one log.
            options: how deep.
            named: the names are those of the logs of a partition; False: a stream, or files of any name.
            see: is shown the path of each log, and its entries.
        """


class WorldPathChecks(Protocol):
    """What is wrong with a PATH of another world: the module ``verify`` of its package."""

    def check(self, path: str, beside: Sequence[str]) -> Iterator[Item]:
        """Check what a PATH means; ``beside``: other PATHs of the run. Raises KdumpError where it cannot be read."""


class WorldStoreChecks(Protocol):
    """What is wrong with a PATH in a store of another world: the module ``verify`` of its package."""

    def checked(self, path: str, items: Iterator[Item], options: CheckOptions) -> Iterator[Item]:
        """What was found there as in any store, and what the world knows besides. Raises KdumpError."""


class WorldTopicChecks(Protocol):
    """What is wrong with a topic in which the software of a world keeps what it knows: the module ``topic``."""

    def check_partition(self, logs: Sequence[str]) -> Iterator[Finding]:
        """Check what the logs of a partition say. What cannot be read is told elsewhere."""


class Judge(Protocol):
    """Checks partitions, as ``PartitionCheck`` does."""

    def segments(self, segments: Sequence[str], folder: str | None) -> Iterator[Judgement]:
        """See PartitionCheck."""


class Verification:
    """One run over any number of paths.

    Args:
        judge: checks the segments of a partition; None: a ``PartitionCheck``.
        on_error: takes what is wrong with one partition of several; None: the first error is raised after the others.
        beside: other paths of the run, among which a log directory finds the metadata of its cluster.
        options: how deep logs of other worlds are checked.
        see: is shown the entries of logs of other worlds.
    """

    def __init__(
        self,
        judge: Judge | None = None,
        *,
        on_error: OnError | None = None,
        beside: Sequence[str] = (),
        options: CheckOptions | None = None,
        see: SeeEntries = lambda world, path, entries: None,
    ) -> None:
        self._beside = beside
        self._judge = judge or PartitionCheck()
        self._on_error = on_error
        self._options = options or CheckOptions()
        self._see = see
        self._failed: list[KdumpError] = []

    def items(self, found: Input) -> Iterator[Item]:
        """Check what one PATH means.

        Raises:
            KdumpError: MISSING, UNREADABLE, NO_SEGMENTS or NOT_A_SEGMENT_FILE.
        """
        items = self._items(found)
        if (world := world_of_store(found.path)) is None:
            yield from items
            return
        checks: WorldStoreChecks = world.answer("verify")
        yield from checks.checked(found.path, items, self._options)

    def _items(self, found: Input) -> Iterator[Item]:
        self._failed.clear()
        path, world = found.path, found.world
        if world is not None and isinstance(found, WorldLog):
            yield from self._logs_of(world, [path], named=world_of_log(path) is world)
            return
        if world is not None:
            checks: WorldPathChecks = world.answer("verify")
            yield from checks.check(path, self._beside)
            return
        match found:
            case PathDirectory() as directory:
                yield from self._directory(directory)
            case Stream():
                yield from self._log(path)
            case LogSegment(kind=kind):
                if kind is Kind.LOG:
                    for finding in check_names([os.path.basename(path)]):
                        yield replace(finding, path=path)
                yield from self._log(path)
            case Sibling(kind=kind) as file:
                log = checked_log(file)
                yield from self._alone(path, kind) if log is None else self._log(log)
            case OtherFile() as file:
                raise file.error

    def _directory(self, directory: PathDirectory) -> Iterator[Item]:
        errors: list[KdumpError] = []
        extents: dict[tuple[str, int], PartitionExtent | None] = {}
        without_logs = []
        checkpoints = Checkpoints(directory.path)
        for partition in directory.partitions(errors.append):
            for world, logs in partition.world_logs.items():
                yield from self._logs_of(world, logs)
            if not partition.names:
                without_logs.append(partition.path)
                continue
            extent = None
            for item in self._judge.segments(partition.paths, partition.path):
                match item:
                    case KdumpError():
                        self._fail(item)
                    case PartitionExtent():
                        extent = item
                    case _:
                        yield item
            yield from _topic_findings(partition)
            name = parse_partition_directory(os.path.basename(partition.path))
            if name is None or partition.is_given:
                continue
            if not owns_lines(partition.path):
                # Lines of checkpoints say nothing of it.
                extents.setdefault(name, None)
            else:
                extents[name] = extent
        for folder in without_logs:
            yield from with_start(folder, _without_logs(folder))
        if extents:
            names = TopicNames([directory.path, *self._beside])
            yield from check_log_directory(checkpoints, extents, names)
            yield from self._placement(directory.path)
        yield from self._tell(errors)

    def _placement(self, directory: str) -> Iterator[Finding]:
        """Compare a log directory with the metadata of its cluster, where that is among the paths."""
        if any(files.is_directory(os.path.join(path, METADATA_DIRECTORY)) for path in (directory, *self._beside)):
            from kdump.verify.fates import placement_findings  # few log directories hold it

            yield from placement_findings(directory, self._beside)

    def _tell(self, errors: Iterable[KdumpError]) -> Iterator[Finding]:
        """Report the errors of listings; raises the first one if there is no ``on_error``."""
        for error in errors:
            if error.code in HOSTILE_CODES:
                yield Finding(error.code, error.message, 0, path=error.path)
            else:
                self._fail(error)
        if self._failed:
            raise self._failed[0]

    def _log(self, path: str) -> Iterator[Item]:
        """Check one log without the other files of its directory."""
        for item in self._judge.segments([path], None):
            if isinstance(item, KdumpError):
                raise item
            if not isinstance(item, PartitionExtent):
                yield item

    def _logs_of(self, world: World, paths: Sequence[str], *, named: bool = True) -> Iterator[Item]:
        """Check the logs of another world in a partition; see ``WorldChecks``."""
        checks: WorldChecks = world.answer("verify")
        for item in checks.check_logs(paths, self._options, named=named, see=partial(self._see, world)):
            if isinstance(item, KdumpError):
                self._fail(item)
            else:
                yield item

    def _fail(self, error: KdumpError) -> None:
        """Report an error, or keep it for the end: the other partitions are still checked."""
        if error.code in REMOTE_CODES:
            # The audit of the bucket tells.
            return
        if self._on_error is None:
            self._failed.append(error)
        else:
            self._on_error(error)

    def _alone(self, path: str, kind: Kind) -> Iterator[Item]:
        """Check a sibling file without its log."""
        data = read_whole(path)
        counts = dict.fromkeys(Severity, 0)
        found: Iterable[Finding] = ()
        if kind is Kind.SNAPSHOT:
            name = parse_file_name(path)
            found = check_snapshot(data, None if name is None or name.is_remote else name.base_offset or 0)
        elif kind is Kind.TXN_INDEX:
            found = check_txn_index(data, None)
        for finding in found:
            yield counted(finding, path, counts)
        yield SegmentSummary(path, len(data), None, None, None, counts, None)


def _topic_findings(partition: PartitionFolder) -> Iterator[Finding]:
    """What the software of a world would say of a topic in which it keeps what it knows."""
    name = parse_partition_directory(os.path.basename(files.absolute(partition.path)))
    world = None if name is None else world_of_topic(name[0])
    if world is not None:
        checks: WorldTopicChecks = world.answer("topic")
        yield from checks.check_partition(partition.paths)


def findings(path: str, *, deep: bool = True, limit: int = DEFAULT_LIMIT) -> Iterator[Finding]:
    """What is wrong with a segment file, a partition directory or a log directory.

    Args:
        path: the file or directory, or a URI of one; ``-`` is standard input.
        deep: decode every record; False: framing and checksums only.
        limit: bytes to which one batch may decompress.

    Raises:
        KdumpError: the path cannot be read.
    """
    check = PartitionCheck(CheckOptions(deep=deep, limit=limit))
    for found in inputs_of([path], raise_error, apart=True):
        for item in Verification(check).items(found):
            if isinstance(item, Finding):
                yield item


def checked_log(file: Sibling) -> str | None:
    """The log with which a sibling file is checked; None: the file is checked alone. Raises as ``open_source``."""
    # Opened here, so that a missing sibling is not mistaken for a missing log.
    file.open().close()
    return None if file.kind is Kind.SNAPSHOT or not files.exists(file.log) else file.log


def _without_logs(folder: str) -> Iterator[Finding]:
    """Check a partition directory whose logs are gone: files that belong to them are no findings."""
    if all(file.world is not None for file in PathDirectory(folder).files(ignore_error, all_files=True)):
        return
    beside = PartitionListing(folder)
    for lost in PartitionEvidence.of_files(beside).already_lost([], None):
        yield already_lost_finding(lost, os.path.join(folder, lost.witnesses[0]))
    yield from check_partition_files(beside, LogSummary(None))
