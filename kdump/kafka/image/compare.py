"""Snapshots against the log: both must give the same image.

Source: docs/spec/metadata.md#rule-6-snapshot-and-log-agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from typing import Final, NamedTuple

from kdump.kafka.image.faults import ReplayError
from kdump.kafka.image.image import MetadataImage
from kdump.kafka.image.loader import ImageLoader
from kdump.kafka.image.metadatalog import MetadataLog, SnapshotFile, UnreadableBatchError
from kdump.kafka.image.snapshotrecords import snapshot_records
from kdump.limits import COMPARED, most
from kdump.payloads.message_json import json_text

_MOST_SHOWN: Final = 3


class OnlyHere(NamedTuple):
    """Records that only one of two images has: how many, and the first of them in order, each as its type and JSON."""

    total: int
    first: list[str]


class SnapshotDifference(NamedTuple):
    """A snapshot that differs from the log, or that is not compared."""

    snapshot: SnapshotFile
    only_in_snapshot: OnlyHere = OnlyHere(0, [])
    only_in_log: OnlyHere = OnlyHere(0, [])
    is_compared: bool = True


def snapshot_differences(log: MetadataLog) -> Iterator[SnapshotDifference]:
    """Each snapshot that differs from what the log gives up to it, from the start of the log or an older snapshot.

    Snapshots that cannot be loaded, or that the log does not reach, are left out. Those after the limit of ``COMPARED``
    records are given too, and not compared. Raises KdumpError where a file cannot be read.
    """
    room = most(COMPARED)
    for snapshot, reached in _reached(log):
        loaded = _loaded(snapshot)
        if loaded is None or loaded.left_out is not None or reached.left_out is not None:
            continue
        if room <= 0:
            yield SnapshotDifference(snapshot, is_compared=False)
            continue
        in_snapshot, in_log = _records(loaded.image), _records(reached.image)
        room -= len(in_log)
        if in_snapshot != in_log:
            yield SnapshotDifference(snapshot, _only(in_snapshot - in_log), _only(in_log - in_snapshot))


def _reached(log: MetadataLog) -> Iterator[tuple[SnapshotFile, ImageLoader]]:
    """The snapshots that the log reaches, and what has loaded the log up to each."""
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
                yield left.pop(0), loader
            if not left:
                return
            loader.load(batch)
            end = batch.last_offset + 1
    except UnreadableBatchError:
        return
    for snapshot in left:
        if snapshot.end_offset == end:
            yield snapshot, loader


def _loaded(snapshot: SnapshotFile) -> ImageLoader | None:
    loader = ImageLoader(with_controller=False)
    try:
        loader.load_snapshot(snapshot)
    except (UnreadableBatchError, ReplayError):
        return None
    return loader


def _records(image: MetadataImage) -> set[str]:
    return {f"{message.schema.name} {json_text(message.shown)}" for message in snapshot_records(image)}


def _only(records: set[str]) -> OnlyHere:
    return OnlyHere(len(records), nsmallest(_MOST_SHOWN, records))
