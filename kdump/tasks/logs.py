"""Work on many logs: which ones there are, and which of them a task reads. A log is never cut.

Planning uses names and sizes only: the driver of a cluster must not read what its workers will read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeVar

from kdump.codes import Codes, KdumpError, OnError
from kdump.inputs import Input, LogSegment, OtherFile, PathDirectory, Stream, WorldLog, file_by_name
from kdump.log import files
from kdump.log.context import FileContext
from kdump.log.named import is_named
from kdump.log.opening import open_source
from kdump.log.source import Source, keep_size
from kdump.reading.selection import Range
from kdump.worlds import World

TASK_BYTES: Final = 128 << 20
"""Small logs are put together until a task has so many bytes."""
NO_LOG_CODES: Final = frozenset({Codes.NO_SEGMENTS, Codes.NOT_A_SEGMENT_FILE})
"""Errors that do not count for a file that a pattern matches: nobody named it."""
OPEN_COST: Final = 4 << 20
"""The cost of opening a file in bytes, as Spark's ``spark.sql.files.openCostInBytes``."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log as the plan saw it.

    ``path`` is absolute. ``given`` opens the log in any process (a URI with its credentials). ``context`` holds the
    columns that its rows share. ``offsets``: the offsets that it can hold, by its name and that of the next log.
    ``world``: whose log it is; None: a log of today.
    """

    path: str
    context: FileContext
    base_offset: int | None
    size: int
    offsets: Range = field(default_factory=Range)
    given: str = field(default="", repr=False)
    is_named: bool = False
    world: World | None = None

    def open(self) -> Source:
        """The file, in any process. Raises as ``open_source``."""
        if self.is_named:
            files.strip_credentials(self.path)
        return open_source(self.given or self.path)

    def open_planned(self) -> Source:
        """The log, up to the size that it had when it was planned. A live log has grown since.

        Raises:
            KdumpError: MISSING, UNREADABLE, also where the file has become shorter.
        """
        source = self.open()
        try:
            keep_size(source, self.size)
        except KdumpError:
            source.close()
            raise
        return source


class Sized(Protocol):
    """Something with a size."""

    @property
    def size(self) -> int:
        """Bytes."""


SizedT = TypeVar("SizedT", bound=Sized)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which partitions are read; None: all.

    ``offsets`` bounds partitions without an entry in ``starts`` and ``ends``.
    """

    topics: frozenset[str] | None = None
    topic_pattern: re.Pattern[str] | None = None
    partitions: frozenset[int] | None = None
    offsets: Range = field(default_factory=Range)
    starts: dict[tuple[str, int], int] = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)

    def accepts(self, context: FileContext) -> bool:
        """Whether topic and partition are wanted."""
        topic, partition = context.topic, context.partition
        return (
            (self.topics is None or topic in self.topics)
            and (self.topic_pattern is None or (topic is not None and bool(self.topic_pattern.fullmatch(topic))))
            and (self.partitions is None or partition in self.partitions)
        )

    def offsets_of(self, context: FileContext) -> Range:
        """The range of a partition."""
        if context.topic is None or context.partition is None:
            return self.offsets
        own = (context.topic, context.partition)
        return self.offsets.intersection(Range(self.starts.get(own), self.ends.get(own)))


def log_files(inputs: Iterable[Input], on_error: OnError, *, with_worlds: bool = False) -> list[LogFile]:
    """The logs that inputs mean, each once, even if it was named several times.

    Args:
        inputs: what PATHs mean; or files of a listing. No user named these, so links and pipes are not followed.
        on_error: takes what is missing or cannot be listed, and files that are no logs by their names. Other files and
            directories without segments that match a pattern are ignored.
        with_worlds: logs of other worlds too.
    """
    wanted = (LogSegment, WorldLog) if with_worlds else LogSegment
    logs: list[LogFile] = []
    for found in inputs:

        def tell(error: KdumpError, *, is_named: bool = found.is_named) -> None:
            if is_named or error.code not in NO_LOG_CODES:
                on_error(error)

        # A pipe counts as a log only if it has the name of one.
        named = file_by_name(found.path) if isinstance(found, Stream) else found
        try:
            if not isinstance(named, (PathDirectory, wanted)):
                raise OtherFile(found.path).error
            logs += _logs_of((file for file in named.files(tell) if isinstance(file, wanted)), tell)
        except KdumpError as error:
            tell(error)
    return list({log.path: log for log in reversed(logs)}.values())[::-1]


def _logs_of(segments: Iterable[LogSegment | WorldLog], on_error: OnError) -> Iterator[LogFile]:
    """The logs of some segments. Those of a partition are in offset order."""
    previous: LogFile | None = None
    for segment in segments:
        path, base_offset = segment.path, segment.base_offset
        try:
            size = segment.size
        except KdumpError as error:
            on_error(error)
            continue
        whole = files.absolute(path)
        given = files.with_credentials(whole)
        context, world = FileContext.of(path), segment.world
        log = LogFile(whole, context, base_offset, size, given=given, is_named=is_named(path), world=world)
        if previous is not None:
            is_next = os.path.dirname(previous.path) == os.path.dirname(log.path)
            yield replace(previous, offsets=Range(None, base_offset)) if is_next else previous
        previous = log
    if previous is not None:
        yield previous


def plan(
    logs: Iterable[LogFile],
    wanted: Wanted | None = None,
    *,
    task_bytes: int = TASK_BYTES,
    min_tasks: int = 1,
) -> list[list[LogFile]]:
    """The logs that may hold what is wanted, one list for each task.

    Small ones are put together until a task has ``task_bytes``, as Spark's file sources do. Each file costs
    ``OPEN_COST`` more. With ``min_tasks`` tasks become smaller until there are that many, or one for each log.
    """
    wanted = wanted or Wanted()
    chosen = [log for log in logs if log.size and _may_hold(log, wanted)]
    task_bytes, open_cost = task_sizes(sum(log.size for log in chosen), task_bytes, min_tasks)
    return packed(chosen, task_bytes=task_bytes, open_cost=open_cost)


def task_sizes(total: int, task_bytes: int, min_tasks: int) -> tuple[int, int]:
    """``task_bytes`` and the cost of a file with which ``total`` bytes make at least so many tasks."""
    if min_tasks <= 1:
        return task_bytes, OPEN_COST
    task_bytes = max(1, min(task_bytes, -(-total // min_tasks)))
    return task_bytes, min(OPEN_COST, task_bytes // 4)


def packed(items: Iterable[SizedT], *, task_bytes: int = TASK_BYTES, open_cost: int = OPEN_COST) -> list[list[SizedT]]:
    """Items put together until a task has ``task_bytes``, one list for each task."""
    # Largest first, so that the longest tasks begin first. Files of one size keep their order.
    ordered = sorted(items, key=lambda item: -item.size)
    return packed_in_order(ordered, task_bytes=task_bytes, open_cost=open_cost)


def packed_in_order(items: Iterable[SizedT], *, task_bytes: int, open_cost: int = OPEN_COST) -> list[list[SizedT]]:
    """Neighbouring items put together until a task has ``task_bytes``, one list for each task, in their order."""
    tasks: list[list[SizedT]] = []
    room = 0
    for item in items:
        if not tasks or item.size > room:
            tasks.append([])
            room = task_bytes
        tasks[-1].append(item)
        room -= item.size + open_cost
    return tasks


def _may_hold(log: LogFile, wanted: Wanted) -> bool:
    if not wanted.accepts(log.context):
        return False
    offsets = wanted.offsets_of(log.context)
    if offsets.is_empty:
        return False
    is_before = offsets.first is not None and log.offsets.end is not None and log.offsets.end <= offsets.first
    is_after = offsets.end is not None and log.base_offset is not None and log.base_offset >= offsets.end
    return not (is_before or is_after)
