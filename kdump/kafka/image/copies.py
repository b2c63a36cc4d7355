"""Copies of one metadata log, and what a majority of them has.

Source: docs/spec/metadata.md#rule-3-what-is-committed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest

from kdump.codes import Codes, KdumpError, OnError
from kdump.format.checkpoint import META_PROPERTIES, MetaProperties, parse_meta_properties
from kdump.kafka.image.metadatalog import MetadataLog, UnreadableBatchError
from kdump.log import files
from kdump.log.names import (
    CLUSTER_METADATA,
    METADATA_DIRECTORY,
    SNAPSHOT_NAME,
    parse_file_name,
    parse_partition_directory,
)
from kdump.log.opening import read_whole


@dataclass(frozen=True, slots=True)
class MetadataCopy:
    """A metadata log with what its log directory says; ``properties``: None where there is no meta.properties."""

    log: MetadataLog
    properties: MetaProperties | None

    @property
    def node_id(self) -> int | None:
        """The node that it belongs to."""
        return None if self.properties is None else self.properties.node_id

    @property
    def cluster_id(self) -> str | None:
        """The cluster that it belongs to."""
        return None if self.properties is None else self.properties.cluster_id


def read_properties(directory: str) -> MetaProperties | None:
    """meta.properties of a log directory; None where it says nothing."""
    try:
        return parse_meta_properties(read_whole(os.path.join(directory, META_PROPERTIES)))
    except KdumpError:
        return None


def find_copies(paths: Iterable[str], on_error: OnError) -> list[MetadataCopy]:
    """The metadata logs that paths name: their directories, files in them, and log directories that hold one."""
    found: dict[str, MetadataLog] = {}
    for path in paths:
        try:
            log = _log_of(path)
        except KdumpError as error:
            on_error(error.located(path))
            continue
        if log is not None:
            before = found.get(log.directory)
            found[log.directory] = log if before is None else _joined(before, log)
    return [MetadataCopy(log, read_properties(os.path.dirname(log.directory))) for log in found.values()]


def _log_of(path: str) -> MetadataLog | None:
    folder = path.rstrip("/") or path
    if _is_metadata(folder):
        return MetadataLog.of(folder) if files.is_directory(folder) else None
    name = parse_file_name(folder)
    inside = files.directory_of(folder)
    if name is not None and (_is_metadata(inside) or name.kind.value == ".checkpoint"):
        log = MetadataLog.of(inside)
        # A snapshot or a segment that is named alone is all there is.
        named = replace(
            log,
            segments=tuple(one for one in log.segments if os.path.basename(one.path) == os.path.basename(folder)),
            snapshots=tuple(one for one in log.snapshots if one.name == os.path.basename(folder)),
        )
        if not named.segments and not named.snapshots:
            if not files.exists(folder):
                raise KdumpError(Codes.MISSING, Codes.MISSING.value.title, path=folder)
            raise KdumpError(Codes.NAME, f"the name is not {SNAPSHOT_NAME}", path=folder)
        return named
    inner = os.path.join(folder, METADATA_DIRECTORY)
    return MetadataLog.of(inner) if files.is_directory(inner) else None


def _is_metadata(path: str) -> bool:
    return parse_partition_directory(os.path.basename(path)) == (CLUSTER_METADATA, 0)


def _joined(one: MetadataLog, other: MetadataLog) -> MetadataLog:
    segments = sorted({*one.segments, *other.segments})
    return MetadataLog(one.directory, tuple(segments), tuple(sorted({*one.snapshots, *other.snapshots})))


def by_cluster(copies: Iterable[MetadataCopy]) -> Iterator[list[MetadataCopy]]:
    """The copies of each cluster; those that name none are a cluster each."""
    found: dict[object, list[MetadataCopy]] = {}
    for number, copy in enumerate(copies):
        found.setdefault(number if copy.cluster_id is None else copy.cluster_id, []).append(copy)
    yield from found.values()


def _rank(copy: MetadataCopy) -> tuple[int, int, int]:
    """The epoch and the end offset by which raft votes; of equals the copy that begins earlier counts."""
    ends: dict[int, int] = {}
    for snapshot in copy.log.snapshots:
        if snapshot.end_offset:
            ends[snapshot.epoch] = max(ends.get(snapshot.epoch, 0), snapshot.end_offset)
    try:
        for batch in copy.log.batches(max((segment.base_offset for segment in copy.log.segments), default=0)):
            ends[batch.epoch] = max(ends.get(batch.epoch, 0), batch.last_offset + 1)
    except UnreadableBatchError:
        pass
    epoch = max(ends, default=-1)
    return epoch, ends.get(epoch, -1), -copy.log.start_offset


def newest(copies: list[MetadataCopy]) -> MetadataCopy:
    """The copy that would win an election: the highest epoch, then the most records."""
    return max(copies, key=_rank) if len(copies) > 1 else copies[0]


def certain_end(copies: list[MetadataCopy], main: MetadataCopy, voters: Iterable[int]) -> int | None:
    """The offset below which a majority of the voters has the records of ``main``; None where too few are given."""
    ids = set(voters)
    own = [copy for copy in copies if copy.node_id in ids]
    needed = len(ids) // 2 + 1
    if not ids or len({copy.node_id for copy in own}) < needed:
        return None
    ends: dict[int | None, int] = {}
    for copy in own:
        ends[copy.node_id] = max(ends.get(copy.node_id, 0), common_end(copy.log, main.log))
    return sorted(ends.values(), reverse=True)[needed - 1]


def common_end(one: MetadataLog, other: MetadataLog) -> int:
    """The offset below which two copies have the same batches, as far as both have them."""
    first = max(one.start_offset, other.start_offset)
    snapshots = {snapshot[:2] for snapshot in one.snapshots} & {snapshot[:2] for snapshot in other.snapshots}
    end = max([first, *(offset for offset, _ in snapshots)])
    for mine, theirs in zip_longest(_marks(one, first), _marks(other, first)):
        if mine is None or theirs is None or mine != theirs:
            break
        end = max(end, mine[0] + 1)
    return end


def _marks(log: MetadataLog, first: int) -> Iterator[tuple[int, int]]:
    """(last offset, epoch) of each batch that ends at offset ``first`` or after it."""
    try:
        for batch in log.batches(first):
            if batch.last_offset >= first:
                yield batch.last_offset, batch.epoch
    except UnreadableBatchError:
        return
