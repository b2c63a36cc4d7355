"""Rows about the remote segments that a cluster knew at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kdump.inputs import Input, PathDirectory
from kdump.kafka.remotesegments import REMOTE_METADATA, RemoteSegment, metadata_directories, read_remote_segments
from kdump.log import files
from kdump.log.names import parse_partition_directory
from kdump.rows.columns import Row
from kdump.tiered.custom import parse_custom_metadata


def remote_rows(
    inputs: Iterable[Input],
    note: Callable[[str], None],
    *,
    at: int | None = None,
    at_offset: int | None = None,
    is_wanted: Callable[[str], bool] = lambda topic: True,
) -> list[Row] | None:
    """A row for each segment that a broker lists; None where the inputs hold no partition of the topic.

    Args:
        inputs: partitions of ``__remote_log_metadata``, or log directories.
        note: takes what a reader should know.
        at: ms since 1970; later records do not count. None: all count.
        at_offset: the last offset of each partition that counts.
        is_wanted: whether a topic is shown.
    """
    folders = list(_folders(inputs))
    if not folders:
        return None
    known = read_remote_segments(folders, at=at, at_offset=at_offset)
    if not known.is_complete:
        note(f"{REMOTE_METADATA}: logs are missing, begin after offset 0 or are damaged: more segments may be known")
    if known.refused:
        note(f"{REMOTE_METADATA}: {known.refused:,} records do not follow the state before; a broker refuses them")
    return [_row(one) for one in known.listed() if is_wanted(one.topic)]


def _folders(inputs: Iterable[Input]) -> Iterator[str]:
    for found in inputs:
        if isinstance(found, PathDirectory):
            named = parse_partition_directory(os.path.basename(files.absolute(found.folder)))
            if named is not None and named[0] == REMOTE_METADATA:
                yield found.folder
            else:
                yield from metadata_directories(found.folder)


def _row(segment: RemoteSegment) -> Row:
    custom: Any = segment.custom_metadata
    return {
        "segmentId": segment.segment_id,
        "topic": segment.topic,
        "topicId": segment.topic_id,
        "partition": segment.partition,
        "state": segment.state.name,
        "startOffset": segment.start_offset,
        "endOffset": segment.end_offset,
        "size": segment.size,
        "maxTimestamp": segment.max_timestamp,
        "eventTimestamp": segment.event_timestamp,
        "brokerId": segment.broker_id,
        "leaderEpochs": [{"epoch": epoch, "startOffset": start} for epoch, start in segment.leader_epochs.items()],
        "customMetadata": parse_custom_metadata(custom) or custom,
        "history": [
            {
                "state": event.state.name,
                "timestamp": event.timestamp,
                "metadataPartition": event.metadata_partition,
                "offset": event.offset,
            }
            for event in segment.history
        ],
    }
