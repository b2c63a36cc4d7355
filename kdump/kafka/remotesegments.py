"""The remote segments of a cluster, by the logs of ``__remote_log_metadata`` in a log directory.

They are what a broker would list that has read these logs up to a time.

Source: KIP-405; RemoteLogMetadataCache and RemotePartitionMetadataStore of Kafka 4.3.1 (which transitions are valid:
RemoteLogSegmentState). The frame is that of docs/spec/formats.md#8-kraft-checkpoints-and-the-metadata-log.
"""

from __future__ import annotations

import os
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from kdump.codes import DamageError, KdumpError, ignore_error
from kdump.format.batch import CONTROL, HEADER_SIZE, MAGIC, MAGIC_OFFSET, batch_crc, parse_header
from kdump.format.checkpoint import EpochEntry
from kdump.format.record import Record, read_records
from kdump.inputs import PathDirectory, log_paths
from kdump.log import files
from kdump.log.names import base_of, parse_partition_directory
from kdump.log.opening import open_source
from kdump.log.partition import topic_directories
from kdump.log.siblings import read_topic_id
from kdump.log.walk import Walk
from kdump.payloads.decoded import PayloadError
from kdump.payloads.internal import DECODERS, MetadataDecoder
from kdump.payloads.topics import INTERNAL_TOPICS

_NAME: Final = "remote-log-metadata"
REMOTE_METADATA: Final = INTERNAL_TOPICS[_NAME]
_SEGMENT, _UPDATE, _DELETE_PARTITION = 0, 1, 2
"""The types of the records."""
_TOMBSTONE: Final = -1
_PARTITION_DELETED: Final = 2
"""RemotePartitionDeleteState.DELETE_PARTITION_FINISHED."""

TopicPartitionId: TypeAlias = "tuple[str, int]"
"""Topic id and partition."""


class SegmentState(IntEnum):
    """org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


_NEXT: Final = {
    SegmentState.COPY_SEGMENT_STARTED: (SegmentState.COPY_SEGMENT_FINISHED, SegmentState.DELETE_SEGMENT_STARTED),
    SegmentState.COPY_SEGMENT_FINISHED: (SegmentState.DELETE_SEGMENT_STARTED,),
    SegmentState.DELETE_SEGMENT_STARTED: (SegmentState.DELETE_SEGMENT_FINISHED,),
    SegmentState.DELETE_SEGMENT_FINISHED: (),
}
"""RemoteLogSegmentState.isValidTransition."""


class SegmentEvent(NamedTuple):
    """A record that changed the state of a segment, in one partition of ``__remote_log_metadata``."""

    metadata_partition: int
    offset: int
    timestamp: int
    state: SegmentState


class RemoteRange(NamedTuple):
    """Offsets of a remote segment whose copy is finished and whose deletion has not begun; both are in it."""

    first_offset: int
    last_offset: int


@dataclass(slots=True)
class RemoteSegment:
    """A segment in remote storage. Its offsets are None where its first record is missing, as after retention.

    Both offsets are in it. ``leader_epochs``: the first offset of each leader epoch in it.
    """

    segment_id: str
    topic: str
    topic_id: str
    partition: int
    state: SegmentState
    event_timestamp: int
    broker_id: int
    start_offset: int | None = None
    end_offset: int | None = None
    size: int | None = None
    max_timestamp: int | None = None
    leader_epochs: Mapping[int, int] = field(default_factory=dict)
    custom_metadata: bytes | None = None
    history: list[SegmentEvent] = field(default_factory=list)

    @property
    def owner(self) -> TopicPartitionId:
        """The partition."""
        return self.topic_id, self.partition

    @property
    def offsets(self) -> RemoteRange | None:
        """Its offsets, where they are known."""
        if self.start_offset is None or self.end_offset is None:
            return None
        return RemoteRange(self.start_offset, self.end_offset)


class EpochSegments:
    """The segments that have records of one leader epoch of a partition (RemoteLogLeaderEpochState)."""

    def __init__(self) -> None:
        self.last_copied = -1
        """The last offset of the epoch that was ever copied."""
        self._by_start: dict[int, str] = {}
        """The ids of finished copies by their first offset of the epoch; a later copy takes the place of others."""
        self._starts: list[int] = []
        """The keys, rising."""
        self._others: set[str] = set()
        """The ids of those that no broker reads."""

    def take(self, segment_id: str, state: SegmentState, start: int, end: int) -> None:
        """A segment changed its state. ``start`` and ``end``: its offsets of this epoch, both in it."""
        if state is SegmentState.COPY_SEGMENT_FINISHED:
            while self._starts and self._starts[-1] >= start and self.last_copied <= end:
                self._others.add(self._by_start.pop(self._starts.pop()))
            if start not in self._by_start:
                insort(self._starts, start)
            self._by_start[start] = segment_id
            self._others.discard(segment_id)
            self.last_copied = max(self.last_copied, end)
        elif state is SegmentState.DELETE_SEGMENT_FINISHED:
            self._others.discard(segment_id)
        else:
            if self._by_start.get(start) == segment_id:
                del self._by_start[start], self._starts[bisect_left(self._starts, start)]
            self._others.add(segment_id)

    def listed(self, by_id: Mapping[str, RemoteSegment]) -> list[RemoteSegment]:
        """The segments by offset. A broker has no order for those that it does not read and that begin alike."""
        ids = [*(self._by_start[start] for start in self._starts), *sorted(self._others)]
        found = [by_id[segment_id] for segment_id in ids if segment_id in by_id]
        return sorted(found, key=lambda one: one.start_offset or 0) if self._others else found


class RemotePart(NamedTuple):
    """What is known of a partition in remote storage.

    Attributes:
        by_id: the segments that a broker lists, in the order of their offsets.
        epochs: by the leader epochs of which they have records.
    """

    by_id: Mapping[str, RemoteSegment] = {}
    epochs: Mapping[int, EpochSegments] = {}

    @property
    def segments(self) -> list[RemoteSegment]:
        """Those that a broker lists, by offset."""
        return list(self.by_id.values())

    def listed(self, epoch: int) -> list[RemoteSegment]:
        """Those that have records of a leader epoch, see ``EpochSegments``."""
        known = self.epochs.get(epoch)
        return [] if known is None else known.listed(self.by_id)

    def last_copied(self, epochs: Sequence[EpochEntry], log_end: int) -> int:
        """The last offset of a log that is in remote storage, -1: none (RemoteLogManager.findHighestRemoteOffset).

        It counts also after the segment is deleted there. Copies of epochs that the log does not have do not count.

        Args:
            epochs: of the log, rising, as a broker knows them.
            log_end: its end offset.
        """
        end = log_end
        for entry in reversed(epochs):
            known = self.epochs.get(entry.epoch)
            if known is not None and known.last_copied >= 0:
                return min(known.last_copied, end - 1)
            end = entry.start_offset
        return -1


class RemoteSegments:
    """A fold over the records of ``__remote_log_metadata``. Its partitions come in any order.

    A record that states all of a segment counts as it is, as a compacted topic holds no other (KIP-1266). Neither 4.3
    nor 4.4 compacts the topic.
    """

    def __init__(self) -> None:
        self.by_id: dict[str, RemoteSegment] = {}
        self.deleted: set[str] = set()
        """The ids of segments whose deletion is finished, and of those of deleted partitions."""
        self.deleted_until: dict[TopicPartitionId, int] = {}
        """The last offset of the segments of a partition whose deletion has begun."""
        self._epochs: dict[TopicPartitionId, dict[int, EpochSegments]] = {}
        self.newest = -1
        """The latest timestamp of a record, in ms since 1970."""
        self.refused = 0
        """Records that a broker refuses, because they do not follow the state before."""
        self.is_complete = True
        """Nothing of the topic is missing or damaged, as far as the log directory tells."""

    def listed(self) -> list[RemoteSegment]:
        """What a broker lists, by topic, partition and offset: all but those whose deletion is finished."""
        return sorted(self.by_id.values(), key=lambda one: (one.topic, one.partition, one.start_offset or 0))

    def knows(self, owner: TopicPartitionId) -> bool:
        """A partition has, or had, remote segments, and was not deleted."""
        return owner in self._epochs

    def parts(self) -> dict[TopicPartitionId, RemotePart]:
        """What is known of each partition."""
        found: dict[TopicPartitionId, dict[str, RemoteSegment]] = {owner: {} for owner in self._epochs}
        for one in self.listed():
            found.setdefault(one.owner, {})[one.segment_id] = one
        return {owner: RemotePart(by_id, self._epochs.get(owner, {})) for owner, by_id in found.items()}

    def take(
        self, record_type: int, values: Mapping[str, Any], metadata_partition: int, offset: int, time: int
    ) -> None:
        """Add the next record of a partition."""
        self.newest = max(self.newest, time)
        if record_type == _DELETE_PARTITION:
            if values["remotePartitionDeleteState"] == _PARTITION_DELETED:
                owner = values["topicIdPartition"]
                self._forget(*(one for one in self.by_id.values() if one.owner == (owner["id"], owner["partition"])))
                self._epochs.pop((owner["id"], owner["partition"]), None)
            return
        if record_type not in (_SEGMENT, _UPDATE) or values["remoteLogSegmentState"] not in tuple(SegmentState):
            return
        state = SegmentState(values["remoteLogSegmentState"])
        segment_id = values["remoteLogSegmentId"]["id"]
        known = self.by_id.get(segment_id)
        is_valid = (
            known is None or state == known.state or state in _NEXT[known.state]
            if segment_id not in self.deleted
            else state is SegmentState.DELETE_SEGMENT_FINISHED
        )
        if not is_valid:
            self.refused += 1
            return
        owner = values["remoteLogSegmentId"]["topicIdPartition"]
        if known is None:
            known = RemoteSegment(segment_id, owner["name"], owner["id"], owner["partition"], state, 0, 0)
            self.by_id[segment_id] = known
        known.state = state
        known.event_timestamp, known.broker_id = values["eventTimestampMs"], values["brokerId"]
        if record_type == _SEGMENT:
            known.start_offset, known.end_offset = values["startOffset"], values["endOffset"]
            known.size, known.max_timestamp = values["segmentSizeInBytes"], values["maxTimestampMs"]
            known.leader_epochs = {one["leaderEpoch"]: one["offset"] for one in values["segmentLeaderEpochs"]}
        if values["customMetadata"] is not None:
            known.custom_metadata = values["customMetadata"]
        epochs, end = self._epochs.setdefault(known.owner, {}), known.end_offset or 0
        for epoch, start in sorted(known.leader_epochs.items(), reverse=True):
            epochs.setdefault(epoch, EpochSegments()).take(segment_id, state, start, end)
            end = start - 1
        if state in (SegmentState.DELETE_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_FINISHED):
            last = -1 if known.end_offset is None else known.end_offset
            self.deleted_until[known.owner] = max(last, self.deleted_until.get(known.owner, -1))
        known.history.append(SegmentEvent(metadata_partition, offset, time, state))
        if state is SegmentState.DELETE_SEGMENT_FINISHED:
            self._forget(known)

    def remove(self, segment_id: str) -> None:
        """Forget a segment: a tombstone takes away what the topic said of it."""
        if segment_id in self.by_id:
            self._forget(self.by_id[segment_id])

    def _forget(self, *segments: RemoteSegment) -> None:
        for one in segments:
            self.deleted.add(one.segment_id)
            del self.by_id[one.segment_id]


def metadata_directories(log_directory: str) -> tuple[str, ...]:
    """The partitions of the topic in a log directory, on this machine or in a store."""
    return topic_directories(log_directory, REMOTE_METADATA)


def metadata_partitions(log_directory: str) -> int | None:
    """How many partitions the topic has, as the metadata of the cluster in a log directory says; None: nothing does."""
    from kdump.kafka.image.copies import find_copies, newest
    from kdump.kafka.image.replay import StatePoint, replay

    with suppress(KdumpError):
        copies = find_copies([log_directory], ignore_error)
        topic = replay(newest(copies).log, StatePoint()).image.topics.by_name.get(REMOTE_METADATA) if copies else None
        return None if topic is None else len(topic.partitions)
    return None


def read_remote_segments(
    folders: Iterable[str], *, at: int | None = None, at_offset: int | None = None, partitions: int | None = None
) -> RemoteSegments:
    """What the logs of the topic tell.

    Args:
        folders: its partitions. Of several copies of one, those go on that reach further.
        at: ms since 1970; records with a later timestamp do not count.
        at_offset: the last offset of each partition that counts.
        partitions: how many the topic has; None: those that are there, where their numbers lack none.
    """
    found = RemoteSegments()
    copies: dict[int, list[list[str]]] = {}
    for folder in folders:
        named = parse_partition_directory(os.path.basename(folder))
        assert named is not None
        copies.setdefault(named[1], []).append(list(log_paths([PathDirectory(folder)])))
    for number, own in copies.items():
        last = -1
        ids: dict[bytes, str] = {}
        logs = [one for one in own if one]
        found.is_complete &= any(base_of(one[0]) == 0 for one in logs)
        for path in (path for one in sorted(logs, key=lambda one: base_of(one[0])) for path in one):
            for record in _records(path, found):
                if record.offset <= last:
                    continue
                last = record.offset
                if (at is None or record.timestamp <= at) and (at_offset is None or last <= at_offset):
                    if record.values is None:
                        found.remove(ids.get(record.key, ""))
                        continue
                    found.take(record.type, record.values, number, last, record.timestamp)
                    if record.key and record.type in (_SEGMENT, _UPDATE):
                        ids[record.key] = record.values["remoteLogSegmentId"]["id"]
    found.is_complete &= copies.keys() == set(range(partitions or len(copies))) and bool(copies)
    return found


def remote_part(partition_directory: str) -> RemotePart:
    """What is in remote storage of a partition, as the log directory above says.

    The partition is that of the topic id in partition.metadata.
    """
    directory = files.absolute(partition_directory)
    parsed = parse_partition_directory(os.path.basename(directory))
    if parsed is None:
        return RemotePart()
    log_directory = os.path.dirname(directory)
    folders = metadata_directories(log_directory)
    logs = tuple(log_paths(map(PathDirectory, folders)))
    topic_id = read_topic_id(directory) if logs else None
    if topic_id is None:
        return RemotePart()
    # Thousands of partitions ask.
    return _parts(folders, tuple(map(files.file_state, logs))).get((topic_id, parsed[1]), RemotePart())


def remote_ranges(partition_directory: str) -> list[RemoteRange]:
    """The offsets in remote storage of a partition, rising, see ``remote_part``."""
    finished = SegmentState.COPY_SEGMENT_FINISHED
    listed = (one for one in remote_part(partition_directory).segments if one.state is finished)
    return sorted(one.offsets for one in listed if one.offsets is not None)


@lru_cache(maxsize=4)
def _parts(folders: Sequence[str], states: Sequence[files.FileState | None]) -> Mapping[TopicPartitionId, RemotePart]:
    """What is known of each partition. ``states``: of the logs of the topic; see ``files.file_state``."""
    return read_remote_segments(folders).parts()


class _Record(NamedTuple):
    """A record of the topic; ``values``: None of a tombstone, which a compacted topic may hold."""

    offset: int
    timestamp: int
    key: bytes
    type: int
    values: Mapping[str, Any] | None


def _records(path: str, found: RemoteSegments) -> Iterator[_Record]:
    """The records of a log. Batches that are damaged say nothing; then what is known is not complete."""
    decoder = DECODERS[_NAME]
    assert isinstance(decoder, MetadataDecoder)
    try:
        with open_source(path) as source:
            walk = Walk(source)
            for chunk in walk.chunks():
                for start, end in chunk.entries():
                    for record in _values(chunk.data[start:end], found):
                        offset, timestamp, key = record.offset, record.timestamp, bytes(record.key or b"")
                        if record.value is None:
                            yield _Record(offset, timestamp, key, _TOMBSTONE, None)
                            continue
                        with suppress(PayloadError):
                            message = decoder.value(record.value)
                            yield _Record(offset, timestamp, key, message.record_type, message.values)
            found.is_complete &= walk.position == walk.end
    except KdumpError:
        found.is_complete = False


def _values(batch: memoryview, found: RemoteSegments) -> Iterator[Record]:
    """The data records of a batch, up to what is damaged in it; the batches after it are read."""
    header = parse_header(batch) if len(batch) >= HEADER_SIZE and batch[MAGIC_OFFSET] == MAGIC else None
    if header is None or header.crc != batch_crc(batch):
        found.is_complete = False
    elif not header.attributes & CONTROL:
        try:
            yield from read_records(header, batch)
        except DamageError:
            found.is_complete = False
