"""The judging half of ``verify``. Other processes read the logs in splits (``verify.readings``).

A judge gets the pieces of a partition in file order. It reports what ``PartitionCheck`` reports when it reads the logs
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final

import numpy as np

from kdump.codes import Finding, KdumpError
from kdump.log.opening import open_source
from kdump.log.source import Source
from kdump.tasks.splits import LEAST_FOR_POOL
from kdump.tasks.work import Runner
from kdump.verify.gaps import NextSegment
from kdump.verify.partition import Judgement, PartitionCheck
from kdump.verify.readings import Group, ReaderDied, ReadingEnd, ReadingPiece, groups_of, plan_readings, reading_work
from kdump.verify.run import Judge
from kdump.verify.segment import CheckOptions, Rows, SeenSegment, SegmentReading

_TASKS_A_PROCESS: Final = 4
"""At least so many, so that all processes end at about the same time."""


class DistributedCheck:
    """Checks partitions as ``PartitionCheck`` does, with the logs of all paths read by other processes.

    Args:
        paths: as they will be given to ``Verification.path``, in that order.
        judge: returns the (group number, item) pairs of groups with absolute paths. The numbers rise.
        fallback: checks in this process what nobody has read: an empty segment, a new one, a stream.
    """

    def __init__(
        self, paths: Iterable[str], judge: Callable[[Sequence[Group]], Iterator[tuple[int, Judgement]]], fallback: Judge
    ) -> None:
        self._fallback = fallback
        # A path that is given twice is judged once.
        self._groups = list(dict.fromkeys(group for path in paths for group in groups_of(path)))
        self._numbers = {_name(group): number for number, group in enumerate(self._groups)}
        # Another process may have another working directory.
        self._coming = groupby(judge([group.absolute() for group in self._groups]), itemgetter(0))
        self._judged: dict[int, list[Judgement]] = {}

    def segments(self, segments: Sequence[str], folder: str | None) -> Iterator[Judgement]:
        """Check the segments of one partition; see PartitionCheck."""
        wanted = self._numbers.get(_name(Group(tuple(segments), folder)))
        if wanted is not None and wanted not in self._judged:
            for number, items in self._coming:
                if number == wanted:
                    return self._noted(number, items)
                self._judged[number] = list(self._noted(number, items))
                if number > wanted:
                    break
        found = None if wanted is None else self._judged.get(wanted)
        return self._fallback(segments, folder) if found is None else iter(found)

    def _noted(self, number: int, items: Iterable[tuple[int, Judgement]]) -> Iterator[Judgement]:
        """The items of a group as they come, with the paths as they are in this process."""
        noted = self._judged[number] = []
        for _, item in items:
            noted.append(self._groups[number].as_given(item))
            yield noted[-1]


def pooled_judge(
    paths: Iterable[str],
    options: CheckOptions,
    run: Runner,
    jobs: int,
    *,
    rate: int | None = None,
    opened: Callable[[str], Source] = open_source,
    progress: Callable[[str, int, int | None], None] = lambda path, done, size: None,
) -> Judge:
    """A judge for partitions whose logs a pool of processes reads. Small logs are read in this process.

    Args:
        paths: as they will be given to ``Verification.path``, in that order.
        options: how deep.
        run: runs tasks in the pool.
        jobs: how many processes the pool has.
        rate: bytes per second that all of them together may read; None: no limit.
        opened: opens a log in this process; see PartitionCheck.
        progress: takes what is read, how many bytes of it are done, and how many there are.
    """

    def judged(groups: Sequence[Group]) -> Iterator[tuple[int, Judgement]]:
        tasks = plan_readings(groups, min_tasks=_TASKS_A_PROCESS * jobs)
        sizes = {(task.group, task.segment, task.split.first): task.size for some in tasks for task in some}
        total = sum(sizes.values())
        if total < LEAST_FOR_POOL:
            return iter(())
        pieces = run(tasks, reading_work(options, rate=None if rate is None else max(1, rate // jobs)))
        return judge(
            groups, _watched(pieces, sizes, partial(progress, f"{len(sizes):,} parts of logs")), options, opened
        )

    return DistributedCheck(paths, judged, PartitionCheck(options, opened=opened).segments).segments


def _watched(
    pieces: Iterable[ReadingPiece], sizes: Mapping[tuple[int, int, int], int], progress: Callable[[int, int], None]
) -> Iterator[ReadingPiece]:
    total, done = sum(sizes.values()), 0
    for piece in pieces:
        if isinstance(piece.seen, ReadingEnd):
            done += sizes[piece[:3]]
            progress(done, total)
        yield piece


def _name(group: Group) -> str | tuple[str, ...]:
    """What a group is known by. A whole partition stays the same one when a broker makes or deletes segments."""
    return group.segments if group.folder is None else group.folder


def judge(
    groups: Sequence[Group],
    pieces: Iterable[ReadingPiece],
    options: CheckOptions,
    opened: Callable[[str], Source] = open_source,
) -> Iterator[tuple[int, Judgement]]:
    """(number of the group, item) for all groups that have pieces.

    Args:
        groups: all of them.
        pieces: sorted by group, segment, position and number.
        options: those of the readings.
        opened: see PartitionCheck.
    """
    for number, own in groupby(pieces, key=lambda piece: piece.group):
        for item in _judge(groups[number], own, options, opened):
            yield number, item


def _judge(
    group: Group, pieces: Iterator[ReadingPiece], options: CheckOptions, opened: Callable[[str], Source]
) -> Iterator[Judgement]:
    by_segment = groupby(pieces, key=lambda piece: piece.segment)
    held: list[tuple[int, Iterator[ReadingPiece]]] = []

    def stored(source: Source, following: NextSegment) -> SeenSegment:
        wanted = group.segments.index(source.path)
        while True:
            segment, own = held.pop() if held else next(by_segment, (len(group.segments), iter(())))
            if segment == wanted:
                known = _StoredReading(own, source)
                return known if known.is_of_this_file else SegmentReading(source, following, options)
            if segment > wanted:
                held.append((segment, own))
                # It was empty, or not there, when the readings were planned.
                return SegmentReading(source, following, options)

    return PartitionCheck(options, opened=opened, read=stored).segments(group.segments, group.folder)


class _StoredReading:
    """What other processes read of a segment, in splits; see ``verify.segment.SeenSegment``."""

    def __init__(self, pieces: Iterable[ReadingPiece], source: Source) -> None:
        self._seen = [piece.seen for piece in pieces]
        self._source = source
        self.ends_in_gap = False

    @property
    def is_of_this_file(self) -> bool:
        """Whether the file that is open now is the one that was read. A broker may have replaced it."""
        return all(
            not isinstance(seen, KdumpError)
            and not (isinstance(seen, ReadingEnd) and seen.file_number != self._source.file_number)
            for seen in self._seen
        )

    def items(self) -> Iterator[Finding | Rows]:
        """Findings and rows in file order. Raises KdumpError if the process that read them was killed."""
        for seen in self._seen:
            if isinstance(seen, ReaderDied):
                raise seen.error
            if isinstance(seen, ReadingEnd):
                self.ends_in_gap = seen.in_gap
                # A live log may have grown since.
                self._source.size = seen.size
            elif isinstance(seen, list):
                yield from seen
            elif isinstance(seen, np.ndarray):
                yield seen
