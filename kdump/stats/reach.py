"""How far the logs of partitions reach at a moment, and which transactions are open in them.

The offsets are those that a consumer is told: the end of a log at a time is the base offset of the first batch with a
later timestamp. Of a leader that is not in sync with its followers the high watermark may be lower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kdump.codes import KdumpError, OnError
from kdump.format import legacy
from kdump.format import record as v2
from kdump.format.batch import CONTROL, MAGIC, TRANSACTIONAL, parse_header
from kdump.format.checkpoint import LOG_START_CHECKPOINT
from kdump.kafka.retention import Reason, RetainedSegment, Retention
from kdump.log import files
from kdump.log.gaps import Gap
from kdump.log.names import CLUSTER_METADATA, Kind, sibling
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.siblings import read_checkpoint, read_snapshot, read_time_index
from kdump.payloads.topics import INTERNAL_TOPICS
from kdump.rows.columns import Row
from kdump.tasks.logs import LogFile
from kdump.verify.partitionentries import Partition, PartitionEntries
from kdump.verify.table import read_rows
from kdump.worlds import World


class WorldTimes(Protocol):
    """What the broker of another world does by time: the module ``times`` of its package."""

    def retained_segment(self, log: LogFile) -> RetainedSegment:
        """A log as the rules see it. Raises KdumpError where its age cannot be known."""

    def deleted_segments(self, segments: Sequence[RetainedSegment], limits: Retention, *, now: int) -> list[Reason]:
        """Why each of the oldest segments goes, see ``kafka.retention.deleted_segments``."""

    def offset_for_time(self, segments: Sequence[RetainedSegment], timestamp: int) -> tuple[int, int] | None:
        """(offset, timestamp) that the broker answers for a time; None: it answers nothing.

        Args:
            segments: of one partition, in offset order, at least one.
            timestamp: ms since 1970.
        """


class OpenTransactionAt(NamedTuple):
    """A transaction that no marker has ended; ``timestamp``: of its first record (ms), None where that is not here."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    timestamp: int | None


@dataclass(slots=True)
class PartitionReach:
    """A partition at a moment."""

    topic: str
    partition: int
    directory: str
    log_start: int
    log_end: int
    open: dict[int, OpenTransactionAt] = field(default_factory=dict)


def read_reach(partition: Partition, at: int | None) -> PartitionReach | None:
    """How far a partition reaches at a time (ms since 1970; None: now); None for a directory of another name.

    Raises KdumpError where a log cannot be read.
    """
    context = partition.logs[0].context
    if context.topic is None or context.partition is None:
        return None
    logs = partition.logs
    start = logs[0].base_offset or 0
    checkpoint = read_checkpoint(files.directory_of(logs[0].path), LOG_START_CHECKPOINT)
    first = _first_log(logs, at)
    found = PartitionReach(context.topic, context.partition, partition.directory, max(start, checkpoint or 0), start)
    for entry in read_snapshot(logs[first].path):
        if entry.current_txn_first_offset >= 0:
            open_since = entry.current_txn_first_offset
            found.open[entry.producer_id] = OpenTransactionAt(entry.producer_id, entry.producer_epoch, open_since, None)
    found.log_end = logs[first].base_offset or 0
    for log in logs[first:]:
        for rows in _rows(log):
            if not _add(found, rows, at):
                return found
    return found


def _first_log(logs: tuple[LogFile, ...], at: int | None) -> int:
    """The last log at which reading can begin: its producer snapshot is there, and all before it is old enough."""
    chosen = len(logs) - 1
    if at is not None:
        for number, log in enumerate(logs[:-1]):
            index = read_time_index(log.path, log.base_offset)
            if not index or index[-1].timestamp > at:
                chosen = number
                break
    while chosen and not files.exists(sibling(logs[chosen].path, Kind.SNAPSHOT)):
        chosen -= 1
    return chosen


def _rows(log: LogFile) -> Iterator[NDArray[np.void]]:
    with log.open() as source:
        for item in ResyncWalk(source).items():
            if not isinstance(item, Gap):
                yield read_rows(item, is_after_gap=False)


def _add(found: PartitionReach, rows: NDArray[np.void], at: int | None) -> bool:
    """The next batches; False where one is later than the moment."""
    count = rows.size
    if at is not None:
        later = np.flatnonzero(rows["max_timestamp"] > at)
        count = int(later[0]) if later.size else count
    if count:
        found.log_end = int(rows["last_offset"][count - 1]) + 1
    transactional = (rows["attributes"][:count] & TRANSACTIONAL != 0) & (rows["magic"][:count] >= MAGIC)
    for number in np.flatnonzero(transactional).tolist():
        row = rows[number]
        producer = int(row["producer_id"])
        if row["attributes"] & CONTROL:
            found.open.pop(producer, None)
        elif producer not in found.open:
            epoch, offset, timestamp = (int(row[name]) for name in ("producer_epoch", "base_offset", "base_timestamp"))
            found.open[producer] = OpenTransactionAt(producer, epoch, offset, timestamp)
    return count == rows.size


def offset_for_time(partition: Partition, timestamp: int) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record at or after a time, as ListOffsets answers; None without one.

    Raises KdumpError where a log cannot be read.
    """
    for log in partition.logs:
        index = read_time_index(log.path, log.base_offset)
        if index and log is not partition.logs[-1] and index[-1].timestamp < timestamp:
            continue
        record = first_record_at(log, timestamp)
        if record is not None:
            return record
    return None


def first_record_at(log: LogFile, timestamp: int) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record of a log at or after a time. Raises KdumpError if it cannot be read."""
    with log.open() as source:
        for item in ResyncWalk(source).items():
            if isinstance(item, Gap):
                continue
            rows = read_rows(item, is_after_gap=False)
            for number in np.flatnonzero(rows["max_timestamp"] >= timestamp).tolist():
                record = _first_at(item, number, timestamp)
                if record is not None:
                    return record
    return None


def _first_at(chunk: CheckedChunk, number: int, timestamp: int) -> tuple[int, int] | None:
    start, end = chunk.entry(number)
    data = chunk.data[start:end]
    records: Any
    try:
        if data[16] >= MAGIC:
            header = parse_header(data)
            records = v2.read_records(header, data)
        else:
            records = legacy.plain_records(legacy.parse_message(data))
        return next(((record.offset, record.timestamp) for record in records if record.timestamp >= timestamp), None)
    except KdumpError:
        return None


def reaches(partitions: list[Partition], at: int | None, on_error: OnError) -> Iterator[PartitionReach]:
    """How far each partition reaches."""
    for partition in partitions:
        try:
            found = read_reach(partition, at)
        except KdumpError as error:
            on_error(error.located(partition.name))
            continue
        if found is not None:
            yield found


def offset_rows(logs: PartitionEntries, timestamp: int, on_error: OnError) -> list[Row]:
    """The first offset at or after a time (ms since 1970) of each partition; without a record: the end of the log."""
    rows: list[Row] = []
    for partition in logs.partitions:
        try:
            if partition.world is not None:
                reach, found = _in_world(partition, partition.world, timestamp)
            else:
                reach = None if is_internal(partition) else read_reach(partition, None)
                found = None if reach is None else offset_for_time(partition, timestamp)
        except KdumpError as error:
            on_error(error.located(partition.name))
            continue
        if reach is not None:
            rows.append(
                {
                    "topic": reach.topic,
                    "partition": reach.partition,
                    "offset": _offset(reach, found, partition.world),
                    "timestamp": None if found is None else found[1],
                    "logStartOffset": reach.log_start,
                    "logEndOffset": reach.log_end,
                }
            )
    return sorted(rows, key=lambda row: (row["topic"], row["partition"]))


def _offset(reach: PartitionReach, found: tuple[int, int] | None, world: World | None) -> int:
    """Where a consumer begins. A broker of another world answers with what is older, one of today with what follows."""
    if found is not None:
        return max(found[0], reach.log_start)
    return reach.log_end if world is None else reach.log_start


def _in_world(
    partition: Partition, world: World, timestamp: int
) -> tuple[PartitionReach | None, tuple[int, int] | None]:
    context = partition.logs[0].context
    if context.topic is None or context.partition is None:
        return None, None
    times: WorldTimes = world.answer("times")
    segments = [times.retained_segment(log) for log in partition.logs]
    start, end = segments[0].base_offset, segments[-1].base_offset + segments[-1].size
    reach = PartitionReach(context.topic, context.partition, partition.directory, start, end)
    return reach, times.offset_for_time(segments, timestamp)


def is_internal(partition: Partition) -> bool:
    """The partition is of a topic of Kafka itself, or of none."""
    topic = partition.logs[0].context.topic
    return topic is None or topic in INTERNAL_TOPICS.values() or topic == CLUSTER_METADATA
