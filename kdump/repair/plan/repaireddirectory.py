"""The repaired directory: the files that a repair leaves, and their contents. Nothing is written here.

``copies`` writes these files, ``inplace`` applies how they differ from those on disk, and the next start of a broker is
predicted on them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property

from kdump.codes import Codes, KdumpError
from kdump.kafka.startup.directory import Directory
from kdump.log.content import Content, ContentSource
from kdump.log.names import INDEX_KINDS, Kind, sibling
from kdump.log.partition import segments_after
from kdump.repair.plan.beside import (
    ChangedOthers,
    PartitionFiles,
    changed_others,
    has_indexes,
    has_txn_index,
    unfit_others,
)
from kdump.repair.plan.plan import PartitionPlan, RepairMode, SegmentPlan
from kdump.repair.plan.producersat import base_offset_of
from kdump.repair.plan.recovery import Recovered, recover_log


class LogFate(Enum):
    """What becomes of a log."""

    STAYS = auto()
    CUT = auto()
    """It keeps its first bytes, as many as a broker's recovery keeps."""
    REPLACED = auto()
    """Another log takes its place, perhaps under another name."""
    GOES = auto()


@dataclass(frozen=True)
class RepairedSegment:
    """A segment after a repair.

    Attributes:
        plan: what was found out about the segment.
        fate: what becomes of its log.
        name: of the log after the repair.
        log: what the log holds; None if it goes.
        index_interval: see RepairSettings.
    """

    plan: SegmentPlan
    fate: LogFate
    name: str
    log: Content | None
    index_interval: int

    def recover(self, copy: Callable[[memoryview], None] | None = None, *, digests: bool = True) -> Recovered:
        """What a broker's recovery makes of the log; ``copy`` takes its bytes. Raises KdumpError."""
        plan, log = self.plan, self.log
        assert log is not None
        base_offset, interval = base_offset_of(self.name), self.index_interval
        with ContentSource(plan.path, log) as source:
            return recover_log(
                source, base_offset, plan.producers.copy(), index_interval=interval, copy=copy, digests=digests
            )

    @cached_property
    def indexes(self) -> Mapping[str, Content]:
        """The index files that are written for the log, by name: all of a new log, none of a log that stays as it is.

        Raises:
            KdumpError: a log that stays cannot be read.
        """
        plan = self.plan
        files: Mapping[Kind, Content] = {}
        if self.fate is LogFate.STAYS and plan.rebuilt:
            built = _built(plan.path, self.recover(digests=False))
            files = {kind: content for kind, content in built.items() if kind in plan.rebuilt}
        elif self.fate is LogFate.CUT:
            files = _built(plan.path, plan.recovered)
        elif self.fate is LogFate.REPLACED:
            assert plan.repaired is not None
            files = index_files(plan.path, plan.repaired)
        return {sibling(self.name, kind): content for kind, content in files.items()}


def index_files(path: str, recovered: Recovered) -> dict[Kind, Content]:
    """The index files of a log that takes the place of the log ``path``, in the order of INDEX_KINDS.

    They are those that recovery builds. A .txnindex that recovery cannot build is taken over.

    Args:
        path: of the old log.
        recovered: what recovery makes of the new one.
    """
    files = _built(path, recovered)
    txn_index = sibling(path, Kind.TXN_INDEX)
    if files and Kind.TXN_INDEX not in files and has_txn_index(path):
        files[Kind.TXN_INDEX] = Content.of_file(txn_index, os.stat(txn_index).st_size)
    return files


def _built(path: str, recovered: Recovered) -> dict[Kind, Content]:
    if not has_indexes(path):
        return {}
    built = recovered.index_files(has_txn_index=has_txn_index(path))
    return {kind: Content.of_bytes(data) for kind, data in built.items()}


class RepairedDirectory:
    """A partition directory after a repair.

    Args:
        plan: of the repair.
    """

    def __init__(self, plan: PartitionPlan) -> None:
        self.plan = plan
        ends_as_broker = plan.mode is RepairMode.LIKE_BROKER or _is_recovered_end(plan)
        self.segments = tuple(_repaired(segment, plan, is_cut=ends_as_broker) for segment in plan.segments)

    @property
    def changed(self) -> list[RepairedSegment]:
        """The segments whose logs do not stay."""
        return [segment for segment in self.segments if segment.fate is not LogFate.STAYS]

    @cached_property
    def others(self) -> ChangedOthers:
        """What becomes of the files that belong to no single segment; where no log changes, of unfit ones only."""
        return changed_others(self.plan) if self.plan.changes_any_log else unfit_others(self.plan)

    @property
    def copied_others(self) -> Mapping[str, Content]:
        """The files that belong to no single segment, by name, as a copy of the partition has them.

        Raises:
            KdumpError: a file cannot be read.
        """
        changed = changed_others(self.plan)
        paths = PartitionFiles.of(self.plan.place.directory).paths
        copied = {os.path.basename(path): Content.of_file(path, os.stat(path).st_size) for path in paths}
        for name in changed.dropped:
            copied.pop(name, None)
        return copied | {name: Content.of_bytes(data) for name, data in changed.written.items()}

    @cached_property
    def files(self) -> Mapping[str, Content]:
        """All regular files of the directory by name.

        Raises:
            KdumpError: a file cannot be read.
        """
        files = dict(Directory.on_disk(self.plan.place.directory).before)
        for segment in self.segments:
            path = segment.plan.path
            if segment.fate is LogFate.CUT and os.path.basename(path) not in files:
                raise KdumpError(Codes.CHANGED_WHILE_READ, "is gone while it was read; nothing is written", path=path)
            if segment.fate in (LogFate.REPLACED, LogFate.GOES):
                for name in (path, *(sibling(path, kind) for kind in INDEX_KINDS)):
                    files.pop(os.path.basename(name), None)
            if segment.fate in (LogFate.CUT, LogFate.REPLACED) and segment.log is not None:
                files[segment.name] = segment.log
            files.update(segment.indexes)
        for name in self.others.dropped:
            files.pop(name, None)
        files.update((name, Content.of_bytes(data)) for name, data in self.others.written.items())
        return files


def _is_recovered_end(plan: PartitionPlan) -> bool:
    """Whether salvage changes only the last segment, and cuts it where a broker's recovery does too."""
    *others, last = plan.segments
    if any(segment.is_salvaged for segment in others) or not last.is_cut or segments_after(last.path):
        return False
    log = last.salvaged
    return log is not None and log.is_copy_of(last.path, last.recovered.recovery.end, last.base_offset)


def _repaired(segment: SegmentPlan, plan: PartitionPlan, *, is_cut: bool) -> RepairedSegment:
    """``is_cut``: the log, if it changes, ends where a broker's recovery ends it."""
    name, interval = os.path.basename(segment.path), plan.settings.index_interval
    whole = Content.of_file(segment.path, segment.fingerprint.size)
    if not plan.changes_log(segment):
        return RepairedSegment(segment, LogFate.STAYS, name, whole, interval)
    if plan.mode is RepairMode.LIKE_BROKER and segment.is_after_cut:
        return RepairedSegment(segment, LogFate.GOES, name, None, interval)
    if is_cut:
        kept = whole.resized(segment.recovered.recovery.end)
        return RepairedSegment(segment, LogFate.CUT, name, kept, interval)
    assert segment.salvaged is not None
    return RepairedSegment(segment, LogFate.REPLACED, segment.repaired_name, segment.salvaged.content, interval)
