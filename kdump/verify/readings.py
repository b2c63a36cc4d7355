"""The reading half of ``verify`` as tasks, which may run on many machines; the other half is ``verify.judging``.

A reading yields all that the ordered checks and the checks of the files beside a log need of its bytes: the local
findings and the batch table, a row per batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.log import files
from kdump.log.extents import Extent, FalseCutError
from kdump.log.paths import LogSegment, PathDirectory, Sibling, resolve
from kdump.log.source import Source
from kdump.tasks.plaindata import PlainData
from kdump.tasks.splits import SPLIT_BYTES, Split, cut, listed_logs, packed_in_order, task_sizes
from kdump.tasks.work import Work
from kdump.verify.gaps import NextSegment
from kdump.verify.logdir import PartitionExtent
from kdump.verify.partition import Judgement, next_segment_of, segments_following
from kdump.verify.run import checked_log
from kdump.verify.segment import CheckOptions, SeenSegment, SegmentReading

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROWS_A_PIECE: Final = 8192
_FINDING_BYTES: Final = 256
"""Bytes that a finding counts as."""


class Group(NamedTuple):
    """Segments that are judged together, in offset order; ``folder``: as for ``PartitionCheck.segments``."""

    segments: tuple[str, ...]
    folder: str | None

    def absolute(self) -> Group:
        """The group for a process with another working directory."""
        folder = None if self.folder is None else files.absolute(self.folder)
        return Group(tuple(map(files.absolute, self.segments)), folder)

    def as_given(self, item: Judgement) -> Judgement:
        """An item about ``absolute()``, with the paths as they are here."""
        if isinstance(item, PartitionExtent) or item.path is None:
            return item
        given = os.path.dirname(self.segments[0])
        absolute = files.directory_of(self.segments[0])
        if item.path == absolute and self.folder is not None:
            path = self.folder
        elif given == absolute or os.path.dirname(item.path) != absolute:
            return item
        else:
            path = os.path.join(given, os.path.basename(item.path))
        if isinstance(item, KdumpError):
            item.path = path
            return item
        return replace(item, path=path)


def absolute(groups: Iterable[Group]) -> list[Group]:
    """Groups for a process with another working directory."""
    return [group.absolute() for group in groups]


def groups_of(path: str) -> list[Group]:
    """The groups of segments that a PATH stands for, in the order in which a ``Verification`` asks for them.

    No groups for a stream or a wrong path: the ``Verification`` reports what is wrong with it.
    """
    with suppress(KdumpError):
        match resolve(path):
            case PathDirectory() as directory:
                partitions = directory.partitions(lambda error: None)
                return [Group(tuple(partition.paths), partition.path) for partition in partitions if partition.names]
            case LogSegment():
                return [Group((path,), None)]
            case Sibling() as file:
                log = checked_log(file)
                return [] if log is None else [Group((log,), None)]
    return []


@dataclass(frozen=True, slots=True)
class ReadingTask:
    """A split of one segment of a group; ``group`` and ``segment`` are numbers.

    ``following``: the segment after that one if there is one.
    """

    group: int
    segment: int
    split: Split
    following: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        return self.split.size


class ReadingEnd(NamedTuple):
    """How a reading ended.

    ``in_gap``: damage lies after the last row. ``size``: of the log when it was read. ``file_number``: of its file.
    """

    in_gap: bool
    size: int
    file_number: int | None


class ReaderDied(NamedTuple):
    """The process that read a split was killed."""

    error: KdumpError


class Beside(NamedTuple):
    """What another command makes of a split in the same pass."""

    made: Any


Seen: TypeAlias = "list[Finding] | NDArray[np.void] | ReadingEnd | ReaderDied | KdumpError | Beside"
SplitReader: TypeAlias = Callable[[Source, NextSegment, Extent], SeenSegment]
"""Reads a split of a log; see ``verify.partition.SegmentReader``."""


class ReadingPiece(NamedTuple):
    """A part of what was read of a segment, and its place in the file order.

    ``position``: where the split begins in the file. ``number``: of the piece in the split.
    """

    group: int
    segment: int
    position: int
    number: int
    seen: Seen

    @property
    def size(self) -> int:
        """About how many bytes the piece takes."""
        if isinstance(self.seen, np.ndarray):
            return self.seen.nbytes
        return _FINDING_BYTES * len(self.seen) if isinstance(self.seen, list) else 0


PIECE_CLASSES: Final = (Codes, Finding, ReadingEnd, ReadingPiece, Severity)
PIECES: Final = PlainData(PIECE_CLASSES)


def plan_readings(
    groups: Sequence[Group], *, split_bytes: int = SPLIT_BYTES, min_tasks: int = 1, cuts_smaller: bool = True
) -> list[list[ReadingTask]]:
    """The splits of all segments in their order, one list a task. What is not there has none, what is empty one.

    Any process of this machine can read them, whatever its working directory is. With ``min_tasks`` tasks become
    smaller until there are so many, and with ``cuts_smaller`` the splits too.
    """
    logs = [
        (number, segment, log)
        for number, group in enumerate(groups)
        for segment, path in enumerate(group.segments)
        for log in listed_logs([path])
    ]
    task_bytes, open_cost = task_sizes(sum(log.size for *_, log in logs), split_bytes, min_tasks)
    tasks = (
        ReadingTask(number, segment, split, tuple(map(files.absolute, following)))
        for number, segment, log in logs
        for following in [segments_following(groups[number].segments, segment)[:1]]
        for split in (*cut(log, task_bytes if cuts_smaller else split_bytes), *([] if log.size else [Split(log, 0, 0)]))
    )
    return packed_in_order(tasks, split_bytes=task_bytes, open_cost=open_cost)


def reading_work(options: CheckOptions) -> Work[ReadingTask, ReadingPiece]:
    """The reading of the tasks of ``plan_readings``. ``options``: how deep."""
    return Work(
        partial(read_piece, options=options),
        PIECES.pieces,
        PIECES.unpack,
        lost=died,
        size=split_size,
        shared_file=file_of,
    )


def file_of(task: ReadingTask) -> str:
    """The log that is read."""
    return task.split.log.path


def split_size(task: ReadingTask) -> int:
    """Bytes."""
    return task.size


def read_piece(task: ReadingTask, options: CheckOptions, look: SplitReader | None = None) -> Iterator[ReadingPiece]:
    """Read a split: its findings and rows in order, and last how it ends, or the error.

    Args:
        task: the split.
        options: how deep.
        look: looks at it; None: as a check without anything else.
    """
    look = look or (lambda source, following, extent: SegmentReading(source, following, options, extent))
    for number, seen in enumerate(_seen(task, look)):
        yield ReadingPiece(task.group, task.segment, task.split.first, number, seen)


def _seen(task: ReadingTask, look: SplitReader) -> Iterator[Seen]:
    try:
        with task.split.open() as source:
            following = next_segment_of(task.split.log.path, task.following)
            extent = task.split.extent(source)
            reading = look(source, following, extent)
            findings: list[Finding] = []
            for item in reading.items():
                if isinstance(item, Finding):
                    findings.append(item)
                    continue
                if findings:
                    yield findings
                    findings = []
                for first in range(0, len(item), _ROWS_A_PIECE):
                    yield item[first : first + _ROWS_A_PIECE]
            if findings:
                yield findings
            if extent.is_missed:
                raise FalseCutError.of(extent)
            yield ReadingEnd(reading.ends_in_gap, task.split.log.size, source.file_number)
    except KdumpError as error:
        yield error.located(task.split.log.path)


def died(task: ReadingTask, count: int, error: KdumpError) -> Iterator[ReadingPiece]:
    """Says that the process died that was reading a split; see ``Work.lost``."""
    yield ReadingPiece(task.group, task.segment, task.split.first, count, ReaderDied(error))
