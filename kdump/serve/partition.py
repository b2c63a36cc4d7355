"""A partition as a broker that leads it would answer for it: bounds, transactions, epochs, times, batches.

Source: Kafka's UnifiedLog, LocalLog.read and LogSegment.read, TransactionIndex.collectAbortedTxns,
LeaderEpochFileCache.endOffsetFor, ProducerStateManager. The high watermark is the end of the log.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from threading import RLock
from typing import Final, NamedTuple

from kdump.codes import Finding, KdumpError
from kdump.format.batch import MAGIC, MAGIC_OFFSET, NO_SEQUENCE, BatchHeader, write_batch
from kdump.format.checkpoint import LEADER_EPOCH_CHECKPOINT, EpochEntry, parse_leader_epoch_checkpoint
from kdump.format.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, parse_offset_index, parse_time_index, used_entries
from kdump.format.snapshot import parse_snapshot
from kdump.kafka.remotesegments import remote_ranges
from kdump.log import files
from kdump.log.names import Kind, is_uri, parse_file_name, sibling
from kdump.log.opening import open_source, read_index, read_whole
from kdump.log.tiers import apart
from kdump.serve.segment import NO_TIMESTAMP, EntryHead, Segment, SoundRun, Timed, ViewEnd, framed, is_sound

_MOST_HINTS: Final = 32
_LARGEST_TAIL: Final = 1 << 20
"""Bytes after the last index entry, of which there are 4 KiB and a batch at most, that are read to find the end."""
_LARGEST_DELTA: Final = (1 << 31) - 1


class ServedLog(NamedTuple):
    """A .log and its base offset."""

    path: str
    base_offset: int


class OutOfRangeError(Exception):
    """An offset before the start or after the end of the log."""


class ServedPartition:
    """A partition. Its methods may be called by several threads, and raise KdumpError where a log cannot be read.

    Args:
        directory: where its files lie.
        logs: its segments, in offset order, one or more.
        log_start: by the checkpoint of the log directory.
        cut: where the view of it ends.
        on_damage: takes damage with its path, once.
    """

    def __init__(
        self,
        directory: str,
        logs: Sequence[ServedLog],
        log_start: int,
        cut: ViewEnd,
        on_damage: Callable[[str, Finding], None],
    ) -> None:
        self.directory = directory
        self.log_start = max(log_start, logs[0].base_offset)
        self._logs = list(logs)
        self._cut = cut
        self._on_damage = on_damage
        self._segments: dict[int, Segment] = {}
        self._lock = RLock()
        self._end: int | None = None
        self._last_stable: int | None = None
        self._epochs: list[EpochEntry] | None = None
        self._hints: dict[tuple[int, int], int] = {}

    @property
    def size(self) -> int:
        """Bytes of the logs."""
        return sum(files.size(log.path) for log in self._logs)

    @property
    def end_offset(self) -> int:
        """The end of the log, which is the high watermark."""
        with self._lock:
            if self._end is None:
                self._apply_cut()
                self._end = max(self._find_end(), self.log_start)
            return self._end

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the earliest open transaction; without one the end of the log."""
        with self._lock:
            if self._last_stable is None:
                first = min(self._open_transactions().values(), default=self.end_offset)
                self._last_stable = max(self.log_start, min(first, self.end_offset))
            return self._last_stable

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch in the checkpoint, 0 without one. No log is read for it: metadata asks for all."""
        epochs = self._epoch_entries()
        return epochs[-1].epoch if epochs else 0

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of an offset, -1: not known."""
        epochs = self._epoch_entries()
        number = bisect_right(epochs, offset, key=lambda entry: entry.start_offset)
        return epochs[number - 1].epoch if number else -1

    def local_start(self) -> int:
        """The first offset of the local log, which is the start of the log where it is in no remote storage."""
        names = (parse_file_name(entry.name) for entry in files.listing(self._local))
        bases = [one.base_offset for one in names if one and one.kind is Kind.LOG and not one.state]
        return max(self.log_start, min((base for base in bases if base is not None), default=self.end_offset))

    def remote_end(self) -> int | None:
        """The last offset in remote storage, as the metadata beside the partition says; None: it has none there."""
        return max((one.last_offset for one in remote_ranges(self._local)), default=None)

    @property
    def _local(self) -> str:
        return next(iter(apart(self.directory)))

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the newest epoch up to ``epoch``, (-1, -1): not known.

        Without a checkpoint the log counts as one of this epoch.
        """
        with self._lock:
            epochs = self._epoch_entries()
            if epoch == self.leader_epoch or (epoch >= 0 and not epochs):
                return epoch, self.end_offset
            number = bisect_right(epochs, epoch, key=lambda entry: entry.epoch)
            if epoch < 0 or number == len(epochs):
                return -1, -1
            end = min(epochs[number].start_offset, self.end_offset)
            return epochs[number - 1].epoch if number else epoch, end

    def at_or_after(self, timestamp: int) -> Timed | None:
        """The first record with this timestamp or a later one (UnifiedLog.searchOffsetInLocalLog)."""
        with self._lock:
            self._apply_cut()
            for number in range(len(self._logs)):
                largest = self._largest_timestamp(number)
                if largest < 0:
                    largest = self._modified(number)
                if largest >= timestamp:
                    found = self._segment(number).at_or_after(timestamp, self.log_start)
                    if found is not None or not self._segment(number).findings:
                        return found
            return None

    def of_max_timestamp(self) -> Timed | None:
        """The record with the largest timestamp (UnifiedLog.fetchOffsetByTimestamp)."""
        with self._lock:
            self._apply_cut()
            numbers = sorted(range(len(self._logs)), key=lambda number: (-self._largest_timestamp(number), number))
            for number in numbers:
                found = self._segment(number).of_max_timestamp()
                if found is not None or not self._segment(number).findings:
                    return found
            return None

    def fetch(self, offset: int, size: int, *, committed: bool, at_least_one: bool) -> SoundRun:
        """The batches from an offset on; see ``Segment.read``.

        What is missing up to the end of the log is read as an empty batch, as compaction leaves it, so that a reader
        gets to the end.

        Args:
            offset: where a client wants to read.
            size: bytes at most.
            committed: up to the last stable offset, with the aborted transactions (``read_committed``).
            at_least_one: give one batch even if it is larger.

        Raises:
            OutOfRangeError: the offset is not in the log.
        """
        with self._lock:
            end = self.end_offset
            if not self.log_start <= offset <= end:
                raise OutOfRangeError
            limit = self.last_stable_offset if committed else end
            if offset >= limit or (size <= 0 and not at_least_one):
                return _nothing(offset)
            first = max(bisect_right(self._logs, offset, key=lambda log: log.base_offset) - 1, 0)
            for number in range(first, len(self._logs)):
                hint = self._hints.pop((number, offset), -1)
                segment = self._segment(number)
                stretch = segment.read(offset, limit, size, at_least_one=at_least_one, hint=hint)
                if stretch is None:
                    continue
                if not stretch.data:
                    if stretch.first_offset >= limit:
                        break
                    return stretch
                self._hints[number, stretch.end_offset] = stretch.position
                if len(self._hints) > _MOST_HINTS:
                    del self._hints[next(iter(self._hints))]
                return stretch._replace(aborted=self._aborted(number, stretch)) if committed else stretch
            return _filler(offset, limit, self.leader_epoch)

    def _aborted(self, number: int, stretch: SoundRun) -> list[tuple[int, int]]:
        """The aborted transactions in a stretch of a segment, by their first offsets."""
        own = self._segment(number)
        found = {
            (one.first_offset, one.producer_id)
            for one in own.aborted[bisect_left(own.aborted, stretch.first_offset, key=attrgetter("last_offset")) :]
            if one.first_offset < stretch.end_offset
        }
        for producer, first in own.open.items():
            if first < stretch.end_offset:
                for later in range(number + 1, len(self._logs)):
                    end = self._segment(later).first_ends.get(producer)
                    if end is not None:
                        if end[1]:
                            found.add((first, producer))
                        break
        return [(producer, first) for first, producer in sorted(found)]

    def _apply_cut(self) -> None:
        """Forget the segments after the cut."""
        if self._cut.offset is not None:
            kept = [log for log in self._logs if log.base_offset < self._cut.offset]
            self._logs = kept or self._logs[:1]
        if self._cut.timestamp is None or self._end is not None:
            return
        for number in range(len(self._logs)):
            if self._largest_timestamp(number) >= self._cut.timestamp and self._segment(number).is_cut:
                del self._logs[number + 1 :]
                return

    def _segment(self, number: int) -> Segment:
        """A segment, which is read when it is first asked for."""
        if number not in self._segments:
            segment = Segment(*self._logs[number], self._cut)
            for finding in segment.findings:
                self._on_damage(segment.path, finding)
            self._segments[number] = segment
        return self._segments[number]

    def _find_end(self) -> int:
        last = len(self._logs) - 1
        found = None
        if last not in self._segments and self._cut == ViewEnd():
            found = self._end_by_index(self._logs[last])
        if found is None:
            found = self._segment(last).end_offset
        return found

    @staticmethod
    def _end_by_index(log: ServedLog) -> int | None:
        """The end offset of a log by the batches after its last index entry; None: one is not sound."""
        with suppress(KdumpError), open_source(log.path) as source:
            data = read_index(sibling(log.path, Kind.INDEX), OFFSET_ENTRY_SIZE)
            entries = [entry for _, entry in used_entries(parse_offset_index(data, log.base_offset), log.base_offset)]
            size = source.size or 0
            if not entries or not 0 <= size - entries[-1].position <= _LARGEST_TAIL:
                return None
            position, last = entries[-1].position, entries[-1].offset
            tail = memoryview(source.read(position, size - position))
            after, entry = 0, None
            for at, after in framed(tail):
                if not is_sound(tail[at:after]):
                    return None
                before, entry = entry, EntryHead.of(tail[at:after])
                if entry.last_offset < (last if before is None else before.last_offset):
                    return None
            if entry is not None and after == len(tail):
                return entry.last_offset + 1
        return None

    def _largest_timestamp(self, number: int) -> int:
        """The largest timestamp of a segment, -1 without one: by its time index, which says it of a whole segment."""
        segment = self._segments.get(number)
        if segment is None and self._cut.offset is None:
            path, base = self._logs[number]
            with suppress(KdumpError):
                data = read_index(sibling(path, Kind.TIME_INDEX), TIME_ENTRY_SIZE)
                entries = [entry for _, entry in used_entries(parse_time_index(data, base), base)]
                if entries and not len(data) % TIME_ENTRY_SIZE and entries[-1].timestamp >= entries[0].timestamp:
                    return entries[-1].timestamp
        return self._segment(number).max_timestamp

    def _modified(self, number: int) -> int:
        """When a log was last changed, in ms: what Kafka takes for its largest timestamp where it has none."""
        path = self._logs[number].path
        return NO_TIMESTAMP if is_uri(path) else files.status(path).st_mtime_ns // 1_000_000

    def _open_transactions(self) -> dict[int, int]:
        """By producer id the first offset of each transaction that is open at the end of the log.

        As in a broker the newest snapshot tells those before it, and the batches after it the others.
        """
        end = self.end_offset
        if self._cut == ViewEnd():
            known = self._snapshot(end)
            if known is not None:
                return known
        first, known = 0, None
        if not self._is_old():
            for first in range(len(self._logs) - 1, -1, -1):
                known = self._snapshot(self._logs[first].base_offset)
                if known is not None:
                    break
            known = known or {}
            for number in range(first, len(self._logs)):
                segment = self._segment(number)
                known = {pid: offset for pid, offset in known.items() if pid not in segment.first_ends}
                known = segment.open | known
        return known or {}

    def _is_old(self) -> bool:
        """The last segment has messages of magic 0 or 1, so that no transaction is in the log."""
        with open_source(self._logs[-1].path) as source:
            magic = source.read(MAGIC_OFFSET, 1)
        return len(magic) == 1 and magic[0] < MAGIC

    def _snapshot(self, offset: int) -> dict[int, int] | None:
        """The open transactions in the producer snapshot at an offset; None without a valid one."""
        path = os.path.join(self.directory, f"{offset:020}{Kind.SNAPSHOT.value}")
        try:
            entries = parse_snapshot(read_whole(path))
        except KdumpError:
            return None
        return {
            entry.producer_id: entry.current_txn_first_offset
            for entry in entries
            if entry.current_txn_first_offset >= 0
        }

    def _epoch_entries(self) -> list[EpochEntry]:
        """The leader epochs in the checkpoint of the partition, rising; none without a checkpoint."""
        with self._lock:
            if self._epochs is None:
                self._epochs = []
                with suppress(KdumpError):
                    data = read_whole(os.path.join(self.directory, LEADER_EPOCH_CHECKPOINT))
                    self._epochs = sorted(parse_leader_epoch_checkpoint(data))
            return self._epochs


def _nothing(offset: int) -> SoundRun:
    return SoundRun(memoryview(b""), offset, offset, False, 0)


def _filler(offset: int, end: int, epoch: int) -> SoundRun:
    """An empty batch over the offsets up to ``end``, with which a reader passes them."""
    end = min(end, offset + _LARGEST_DELTA)
    header = BatchHeader(offset, 0, epoch, MAGIC, 0, 0, end - offset - 1, -1, -1, -1, -1, NO_SEQUENCE, 0)
    return SoundRun(memoryview(write_batch(header, b"")), offset, end, False, 0)
