"""``verify`` in two halves that may be on many machines: looks at stretches of logs, and the judgement of partitions.

A look is all that the ordered checks and the checks of the files beside a log need of its bytes: the local findings and
the batch table (a row a batch). The judge of a partition gets them in file order, and gives what ``PartitionCheck``
gives when it looks itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.log import files
from kdump.log.paths import LogSegment, PathDirectory, Sibling, resolve
from kdump.log.source import Source
from kdump.tasks.plaindata import PlainData
from kdump.tasks.splits import SPLIT_BYTES, LogFile, Split, find_logs, plan
from kdump.verify.gaps import NextSegment
from kdump.verify.logdir import PartitionExtent
from kdump.verify.partition import Judgement, PartitionCheck, next_segment_of, segments_following
from kdump.verify.run import checked_log
from kdump.verify.segment import CheckOptions, Rows, SeenSegment, SegmentReading
from kdump.verify.table import row_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROWS_A_PIECE: Final = 8192


class Group(NamedTuple):
    """Segments that are judged together, in offset order; ``folder``: as for ``PartitionCheck.segments``."""

    segments: tuple[str, ...]
    folder: str | None

    def absolute(self) -> Group:
        """The same for a process with another working directory."""
        folder = None if self.folder is None else files.absolute(self.folder)
        return Group(tuple(map(files.absolute, self.segments)), folder)

    def as_given(self, item: Judgement) -> Judgement:
        """What was said of ``absolute``, with the paths as they are here."""
        if isinstance(item, PartitionExtent) or item.path is None:
            return item
        given = os.path.dirname(self.segments[0])
        absolute = files.directory_of(self.segments[0])
        if given == absolute or os.path.dirname(item.path) != absolute:
            return item
        path = os.path.join(given, os.path.basename(item.path))
        if isinstance(item, KdumpError):
            item.path = path
            return item
        return replace(item, path=path)


def groups_of(path: str) -> list[Group]:
    """The groups of segments that a PATH stands for, in the order in which a ``Verification`` asks for them.

    None where the path is wrong or a stream: what is wrong with it the ``Verification`` says.
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
    """A stretch of one of the segments of a group; ``group`` and ``segment`` are numbers.

    ``behind``: the segment behind that one, where there is one.
    """

    group: int
    segment: int
    split: Split
    behind: tuple[str, ...]


class ReadingPiece(NamedTuple):
    """A part of what was seen: its place, and the part itself (packed, see ``read_piece``)."""

    group: int
    segment: int
    place: int
    number: int
    seen: bytes


def plan_readings(groups: Sequence[Group], *, split_bytes: int = SPLIT_BYTES) -> list[list[ReadingTask]]:
    """The stretches of all segments, one list a task. What is not there or empty has none."""
    places: dict[int, tuple[int, int]] = {}
    behind: dict[tuple[int, int], tuple[str, ...]] = {}
    logs: list[LogFile] = []
    for number, group in enumerate(groups):
        for segment, path in enumerate(group.segments):
            for log in find_logs([path], lambda error: None):
                places[id(log)] = number, segment
                behind[number, segment] = tuple(segments_following(group.segments, segment)[:1])
                logs.append(log)
    tasks = []
    for splits in plan(logs, split_bytes=split_bytes):
        task = []
        for split in splits:
            number, segment = places[id(split.log)]
            task.append(ReadingTask(number, segment, split, behind[number, segment]))
        tasks.append(task)
    return tasks


def read_piece(task: ReadingTask, options: CheckOptions) -> Iterator[ReadingPiece]:
    """Look at a stretch: its findings and rows in order, and last how it ends, or the error."""
    place, pieces = task.split.first, 0

    def piece(seen: list[Finding] | NDArray[np.void] | _End | KdumpError) -> ReadingPiece:
        nonlocal pieces
        pieces += 1
        return ReadingPiece(task.group, task.segment, place, pieces, _SEEN.pack(seen))

    try:
        with task.split.open() as source:
            behind = next_segment_of(task.split.log.path, task.behind)
            look = SegmentReading(source, behind, options, task.split.extent(source))
            findings: list[Finding] = []
            for item in look.items():
                if isinstance(item, Finding):
                    findings.append(item)
                    continue
                if findings:
                    yield piece(findings)
                    findings = []
                rows = np.array(item, row_dtype()) if isinstance(item, list) else item
                for first in range(0, len(rows), _ROWS_A_PIECE):
                    yield piece(rows[first : first + _ROWS_A_PIECE])
            if findings:
                yield piece(findings)
            yield piece(_End(look.ends_in_gap, task.split.log.size, source.file_number))
    except KdumpError as error:
        yield piece(error.located(task.split.log.path))


class _End(NamedTuple):
    """Damage lies behind the last row; ``size``: of the log when it was looked at; ``file_number``: of its file."""

    in_gap: bool
    size: int
    file_number: int | None


_SEEN: Final = PlainData((Finding, Codes, Severity, _End))


class _StoredReading:
    """A look that was made in stretches, by others; see ``verify.segment.Look``."""

    def __init__(self, pieces: Iterable[ReadingPiece], source: Source) -> None:
        self._seen = [_SEEN.unpack(piece.seen) for piece in pieces]
        self._source = source
        self.ends_in_gap = False

    @property
    def is_of_this_file(self) -> bool:
        """What was looked at is the file that is open now: a broker may have put another one in its place."""
        return all(
            not isinstance(seen, KdumpError)
            and not (isinstance(seen, _End) and seen.file_number != self._source.file_number)
            for seen in self._seen
        )

    def items(self) -> Iterator[Finding | Rows]:
        """See Look."""
        for seen in self._seen:
            if isinstance(seen, _End):
                self.ends_in_gap = seen.in_gap
                # A live log may have grown since.
                self._source.size = seen.size
            elif isinstance(seen, list):
                yield from seen
            elif isinstance(seen, np.ndarray):
                yield seen


def judge(
    groups: Sequence[Group], pieces: Iterable[ReadingPiece], options: CheckOptions
) -> Iterator[tuple[int, int, Judgement]]:
    """(group, number, item) for all groups of which there are pieces.

    Args:
        groups: all of them.
        pieces: sorted by group, segment, place and number.
        options: those of the looks.
    """
    for group, own in groupby(pieces, key=lambda piece: piece.group):
        yield from _judge(group, groups[group], own, options)


def _judge(
    number: int, group: Group, pieces: Iterator[ReadingPiece], options: CheckOptions
) -> Iterator[tuple[int, int, Judgement]]:
    by_segment = groupby(pieces, key=lambda piece: piece.segment)
    held: list[tuple[int, Iterator[ReadingPiece]]] = []

    def stored(source: Source, behind: NextSegment) -> SeenSegment:
        wanted = group.segments.index(source.path)
        while True:
            segment, own = held.pop() if held else next(by_segment, (len(group.segments), iter(())))
            if segment == wanted:
                known = _StoredReading(own, source)
                return known if known.is_of_this_file else SegmentReading(source, behind, options)
            if segment > wanted:
                held.append((segment, own))
                # It was empty, or not there, when the looks were planned.
                return SegmentReading(source, behind, options)

    for count, item in enumerate(PartitionCheck(options, look=stored).segments(group.segments, group.folder)):
        yield number, count, item
