"""A bucket: its objects put together to segments, and the files of each segment as the broker had them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from kdump.codes import Codes, DamageError, KdumpError
from kdump.format.batch import HEADER_SIZE, MAGIC, MAGIC_OFFSET, parse_header
from kdump.format.index import OffsetEntry, parse_offset_index
from kdump.kafka.remotesegments import RemoteSegment, TopicPartitionId
from kdump.log import files
from kdump.log.opening import open_source, read_whole
from kdump.log.source import MemorySource, Source
from kdump.log.walk import Walk
from kdump.tiered.chunks import ChunkSource, Opening
from kdump.tiered.keys import KeyRing
from kdump.tiered.manifest import LARGEST_MANIFEST, SEALED, ChunkIndex, ObjectManifest, parse_manifest
from kdump.tiered.objects import (
    AIVEN_KINDS,
    EPOCHS,
    INDEX,
    INDEXES,
    LOCAL_KINDS,
    LOG,
    MANIFEST,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    BucketLayout,
    ObjectName,
    parse_object,
)

_INDEX_NAMES: Final = {
    INDEX: "offset",
    TIME_INDEX: "timestamp",
    SNAPSHOT: "producerSnapshot",
    EPOCHS: "leaderEpoch",
    TXN_INDEX: "transaction",
}
"""The parts of the object with the indexes, by the kind of file that each is."""
_PIECE: Final = 1 << 20
"""Bytes of a plain object that are read at a time."""


class StoredObject(NamedTuple):
    """An object that belongs to no segment, with its bytes."""

    path: str
    size: int


@dataclass(slots=True)
class StoredSegment:
    """The objects of one segment. ``sizes``: their bytes, by kind. ``stem``: their path up to the kind."""

    name: ObjectName
    stem: str
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def segment_id(self) -> str:
        """By the name of the objects."""
        return self.name.segment_id

    @property
    def owner(self) -> TopicPartitionId:
        """The partition."""
        return self.name.topic_id, self.name.partition

    @property
    def bytes(self) -> int:
        """Of all its objects."""
        return sum(self.sizes.values())

    @property
    def missing(self) -> list[str]:
        """The kinds of objects that a whole segment has and this one has not."""
        wanted = AIVEN_KINDS if self.name.layout is BucketLayout.AIVEN else LOCAL_KINDS
        return [kind for kind in wanted if kind not in self.sizes]

    def path(self, kind: str) -> str:
        """Of an object."""
        return f"{self.stem}.{kind}"


Segments: TypeAlias = "Mapping[TopicPartitionId, list[StoredSegment]]"


class Bucket:
    """What lies under a path. It is listed once; manifests are read when they are asked for, and kept.

    Args:
        root: a directory of this machine or a URI, as ``files.strip_credentials`` gave it.
        ring: the keys.
    """

    def __init__(self, root: str, ring: KeyRing) -> None:
        self.root = root
        self.ring = ring
        self._segments: dict[TopicPartitionId, dict[str, StoredSegment]] | None = None
        self._others: list[StoredObject] = []
        self._manifests: dict[str, ObjectManifest | KdumpError] = {}

    @property
    def segments(self) -> Segments:
        """The segments by partition. Raises KdumpError where the bucket cannot be listed."""
        return {owner: list(found.values()) for owner, found in self._listed().items()}

    @property
    def others(self) -> list[StoredObject]:
        """The objects that no known plugin writes."""
        self._listed()
        return self._others

    def manifest(self, segment: StoredSegment) -> ObjectManifest:
        """Raises KdumpError: it is missing, cannot be read, or is that of another segment."""
        found = self._manifests.get(segment.stem)
        if found is None:
            path = segment.path(MANIFEST)
            try:
                found = self._read_manifest(segment, path)
            except KdumpError as error:
                found = error.located(path)
            self._manifests[segment.stem] = found
        if isinstance(found, KdumpError):
            raise found
        return found

    def topic(self, segments: list[StoredSegment]) -> str:
        """The name of the topic of some segments of it: a manifest has it without a prefix."""
        for one in segments:
            if one.name.layout is BucketLayout.AIVEN and MANIFEST in one.sizes:
                try:
                    return self.manifest(one).topic
                except KdumpError:
                    continue
        return segments[0].name.topic

    def describe(self, segment: StoredSegment, known: RemoteSegment | None = None) -> RemoteFiles:
        """Which files a segment has. ``known``: what the metadata says of it. Raises KdumpError."""
        base = segment.name.base_offset
        if segment.name.layout is BucketLayout.AIVEN:
            found = self.manifest(segment)
            if LOG not in segment.sizes:
                raise KdumpError(Codes.REMOTE_MISSING, "the object is missing", path=segment.path(LOG))
            added = 0 if found.sealing is None else SEALED
            sizes = {LOG: found.chunks.size}
            if INDEXES in segment.sizes:
                spans = {kind: found.indexes.get(name) for kind, name in _INDEX_NAMES.items()}
                sizes |= {kind: max(0, span.size - added) for kind, span in spans.items() if span is not None}
            return RemoteFiles(base, found.end_offset, max(found.leader_epochs, default=-1), sizes)
        if LOG not in segment.sizes:
            raise KdumpError(Codes.REMOTE_MISSING, "the object is missing", path=segment.path(LOG))
        end = None if known is None else known.end_offset
        epoch, last = self._last_batch(segment) if end is None or known is None else (max(known.leader_epochs), end)
        return RemoteFiles(base, last, epoch, dict(segment.sizes))

    def open(
        self, segment: StoredSegment, kind: str, path: str, size: int | None = None, first_offset: int | None = None
    ) -> Source:
        """A file of a segment. Raises KdumpError.

        Args:
            segment: the segment.
            kind: LOG, or that of an index file.
            path: what the file is called.
            size: bytes of a log that count; None: all.
            first_offset: of a log; see ``Source``.
        """
        if segment.name.layout is BucketLayout.LOCAL:
            stored, opening = open_source(segment.path(kind)), Opening()
            whole = stored.size or 0
            chunks = ChunkIndex(_PIECE, whole, _PIECE, whole % _PIECE or _PIECE)
        else:
            manifest = self.manifest(segment)
            opening = self.opening(segment, manifest)
            if kind != LOG:
                return MemorySource(path, self.index(segment, kind, manifest, opening))
            stored, chunks = open_source(segment.path(LOG)), manifest.chunks
        source = ChunkSource(path, stored, chunks, opening, chunks.size if size is None else size)
        source.first_offset = first_offset
        return source

    def opening(self, segment: StoredSegment, manifest: ObjectManifest) -> Opening:
        """How the bytes of a segment are decoded. Raises KdumpError REMOTE_KEY."""
        sealing = manifest.sealing
        if sealing is None:
            return Opening(is_compressed=manifest.is_compressed)
        key = self.ring.data_key(sealing, segment.path(LOG))
        return Opening(key, sealing.additional, is_compressed=manifest.is_compressed)

    def index(self, segment: StoredSegment, kind: str, manifest: ObjectManifest, opening: Opening) -> bytes:
        """An index of a segment. Raises KdumpError."""
        span = manifest.indexes[_INDEX_NAMES[kind]]
        path = segment.path(INDEXES)
        with open_source(path) as stored:
            data = stored.read(span.position, min(span.size, stored.size or 0))
        try:
            if len(data) < span.size:
                raise DamageError(Codes.REMOTE_OBJECT, f"ends at {span.position + len(data):,}")
            return opening.decode(data, span.size - (SEALED if manifest.sealing else 0), is_index=True)
        except DamageError as error:
            what = f"the index {_INDEX_NAMES[kind]}: {error.message}"
            raise KdumpError(Codes.REMOTE_OBJECT, what, path=path, position=span.position) from None

    def position_of(self, segment: StoredSegment, offset: int) -> int:
        """Where the first batch begins in a log whose base offset is ``offset`` or more. Raises KdumpError."""
        entries = [entry for entry in self._offsets(segment) if entry.offset < offset]
        with self.open(segment, LOG, segment.path(LOG)) as source:
            for position, base, _, _ in batches(source, entries[-1].position if entries else 0):
                if base >= offset:
                    return position
            return source.size or 0

    def _last_batch(self, segment: StoredSegment) -> tuple[int, int]:
        """(leader epoch, offset) of the last whole batch of a log; those of none are -1 and the base offset."""
        entries = self._offsets(segment)
        epoch, offset = -1, segment.name.base_offset
        with open_source(segment.path(LOG)) as source:
            start = entries[-1].position if entries and entries[-1].position < (source.size or 0) else 0
            for _, _, offset, epoch in batches(source, start):  # noqa: B007
                pass
        return epoch, offset

    def _offsets(self, segment: StoredSegment) -> list[OffsetEntry]:
        try:
            with self.open(segment, INDEX, segment.path(INDEX)) as source:
                data = source.read(0, source.size or 0)
            found = parse_offset_index(data, segment.name.base_offset)
        except (KdumpError, KeyError):
            return []
        return [entry for entry in found if entry.position > 0]

    def _read_manifest(self, segment: StoredSegment, path: str) -> ObjectManifest:
        if MANIFEST not in segment.sizes:
            raise KdumpError(Codes.REMOTE_MISSING, "the object is missing")
        if segment.sizes[MANIFEST] > LARGEST_MANIFEST:
            raise DamageError(Codes.REMOTE_MANIFEST, f"has {segment.sizes[MANIFEST]:,} bytes")
        found = parse_manifest(read_whole(path))
        name = segment.name
        for what, here, there in (
            ("segment", name.segment_id, found.segment_id),
            ("topic id", name.topic_id, found.topic_id),
            ("partition", name.partition, found.partition),
            ("start offset", name.base_offset, found.start_offset),
        ):
            if here != there:
                raise DamageError(Codes.REMOTE_MANIFEST, f"is of the {what} {there}, its name says {here}")
        return found

    def _listed(self) -> dict[TopicPartitionId, dict[str, StoredSegment]]:
        if self._segments is None:
            self._others = []
            found: dict[TopicPartitionId, dict[str, StoredSegment]] = {}
            for path, size in _objects(self.root):
                name = parse_object(path)
                if name is None:
                    self._others.append(StoredObject(path, size))
                    continue
                stem = path.removesuffix(f".{name.kind}")
                own = found.setdefault((name.topic_id, name.partition), {})
                own.setdefault(stem, StoredSegment(name, stem)).sizes[name.kind] = size
            self._segments = found
        return self._segments


class RemoteFiles(NamedTuple):
    """The offsets of a segment (both in it), its newest leader epoch, and the bytes of its files by kind."""

    start_offset: int
    end_offset: int
    epoch: int
    sizes: Mapping[str, int]


def _objects(root: str) -> Iterator[tuple[str, int]]:
    return ((entry.path, entry.size or 0) for entry in files.tree(root))


def batches(source: Source, start: int = 0) -> Iterator[tuple[int, int, int, int]]:
    """(position, base offset, last offset, leader epoch) of the batches from a position on."""
    for chunk in Walk(source, start=start).chunks():
        for first, last in chunk.entries():
            if last - first >= HEADER_SIZE and chunk.data[first + MAGIC_OFFSET] == MAGIC:
                header = parse_header(chunk.data, first)
                yield chunk.position + first, header.base_offset, header.last_offset, header.partition_leader_epoch
