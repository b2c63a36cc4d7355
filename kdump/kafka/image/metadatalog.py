"""The files of a metadata log: segments and snapshots, as the batches that Kafka's reader gives.

Source: docs/spec/metadata.md#1-files and docs/spec/metadata.md#2-loading (RecordsIterator, RecordsSnapshotReader).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kdump.codes import DamageError
from kdump.fast.blocks import BatchBlock, BlockReader, EntryRange
from kdump.fast.headers import native_column
from kdump.format import control
from kdump.format.batch import CONTROL, HEADER_SIZE, MAGIC, MAGIC_OFFSET, BatchHeader, batch_crc, parse_header
from kdump.format.record import read_records
from kdump.limits import METADATA, hint, most
from kdump.log import files
from kdump.log.names import Kind, parse_file_name
from kdump.log.opening import open_source
from kdump.log.source import Source
from kdump.log.walk import Chunk, Stop, Walk
from kdump.payloads.internal import DECODERS
from kdump.reading.seek import span_of
from kdump.reading.selection import Range, Selection
from kdump.wire.compression import DEFAULT_LIMIT

_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
BATCH_LIMIT: Final = DEFAULT_LIMIT
_TOPIC_RECORD: Final = b"\1\2"
"""The frame version and the type in front of a TopicRecord."""


class MetadataBatch(NamedTuple):
    """A batch with the values of its records. ``timestamp``: when it was appended (ms). ``path``: its file."""

    base_offset: int
    last_offset: int
    """Of its last record; offsets follow one another."""
    epoch: int
    timestamp: int
    is_control: bool
    records: Sequence[tuple[bytes | None, bytes]]
    """(key, value); the key is null unless it is a control batch."""
    position: int
    path: str


class UnreadableBatchError(Exception):
    """What Kafka's reader does not read, and after which it reads nothing.

    ``is_cut``: a node that starts cuts the log here; otherwise it stops.
    """

    def __init__(self, message: str, path: str, position: int, offset: int, *, is_cut: bool) -> None:
        super().__init__(message)
        self.path = path
        self.position = position
        self.offset = offset
        self.is_cut = is_cut


class SnapshotFile(NamedTuple):
    """A snapshot: it holds what is below ``end_offset``; ``epoch`` is that of the last record in it."""

    end_offset: int
    epoch: int
    path: str

    @property
    def name(self) -> str:
        """The name of the file."""
        return os.path.basename(self.path)

    @property
    def is_bootstrap(self) -> bool:
        """A format wrote it, not a node that runs (Snapshots.BOOTSTRAP_SNAPSHOT_ID)."""
        return not self.end_offset and not self.epoch


class SegmentFile(NamedTuple):
    """A segment of the log."""

    base_offset: int
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class MetadataLog:
    """The directory of one copy of a metadata log; its files in the order of their offsets."""

    directory: str
    segments: tuple[SegmentFile, ...]
    snapshots: tuple[SnapshotFile, ...]

    @classmethod
    def of(cls, directory: str) -> MetadataLog:
        """Raises KdumpError where the directory cannot be listed."""
        segments, snapshots = [], []
        for entry in files.listing(directory):
            match = _SNAPSHOT.fullmatch(entry.name)
            name = parse_file_name(entry.name)
            if match:
                snapshots.append(SnapshotFile(int(match[1]), int(match[2]), entry.path))
            elif name is not None and name.kind is Kind.LOG and not name.state and name.base_offset is not None:
                segments.append(SegmentFile(name.base_offset, entry.path, files.size(entry.path)))
        return cls(directory, tuple(sorted(segments)), tuple(sorted(snapshots)))

    @property
    def start_offset(self) -> int:
        """The base offset of the first segment; 0 without one."""
        return self.segments[0].base_offset if self.segments else 0

    def batches(self, first: int = 0) -> Iterator[MetadataBatch]:
        """The batches of the log from about offset ``first`` on, in file order, until one is damaged.

        Raises:
            UnreadableBatchError: at the first batch that Kafka's reader does not read.
            KdumpError: a file cannot be read.
        """
        last = len(self.segments) - 1
        start = max((n for n, segment in enumerate(self.segments) if segment.base_offset <= first), default=0)
        for number in range(start, last + 1):
            segment = self.segments[number]
            with open_source(segment.path) as source:
                position = 0
                if number == start and first > segment.base_offset:
                    position = span_of(source, Selection(offsets=Range(first)), lambda text: None)[0]
                yield from read_batches(source, position)

    def topic_names(self) -> Iterator[tuple[str, str]]:
        """(id, name) of all topics that the snapshots and the log name, also of those that were deleted.

        What does not decode is passed over. Raises KdumpError where a file cannot be read.
        """
        decode = DECODERS["cluster-metadata"].decode
        for batches in (*map(snapshot_batches, self.snapshots), self.batches()):
            try:
                for batch in batches:
                    for _, value in batch.records:
                        if value.startswith(_TOPIC_RECORD) and not batch.is_control:
                            decoded = decode(None, value)
                            if not decoded.findings:
                                topic = decoded.value["data"]
                                yield topic["topicId"], topic["name"]
            except UnreadableBatchError:
                continue


def snapshot_batches(snapshot: SnapshotFile) -> Iterator[MetadataBatch]:
    """The batches of a snapshot, whose offsets count from 0. Raises as ``MetadataLog.batches``."""
    with open_source(snapshot.path) as source:
        first = True
        for batch in read_batches(source):
            if first and not (batch.is_control and batch.records):
                raise UnreadableBatchError("it does not begin with a header", snapshot.path, 0, 0, is_cut=False)
            first = False
            yield batch
        if first:
            raise UnreadableBatchError("it has no batch", snapshot.path, 0, 0, is_cut=False)


def snapshot_timestamp(snapshot: SnapshotFile) -> int:
    """The time (ms) of the last record in a snapshot, by its header. Raises as ``snapshot_batches``."""
    batch = next(snapshot_batches(snapshot))
    return _header_timestamp(batch)


def _header_timestamp(batch: MetadataBatch) -> int:
    key, value = batch.records[0]
    try:
        schema = control.schema_of(control.parse_type(key))
        if schema is not None and schema.name == "SnapshotHeaderRecord":
            timestamp = control.parse_kraft(schema, value)["lastContainedLogTimestamp"]
            assert isinstance(timestamp, int)
            return timestamp
    except DamageError:
        pass
    raise UnreadableBatchError("it does not begin with a header", batch.path, batch.position, 0, is_cut=False)


def read_batches(source: Source, start: int = 0) -> Iterator[MetadataBatch]:
    """The batches of a file from position ``start`` on. Raises as ``MetadataLog.batches``."""
    reader = BlockReader(BATCH_LIMIT, with_records=True, only_valid=True)
    walk = Walk(source, start=start)
    following = -1
    for chunk in walk.chunks():
        for part in reader.read(chunk.data, chunk.bounds(), chunk.position):
            if isinstance(part, EntryRange):
                for number in range(part.first, part.last):
                    yield _alone(chunk, number, source.path)
                continue
            yield from _block(part, chunk, source.path)
        header = parse_header(chunk.data, chunk.starts[-1])
        following = header.base_offset + max(header.record_count, 0)
    if walk.stop is Stop.LENGTH_TOO_SMALL or walk.position < walk.end:
        what = "zeros" if walk.bad_length == 0 and walk.stop is Stop.LENGTH_TOO_SMALL else "no whole batch"
        raise UnreadableBatchError(what, source.path, walk.position, following, is_cut=True)


def _block(block: BatchBlock, chunk: Chunk, path: str) -> Iterator[MetadataBatch]:
    records = block.records
    assert records is not None
    headers, first = block.headers, records.first_row
    is_plain = (records.key_size < 0) & (records.value_size > 0) & (records.timestamp_delta == 0)
    is_plain &= records.header_count == 0
    plain_before = np.concatenate(([0], np.cumsum(is_plain)))
    count = records.row_count
    is_quick = records.accepted & block.is_valid & (native_column(headers, "attributes") & CONTROL == 0)
    is_quick &= count == native_column(headers, "record_count")
    is_quick &= plain_before[first + count] - plain_before[first] == count
    data = block.arena.tobytes()
    starts, ends = records.value_start.tolist(), (records.value_start + records.value_size).tolist()
    rows = zip(
        is_quick.tolist(),
        block.numbers.tolist(),
        block.position.tolist(),
        first.tolist(),
        count.tolist(),
        *(native_column(headers, name).tolist() for name in _COLUMNS),
        strict=True,
    )
    for quick, number, position, row, size, base_offset, epoch, timestamp in rows:
        if not quick:
            yield _alone(chunk, number, path)
        else:
            own = [(None, data[starts[at] : ends[at]]) for at in range(row, row + size)]
            yield MetadataBatch(base_offset, base_offset + size - 1, epoch, timestamp, False, own, position, path)


_COLUMNS: Final = ("base_offset", "partition_leader_epoch", "max_timestamp")


def _alone(chunk: Chunk, number: int, path: str) -> MetadataBatch:
    """One entry, read strictly."""
    start, end = chunk.entry(number)
    data = chunk.data[start:end]
    position = chunk.position + start
    offset = int.from_bytes(data[:8], "big", signed=True)

    def unreadable(message: str, *, is_cut: bool = False) -> UnreadableBatchError:
        return UnreadableBatchError(message, path, position, offset, is_cut=is_cut)

    if data[MAGIC_OFFSET] != MAGIC or len(data) < HEADER_SIZE:
        raise unreadable("no batch of magic 2", is_cut=len(data) < HEADER_SIZE or data[MAGIC_OFFSET] > MAGIC)
    header = parse_header(data)
    computed = batch_crc(data)
    if computed != header.crc:
        raise unreadable(f"stored CRC {header.crc}, computed {computed}", is_cut=True)
    if header.record_count > most(METADATA):
        raise unreadable(f"it has {header.record_count:,} records, more than kdump keeps; {hint(METADATA)}")
    try:
        records = [
            _checked(record.timestamp - header.base_timestamp, record.key, record.value, len(record.headers), header)
            for record in read_records(header, data, BATCH_LIMIT)
        ]
    except (DamageError, ValueError) as error:
        raise unreadable(error.message if isinstance(error, DamageError) else str(error)) from None
    return MetadataBatch(
        header.base_offset,
        header.base_offset + len(records) - 1,
        header.partition_leader_epoch,
        header.max_timestamp,
        header.is_control,
        records,
        position,
        path,
    )


def _checked(
    delta: int, key: bytes | None, value: bytes | None, headers: int, header: BatchHeader
) -> tuple[bytes | None, bytes]:
    """Raises ValueError where RecordsIterator throws."""
    if delta and not header.is_log_append_time:
        raise ValueError(f"the timestamp of a record differs by {delta} ms from that of its batch")
    if headers:
        raise ValueError("a record has headers")
    if key is not None and not header.is_control:
        raise ValueError("a record has a key")
    if not value:
        raise ValueError("a record has no value" if value is None else "a record has an empty value")
    return key, value


def cut_bytes(log: MetadataLog, error: UnreadableBatchError) -> int:
    """Bytes of the log from a damaged batch on."""
    return sum(
        segment.size - (error.position if segment.path == error.path else 0)
        for segment in log.segments
        if segment.path >= error.path
    )
