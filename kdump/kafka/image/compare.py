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
_FREE: Final = 16 << 20
"""Bytes of JSON that may be made of the log's images in any case."""
_FOR_A_BYTE: Final = 16
"""And for each byte of a record that is read: that is enough where snapshots have an eighth of the image or more."""


class OnlyHere(NamedTuple):
    """Records that only one of two images has: how many, and the first of them in order, each as its type and JSON."""

    total: int
    first: list[str]


class SnapshotDifference(NamedTuple):
    """A snapshot that differs from the log, or that is not compared."""

    snapshot: SnapshotFile
    only_in_snapshot: OnlyHere
    only_in_log: OnlyHere
    is_compared: bool = True


class _TooMuchError(Exception):
    """More would have to be made of the log's image than what is read explains."""


def snapshot_differences(log: MetadataLog) -> Iterator[SnapshotDifference]:
    """Each snapshot that differs from what the log gives up to it, from the start of the log or an older snapshot.

    Snapshots that cannot be loaded, or that the log does not reach, are left out. Each comparison takes time for all of
    the log's image. Of snapshots that are much smaller only as many are compared as the bytes that are read allow; the
    others are given too, and not compared. Raises KdumpError where a file cannot be read.
    """
    comparison = _Comparison()
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
                yield from comparison.differences(left.pop(0), loader.image)
            if not left:
                return
            loader.load(batch)
            comparison.allow(sum(len(value) for _, value in batch.records))
            end = batch.last_offset + 1
    except UnreadableBatchError:
        return
    for snapshot in left:
        if snapshot.end_offset == end:
            yield from comparison.differences(snapshot, loader.image)


class _Comparison:
    """Compares snapshots with the images that the log gives up to them."""

    def __init__(self) -> None:
        self._left = _FREE
        """Bytes of JSON that may still be made of the log's images."""

    def allow(self, size: int) -> None:
        """So many bytes of records were read."""
        self._left += _FOR_A_BYTE * size

    def differences(self, snapshot: SnapshotFile, image: MetadataImage) -> Iterator[SnapshotDifference]:
        """How a snapshot differs from the image of the log, if it does."""
        loaded = _loaded(snapshot)
        if loaded is None:
            return
        digests = _digests(self._read(loaded.image))
        del loaded
        try:
            in_log = _not_in(digests, self._made(image))
            if not in_log.total and len(digests) == sum(1 for _ in snapshot_records(image)):
                return
            # Only the digests of one image wait beside both.
            digests = _digests(self._made(image))
        except _TooMuchError:
            yield SnapshotDifference(snapshot, OnlyHere(0, []), OnlyHere(0, []), is_compared=False)
            return
        loaded = _loaded(snapshot)
        assert loaded is not None
        yield SnapshotDifference(snapshot, _not_in(digests, _records(loaded.image)), in_log)

    def _read(self, image: MetadataImage) -> Iterator[str]:
        """The records of a snapshot, which count as read."""
        for record in _records(image):
            self.allow(len(record))
            yield record

    def _made(self, image: MetadataImage) -> Iterator[str]:
        """The records of the log's image. Raises _TooMuchError."""
        records = _records(image)
        while self._left > 0:
            record = next(records, None)
            if record is None:
                return
            self._left -= len(record)
            yield record
        raise _TooMuchError


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


def _digests(records: Iterator[str]) -> PackedMap[bytes, bool]:
    """Of all records of an image, of which no two are equal."""
    digests = PackedMap[bytes, bool]()
    for record in records:
        digests[_digest(record)] = True
    return digests


def _not_in(digests: PackedMap[bytes, bool], records: Iterator[str]) -> OnlyHere:
    """Records of an image that have none of the digests."""
    count = 0
    first: list[str] = []
    for record in records:
        if _digest(record) not in digests:
            count += 1
            first = sorted([*first, record])[:_MOST_SHOWN]
    return OnlyHere(count, first)
