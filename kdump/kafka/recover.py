"""What a broker's recovery would do to one segment: where it cuts, what it rebuilds, or why it fails.

Source: docs/spec/recovery.md (LogSegment.recover of the Kafka release named in :mod:`kdump.kafka.failures`). A model:
it reads, and never writes. Whether a broker runs recovery at all, and what becomes of the other segments, is decided
for the directory (docs/spec/startup.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from kdump.fast.policy import BATCHES_IN_CHUNK, RECOVERED_BATCHES
from kdump.format import legacy
from kdump.format.batch import (
    HEADER_SIZE,
    MAGIC_OFFSET,
    MAX_INT32,
    BatchHeader,
    batch_crc,
    parse_header,
    wrap_int64,
)
from kdump.kafka.failures import FailureKind, KafkaFailureError
from kdump.kafka.markers import InvalidRecordError
from kdump.kafka.producers import ProducerStates
from kdump.kafka.segmentindexes import DEFAULT_INDEX_INTERVAL, DEFAULT_INDEX_SIZE, IndexBuilder, SegmentIndexes
from kdump.log.source import Source
from kdump.log.walk import Chunk, Stop, Walk


class RecoveryOutcome(Enum):
    """How a recovery ends."""

    UNCHANGED = "unchanged"
    """The log is kept whole; index files are rebuilt all the same."""
    TRUNCATED = "truncated"
    FAILED = "failed"
    """An exception: nothing is cut, and the broker empties the segment or stops."""


class CutReason(Enum):
    """Why a log is truncated where it is."""

    TRAILING_BYTES = "trailing-bytes"
    """What is left cannot be a whole batch."""
    LENGTH_TOO_SMALL = "length-too-small"
    HEADER_CUT = "header-cut"
    """A v2 batch shorter than its header."""
    CRC = "crc"
    MARKER = "marker"
    """A transaction marker that cannot be read; it is the last batch kept."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Why the log ends at ``Recovery.end``; ``message`` is one line for people."""

    reason: CutReason
    message: str


@dataclass(frozen=True, slots=True)
class RecoveryFailure:
    """The exception that ends a recovery; ``message`` is one line for people."""

    kind: FailureKind
    message: str
    after_truncation: bool = False
    """The log was truncated to ``Recovery.end`` already (only the last time index entry was missing)."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """The result of one recovery. After a failure it is what was read until then."""

    outcome: RecoveryOutcome
    size: int
    """Bytes of the log before."""
    end: int
    """Bytes up to which batches are good: the size of the log afterwards, unless recovery fails."""
    next_offset: int
    """The offset after the last good batch; the base offset without one."""
    max_timestamp: int
    """The largest of the good batches (ms), -1 without one."""
    leader_epochs: list[tuple[int, int]]
    """(epoch, base offset of its first batch) of the new leader epochs, each above all before it."""
    cut: Cut | None = None
    """None unless bytes are cut."""
    failure: RecoveryFailure | None = None
    indexes: SegmentIndexes | None = None
    """None where nobody needs them any more."""

    @property
    def bytes_cut(self) -> int:
        """Bytes that the truncation removes; 0 after a failure."""
        return self.size - self.end if self.outcome is RecoveryOutcome.TRUNCATED else 0


class _InvalidBatchError(Exception):
    """Recovery ends before this batch."""

    def __init__(self, reason: CutReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def recover(
    source: Source,
    base_offset: int,
    producers: ProducerStates,
    *,
    index_interval_bytes: int = DEFAULT_INDEX_INTERVAL,
    index_size: int = DEFAULT_INDEX_SIZE,
    latest_leader_epoch: int = -1,
) -> Recovery:
    """What recovery would make of a log.

    Args:
        source: the log, a regular file.
        base_offset: the offset in its name.
        producers: the producer state at that offset. Right only if the segments before it, or a snapshot, were read;
            empty for the first segment of a log. It is changed to the state after the log; after a failure it means
            nothing.
        index_interval_bytes: the broker's index.interval.bytes.
        index_size: its segment.index.bytes.
        latest_leader_epoch: the last in the leader-epoch-checkpoint, -1 without one.

    Raises:
        KdumpError: the log cannot be read.
        ValueError: the source is a stream.
    """
    if source.size is None:
        raise ValueError("recovery is modelled for files whose size is known")
    recovery = SegmentRecovery(
        base_offset,
        producers,
        IndexBuilder(base_offset, interval=index_interval_bytes, size=index_size),
        latest_leader_epoch=latest_leader_epoch,
    )
    walk = Walk(source)
    if recovery.open(source.size):
        for chunk in walk.chunks():
            if not recovery.take(chunk):
                break
    return recovery.finish(walk.stop, walk.bad_length)


class SegmentRecovery:
    """One recovery. Call ``open``, then ``take`` with each chunk of a walk until it says no, then ``finish``.

    ``producers`` are changed; ``indexes`` collect the entries.
    """

    def __init__(
        self,
        base_offset: int,
        producers: ProducerStates,
        indexes: IndexBuilder,
        *,
        latest_leader_epoch: int = -1,
    ) -> None:
        self.base_offset = base_offset
        self.producers = producers
        self.indexes = indexes
        self.end = 0
        self.next_offset = base_offset
        self.leader_epochs: list[tuple[int, int]] = []
        self.latest_leader_epoch = latest_leader_epoch
        self._batches = 0
        self._size = 0
        self._cut: Cut | None = None
        self._failure: RecoveryFailure | None = None

    def open(self, size: int) -> bool:
        """A log of ``size`` bytes; False when it is refused."""
        self._size = size
        if size > MAX_INT32:
            self._failure = RecoveryFailure(
                FailureKind.FILE_TOO_LARGE, f"a log of {size} bytes, {MAX_INT32} are the most"
            )
        return self._failure is None

    def take(self, chunk: Chunk) -> bool:
        """The next batches; False when recovery ended among them."""
        try:
            is_columnar = self._batches >= RECOVERED_BATCHES and len(chunk.starts) >= BATCHES_IN_CHUNK
            if not (is_columnar and self._take_columns(chunk)):
                for start, end in chunk.entries():
                    self._take_entry(chunk.data[start:end], chunk.position + start)
        except _InvalidBatchError as error:
            self._cut = Cut(error.reason, error.message)
        except InvalidRecordError as error:
            self._cut = Cut(CutReason.MARKER, str(error))
        except KafkaFailureError as error:
            self._failure = RecoveryFailure(error.kind, error.message)
        self._batches += len(chunk.starts)
        return self._cut is None and self._failure is None

    def finish(self, stop: Stop, bad_length: int) -> Recovery:
        """The result; ``stop`` and ``bad_length`` are those of the walk, if it came to its end."""
        if self._failure is None:
            if self._cut is None and stop is Stop.LENGTH_TOO_SMALL:
                self._cut = Cut(CutReason.LENGTH_TOO_SMALL, f"the length field is {bad_length}")
            if self._cut is None:
                self._cut = Cut(CutReason.TRAILING_BYTES, "what is left is no whole batch")
            try:
                self.indexes.finish()
            except KafkaFailureError as error:
                self._failure = RecoveryFailure(error.kind, error.message, after_truncation=True)
        outcome = RecoveryOutcome.TRUNCATED if self.end < self._size else RecoveryOutcome.UNCHANGED
        if self._failure is not None:
            outcome = RecoveryOutcome.FAILED
        return Recovery(
            outcome,
            self._size,
            self.end,
            self.next_offset,
            self.indexes.max_timestamp,
            self.leader_epochs,
            self._cut if outcome is RecoveryOutcome.TRUNCATED else None,
            self._failure,
            self.indexes.contents(),
        )

    def _check_offset(self, last_offset: int) -> None:
        """KafkaFailureError OFFSET_OVERFLOW when the segment's indexes cannot hold this offset."""
        if not 0 <= wrap_int64(last_offset - self.base_offset) <= MAX_INT32:
            raise KafkaFailureError(
                FailureKind.OFFSET_OVERFLOW,
                f"offset {last_offset} does not fit a segment with base offset {self.base_offset}",
            )

    def _add_leader_epoch(self, epoch: int, base_offset: int) -> None:
        """Note a batch's leader epoch if it is above all before it. Raises KafkaFailureError LEADER_EPOCH."""
        if epoch > self.latest_leader_epoch:
            if base_offset < 0:
                raise KafkaFailureError(
                    FailureKind.LEADER_EPOCH, f"leader epoch {epoch} begins at offset {base_offset}"
                )
            self.latest_leader_epoch = epoch
            self.leader_epochs.append((epoch, base_offset))

    def _add_to_producer(self, header: BatchHeader, batch: memoryview) -> None:
        """A v2 batch with a producer id. Raises InvalidRecordError or KafkaFailureError."""
        completed = self.producers.append(header, batch)
        if completed is not None:
            if completed.is_aborted:
                self.indexes.add_aborted(completed, self.producers.last_stable_offset(completed))
            self.producers.complete(completed)

    def _take_columns(self, chunk: Chunk) -> bool:
        """Take many entries at once; False, with nothing changed, where one of them may fail."""
        from kdump.kafka.recovercolumns import read_entries

        entries, count = read_entries(chunk), len(chunk.starts)
        plan = entries.plan_indexes(self.indexes, chunk, count) if entries and entries.fit(self.base_offset) else None
        if entries is None or plan is None:
            return False
        ended: InvalidRecordError | KafkaFailureError | None = None
        rows = entries.producer_rows(count)
        for row in rows:
            try:
                self._add_row_to_producer(chunk, row)
            except (InvalidRecordError, KafkaFailureError) as error:
                ended = error
                count = row + 1
                # A producer whose last batch lies after the end has an earlier one before it, which counts instead.
                for late in sorted({*entries.producer_rows(row)} - {*rows}):
                    self._add_row_to_producer(chunk, late)
                plan = entries.plan_indexes(self.indexes, chunk, count)
                break
        # The whole chunk planned cleanly, so every part of it does.
        assert plan is not None
        self.indexes.add_batches(plan)
        self.end = chunk.position + (chunk.starts[count] if count < len(chunk.starts) else chunk.end)
        self.next_offset = int(entries.last_offset[count - 1]) + 1
        for epoch, base_offset in entries.new_epochs(count, self.latest_leader_epoch):
            self._add_leader_epoch(epoch, base_offset)
        end_offset = entries.end_of_v2(count if ended is None else count - 1)
        if end_offset is not None:
            self.producers.end_offset = end_offset
        if ended is not None:
            raise ended
        return True

    def _add_row_to_producer(self, chunk: Chunk, row: int) -> None:
        start, end = chunk.entry(row)
        batch = chunk.data[start:end]
        self._add_to_producer(parse_header(batch), batch)

    def _take_entry(self, entry: memoryview, position: int) -> None:
        if entry[MAGIC_OFFSET] in _V2_MAGICS:
            self._take_v2_batch(entry, position)
            return
        message = legacy.parse_message(entry)
        if not message.is_valid:
            raise _InvalidBatchError(CutReason.CRC, f"wrong CRC of the message at offset {message.offset}")
        self._check_offset(message.offset)
        self.indexes.add_batch(position, message.offset, message.timestamp)
        self.end = position + len(entry)
        self.next_offset = message.offset + 1

    def _take_v2_batch(self, batch: memoryview, position: int) -> None:
        if len(batch) < HEADER_SIZE:
            raise _InvalidBatchError(CutReason.HEADER_CUT, f"a batch of {len(batch)} bytes")
        header = parse_header(batch)
        if batch_crc(batch) != header.crc:
            raise _InvalidBatchError(CutReason.CRC, f"wrong CRC of the batch at offset {header.base_offset}")
        last_offset = header.last_offset
        self._check_offset(last_offset)
        self.indexes.add_batch(position, last_offset, header.max_timestamp)
        self.end = position + len(batch)
        self.next_offset = last_offset + 1
        self._add_leader_epoch(header.partition_leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            self._add_to_producer(header, batch)
        self.producers.end_offset = last_offset + 1


_V2_MAGICS: Final = range(2, 128)
"""Magic bytes that are read as v2; the others are legacy."""
