"""A bucket as a store of partitions, which the rest of kdump reads as it reads any other store (``log.stores``).

Its directories have the names of partitions, their files those that the broker's files had. With a log directory beside
it, the remote segments of a partition come first, and the files of the broker go on where these begin.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from urllib.parse import quote, unquote, urlencode

from kdump.codes import Codes, KdumpError
from kdump.format.checkpoint import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    PARTITION_METADATA,
    write_partition_metadata,
)
from kdump.kafka.remotesegments import (
    RemoteSegments,
    SegmentState,
    TopicPartitionId,
    metadata_directories,
    read_remote_segments,
)
from kdump.log import files
from kdump.log.named import ListingEntry
from kdump.log.names import Kind, parse_file_name, parse_partition_directory
from kdump.log.opening import open_source
from kdump.log.siblings import checkpoint_offsets, read_topic_id
from kdump.log.source import MemorySource, Source
from kdump.log.stores import Store
from kdump.tiered.bucket import Bucket, RemoteFiles, StoredSegment, batches
from kdump.tiered.objects import EPOCHS, LOG, SNAPSHOT

_DONE: Final = frozenset({SegmentState.COPY_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_STARTED})
"""States of segments that no broker reads."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file of a partition. ``segment_id``: of the segment that it is a part of."""

    size: int
    open: Callable[[str], Source]
    segment_id: str | None = None


@dataclass(slots=True)
class _RemotePartition:
    """What a directory is made of: objects, and a directory of the broker."""

    segments: list[StoredSegment] = field(default_factory=list)
    topic_id: str | None = None
    local: str | None = None


@dataclass(frozen=True, slots=True)
class ObjectPiece:
    """A segment of a partition as it is read: up to ``until`` (exclusive), where another one goes on; None: all."""

    segment: StoredSegment
    found: RemoteFiles | KdumpError
    until: int | None = None


class TierStore(Store):
    """See the module.

    Args:
        root: the beginning of all its paths.
        bucket: the objects.
        metadata: a log directory of a broker that says what the objects are; None: nothing does.
        joins: its partitions go on with the files in that log directory.
    """

    def __init__(self, root: str, bucket: Bucket, metadata: str | None = None, *, joins: bool = False) -> None:
        self.root = root
        self.bucket = bucket
        self.metadata = metadata
        self.log_directory = metadata if joins else None
        self._known: RemoteSegments | None = None
        self._partitions: dict[str, _RemotePartition] | None = None
        self._files: dict[str, dict[str, _File]] = {}

    def forget_listings(self) -> None:
        """See Store: the bucket is listed once."""

    def is_directory(self, path: str) -> bool:
        """See Store."""
        directory, name = self._split(path)
        return (not name and (not directory or directory in self._listed())) or self._is_local(path, files.is_directory)

    def exists(self, path: str) -> bool:
        """See Store."""
        return self.is_directory(path) or self._file(path) is not None or self._is_local(path, files.exists)

    def has(self, path: str) -> bool:
        """Whether the bucket holds it. Raises KdumpError where the bucket cannot be listed."""
        self._listed()
        return self.exists(path)

    def entry(self, path: str) -> ListingEntry | None:
        """See Store."""
        found = self._file(path)
        if found is not None:
            return ListingEntry(path.rpartition("/")[2], path, False, found.size)
        local = self.local_path(path)
        if local is None or not files.exists(local) or files.is_directory(local):
            return None
        return ListingEntry(path.rpartition("/")[2], path, False, files.size(local))

    def size(self, path: str) -> int:
        """See Store."""
        found = self.entry(path)
        if found is None or found.size is None:
            raise KdumpError(Codes.MISSING, "no such file", path=path)
        return found.size

    def listing(self, directory: str) -> list[ListingEntry]:
        """See Store."""
        if not self.is_directory(directory):
            raise KdumpError(Codes.MISSING, "no such directory", path=directory)
        own, name = self._split(directory)
        found = {}
        local = self.local_path(directory)
        if local is not None and files.exists(local):
            for entry in files.listing(local):
                size = None if entry.is_directory else files.size(entry.path)
                found[entry.name] = ListingEntry(
                    entry.name, f"{directory}/{quote(entry.name)}", entry.is_directory, size
                )
        if not own:
            names = self._listed().keys() - found.keys()
            return [*found.values(), *(ListingEntry(name, f"{directory}/{name}", True) for name in sorted(names))]
        if not name and own in self._listed():
            for file, one in self._partition(own).items():
                found[file] = ListingEntry(file, f"{directory}/{file}", False, one.size)
        return list(found.values())

    def open(self, path: str) -> Source:
        """See Store."""
        found = self._file(path)
        if found is not None:
            return found.open(path)
        local = self.local_path(path)
        if local is None or not files.exists(local):
            raise KdumpError(Codes.MISSING, "no such file or directory", path=path)
        return open_source(local)

    def with_credentials(self, path: str) -> str:
        """See Store."""
        given = [("bucket", files.with_credentials(self.bucket.root))]
        if self.metadata is not None:
            name = "metadata" if self.log_directory is None else "logs"
            given.append((name, files.with_credentials(self.metadata)))
        given += [("key", f"{key}={file}") for key, file in self.bucket.ring.files.items()]
        return f"{path}?{urlencode(given)}"

    def segment_of(self, path: str) -> str | None:
        """The id of the remote segment that a file is a part of; None for other files."""
        found = self._file(path)
        return None if found is None else found.segment_id

    def start_offset(self, path: str) -> int | None:
        """The log start offset of the partition that a path lies in, where a broker says it."""
        parsed = parse_partition_directory(self._split(path)[0])
        if parsed is None or self.metadata is None:
            return None
        return checkpoint_offsets(self.metadata, LOG_START_CHECKPOINT).get(parsed)

    @property
    def partitions(self) -> Mapping[str, TopicPartitionId]:
        """The partitions by the names of their directories; those of which no topic id is known are left out."""
        found = ((name, parse_partition_directory(name), one.topic_id) for name, one in self._listed().items())
        return {name: (topic_id, parsed[1]) for name, parsed, topic_id in found if topic_id and parsed}

    @property
    def known(self) -> RemoteSegments | None:
        """What the metadata in the log directory says."""
        if self._known is None and self.metadata is not None:
            self._known = read_remote_segments(metadata_directories(self.metadata))
        return self._known

    def pieces(self, directory: str) -> list[ObjectPiece]:
        """The remote segments of a partition directory (its name), as they are read."""
        local = self._listed()[directory].local
        found = [one for one in self._described(directory) if self._may_be_read(one)]
        return in_sequence(found, None if local is None else local_extent(local)[0])

    def unread(self, directory: str) -> list[StoredSegment]:
        """The segments of a partition directory that lack an object, or whose manifest cannot be read."""
        return [one.segment for one in self._described(directory) if isinstance(one.found, KdumpError)]

    def _described(self, directory: str) -> list[ObjectPiece]:
        """The segments that a broker may read."""
        known = {} if self.known is None else self.known.by_id
        found = []
        for one in self._listed()[directory].segments:
            record = known.get(one.segment_id)
            if record is not None and record.state in _DONE:
                continue
            try:
                found.append(ObjectPiece(one, self.bucket.describe(one, record)))
            except KdumpError as error:
                found.append(ObjectPiece(one, error))
        return found

    def _may_be_read(self, piece: ObjectPiece) -> bool:
        """It can be read, or it should be: its absence must not go unnoticed."""
        if not isinstance(piece.found, KdumpError):
            return True
        is_known = self.known is not None and piece.segment.segment_id in self.known.by_id
        return is_known or not piece.segment.missing

    def _partition(self, directory: str) -> Mapping[str, _File]:
        if directory not in self._files:
            self._files[directory] = self._made(directory)
        return self._files[directory]

    def _made(self, directory: str) -> dict[str, _File]:
        own = self._listed()[directory]
        made: dict[str, _File] = {}
        start = 0 if self.log_directory is None else self.start_offset(f"{self.root}/{directory}") or 0
        for piece in self.pieces(directory):
            one, found = piece.segment, piece.found
            base = f"{one.name.base_offset:020d}"
            if isinstance(found, KdumpError):
                made[f"{base}.log"] = _File(one.sizes.get(LOG, 0), partial(_failing, found), one.segment_id)
                continue
            if found.end_offset < start:
                continue
            until = None if piece.until is None else self.bucket.position_of(one, piece.until)
            for kind, size in found.sizes.items():
                if kind == LOG:
                    first = start if found.start_offset < start else None
                    opened = partial(self.bucket.open, one, kind, size=until, first_offset=first)
                    made[f"{base}.log"] = _File(size if until is None else until, opened, one.segment_id)
                elif kind == EPOCHS:
                    made[LEADER_EPOCH_CHECKPOINT] = _File(size, partial(self.bucket.open, one, kind), one.segment_id)
                elif until is None:
                    number = f"{found.end_offset + 1:020d}" if kind == SNAPSHOT else base
                    made[f"{number}.{kind}"] = _File(size, partial(self.bucket.open, one, kind), one.segment_id)
        if own.topic_id is not None:
            data = write_partition_metadata(own.topic_id)
            made[PARTITION_METADATA] = _File(len(data), partial(MemorySource, data=data))
        if own.local is not None:
            for entry in files.listing(own.local):
                made.pop(entry.name, None)
        return made

    def _listed(self) -> Mapping[str, _RemotePartition]:
        if self._partitions is None:
            self._partitions = self._found()
        return self._partitions

    def _found(self) -> dict[str, _RemotePartition]:
        found: dict[str, _RemotePartition] = {}
        local: dict[TopicPartitionId, str] = {}
        if self.log_directory is not None:
            for entry in files.listing(self.log_directory):
                if entry.is_directory and (parsed := parse_partition_directory(entry.name)) is not None:
                    topic_id = read_topic_id(entry.path)
                    found[entry.name] = _RemotePartition([], topic_id, entry.path)
                    if topic_id is not None and entry.name == f"{parsed[0]}-{parsed[1]}":
                        local[topic_id, parsed[1]] = entry.name
        by_id: dict[str, list[StoredSegment]] = {}
        for owner, segments in self.bucket.segments.items():
            by_id.setdefault(owner[0], []).extend(segments)
        # Of topics with one name the one with the most segments has it.
        for topic_id, segments in sorted(by_id.items(), key=lambda item: (-len(item[1]), item[0])):
            self._place(topic_id, segments, local, found)
        return found

    def _place(
        self,
        topic_id: str,
        segments: list[StoredSegment],
        local: Mapping[TopicPartitionId, str],
        found: dict[str, _RemotePartition],
    ) -> None:
        """Add the segments of a topic to the partitions that were found."""
        topic = self.bucket.topic(segments)
        numbers = {one.name.partition for one in segments}
        is_local = any((topic_id, number) in local for number in numbers)
        if not is_local and any(f"{topic}-{number}" in found for number in numbers):
            topic = f"{topic}.{topic_id}"
        for one in segments:
            if self.known is not None and not self._is_live(one) and (one.owner not in local):
                continue
            name = local.get(one.owner, f"{topic}-{one.name.partition}")
            found.setdefault(name, _RemotePartition([], topic_id)).segments.append(one)

    def _is_live(self, segment: StoredSegment) -> bool:
        assert self.known is not None
        record = self.known.by_id.get(segment.segment_id)
        if record is None:
            return not self.known.is_complete
        return record.state is SegmentState.COPY_SEGMENT_FINISHED

    def _split(self, path: str) -> tuple[str, str]:
        """The name right under the root, and the rest of the path; '' for what is not there."""
        directory, _, name = unquote(path.removeprefix(self.root).strip("/")).partition("/")
        return directory, name

    def _file(self, path: str) -> _File | None:
        directory, name = self._split(path)
        return self._partition(directory).get(name) if name and directory in self._listed() else None

    def local_path(self, path: str) -> str | None:
        """The path of the broker's file or directory of this name; there need not be one."""
        if self.log_directory is None:
            return None
        rest = unquote(path.removeprefix(self.root).strip("/"))
        return os.path.join(self.log_directory, rest) if rest else self.log_directory

    def _is_local(self, path: str, asked: Callable[[str], bool]) -> bool:
        local = self.local_path(path)
        return local is not None and asked(local)


def in_sequence(pieces: Iterable[ObjectPiece], local_start: int | None) -> list[ObjectPiece]:
    """The pieces in the order of their offsets, each up to where the next one begins, before the local log.

    Where segments hold the same offsets, the newer leader epoch counts, as it is that of the leader whose log goes on;
    else the one that reaches further. What cannot be read stays in its place.
    """
    chosen: list[ObjectPiece] = []
    ends: list[tuple[int, int, int]] = []
    """Of each of ``chosen``: its last offset, its newest leader epoch, and the largest last offset up to it."""

    def choose(piece: ObjectPiece, end: int, epoch: int) -> None:
        chosen.append(piece)
        ends.append((end, epoch, max(end, ends[-1][2]) if ends else end))

    for piece in sorted(pieces, key=_order):
        start = piece.segment.name.base_offset
        if local_start is not None and start >= local_start:
            continue
        if isinstance(piece.found, KdumpError):
            if not chosen or ends[-1][2] < start:
                choose(piece, start, -1)
            continue
        end, epoch = piece.found.end_offset, piece.found.epoch
        if chosen and end <= ends[-1][0] and epoch <= ends[-1][1]:
            continue
        while chosen and chosen[-1].segment.name.base_offset == start:
            chosen.pop()
            ends.pop()
        if chosen and start <= ends[-1][0]:
            chosen[-1] = ObjectPiece(chosen[-1].segment, chosen[-1].found, start)
        choose(piece, end, epoch)
    if local_start is not None and chosen and ends[-1][0] >= local_start:
        chosen[-1] = ObjectPiece(chosen[-1].segment, chosen[-1].found, local_start)
    return chosen


def _order(piece: ObjectPiece) -> tuple[int, bool, int, int, str]:
    start, missing = piece.segment.name.base_offset, len(piece.segment.missing)
    if isinstance(piece.found, KdumpError):
        return start, True, 0, missing, piece.segment.segment_id
    return start, False, -piece.found.end_offset, missing, piece.segment.segment_id


def local_extent(directory: str) -> tuple[int | None, int | None]:
    """The first offset of the local log of a partition, and the one after its last; None: there is no log."""
    names = (parse_file_name(entry.name) for entry in files.listing(directory) if not entry.is_directory)
    logs = (one for one in names if one is not None and one.kind is Kind.LOG and not one.state)
    bases = sorted(one.base_offset for one in logs if one.base_offset is not None)
    if not bases:
        return None, None
    try:
        with open_source(os.path.join(directory, f"{bases[-1]:020d}{Kind.LOG.value}")) as source:
            last = [offset for _, _, offset, _ in batches(source)]
    except KdumpError:
        last = []
    return bases[0], last[-1] + 1 if last else bases[-1]


def _failing(error: KdumpError, path: str) -> Source:
    raise error.located(path)
