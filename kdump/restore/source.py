"""What is left of a partition: its segments, every entry of them, and what the files around them tell."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes, Finding, KdumpError, ignore_error
from kdump.diff.places import CopyPlace, PartitionName, copies_of
from kdump.diff.table import CopyTable, Rows, TableSegment, read_table, rises
from kdump.format.batch import HEADER_SIZE, MAGIC, parse_header
from kdump.inputs import Input, PathDirectory
from kdump.kafka.retention import RetainedSegment, largest_timestamp
from kdump.kafka.startup.logdirectory import FUTURE, STRAY, parse_folder
from kdump.log import files
from kdump.log.names import CLUSTER_METADATA, Kind, base_of, is_uri, sibling
from kdump.log.opening import open_source
from kdump.log.siblings import read_time_index
from kdump.verify.validentries import EntryReader
from kdump.wire.compression import DEFAULT_LIMIT
from kdump.worlds import world_of_log

_NS_PER_MS: Final = 1_000_000
_LOG_SIZE: Final = 1 << 40
"""More bytes than a log can have."""


@dataclass(frozen=True)
class SourcePartition:
    """A copy of a partition as it lies there; no start is modelled.

    Attributes:
        place: where it lies.
        table: of all its segments.
        damage: entries that a conversion leaves out, also those whose CRC is right and whose records do not decode.
    """

    place: CopyPlace
    table: CopyTable
    damage: tuple[Finding, ...]

    @property
    def segments(self) -> tuple[TableSegment, ...]:
        """Those with logs, in the order of their offsets."""
        return self.table.segments

    @cached_property
    def is_good(self) -> NDArray[np.bool_]:
        """Which entries are kept; shape (rows,)."""
        rows = self.table.rows
        numbers = {segment.path: number for number, segment in enumerate(self.segments)}
        places = [numbers[one.path or ""] * _LOG_SIZE + one.position for one in self.damage]
        is_damaged = np.isin(rows["segment"].astype(np.int64) * _LOG_SIZE + rows["position"], places)
        good: NDArray[np.bool_] = rows["is_valid"] & ~is_damaged
        return good

    @cached_property
    def good(self) -> Rows:
        """The rows of these entries."""
        good: Rows = self.table.rows[self.is_good]
        return good

    @property
    def log_start(self) -> int:
        """The first offset that consumers could read: that of the checkpoint, or where the first segment begins."""
        known = 0 if self.place.settings is None else self.place.settings.log_start_offset
        return max(known, self.segments[0].base_offset)

    @property
    def log_end(self) -> int:
        """After the last good entry, or where an empty last segment begins."""
        last = int(self.good["last_offset"].max(initial=-1)) + 1
        return max(last, self.segments[-1].base_offset, self.log_start)

    @property
    def is_cleaned(self) -> bool:
        """The log cleaner was there: offsets may be missing anywhere."""
        return bool(self.place.cleaned_to) or bool(self.table.rows["is_cleaned"].any())

    def must_be_rewritten(self, highest_epoch: int) -> list[bool]:
        """Of each segment: it has damage, an end that is no entry, or leader epochs that are not in 0 to this one."""
        rows = self.table.rows
        is_beyond = (rows["magic"] >= MAGIC) & ((rows["leader_epoch"] < 0) | (rows["leader_epoch"] > highest_epoch))
        numbers = set(rows["segment"][is_beyond | ~self.is_good].tolist())
        damaged = {one.path for one in self.damage}
        ends = self._ends()
        return [
            number in numbers or segment.path in damaged or ends[number] != segment.size
            for number, segment in enumerate(self.segments)
        ]

    @property
    def rises(self) -> bool:
        """The offsets of the good entries rise."""
        return rises(self.good["last_offset"])

    def missing(self) -> Iterator[tuple[int, int]]:
        """Offsets, first and last, between good entries that no entry has, and no damage explains."""
        if self.is_cleaned:
            return
        lost = [
            (one.first_offset, one.last_offset)
            for one in self.damage
            if one.first_offset is not None and one.last_offset is not None
        ]
        ranges = np.array(lost, np.int64).reshape(-1, 2)
        first = np.concatenate((self.table.first[self.is_good], ranges[:, 0]))
        order = np.argsort(first, kind="stable")
        last = np.maximum.accumulate(np.concatenate((self.good["last_offset"], ranges[:, 1]))[order])
        for number in np.flatnonzero(first[order][1:] > last[:-1] + 1).tolist():
            yield int(last[number]) + 1, int(first[order[number + 1]]) - 1

    def larger_than(self, size: int) -> Iterator[tuple[int, int]]:
        """(last offset, bytes) of the entries that are larger than a producer could write."""
        rows = self.good
        for row in rows[rows["size"] > size]:
            yield int(row["last_offset"]), int(row["size"])

    def retained(self) -> list[RetainedSegment]:
        """The segments as the rules of retention see them."""
        return [
            RetainedSegment(segment.base_offset, segment.size, self._largest_timestamp(number))
            for number, segment in enumerate(self.segments)
        ]

    def _largest_timestamp(self, number: int) -> int:
        """Of a segment, in ms. A missing time index is made anew, with the timestamps of the batches."""
        segment, rows = self.segments[number], self.table.rows
        has_index = os.path.lexists(sibling(segment.path, Kind.TIME_INDEX))
        index = read_time_index(segment.path, segment.base_offset) if has_index else None
        newest = None
        end = int(np.searchsorted(rows["segment"], number, "right"))
        if index is None and end and rows["segment"][end - 1] == number and rows["magic"][end - 1] == MAGIC:
            with open_source(segment.path) as source:
                newest = parse_header(source.read(int(rows["position"][end - 1]), HEADER_SIZE)).max_timestamp
        return largest_timestamp(index, newest, files.status(segment.path).st_mtime_ns // _NS_PER_MS)

    def _ends(self) -> list[int]:
        """Where the last entry of each segment ends."""
        rows = self.table.rows
        ends = np.zeros(len(self.segments), np.int64)
        np.maximum.at(ends, rows["segment"], rows["position"] + rows["size"])
        found: list[int] = ends.tolist()
        return found


def read_source(source: Input, limit: int = DEFAULT_LIMIT) -> SourcePartition:
    """Read all entries of a partition.

    Args:
        source: a partition directory, or one segment.
        limit: most bytes to which one entry may decompress.

    Raises:
        KdumpError: it cannot be read, or is neither.
    """
    path = source.path
    if is_uri(path):
        raise KdumpError(Codes.UNREADABLE, "copy it to this machine first", path=path)
    found = copies_of(source, ignore_error)
    if found.is_log_directory:
        message = "is a log directory: --from-log-dir restores all partitions of one"
        raise KdumpError(Codes.NOT_A_SEGMENT_FILE, message, path=path)
    return read_place(found.copies[0], limit)


def directories_below(log_directory: str, *, put_aside: bool) -> Iterator[tuple[PartitionName, list[str]]]:
    """The partitions of a log directory with the directories that hold them, sorted by name.

    Directories that a broker was about to delete do not count, and the metadata of the cluster do not.

    Args:
        log_directory: the path.
        put_aside: only directories count that a broker has put aside (-stray); else these count where the partition
            has no other one, and those on their way to another log directory (-future) where it has none of these.

    Raises:
        KdumpError: the directory cannot be listed, or holds no partition.
    """
    found: dict[PartitionName, dict[str, list[str]]] = {}
    forms = (STRAY,) if put_aside else ("", STRAY, FUTURE)
    for entry in files.listing(log_directory):
        folder = parse_folder(entry.name) if entry.is_directory else None
        if folder is not None and folder[0][0] != CLUSTER_METADATA and folder[1] in forms:
            found.setdefault(folder[0], {}).setdefault(folder[1], []).append(entry.path)
    if not found:
        raise KdumpError(Codes.NO_SEGMENTS, "holds no partition", path=log_directory)
    for name in sorted(found):
        yield name, next(sorted(found[name][form]) for form in forms if form in found[name])


def read_place(place: CopyPlace, limit: int = DEFAULT_LIMIT) -> SourcePartition:
    """Read all entries of a copy; ``limit`` as for ``read_source``. Raises KdumpError."""
    errors: list[KdumpError] = []
    logs = (
        [place.log]
        if place.log is not None
        else [log.path for log in PathDirectory(place.directory).logs(errors.append)]
    )
    if errors:
        raise errors[0]
    names = () if place.log is not None else (entry.name for entry in files.listing(place.directory))
    world = next(filter(None, map(world_of_log, names)), None)
    if world is not None:
        # Also beside logs of today: none is left out.
        raise KdumpError(Codes.NO_SEGMENTS, f"has logs of {world.title}: convert them first", path=place.directory)
    segments = [TableSegment(base_of(log), log, files.size(log)) for log in logs]
    segments.sort(key=lambda segment: segment.base_offset)
    table = read_table(segments)
    return SourcePartition(place, table, tuple(one for segment in segments for one in _damage(segment.path, limit)))


def _damage(path: str, limit: int) -> Iterator[Finding]:
    """The entries of a log that a conversion leaves out."""
    with open_source(path) as source:
        reader = EntryReader(source, limit, in_order=True)
        for _ in reader.entries():
            pass
    for finding in reader.findings:
        yield replace(finding, path=path)
