"""The judging half of ``verify``. Other processes read the logs (``verify.readings``).

A judge gets the pieces of a partition in file order. It reports what ``PartitionCheck`` reports when it reads the logs
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any, Final

import numpy as np

from kdump.codes import Finding, KdumpError
from kdump.inputs import Input
from kdump.log import files
from kdump.log.source import Source
from kdump.tasks.work import Runner
from kdump.verify.gaps import NextSegment
from kdump.verify.partition import Judgement, PartitionCheck, SegmentReader
from kdump.verify.readings import (
    Group,
    ReadingEnd,
    ReadingPiece,
    ReadingStart,
    absolute,
    plan_readings,
    reading_work,
)
from kdump.verify.run import Judge
from kdump.verify.segment import CheckOptions, Rows, SeenSegment, SegmentReading

SMALL_LOG: Final = 16 << 10
"""Bytes of a log, on the average of a partition."""


class DistributedCheck:
    """Checks partitions as ``PartitionCheck`` does, with the logs of all paths read by other processes.

    Args:
        inputs: as they will be given to ``Verification.items``, in that order.
        judge: says of groups, made ``absolute``, what is to be said: (number, items). The numbers rise. The items of a
            group are made when they are asked for.
        fallback: checks in this process what nobody else reads: a stream, a new partition, what is left out.
        leaves_small: groups of small logs are for ``fallback``: they cost less to read here than to take from another
            process.
    """

    def __init__(
        self,
        inputs: Iterable[Input],
        judge: Callable[[Sequence[Group]], Iterator[tuple[int, Iterable[Judgement]]]],
        fallback: Judge,
        *,
        leaves_small: bool = False,
    ) -> None:
        self._fallback = fallback
        # What is given twice is judged elsewhere once, and here again.
        groups = dict.fromkeys(group for found in inputs for group in Group.all_of(found))
        self._groups = [group for group in groups if not (leaves_small and has_small_logs(group))]
        self._numbers = {_name(group): number for number, group in enumerate(self._groups)}
        self._coming = judge(self._groups)
        self._next: tuple[int, Iterable[Judgement]] | None = None

    def segments(self, segments: Sequence[str], folder: str | None) -> Iterator[Judgement]:
        """Check the segments of one partition; see PartitionCheck."""
        wanted = self._numbers.get(_name(Group(tuple(segments), folder)), -1)
        while (coming := self._next or next(self._coming, None)) is not None:
            number, items = self._next = coming
            if number > wanted:
                break
            self._next = None
            if number == wanted:
                # The paths as they are in this process.
                return map(self._groups[number].as_given, items)
        return self._fallback.segments(segments, folder)


def pooled_judge(
    inputs: Iterable[Input],
    options: CheckOptions,
    run: Runner,
    *,
    min_tasks: int = 1,
    takes_small: bool = False,
) -> Judge:
    """A judge of partitions whose logs are read by a runner.

    Args:
        inputs: as they will be given to ``Verification.items``, in that order.
        options: how deep.
        run: reads the logs.
        min_tasks: see ``plan_readings``.
        takes_small: the runner also reads small logs, which this process reads for less.
    """

    def judged(groups: Sequence[Group]) -> Iterator[tuple[int, Iterable[Judgement]]]:
        pieces = run(plan_readings(groups, min_tasks=min_tasks), reading_work(options))
        return judged_groups(absolute(groups), pieces, options)

    return DistributedCheck(inputs, judged, PartitionCheck(options), leaves_small=not takes_small)


def has_small_logs(group: Group) -> bool:
    """Whether a group is a partition of small logs."""
    if group.folder is None:
        return False
    try:
        return sum(map(files.size, group.segments)) <= SMALL_LOG * len(group.segments)
    except KdumpError:
        return False


def _name(group: Group) -> str | tuple[str, ...]:
    """What a group is known by. A whole partition stays the same one when a broker makes or deletes segments."""
    return group.segments if group.folder is None else group.folder


def judge(
    groups: Sequence[Group], pieces: Iterable[ReadingPiece], options: CheckOptions
) -> Iterator[tuple[int, Judgement]]:
    """(number of the group, item) for all groups that have pieces; see ``judged_groups``."""
    for number, items in judged_groups(groups, pieces, options):
        for item in items:
            yield number, item


def judged_groups(
    groups: Sequence[Group],
    pieces: Iterable[ReadingPiece],
    options: CheckOptions,
    *,
    read: SegmentReader | None = None,
    take: Callable[[Any], None] = lambda made: None,
) -> Iterator[tuple[int, Iterable[Judgement]]]:
    """(number of the group, its items) for all groups that have pieces.

    Args:
        groups: all of them.
        pieces: sorted by group, segment and number.
        options: those of the readings.
        read: reads a log of which there are no pieces; None: as a check without anything else.
        take: takes what another command made of the logs whose readings are used.
    """
    read_here = read or (lambda source, following: SegmentReading(source, following, options))
    for number, own in groupby(pieces, key=lambda piece: piece.group):
        yield number, _judge(groups[number], own, options, read_here=read_here, take=take)


def _judge(
    group: Group,
    pieces: Iterator[ReadingPiece],
    options: CheckOptions,
    *,
    read_here: SegmentReader,
    take: Callable[[Any], None],
) -> Iterator[Judgement]:
    by_segment = groupby(pieces, key=lambda piece: piece.segment)
    held: list[tuple[int, Iterator[ReadingPiece]]] = []

    def stored(source: Source, following: NextSegment) -> SeenSegment:
        wanted = group.segments.index(source.path)
        while True:
            segment, own = held.pop() if held else next(by_segment, (len(group.segments), iter(())))
            if segment == wanted:
                first = next(own)
                # A broker may have put another file in its place, or written to it.
                if isinstance(first.seen, ReadingStart) and first.seen != ReadingStart.of(source):
                    return read_here(source, following)
                return StoredReading(chain([first], own), take)
            if segment > wanted:
                held.append((segment, own))
                # It was not there, or could not be opened.
                return read_here(source, following)

    return PartitionCheck(options, read=stored).segments(group.segments, group.folder)


class StoredReading:
    """What another process read of a segment; see ``verify.segment.SeenSegment``.

    Args:
        pieces: all of it.
        take: takes what another command made of the segment.
    """

    def __init__(self, pieces: Iterable[ReadingPiece], take: Callable[[Any], None]) -> None:
        self._pieces = pieces
        self._take = take
        self.ends_in_gap = False

    def items(self) -> Iterator[Finding | Rows]:
        """Findings and rows in file order. Raises KdumpError as the reading did, or if its process was killed."""
        for piece in self._pieces:
            match piece.seen:
                case ReadingEnd() as end:
                    self.ends_in_gap = end.in_gap
                    if end.made is not None:
                        self._take(end.made)
                    if end.error is not None:
                        raise end.error
                case list():
                    yield from piece.seen
                case np.ndarray():
                    yield piece.seen
