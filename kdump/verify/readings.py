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
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias

import numpy as np

from kdump.codes import Codes, Finding, KdumpError, Severity, ignore_error
from kdump.inputs import Input, LogSegment, PathDirectory, Sibling, file_by_name
from kdump.log import files
from kdump.log.source import Source
from kdump.tasks.logs import TASK_BYTES, LogFile, log_files, packed_in_order, task_sizes
from kdump.tasks.plaindata import PlainData
from kdump.tasks.work import Work
from kdump.verify.logdir import PartitionExtent
from kdump.verify.partition import Judgement, SegmentReader, next_segment_of, segments_following
from kdump.verify.run import checked_log
from kdump.verify.segment import CheckOptions, Rows, SegmentReading

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROWS_A_PIECE: Final = 8192
_FINDING_BYTES: Final = 256
"""Bytes that a finding counts as."""


class Group(NamedTuple):
    """Segments that are judged together, in offset order; ``folder``: as for ``PartitionCheck.segments``."""

    segments: tuple[str, ...]
    folder: str | None

    @classmethod
    def all_of(cls, found: Input) -> list[Group]:
        """Those that an input means, in the order in which a ``Verification`` asks for them.

        No groups for a stream or a wrong path: the ``Verification`` reports what is wrong with it.
        """
        with suppress(KdumpError):
            match found:
                case PathDirectory():
                    partitions = found.partitions(ignore_error)
                    return [cls(tuple(partition.paths), partition.path) for partition in partitions if partition.names]
                case LogSegment():
                    return [cls((found.path,), None)]
                case Sibling():
                    log = checked_log(found)
                    return [] if log is None else [cls((log,), None)]
        return []

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


@dataclass(frozen=True, slots=True)
class ReadingTask:
    """The log of one segment of a group; ``group`` and ``segment`` are numbers.

    ``following``: the segment after that one if there is one.
    """

    group: int
    segment: int
    log: LogFile
    following: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        return self.log.size


class ReadingStart(NamedTuple):
    """Which file is read: its number, and its size, up to which it is read."""

    file_number: int | None
    size: int | None

    @classmethod
    def of(cls, source: Source) -> Self:
        """Of an open log."""
        return cls(source.file_number, source.size)


class ReadingEnd(NamedTuple):
    """How a reading ended.

    ``in_gap``: damage lies after the last row. ``error``: it ended there, or its process was killed. ``made``: what
    another command makes of the log in the same pass.
    """

    in_gap: bool = False
    error: KdumpError | None = None
    made: Any = None


Seen: TypeAlias = "ReadingStart | list[Finding] | NDArray[np.void] | ReadingEnd"


class ReadingPiece(NamedTuple):
    """A part of what was read of a segment. ``number``: of the piece, in file order."""

    group: int
    segment: int
    number: int
    seen: Seen

    @property
    def size(self) -> int:
        """About how many bytes the piece takes."""
        if isinstance(self.seen, np.ndarray):
            return self.seen.nbytes
        return _FINDING_BYTES * len(self.seen) if isinstance(self.seen, list) else 0


PIECE_CLASSES: Final = (Codes, Finding, ReadingEnd, ReadingPiece, ReadingStart, Severity)
PIECES: Final = PlainData(PIECE_CLASSES)


def plan_readings(
    groups: Sequence[Group], *, task_bytes: int = TASK_BYTES, min_tasks: int = 1
) -> list[list[ReadingTask]]:
    """The logs of all segments that are there in their order, one list a task.

    Any process of this machine can read them, whatever its working directory is. With ``min_tasks`` tasks become
    smaller until there are so many, or one for each log.
    """
    tasks = [
        ReadingTask(number, segment, log, tuple(map(files.absolute, segments_following(group.segments, segment)[:1])))
        for number, group in enumerate(groups)
        for segment, path in enumerate(group.segments)
        for log in log_files(filter(None, [file_by_name(path)]), ignore_error)
    ]
    task_bytes, open_cost = task_sizes(sum(task.size for task in tasks), task_bytes, min_tasks)
    return packed_in_order(tasks, task_bytes=task_bytes, open_cost=open_cost)


def reading_work(options: CheckOptions) -> Work[ReadingTask, ReadingPiece]:
    """The reading of the tasks of ``plan_readings``. ``options``: how deep."""
    return Work(partial(read_pieces, options=options), PIECES.pack, PIECES.unpack, lost=died, size=log_size)


def log_size(task: ReadingTask) -> int:
    """Bytes."""
    return task.size


def read_pieces(
    task: ReadingTask,
    options: CheckOptions,
    look: SegmentReader | None = None,
    made: Callable[[], Any] = lambda: None,
) -> Iterator[ReadingPiece]:
    """Read a log: which one it is, its findings and rows in order, and last how it ends.

    No pieces where it cannot be opened: the judge will say why.

    Args:
        task: the log.
        options: how deep.
        look: looks at it; None: as a check without anything else.
        made: gives what was made of it at the end.
    """
    look = look or (lambda source, following: SegmentReading(source, following, options))
    for number, seen in enumerate(_seen(task, look, made)):
        yield ReadingPiece(task.group, task.segment, number, seen)


def _seen(task: ReadingTask, look: SegmentReader, made: Callable[[], Any]) -> Iterator[Seen]:
    try:
        source = task.log.open_planned()
    except KdumpError:
        return
    with source:
        yield ReadingStart.of(source)
        reading = look(source, next_segment_of(task.log.path, task.following))
        ending: KdumpError | None = None
        try:
            yield from _together(reading.items())
        except KdumpError as error:
            ending = error
        yield ReadingEnd(reading.ends_in_gap, ending, made())


def _together(items: Iterable[Finding | Rows]) -> Iterator[list[Finding] | Rows]:
    """The findings between rows together, and not too many rows."""
    findings: list[Finding] = []
    for item in items:
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


def died(task: ReadingTask, count: int, error: KdumpError) -> Iterator[ReadingPiece]:
    """Says that the process died that was reading a log; see ``Work.lost``."""
    yield ReadingPiece(task.group, task.segment, count, ReadingEnd(error=error))
