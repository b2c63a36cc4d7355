"""Which offsets of partitions are in remote storage, by the logs of ``__remote_log_metadata`` in a log directory.

Source: KIP-405 (RemoteLogSegmentMetadataRecord, RemoteLogSegmentMetadataUpdateRecord, RemoteLogSegmentState); the frame
is that of docs/spec/formats.md#8-kraft-checkpoints-and-the-metadata-log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kdump.codes import DamageError, KdumpError
from kdump.format.batch import CONTROL, HEADER_SIZE, MAGIC, MAGIC_OFFSET, batch_crc, parse_header
from kdump.format.record import read_records
from kdump.inputs import PathDirectory, log_paths
from kdump.log import files
from kdump.log.names import is_uri, parse_partition_directory
from kdump.log.opening import open_source
from kdump.log.partition import topic_directories
from kdump.log.siblings import read_topic_id
from kdump.log.walk import Walk
from kdump.payloads.decoded import PayloadError
from kdump.payloads.internal import DECODERS, MetadataDecoder
from kdump.payloads.topics import INTERNAL_TOPICS

_NAME: Final = "remote-log-metadata"
REMOTE_METADATA: Final = INTERNAL_TOPICS[_NAME]
_SEGMENT, _UPDATE = 0, 1
"""The types of the records."""
_COPY_FINISHED: Final = 1


class RemoteRange(NamedTuple):
    """Offsets of a remote segment whose copy is finished and whose deletion has not begun; both are in it."""

    first_offset: int
    last_offset: int


def remote_ranges(partition_directory: str) -> Sequence[RemoteRange]:
    """What is in remote storage of a partition, rising, as the log directory above says; in a store nothing is known.

    The partition is that of the topic id in partition.metadata.
    """
    directory = files.absolute(partition_directory)
    parsed = parse_partition_directory(os.path.basename(directory))
    if parsed is None or is_uri(directory):
        return ()
    log_directory = os.path.dirname(directory)
    folders = topic_directories(log_directory, REMOTE_METADATA)
    logs = tuple(log_paths(map(PathDirectory, folders)))
    topic_id = read_topic_id(directory) if logs else None
    if topic_id is None:
        return ()
    # Thousands of partitions ask.
    return _known(logs, tuple(map(files.file_state, logs))).get((topic_id, parsed[1]), ())


@lru_cache(maxsize=4)
def _known(
    logs: Sequence[str], states: Sequence[files.FileState | None]
) -> Mapping[tuple[str, int], Sequence[RemoteRange]]:
    """The ranges by topic id and partition, of logs that have not changed; see ``files.file_state``."""
    decoder = DECODERS[_NAME]
    assert isinstance(decoder, MetadataDecoder)
    segments: dict[str, tuple[tuple[str, int], RemoteRange]] = {}
    finished: dict[str, bool] = {}
    for path in logs:
        for value in _values(path):
            with suppress(PayloadError):
                message = decoder.value(value)
                _see(message.record_type, message.values, segments, finished)
    found: dict[tuple[str, int], list[RemoteRange]] = {}
    for segment_id, (partition, covered) in segments.items():
        if finished[segment_id]:
            found.setdefault(partition, []).append(covered)
    return {partition: sorted(ranges) for partition, ranges in found.items()}


def _values(path: str) -> Iterator[bytes]:
    """The values of the records of a log; batches that are damaged say nothing."""
    with suppress(KdumpError), open_source(path) as source:
        for chunk in Walk(source).chunks():
            for start, end in chunk.entries():
                batch = chunk.data[start:end]
                if len(batch) < HEADER_SIZE or batch[MAGIC_OFFSET] != MAGIC:
                    continue
                header = parse_header(batch)
                if header.crc == batch_crc(batch) and not header.attributes & CONTROL:
                    with suppress(DamageError):
                        yield from (record.value for record in read_records(header, batch) if record.value)


def _see(
    record_type: int,
    values: Mapping[str, Any],
    segments: dict[str, tuple[tuple[str, int], RemoteRange]],
    finished: dict[str, bool],
) -> None:
    """Take one event: the last state of a segment counts."""
    if record_type not in (_SEGMENT, _UPDATE):
        return
    segment = values["remoteLogSegmentId"]
    finished[segment["id"]] = values["remoteLogSegmentState"] == _COPY_FINISHED
    if record_type == _SEGMENT:
        owner = segment["topicIdPartition"]
        covered = RemoteRange(values["startOffset"], values["endOffset"])
        segments[segment["id"]] = (owner["id"], owner["partition"]), covered
