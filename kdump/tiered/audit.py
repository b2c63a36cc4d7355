"""Objects of a bucket against the metadata of the cluster: what is missing, damaged, unfinished, or nobody's.

One pass over the listing and one over the segments that the metadata lists. Nothing is written to a bucket.

Source: docs/spec/tiered.md#5-states.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.format.checkpoint import EpochEntry
from kdump.kafka.remotesegments import RemoteSegment, RemoteSegments, SegmentState, TopicPartitionId
from kdump.log.names import is_uri
from kdump.system.units import counted, time_text
from kdump.tiered.bucket import Bucket, StoredSegment
from kdump.tiered.custom import parse_custom_metadata
from kdump.tiered.manifest import ObjectManifest
from kdump.tiered.objects import (
    AIVEN_KINDS,
    EPOCHS,
    INDEX,
    INDEXES,
    LOG,
    MANIFEST,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    BucketLayout,
    what_else,
)

_STARTED: Final = {
    SegmentState.COPY_SEGMENT_STARTED: (Codes.REMOTE_COPY, "its copy never finished"),
    SegmentState.DELETE_SEGMENT_STARTED: (Codes.REMOTE_DELETION, "its deletion never finished"),
}
_LATENESS: Final = 60_000
"""Milliseconds in which the record of a copy that began is surely in its log, also while other logs grow."""
_INDEX_KINDS: Final = (INDEX, TIME_INDEX, SNAPSHOT, EPOCHS, TXN_INDEX)


class LocalLog(NamedTuple):
    """What a broker has of a partition: its log start offset, the offsets of its local log, its leader epochs.

    ``start_offset``: None where nothing says it. ``first`` and ``end`` (exclusive): None without a local log.
    """

    start_offset: int | None
    first: int | None
    end: int | None
    epochs: Sequence[EpochEntry]


class Audit:
    """One comparison.

    Args:
        bucket: the objects. It is listed after ``known`` was read.
        known: what the metadata says; None: there is none.
        deep: manifests and indexes are read, not only names and sizes.
    """

    def __init__(self, bucket: Bucket, known: RemoteSegments | None, *, deep: bool = True) -> None:
        self._bucket = bucket
        self._known = known
        self._deep = deep
        self._totals: dict[tuple[str, str], Counter[str]] = {}

    def findings(
        self, locals_: Mapping[TopicPartitionId, LocalLog], only: TopicPartitionId | None = None
    ) -> Iterator[Finding]:
        """What is wrong.

        Args:
            locals_: what a broker has.
            only: the partition that is compared; None: all.

        Raises:
            KdumpError: the bucket cannot be listed.
        """
        stored = self._bucket.segments
        if self._known is not None and not self._known.is_complete:
            what = (
                "logs of __remote_log_metadata are missing, begin later or are damaged; perhaps more segments are known"
            )
            yield Finding(Codes.REMOTE_METADATA, what, 0, path=self._bucket.root)
        found: set[str] = set()
        for owner, segments in stored.items():
            if only is None or owner == only:
                topic = self._bucket.topic(segments)
                for one in segments:
                    if self._owns(one):
                        found.add(one.segment_id)
                    yield from self._segment(one, topic)
        for record in () if self._known is None else self._known.listed():
            if record.segment_id not in found and (only is None or record.owner == only):
                yield from self._absent(record)
        if only is None:
            yield from self._others()
        if self._known is not None:
            yield from _offsets(self._bucket.root, self._known, locals_, only)
        for (topic, state), counts in sorted(self._totals.items()):
            parts = ", ".join(counted(counts[f"{one}s"], one) for one in ("segment", "object", "byte"))
            yield Finding(Codes.REMOTE_TOTALS, f"{topic}: {state}: {parts}", 0, path=self._bucket.root)

    def _owns(self, segment: StoredSegment) -> bool:
        """The metadata lists a segment of this id, and its objects would have this name."""
        record = None if self._known is None else self._known.by_id.get(segment.segment_id)
        if record is None:
            return False
        return record.owner == segment.owner and record.start_offset in (segment.name.base_offset, None)

    def _segment(self, segment: StoredSegment, topic: str) -> Iterator[Finding]:
        """One segment that has objects."""
        if self._known is None:
            self._count(topic, "without metadata", segment)
            yield from self._unlisted(segment)
        elif not self._owns(segment):
            self._count(topic, "no owner", segment)
            yield from self._orphan(segment)
        else:
            record = self._known.by_id[segment.segment_id]
            self._count(topic, record.state.name, segment)
            if record.state in _STARTED:
                code, what = _STARTED[record.state]
                yield _of(segment, code, f"{what}; {_objects(segment)}{_command(segment)}")
            else:
                for kind in segment.missing:
                    yield _of(segment, Codes.REMOTE_MISSING, "the object is missing", kind)
                yield from self._contents(segment, record)

    def _unlisted(self, segment: StoredSegment) -> Iterator[Finding]:
        for kind in segment.missing:
            what = "the object is missing; perhaps a copy or a deletion has not finished (--tier tells)"
            yield _of(segment, Codes.REMOTE_MISSING, what, kind, Severity.WARNING)
        yield from self._contents(segment, None)

    def _orphan(self, segment: StoredSegment) -> Iterator[Finding]:
        assert self._known is not None
        if segment.segment_id in self._known.deleted:
            what = "its deletion is finished, and objects are left"
        elif segment.segment_id in self._known.by_id:
            what = "the segment of this id has other names"
        elif (doubt := self._doubt(segment, self._known)) is not None:
            yield _of(segment, Codes.REMOTE_ORPHAN, f"perhaps {doubt}; {_objects(segment)}")
            return
        else:
            what = "the metadata has no such segment"
        yield _of(segment, Codes.REMOTE_ORPHAN, f"{what}; {_objects(segment)}{_command(segment)}")

    def _doubt(self, segment: StoredSegment, known: RemoteSegments) -> str | None:
        """Why a segment that the metadata does not name may belong to somebody; None: it belongs to nobody.

        A broker writes the record of a copy before its first object. So it is missing where the metadata was read, or
        its log directory copied, before.
        """
        if not known.is_complete:
            return "no segment owns it"
        if not known.knows(segment.owner):
            return "another cluster owns it: the metadata does not know its partition"
        copied_at = None
        if MANIFEST in segment.sizes:
            with suppress(KdumpError):
                copied_at = self._bucket.manifest(segment).copied_at
        if copied_at is not None and copied_at > known.newest - _LATENESS:
            return f"it is newer than the metadata, which ends at {time_text(known.newest)} UTC"
        return None

    def _absent(self, record: RemoteSegment) -> Iterator[Finding]:
        """A segment that has no objects."""
        self._totals.setdefault((record.topic, record.state.name), Counter())["segments"] += 1
        where = f"{record.topic}-{record.partition}, offsets {record.start_offset}..{record.end_offset}"
        code, what = _STARTED.get(record.state, (Codes.REMOTE_MISSING, "all its objects are missing"))
        graded = None if code is Codes.REMOTE_MISSING else Severity.INFO
        if graded is not None:
            what += "; it has no objects"
        yield Finding(
            code,
            f"{where}: {what}",
            0,
            first_offset=None if graded else record.start_offset,
            last_offset=None if graded else record.end_offset,
            path=self._bucket.root,
            graded=graded,
            segment_id=record.segment_id,
        )

    def _contents(self, segment: StoredSegment, record: RemoteSegment | None) -> Iterator[Finding]:
        """What is wrong with the objects of a segment that brokers read."""
        if segment.name.layout is BucketLayout.LOCAL:
            if record is not None and LOG in segment.sizes:
                yield from _size(segment, LOG, record.size)
            return
        if not self._deep or MANIFEST not in segment.sizes:
            return
        try:
            manifest = self._bucket.manifest(segment)
        except KdumpError as error:
            yield _of(segment, Codes.REMOTE_MANIFEST, error.message, MANIFEST)
            return
        if record is not None:
            yield from _contradictions(segment, manifest, record)
        is_sound = not segment.missing
        for kind, due in ((LOG, manifest.chunks.stored_size), (INDEXES, manifest.indexes_size)):
            for finding in _size(segment, kind, due) if kind in segment.sizes else ():
                is_sound = False
                yield finding
        if record is not None and is_sound:
            said = parse_custom_metadata(record.custom_metadata).get("remoteSize", segment.bytes)
            if said != segment.bytes:
                what = f"its objects have {segment.bytes:,} bytes, the metadata says {said:,}"
                yield _of(segment, Codes.REMOTE_OBJECT, what)
        if manifest.sealing is not None and INDEXES in segment.sizes:
            yield from self._sealed(segment, manifest)

    def _sealed(self, segment: StoredSegment, manifest: ObjectManifest) -> Iterator[Finding]:
        """Indexes whose tags do not fit. Without the key nothing is said: reading the log says it."""
        try:
            opening = self._bucket.opening(segment, manifest)
        except KdumpError:
            return
        for kind in _INDEX_KINDS:
            try:
                self._bucket.index(segment, kind, manifest, opening)
            except KdumpError as error:
                yield replace(_of(segment, error.code, error.message, INDEXES), position=error.position or 0)
            except KeyError:
                continue

    def _others(self) -> Iterator[Finding]:
        for one in self._bucket.others:
            owner = what_else(one.path)
            what = f"kdump does not read it: {owner or 'no known plugin writes such names'}; {one.size:,} bytes"
            yield Finding(Codes.REMOTE_FOREIGN, what, 0, path=one.path)

    def _count(self, topic: str, state: str, segment: StoredSegment) -> None:
        counts = self._totals.setdefault((topic, state), Counter())
        counts.update(segments=1, objects=len(segment.sizes), bytes=segment.bytes)


def _contradictions(segment: StoredSegment, manifest: ObjectManifest, record: RemoteSegment) -> Iterator[Finding]:
    """Where a manifest and the metadata say something else."""
    for what, here, there in (
        ("end offset", manifest.end_offset, record.end_offset),
        ("size of the log", manifest.chunks.size, record.size),
        ("largest timestamp", manifest.max_timestamp, record.max_timestamp),
        ("leader epochs", dict(manifest.leader_epochs), dict(record.leader_epochs)),
    ):
        if record.start_offset is not None and here != there:
            yield _of(segment, Codes.REMOTE_MANIFEST, f"{what}: {here}, the metadata says {there}", MANIFEST)


def _offsets(
    root: str,
    known: RemoteSegments,
    locals_: Mapping[TopicPartitionId, LocalLog],
    only: TopicPartitionId | None,
) -> Iterator[Finding]:
    """Offsets that nothing holds, that two segments hold, and where remote and local leader epochs differ."""
    by_owner: dict[TopicPartitionId, list[_Held]] = {}
    for one in known.listed():
        if one.state is SegmentState.COPY_SEGMENT_FINISHED and one.offsets is not None:
            by_owner.setdefault(one.owner, []).append(_Held(*one.offsets, one))
    for owner, held in by_owner.items():
        if only is not None and owner != only:
            continue
        held.sort(key=lambda one: one[:2])
        local = locals_.get(owner)
        name = f"{held[0].segment.topic}-{held[0].segment.partition}"
        for first, last in _gaps(held, local, known.deleted_until.get(owner, -1)):
            what = f"{name}: neither remote storage nor the local log holds offsets {first}..{last}"
            yield Finding(Codes.REMOTE_GAP, what, 0, None, first, last, last + 1, root)
        for before, after in pairwise(held):
            last = min(before.last, after.last)
            if after.first <= last and _epoch_at(before.segment, last) == _epoch_at(after.segment, last):
                what = f"{name}: the segment {before.segment.segment_id} holds these offsets too"
                yield _about(after, Codes.REMOTE_DOUBLED, what, root, (after.first, last))
        if local is not None and local.first is not None and local.end is not None and local.epochs:
            yield from _differences(root, name, held, local)


class _Held(NamedTuple):
    """The offsets of a segment; both are in it."""

    first: int
    last: int
    segment: RemoteSegment


def _gaps(held: Sequence[_Held], local: LocalLog | None, deleted: int) -> Iterator[tuple[int, int]]:
    """Offsets (both included) that neither a remote segment nor the local log holds.

    ``deleted``: the last offset that was deleted. The broker notes the log start offset only now and then.
    """
    first = None if local is None else local.first
    at = None if local is None or local.start_offset is None else max(local.start_offset, deleted + 1)
    for one in held:
        if at is not None and one.first > at and (first is None or at < first):
            yield at, one.first - 1 if first is None else min(one.first, first) - 1
        at = max(one.last + 1, at or 0)
    if first is not None and at is not None and first > at:
        yield at, first - 1


def _differences(root: str, name: str, held: Sequence[_Held], local: LocalLog) -> Iterator[Finding]:
    """The first offset of each segment that has another leader epoch in the local log."""
    for one in held:
        first, last = max(one.first, local.first or 0), min(one.last, (local.end or 0) - 1)
        begins = {first, *one.segment.leader_epochs.values(), *(entry.start_offset for entry in local.epochs)}
        for offset in sorted(begin for begin in begins if first <= begin <= last):
            here = max((entry.epoch for entry in local.epochs if entry.start_offset <= offset), default=None)
            there = _epoch_at(one.segment, offset)
            if here is not None and here != there:
                what = f"{name}: offset {offset} has the leader epoch {there} here and {here} in the local log"
                yield _about(one, Codes.REMOTE_DIFFERS, what, root, (offset, last))
                break


def _about(held: _Held, code: Codes, message: str, root: str, offsets: tuple[int, int]) -> Finding:
    return Finding(code, message, 0, None, *offsets, path=root, segment_id=held.segment.segment_id)


def _epoch_at(segment: RemoteSegment, offset: int) -> int | None:
    return max((epoch for epoch, start in segment.leader_epochs.items() if start <= offset), default=None)


def _size(segment: StoredSegment, kind: str, due: int | None) -> Iterator[Finding]:
    size = segment.sizes[kind]
    if due is not None and size != due:
        what = f"the object has {size:,} bytes, {due:,} are due"
        yield _of(segment, Codes.REMOTE_OBJECT, what, kind)


def _of(
    segment: StoredSegment, code: Codes, message: str, kind: str | None = None, graded: Severity | None = None
) -> Finding:
    """A finding about an object of a segment."""
    if kind is None:
        kind = next((one for one in AIVEN_KINDS if one in segment.sizes), next(iter(segment.sizes)))
    return Finding(code, message, 0, path=segment.path(kind), graded=graded, segment_id=segment.segment_id)


def _objects(segment: StoredSegment) -> str:
    return f"{counted(len(segment.sizes), 'object')}, {counted(segment.bytes, 'byte')}"


def _command(segment: StoredSegment) -> str:
    """What deletes the objects of a segment, for a person."""
    paths = [segment.path(kind) for kind in segment.sizes]
    if not is_uri(segment.stem):
        return f"; to delete them: rm -- {shlex.join(paths)}"
    if not segment.stem.startswith("s3"):
        return ""
    return f"; to delete them: {' && '.join(f'aws s3 rm {shlex.quote(path)}' for path in paths)}"
