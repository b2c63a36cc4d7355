"""Snapshots against the log: both must give the same image.

Source: docs/spec/metadata.md#rule-6-snapshot-and-log-agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, NamedTuple

from kdump.kafka.image.faults import ReplayError
from kdump.kafka.image.image import MetadataImage
from kdump.kafka.image.loader import ImageLoader
from kdump.kafka.image.metadatalog import MetadataLog, SnapshotFile, UnreadableBatchError
from kdump.kafka.image.packedmap import PackedMap, text_bytes
from kdump.kafka.image.snapshotrecords import snapshot_records
from kdump.payloads.message_json import json_text

_MOST_SHOWN: Final = 3


class OnlyHere(NamedTuple):
    """Records that only one of two images has: how many, and the first of them in order, each as its type and JSON."""

    total: int
    first: list[str]


class SnapshotDifference(NamedTuple):
    """A snapshot that differs from the log."""

    snapshot: SnapshotFile
    only_in_snapshot: OnlyHere
    only_in_log: OnlyHere


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
    digests = _digests(loaded.image)
    del loaded
    in_log = _not_in(digests, image)
    if not in_log.total and len(digests) == sum(1 for _ in snapshot_records(image)):
        return
    # Only the digests of one image wait beside both.
    digests = _digests(image)
    loaded = _loaded(snapshot)
    assert loaded is not None
    yield SnapshotDifference(snapshot, _not_in(digests, loaded.image), in_log)


def _loaded(snapshot: SnapshotFile) -> ImageLoader | None:
    loader = ImageLoader(with_controller=False)
    try:
        loader.load_snapshot(snapshot)
    except (UnreadableBatchError, ReplayError):
        return None
    return loader


def _records(image: MetadataImage) -> Iterator[str]:
    return (f"{message.schema.name} {json_text(message.shown)}" for message in snapshot_records(image))


def _digest(record: str) -> bytes:
    return blake2b(text_bytes(record), digest_size=16).digest()


def _digests(image: MetadataImage) -> PackedMap[bytes, bool]:
    """Of all records of an image, of which no two are equal."""
    digests = PackedMap[bytes, bool]()
    for record in _records(image):
        digests[_digest(record)] = True
    return digests


def _not_in(digests: PackedMap[bytes, bool], image: MetadataImage) -> OnlyHere:
    """Records of an image that have none of the digests."""
    count = 0
    first: list[str] = []
    for record in _records(image):
        if _digest(record) not in digests:
            count += 1
            first = sorted([*first, record])[:_MOST_SHOWN]
    return OnlyHere(count, first)
