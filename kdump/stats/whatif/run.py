"""Answers what-if questions about the logs that paths stand for."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes, KdumpError, OnError
from kdump.fast.entries import Entries
from kdump.format.batch import TRANSACTIONAL
from kdump.format.checkpoint import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    parse_offset_checkpoint,
)
from kdump.format.legacy import NO_TIMESTAMP
from kdump.kafka.compaction import DELETE_RETENTION_MS, ActiveProducers, Cleaning, NewestOffsets
from kdump.kafka.image.topicsettings import TopicSettings
from kdump.kafka.remoteretention import expired_segments, loaded_epochs
from kdump.kafka.retention import (
    RetainedSegment,
    Retention,
    deleted_segments,
    largest_timestamp,
    only_local_bytes,
)
from kdump.log import files
from kdump.log.files import FileFingerprint
from kdump.log.gaps import Gap
from kdump.log.named import STDIN
from kdump.log.names import CLUSTER_METADATA, Kind, is_uri, sibling
from kdump.log.opening import open_source, read_whole
from kdump.log.partition import segments_after
from kdump.log.resync import ResyncWalk
from kdump.log.siblings import last_time_entry, read_leader_epochs
from kdump.reading.outcomes import ABORTED, STATES
from kdump.reading.transactionreader import TransactionReader
from kdump.releases import NEWEST, Release
from kdump.stats.reach import WorldTimes, first_record_at
from kdump.stats.whatif.answer import Answer
from kdump.stats.whatif.compaction import CompactedPartition, CompactionSizes, compaction_answer
from kdump.stats.whatif.retention import (
    PartitionFates,
    PartitionLimits,
    RemoteFates,
    SegmentFate,
    retention_answer,
)
from kdump.tasks.logs import LogFile
from kdump.verify.partition import end_offset_of
from kdump.verify.partitionentries import Partition, PartitionEntries
from kdump.verify.table import read_rows
from kdump.worlds import world_of_store

_ABORTED: Final = STATES.index(ABORTED)
_MILLION: Final = 1_000_000


_Retained: TypeAlias = "tuple[LogFile, RetainedSegment]"
"""A log, and as the rules of retention see it."""


class _Extent(NamedTuple):
    """The offsets of a log as ``kafka.retention.deleted_segments`` takes them; ``end`` is exclusive."""

    start: int | None
    end: int | None


class WhatIfFold(Protocol):
    """A what-if question that is a fold over the entries of all logs."""

    def update(self, entries: Entries) -> None:
        """Add the next entries."""

    def answer(self) -> Answer:
        """The answer, after the last entries."""


class WhatIfRun:
    """Answers questions about some partitions.

    Args:
        logs: their entries.
        on_error: takes what cannot be read; the questions go on with the other logs.
        release: of the broker that would do it.
    """

    def __init__(self, logs: PartitionEntries, on_error: OnError, release: Release = NEWEST) -> None:
        self._release = release
        self._logs = logs
        self._on_error = on_error

    def fold(self, questions: Sequence[WhatIfFold]) -> None:
        """Fold all logs in one pass."""
        for partition in self._own_partitions():
            for log in partition.logs:
                try:
                    for entries in self._logs.of(log):
                        for question in questions:
                            question.update(entries)
                except KdumpError as error:
                    self._on_error(error.located(log.context.file))

    def compaction(self, now: int, settings: Callable[[Partition], TopicSettings | None] = lambda _: None) -> Answer:
        """What one run of the log cleaner at ``now`` (ms) would leave of each partition."""
        found = []
        for partition in self._own_partitions():
            try:
                known, topic = settings(partition), partition.logs[0].context.topic
                stays = DELETE_RETENTION_MS
                if known is not None and topic is not None:
                    stays = known.delete_retention_ms(topic)
                found.append(self._compact(partition, now, stays))
            except KdumpError as error:
                self._on_error(error.located(partition.logs[0].context.file))
        return compaction_answer(found, self._release)

    def retention(self, limits: Callable[[Partition], PartitionLimits], now: int) -> Answer:
        """The segments that would be deleted at ``now`` (ms); ``limits``: of a partition."""
        fates, metadata = [], []
        for partition in self._logs.partitions:
            if partition.logs[0].context.topic == CLUSTER_METADATA:
                # KafkaRaftLog sets no limits; deleteBeforeSnapshot is all that deletes segments.
                metadata.append(f"{partition.name}: left out: a node deletes its segments by its snapshots only.")
                continue
            if world_of_store(partition.directory) is not None:
                what = "is in a bucket; --what-if retention is asked of the log directory of a broker"
                self._on_error(KdumpError(Codes.NOT_A_SEGMENT_FILE, what, path=partition.name))
                continue
            times: WorldTimes | None = None if partition.world is None else partition.world.answer("times")
            segments = self._retained(partition, times)
            remote, retention, extent = self._remote(partition, limits(partition), segments, now)
            own = self._fates(segments, retention, now, extent, times)
            if own or remote.segments:
                fates.append(PartitionFates(own, remote))
        answer = retention_answer(fates, now, self._release)
        answer.words.extend(metadata)
        return answer

    def _remote(
        self, partition: Partition, limits: PartitionLimits, segments: Sequence[_Retained], now: int
    ) -> tuple[RemoteFates, Retention, _Extent]:
        """What becomes of remote segments; then the limits of the local log, and its extent."""
        start, whole = _log_start_offset(partition), limits.whole
        local = whole if limits.local is None else limits.local
        end = (
            None
            if limits.local is None and limits.remote is None
            else end_offset_of([log.path for log in partition.logs])
        )
        if limits.remote is None or end is None:
            return RemoteFates(), local, _Extent(start, end)
        epochs = read_leader_epochs(os.path.join(partition.directory, LEADER_EPOCH_CHECKPOINT))
        last_copied = limits.remote.last_copied(loaded_epochs(epochs, start or 0, end), end)
        known = [one for one in limits.remote.segments if one.offsets is not None and one.leader_epochs]
        expiry = expired_segments(
            limits.remote,
            epochs,
            whole,
            now=now,
            log_start_offset=start or 0,
            log_end_offset=end,
            only_local=only_local_bytes([segment for _, segment in segments], last_copied, self._release),
        )
        if limits.local is not None:
            local = local._replace(remote_end=last_copied)
        return RemoteFates(known, expiry, whole), local, _Extent(expiry.log_start_offset, end)

    def _retained(self, partition: Partition, times: WorldTimes | None) -> list[_Retained]:
        """The logs of a partition as the rules of retention see them; what cannot be read is an error."""
        segments = []
        newest = partition.logs[-1]
        # After a clean stop a broker takes the index of the last segment as it is, too.
        is_followed = newest.path != STDIN and (bool(segments_after(newest.path)) or _was_stopped(partition))
        for log in partition.logs:
            try:
                is_closed = log is not newest or is_followed
                segment = (
                    self._retained_segment(log, is_closed=is_closed) if times is None else times.retained_segment(log)
                )
                segments.append((log, segment))
            except KdumpError as error:
                self._on_error(error.located(log.context.file))
        return segments

    def _fates(
        self,
        segments: Sequence[_Retained],
        retention: Retention,
        now: int,
        extent: _Extent,
        times: WorldTimes | None,
    ) -> list[SegmentFate]:
        """What becomes of each log; ``times``: the rules of its world."""
        retained = [segment for _, segment in segments]
        reasons = (
            deleted_segments(retained, retention, now=now, log_start_offset=extent.start, log_end_offset=extent.end)
            if times is None
            else times.deleted_segments(retained, retention, now=now)
        )
        fates = []
        for number, (log, segment) in enumerate(segments):
            reason = reasons[number] if number < len(reasons) else None
            context = log.context
            blocker = None
            is_first_kept = times is None and number == len(reasons)
            if is_first_kept and _is_blocking(retained, number, retention, now):
                blocker = first_record_at(log, segment.largest_timestamp)
            fates.append(
                SegmentFate(
                    context.file,
                    context.topic,
                    context.partition,
                    segment,
                    reason,
                    retention,
                    blocker and blocker[0],
                    is_file_time=times is not None,
                )
            )
        return fates

    def _own_partitions(self) -> Iterator[Partition]:
        """Those of today; each other one is an error, as nobody knows the answer for it."""
        for partition in self._logs.partitions:
            if partition.world is None:
                yield partition
            else:
                what = f"has logs of {partition.world.title}, about which only --what-if retention is answered"
                self._on_error(KdumpError(Codes.NOT_A_SEGMENT_FILE, what, path=partition.name))

    def _compact(self, partition: Partition, now: int, delete_retention_ms: int) -> CompactedPartition:
        transactions = TransactionReader()
        newest_log = partition.logs[-1].given
        open_from = transactions.first_open(newest_log)
        cleaned = _cleaned_segments(partition, None if open_from is None else open_from[0])
        rest = partition.logs[len(cleaned) :]
        newest, producers = NewestOffsets(), ActiveProducers()
        next_offset = 0
        for log in partition.logs:
            for entries in self._logs.of(log):
                next_offset = max(next_offset, _next_offset(entries))
                if entries.groups.headers is not None:
                    producers.see(entries.groups.headers)
                if log in cleaned:
                    aborted = _is_aborted(transactions, log, entries)
                    for groups in entries.record_groups():
                        newest.see(groups, aborted)
        end = rest[0].base_offset or 0 if rest else next_offset
        cleaning = Cleaning(
            newest,
            kept_before=next_offset if self._release.keeps_batch_at_high_watermark else end,
            now=now,
            delete_retention_ms=delete_retention_ms,
            producers=producers,
            open_producers=frozenset(producer for producer, _ in transactions.of(newest_log).open_transactions),
        )
        sizes = CompactionSizes()
        for log in partition.logs:
            for entries in self._logs.of(log):
                if log in cleaned:
                    aborted = _is_aborted(transactions, log, entries)
                    sizes.clean(entries, cleaning.filter(entries.record_groups(), aborted))
                else:
                    sizes.keep(entries)
        context = partition.logs[0].context
        return CompactedPartition(
            partition.name,
            context.topic,
            context.partition,
            sizes,
            keys=newest.distinct,
            tombstones=cleaning.tombstones,
            without_key=cleaning.without_key,
            cleaned_segments=len(cleaned),
            segments=len(partition.logs),
            open_from=None if open_from is None else open_from[0],
        )

    def _retained_segment(self, log: LogFile, *, is_closed: bool) -> RetainedSegment:
        if log.path == STDIN:
            raise KdumpError(Codes.UNREADABLE, "a stream is no segment that could be deleted")
        has_index = is_closed and files.exists(sibling(log.path, Kind.TIME_INDEX))
        index = last_time_entry(log.path, log.base_offset) if has_index else None
        newest = self._newest_timestamp(log) if index is None else None
        modified = 0 if is_uri(log.path) else FileFingerprint.of(log.path).modified // _MILLION
        return RetainedSegment(log.base_offset or 0, log.size, largest_timestamp(index, newest, modified))

    def _newest_timestamp(self, log: LogFile) -> int:
        """The largest timestamp of the batch headers of a log (ms); -1 without one."""
        newest = NO_TIMESTAMP
        with open_source(log.given) as source:
            for item in ResyncWalk(source).items():
                if not isinstance(item, Gap):
                    newest = max(newest, int(read_rows(item, is_after_gap=False)["max_timestamp"].max()))
        return newest


def _was_stopped(partition: Partition) -> bool:
    """The broker of a partition was stopped cleanly."""
    return files.exists(os.path.join(os.path.dirname(partition.directory), CLEAN_SHUTDOWN))


def _is_blocking(segments: Sequence[RetainedSegment], number: int, retention: Retention, now: int) -> bool:
    """Whether a segment stays by its time alone while a later one is old enough to go, or its time is to come."""
    if retention.milliseconds is None:
        return False
    own = segments[number].largest_timestamp
    is_later_old = any(now - later.largest_timestamp > retention.milliseconds for later in segments[number + 1 :])
    return own > now or is_later_old


def _cleaned_segments(partition: Partition, open_from: int | None) -> tuple[LogFile, ...]:
    """The closed segments before the one in which the first open transaction begins (LogToClean)."""
    if open_from is None:
        return partition.closed
    bases = [log.base_offset or 0 for log in partition.logs]
    return partition.closed[: max(0, bisect_right(bases, open_from) - 1)]


def _is_aborted(transactions: TransactionReader, log: LogFile, entries: Entries) -> NDArray[np.bool_]:
    """Whether each batch belongs to an aborted transaction; shape (entries,)."""
    headers = entries.groups.headers
    if headers is None or not (headers["attributes"] & TRANSACTIONAL).any():
        return np.zeros(entries.groups.count, np.bool_)
    mask: NDArray[np.bool_] = transactions.of(log.given).column(headers) == _ABORTED
    return mask


def _next_offset(entries: Entries) -> int:
    """The offset after the last of the entries."""
    return int(entries.extents(slice(None))[1].max(initial=-1)) + 1


def _log_start_offset(partition: Partition) -> int | None:
    """The log start offset of a partition by its log directory's checkpoint; None without one."""
    context = partition.logs[0].context
    try:
        data = read_whole(os.path.join(os.path.dirname(partition.directory), LOG_START_CHECKPOINT))
        entries = parse_offset_checkpoint(data)
    except KdumpError:
        return None
    own = (context.topic, context.partition)
    return next((entry.offset for entry in entries if (entry.topic, entry.partition) == own), None)
