"""Snapshots against the log: both must give the same image.

Source: docs/spec/metadata.md#rule-6-snapshot-and-log-agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kdump.kafka.image.faults import ReplayError
from kdump.kafka.image.image import MetadataImage
from kdump.kafka.image.loader import ImageLoader
from kdump.kafka.image.metadatalog import MetadataLog, SnapshotFile, UnreadableBatchError
from kdump.kafka.image.snapshotrecords import snapshot_records
from kdump.payloads.message_json import json_text


class SnapshotDifference(NamedTuple):
    """A snapshot that differs from the log; records as JSON that only one of the two images has."""

    snapshot: SnapshotFile
    only_in_snapshot: list[str]
    only_in_log: list[str]


def snapshot_differences(log: MetadataLog) -> Iterator[SnapshotDifference]:
    """Each snapshot that differs from what the log gives up to it, from the start of the log or an older snapshot.

    Snapshots that cannot be loaded, or that the log does not reach, are left out. Raises KdumpError where a file
    cannot be read.
    """
    snapshots = [snapshot for snapshot in log.snapshots if snapshot.end_offset > log.start_offset]
    loader = ImageLoader(with_controller=False)
    first = 0
    if log.start_offset:
        older = [snapshot for snapshot in log.snapshots if snapshot.end_offset <= log.start_offset] or snapshots[:1]
        base = _loaded(older[-1]) if older else None
        if base is None:
            return
        loader, first = base, older[-1].end_offset
    left = [snapshot for snapshot in snapshots if snapshot.end_offset > first]
    end = first
    try:
        for batch in log.batches(first):
            if batch.last_offset < first:
                continue
            while left and left[0].end_offset <= batch.base_offset:
                yield from _compared(left.pop(0), loader.image)
            if not left:
                return
            loader.load(batch)
            end = batch.last_offset + 1
    except UnreadableBatchError:
        return
    for snapshot in left:
        if snapshot.end_offset == end:
            yield from _compared(snapshot, loader.image)


def _compared(snapshot: SnapshotFile, image: MetadataImage) -> Iterator[SnapshotDifference]:
    loaded = _loaded(snapshot)
    if loaded is None:
        return
    own, other = _records(loaded.image), _records(image)
    if own != other:
        yield SnapshotDifference(snapshot, sorted(own - other), sorted(other - own))


def _loaded(snapshot: SnapshotFile) -> ImageLoader | None:
    loader = ImageLoader(with_controller=False)
    try:
        loader.load_snapshot(snapshot)
    except (UnreadableBatchError, ReplayError):
        return None
    return loader


def _records(image: MetadataImage) -> set[str]:
    return {f"{message.schema.name} {json_text(message.shown)}" for message in snapshot_records(image)}
