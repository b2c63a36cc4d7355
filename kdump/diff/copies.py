"""A copy of a partition as a broker would have it after its start.

Source: docs/spec/replicas.md#1-what-belongs-to-a-copy; docs/spec/startup.md.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from kdump.codes import Codes, Finding, KdumpError
from kdump.diff.places import CopyPlace
from kdump.diff.table import CopyTable, TableSegment, read_table
from kdump.format.batch import CONTROL, MAGIC, MAX_INT32
from kdump.format.checkpoint import LEADER_EPOCH_CHECKPOINT
from kdump.kafka.fetcher import FetchedBatches, ReplicaLog
from kdump.kafka.startup.directory import Directory, LoadSettings
from kdump.kafka.startup.names import INDEX, file_name
from kdump.kafka.startup.outcome import StartFailureError
from kdump.kafka.startup.segment import StartSegment
from kdump.kafka.startup.start import start
from kdump.kafka.startup.textfiles import LeaderEpochs, check_topic_id
from kdump.log import files
from kdump.log.content import Content
from kdump.log.names import CLEANER_STATES, Kind, base_of, is_uri, parse_file_name
from kdump.log.siblings import parse_leader_epochs
from kdump.worlds import world_of_log

_TORN: Final = frozenset({Codes.TRUNCATED, Codes.HEADER_CUT, Codes.TRAILING_BYTES, Codes.ZERO_TAIL, Codes.ZERO_FILL})
"""What an unclean stop leaves at the end of a log."""


class CopySummary(NamedTuple):
    """A copy, as it is shown; see ``LoadedCopy``."""

    path: str
    directory: str
    log_start: int
    log_end: int
    high_watermark: int
    epochs: tuple[tuple[int, int], ...]
    topic_id: str | None
    cluster_id: str | None
    node_id: int | None
    is_damaged: bool = False
    is_future: bool = False

    @property
    def node(self) -> tuple[str | None, int | None] | None:
        """Whose it is; None where nothing tells."""
        return None if self.node_id is None else (self.cluster_id, self.node_id)


@dataclass(frozen=True)
class LoadedCopy:
    """A copy with its batch table.

    Attributes:
        place: where it lies.
        table: of the segments that a broker would serve.
        log_start: log start offset.
        log_end: log end offset.
        high_watermark: within the log.
        epochs: the leader epochs, (epoch, first offset) of each.
        damage: what is damaged in it, whether or not a start would cut it off.
        failure: why a broker would not start on it; None where it would.
        cut: offsets, first and last, of batches that are there, and that a start cuts off.
    """

    place: CopyPlace
    table: CopyTable
    log_start: int
    log_end: int
    high_watermark: int
    epochs: tuple[tuple[int, int], ...]
    damage: tuple[Finding, ...]
    failure: str | None
    cut: tuple[tuple[int, int], ...] = ()

    @property
    def path(self) -> str:
        """The PATH that holds it."""
        return self.place.path

    @property
    def summary(self) -> CopySummary:
        """What is shown of it."""
        place = self.place
        return CopySummary(
            *(place.path, place.directory, self.log_start, self.log_end, self.high_watermark, self.epochs),
            *(place.topic_id, place.cluster_id, place.node_id),
            bool(self.damage) or self.failure is not None,
            place.is_future,
        )

    @cached_property
    def replica(self) -> ReplicaLog:
        """What the model of a follower wants of it."""
        rows = self.table.rows
        batches = FetchedBatches(
            self.table.first,
            self.table.last,
            rows["leader_epoch"].astype(np.int64),
            rows["size"].astype(np.int64),
            rows["segment"].astype(np.int64),
            rows["is_valid"],
            [segment.base_offset for segment in self.table.segments],
            self.table.breaks,
        )
        first_base = self.table.segments[0].base_offset if self.table.segments else self.log_start
        return ReplicaLog(self.log_start, self.log_end, self.high_watermark, self.epochs, first_base, batches)


def load(place: CopyPlace) -> LoadedCopy:
    """Read the headers of a copy, and find out what a start makes of it.

    Raises:
        KdumpError: it cannot be read.
    """
    if place.log is not None:
        segment = TableSegment(base_of(place.log), place.log, files.size(place.log))
        return _unloaded(place, [segment], {})
    directory = Directory.on_disk(place.directory)
    world = next(filter(None, map(world_of_log, directory.names())), None)
    if world is not None:
        raise KdumpError(Codes.NOT_A_SEGMENT_FILE, f"logs of {world.title} are not compared")
    segments = [
        TableSegment(base, os.path.join(place.directory, name), directory[name].size)
        for base, name in sorted(_logs(directory))
    ]
    if place.settings is None:
        return _unloaded(place, segments, directory.before)
    table = read_table(segments, headers_only=is_uri(place.directory))
    state = _proved(directory, place.settings, table)
    if state is None:
        served = start(directory, place.settings)
        if served.served is None:
            failure = "" if served.failure is None else served.failure.message
            return _unloaded(place, segments, directory.before, failure or "its start never ends", table)
        epochs = LeaderEpochs(directory).entries
        state = _State(served.served.log_start_offset, served.served.end_offset, epochs, served.served.segments)
    kept = _after_start(directory, table, state)
    high_watermark = min(max(place.high_watermark or 0, state.log_start), state.log_end)
    return LoadedCopy(
        place,
        kept,
        state.log_start,
        state.log_end,
        high_watermark,
        tuple(state.epochs),
        _damage(table, kept, is_clean=place.settings.is_clean),
        None,
        _cut(table, dict(state.segments)),
    )


@dataclass(frozen=True, slots=True)
class _State:
    """What a start leaves; ``segments``: base offset and bytes of each."""

    log_start: int
    log_end: int
    epochs: Sequence[tuple[int, int]]
    segments: Sequence[tuple[int, int]]


def _logs(directory: Directory) -> list[tuple[int, str]]:
    found = []
    for name in directory.names():
        parsed = parse_file_name(name) if name.endswith(Kind.LOG.value) else None
        if parsed is not None and parsed.base_offset is not None:
            found.append((parsed.base_offset, name))
    return found


def _proved(directory: Directory, settings: LoadSettings, table: CopyTable) -> _State | None:
    """What a start leaves where the batch table proves that it cuts nothing; None: the model must tell.

    The model would read all that a broker recovers once more.

    Raises:
        KdumpError: a file cannot be opened.
    """
    rows, segments = table.rows, table.segments
    if not segments or table.damage or table.breaks:
        return None
    if any(name.endswith((*CLEANER_STATES, Kind.TXN_INDEX.value)) for name in directory.names()):
        return None
    bases = np.array([segment.base_offset for segment in segments], np.int64)
    relative = table.last - bases[rows["segment"]]
    is_plain = (rows["magic"] == MAGIC) & (rows["attributes"] & CONTROL == 0) & (relative <= MAX_INT32)
    rises = bool((np.diff(table.last) > 0).all() and (table.first >= bases[rows["segment"]]).all())
    if not (rises and is_plain.all() and max(segment.size for segment in segments) <= MAX_INT32):
        return None
    try:
        epochs = LeaderEpochs(directory)
        check_topic_id(directory)
        recovered = _recovered(directory, settings, segments)
        for number in recovered:
            _assign_epochs(epochs, table, number)
        end = _end(directory, settings, table, is_recovered=len(segments) - 1 in recovered)
    except StartFailureError:
        return None
    if end is None or end < settings.log_start_offset or bases[0] < 0:
        return None
    epochs.cut_end(end)
    epochs.cut_start(settings.log_start_offset)
    log_start = max(settings.log_start_offset, int(bases[0]))
    return _State(log_start, end, epochs.entries, [(segment.base_offset, segment.size) for segment in segments])


def _recovered(directory: Directory, settings: LoadSettings, segments: Sequence[TableSegment]) -> list[int]:
    """Numbers of the segments that a start recovers: from the recovery point on, and those without an .index."""
    bases = [segment.base_offset for segment in segments]
    first = len(segments) if settings.is_clean else max(bisect_right(bases, settings.recovery_point) - 1, 0)
    indexes = (file_name(base, INDEX) for base in bases)
    return [number for number, index in enumerate(indexes) if number >= first or index not in directory]


def _end(directory: Directory, settings: LoadSettings, table: CopyTable, *, is_recovered: bool) -> int | None:
    """The log end offset. A segment that is not recovered ends where its .index leads; None: to no batch.

    Raises:
        StartFailureError: the segment cannot be loaded.
        KdumpError: the .index cannot be read.
    """
    number = len(table.segments) - 1
    base = table.segments[number].base_offset
    first = int(np.searchsorted(table.rows["segment"], number))
    if not is_recovered:
        index = StartSegment(directory, base, settings).index
        indexed = index.last_offset()
        position = index.position_of(indexed)
        positions = table.rows["position"][first:]
        place = int(np.searchsorted(positions, position))
        if place < positions.size and int(positions[place]) != position:
            return None
        first += place
        if first < table.last.size and int(max(table.first[-1], table.last[-1])) < indexed:
            return base
    return int(table.last[-1]) + 1 if first < table.last.size else base


def _assign_epochs(epochs: LeaderEpochs, table: CopyTable, segment: int) -> None:
    """The leader epochs that the recovery of a segment puts back."""
    first, last = np.searchsorted(table.rows["segment"], [segment, segment + 1]).tolist()
    of_batches = table.rows["leader_epoch"][first:last]
    highest = np.maximum.accumulate(np.concatenate(([epochs.latest], of_batches)))
    for number in np.flatnonzero(of_batches > highest[:-1]).tolist():
        epochs.assign(int(of_batches[number]), int(table.first[first + number]))


def _after_start(directory: Directory, table: CopyTable, state: _State) -> CopyTable:
    """The table of what a start keeps."""
    on_disk = {segment.base_offset: segment for segment in table.segments}
    sizes = dict(state.segments)
    is_cut_only = all(
        (found := on_disk.get(base)) is not None
        and directory[os.path.basename(found.path)].starts_as(Content.of_file(found.path, found.size))
        for base, size in sizes.items()
        if size
    )
    if is_cut_only:
        is_whole = list(state.segments) == [(segment.base_offset, segment.size) for segment in table.segments]
        return table if is_whole else table.kept(sizes)
    names = [f"{base:020}{Kind.LOG.value}" for base, _ in state.segments]
    return read_table(
        TableSegment(base, os.path.join(directory.path, name), size, directory[name])
        for (base, size), name in zip(state.segments, names, strict=True)
    )


def _cut(table: CopyTable, sizes: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    """The offsets of batches that are beyond what is left of their segments; ``sizes``: by base offset."""
    is_cut = ~table.is_within(sizes)
    starts = np.flatnonzero(np.diff(is_cut, prepend=False) & is_cut)
    ends = np.flatnonzero(np.diff(is_cut, append=False) & is_cut)
    return tuple(zip(table.first[starts].tolist(), table.last[ends].tolist(), strict=True))


def _damage(table: CopyTable, kept: CopyTable, *, is_clean: bool) -> tuple[Finding, ...]:
    """What is damaged. A torn tail that an unclean stop left, and that a start cuts off, is none."""
    still = set(kept.damage)
    found = []
    for one in table.damage:
        is_torn = one.code in _TORN and one.path == table.segments[-1].path and one.continue_at is None
        if one in still or is_clean or not is_torn:
            found.append(one)
    return tuple(one for one in found if one.code is not Codes.ZERO_TAIL)


def _unloaded(
    place: CopyPlace,
    segments: Sequence[TableSegment],
    beside: Mapping[str, Content],
    failure: str | None = None,
    table: CopyTable | None = None,
) -> LoadedCopy:
    """A copy as it lies there: no start is modelled, or it fails."""
    table = read_table(segments, headers_only=is_uri(place.directory)) if table is None else table
    bases = [segment.base_offset for segment in segments]
    least = 0 if place.settings is None else place.settings.log_start_offset
    log_start = max(min(bases, default=0), least)
    log_end = max([*bases[-1:], log_start, *(table.last[-1:] + 1).tolist()])
    epochs: list[tuple[int, int]] = []
    if LEADER_EPOCH_CHECKPOINT in beside:
        try:
            found = parse_leader_epochs(beside[LEADER_EPOCH_CHECKPOINT].read())
        except KdumpError:
            found = []
        epochs = [(entry.epoch, entry.start_offset) for entry in found]
    elif place.log is not None:
        epochs = _epochs_of_batches(table)
    high_watermark = min(max(place.high_watermark or 0, log_start), log_end)
    damage = tuple(one for one in table.damage if one.code is not Codes.ZERO_TAIL)
    return LoadedCopy(place, table, log_start, log_end, high_watermark, tuple(epochs), damage, failure)


def _epochs_of_batches(table: CopyTable) -> list[tuple[int, int]]:
    epochs = table.rows["leader_epoch"]
    highest = np.maximum.accumulate(np.concatenate(([-1], epochs)))
    starts = np.flatnonzero(epochs > highest[:-1]).tolist()
    return [(int(epochs[number]), int(table.first[number])) for number in starts]
