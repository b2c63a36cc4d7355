"""Partitions of clean small logs that are clean as a whole: proven by columns over many of them.

It only accepts. Every rule here is stricter than the check of ``verify.partition`` that it stands for, or it is that
check. A partition that is not accepted is checked by itself: it may be clean, too.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.codes import KdumpError, Severity
from kdump.format.batch import CONTROL
from kdump.log import files
from kdump.log.names import CLUSTER_METADATA, FileName, Kind, parse_file_name
from kdump.log.siblings import read_beside, read_snapshot
from kdump.verify.indexcolumns import OFFSET_ENTRY, TIME_ENTRY
from kdump.verify.logdir import PartitionExtent
from kdump.verify.prefilter import by_producer, continues, out_of_range
from kdump.verify.producers import ProducerChecks
from kdump.verify.reach import KnownOffsets, LastSegment, OffsetsOfDirectory, PartitionEvidence, SegmentReach
from kdump.verify.segment import Rows
from kdump.verify.siblings import EpochRange, LogSummary, check_listed_files, text_files
from kdump.verify.summary import SegmentSummary
from kdump.verify.table import UNKNOWN_OFFSET, cleaned, joined, row_at

_NO_FINDINGS: Final = dict.fromkeys(Severity, 0)
_SUFFIXES: Final = ((Kind.INDEX.value, None), (Kind.TIME_INDEX.value, None), (Kind.TXN_INDEX.value, b""))
"""Of the index files, and what stands for a file that is not there."""
_OF_LOG: Final = 32
"""The bits of a position or a relative offset in a key; above them is the number of the log."""


class SmallLog(NamedTuple):
    """A log without a finding of its own. ``size``: bytes. ``rows``: of its batch table, positions of its own."""

    path: str
    size: int
    rows: Rows


class CleanLog(NamedTuple):
    """A log with its first and last offset, and the number of entries in its index files.

    An empty log has no offsets, and nobody looked at its index files.
    """

    path: str
    size: int
    rows: Rows
    first_offset: int | None
    last_offset: int | None
    index_entries: int | None
    time_index_entries: int | None


@dataclass(frozen=True, slots=True)
class CleanPartition:
    """A partition without a finding."""

    logs: Sequence[CleanLog]
    extent: PartitionExtent

    def items(self) -> Iterator[SegmentSummary | PartitionExtent]:
        """What is said of it; see ``verify.partition.PartitionCheck.segments``."""
        for path, size, rows, first, last, *_ in self.logs:
            yield SegmentSummary(path, size, rows.size, first, last, _NO_FINDINGS.copy(), None)
        yield self.extent


class _UsedEntries(NamedTuple):
    """The used entries of the index files of a log, and their numbers; see CleanLog."""

    offsets: bytes
    times: bytes
    offset_count: int | None
    time_count: int | None


_NO_INDEXES: Final = _UsedEntries(b"", b"", None, None)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A partition as it is on disk."""

    folder: str
    names: Mapping[str, FileName | None]
    logs: Sequence[SmallLog]
    bases: Sequence[int]
    indexes: Sequence[_UsedEntries]


def clean_partitions(found: Iterable[tuple[str, Sequence[SmallLog]]]) -> Iterator[tuple[str, CleanPartition]]:
    """Those of some partitions that are clean.

    Args:
        found: the directory of each, and all of its logs in offset order.
    """
    candidates = [one for folder, logs in found if (one := _candidate(folder, logs)) is not None]
    if candidates:
        table = _Table(candidates)
        directories: dict[str, OffsetsOfDirectory] = {}
        for number, candidate in enumerate(candidates):
            folder = files.absolute(candidate.folder)
            above = os.path.dirname(folder)
            if above not in directories:
                directories[above] = OffsetsOfDirectory(above)
            clean = table.proven(number, candidate, directories[above].of(folder))
            if clean is not None:
                yield candidate.folder, clean


def _candidate(folder: str, logs: Sequence[SmallLog]) -> _Candidate | None:
    """The partition with its index files; None if a name or a file is unusual."""
    if os.path.basename(files.absolute(folder)).startswith(CLUSTER_METADATA):
        return None
    try:
        names = {entry.name: parse_file_name(entry.name) for entry in files.listing(folder) if not entry.is_directory}
    except KdumpError:
        return None
    count = 0
    for name in names.values():
        if name is not None:
            if name.state or name.base_offset is None or name.base_offset < 0:
                return None
            count += name.kind is Kind.LOG
    if count != len(logs):
        return None
    bases: list[int] = []
    indexes: list[_UsedEntries] = []
    for log in logs:
        own = log.path.rpartition("/")[2]
        name = names.get(own)
        if name is None or name.base_offset is None:
            return None
        found = _indexes(log, name.stem, names) if log.size else _NO_INDEXES
        if found is None:
            return None
        bases.append(name.base_offset)
        indexes.append(found)
    return _Candidate(folder, names, logs, bases, indexes)


def _indexes(log: SmallLog, stem: str, names: Container[str]) -> _UsedEntries | None:
    """The index files beside a log that has batches; None if one is missing, cannot be read, or is unusual."""
    before = log.path[: log.path.rfind("/") + 1]
    index, time_index, transactions = (
        _content(before + stem + suffix) if stem + suffix in names else missing for suffix, missing in _SUFFIXES
    )
    if index is None or time_index is None or transactions != b"":
        return None
    if len(index) % OFFSET_ENTRY.itemsize or len(time_index) % TIME_ENTRY.itemsize:
        return None
    offsets, times = _used(index, OFFSET_ENTRY.itemsize), _used(time_index, TIME_ENTRY.itemsize)
    if max(len(offsets), len(times)) > log.size:
        # No batch is so small. The indexes of all logs are held at a time.
        return None
    # An entry of zeros counts if it is the first one; see ``format.index.used_entries``.
    counts = (
        max(len(offsets) // OFFSET_ENTRY.itemsize, min(1, len(index))),
        max(len(times) // TIME_ENTRY.itemsize, min(1, len(time_index))),
    )
    return _UsedEntries(offsets, times, *counts)


def _content(path: str) -> bytes | None:
    """The bytes of a file beside a log; None if it cannot be read."""
    try:
        return read_beside(path)
    except KdumpError:
        return None


def _used(data: bytes, entry_size: int) -> bytes:
    """The entries of an index file without the zeros that a running or killed broker leaves after them."""
    filled = len(data.rstrip(b"\0"))
    return data[: -(-filled // entry_size) * entry_size]


class _Table:
    """The rows of all logs of some partitions, one log after the other, and what is doubtful in them."""

    def __init__(self, candidates: Sequence[_Candidate]) -> None:
        logs = [log for candidate in candidates for log in candidate.logs]
        count = np.array([log.rows.size for log in logs], np.int64)
        self._end = np.cumsum(count)
        self._start = self._end - count
        self._rows = rows = joined([log.rows for log in logs])
        self._base = np.array([base for candidate in candidates for base in candidate.bases], np.int64)
        logs_of = np.array([len(candidate.logs) for candidate in candidates], np.int64)
        self._log_end = np.cumsum(logs_of)
        """After the last log of each partition."""
        self._partition = np.repeat(np.arange(logs_of.size), logs_of)
        """Of each log."""
        self._log = np.repeat(np.arange(count.size), count)
        """Of each row."""
        is_filled = count > 0
        last_offset = self._base - 1
        last_offset[is_filled] = rows["last_offset"][self._end[is_filled] - 1]
        self._last_offset: list[int] = last_offset.tolist()
        """Of each log; an empty one ends before its base offset."""
        self._indexes = [indexes for candidate in candidates for indexes in candidate.indexes]
        self._is_doubtful = np.zeros(count.size, np.bool_)
        """Of each log."""
        if rows.size:
            self._doubt_rows()
            self._doubt_indexes()
            self._doubt_time_indexes()
        self._has_producer = np.zeros(logs_of.size, np.bool_)
        self._has_producer[self._partition[self._log[rows["producer_id"] >= 0]]] = True
        self._epochs = self._epoch_ranges(logs_of.size)

    def proven(self, number: int, candidate: _Candidate, known: KnownOffsets) -> CleanPartition | None:
        """The partition, if it is clean.

        Args:
            number: its number.
            candidate: the partition.
            known: what its log directory knows of it.
        """
        after = int(self._log_end[number])
        first = after - len(candidate.logs)
        if self._is_doubtful[first:after].any():
            return None
        end: int | None = None
        reaches = []
        lasts = self._last_offset[first:after]
        for log, base, last in zip(candidate.logs, candidate.bases, lasts, strict=True):
            if end is not None and base != end:
                return None
            end = last + 1
            reaches.append(SegmentReach(base, not log.size, partial(int, end)))
        if end is None or (self._has_producer[number] and not self._are_producers_clean(first, after, candidate)):
            return None
        folder = candidate.folder
        texts = text_files(folder, candidate.names)
        evidence = PartitionEvidence(folder, candidate.names, lambda name: _read(folder, name, texts), known)
        if evidence.already_lost(reaches, LastSegment(lambda: False, lambda: ())):
            return None
        summary = LogSummary(end, self._epochs[number], end)
        if any(True for _ in check_listed_files(folder, candidate.names, texts, summary)):
            return None
        logs = [
            CleanLog(*log, *((base, last) if log.size else (None, None)), *counts)
            for log, base, last, (_, _, *counts) in zip(
                candidate.logs, candidate.bases, lasts, candidate.indexes, strict=True
            )
        ]
        return CleanPartition(logs, PartitionExtent(candidate.bases[0], end, candidate.bases[-1], end))

    def _doubt_rows(self) -> None:
        """Doubt logs whose batches do not just continue, or of which records are gone, or that hold markers."""
        rows, base = self._rows, self._base[self._log]
        doubtful = cleaned(rows) | (rows["base_offset"] == UNKNOWN_OFFSET) | (rows["attributes"] & CONTROL != 0)
        doubtful |= out_of_range(rows, base)
        partition = self._partition[self._log]
        doubtful[1:] |= ~continues(rows) & (partition[1:] == partition[:-1])
        # Nothing is missing before the first batch of a log.
        doubtful[self._first_rows()] |= (rows["base_offset"] != base)[self._first_rows()]
        self._is_doubtful[self._log[doubtful]] = True

    def _doubt_indexes(self) -> None:
        """Doubt logs with an entry in the .index that is not the start and the last offset of a batch."""
        log, entries = _entries([one.offsets for one in self._indexes], OFFSET_ENTRY)
        rows, position = self._rows, entries["position"].astype(np.int64)
        row, is_found = _found(self._keys(rows["position"]), (log << _OF_LOG) + position)
        doubtful = ~is_found | (position <= 0) | (rows["last_offset"][row] != entries["offset"] + self._base[log])
        doubtful[1:] |= (log[1:] == log[:-1]) & (position[1:] <= position[:-1])
        self._is_doubtful[log[doubtful]] = True

    def _doubt_time_indexes(self) -> None:
        """Doubt logs with an entry in the .timeindex that is not a batch with the largest timestamp so far.

        In a log that another one follows, the last entry has the largest timestamp.
        """
        log, entries = _entries([one.times for one in self._indexes], TIME_ENTRY)
        rows, timestamp = self._rows, entries["timestamp"].astype(np.int64)
        relative = entries["offset"].astype(np.int64)
        offset = relative + self._base[log]
        lasts = self._keys(rows["last_offset"] - self._base[self._log])
        row = np.minimum(np.searchsorted(lasts, (log << _OF_LOG) + relative), rows.size - 1)
        largest = self._largest_timestamps()
        doubtful = (self._log[row] != log) | (rows["base_offset"][row] > offset) | (rows["last_offset"][row] < offset)
        doubtful |= (rows["max_timestamp"][row] != timestamp) | (largest[row] != timestamp) | (timestamp <= 0)
        doubtful[1:] |= (log[1:] == log[:-1]) & ((timestamp[1:] <= timestamp[:-1]) | (offset[1:] < offset[:-1]))
        self._is_doubtful[log[doubtful]] = True
        indexed = np.zeros(self._base.size, np.int64)
        np.maximum.at(indexed, log, timestamp)
        is_closed = np.append(self._partition[1:] == self._partition[:-1], False)
        is_filled = self._start < self._end
        in_log = np.zeros(self._base.size, np.int64)
        in_log[is_filled] = largest[self._end[is_filled] - 1]
        self._is_doubtful |= is_closed & (indexed < in_log)

    def _first_rows(self) -> NDArray[np.int64]:
        """The first row of each log that has one."""
        return self._start[self._start < self._end]

    def _keys(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """A column of the rows, below 2**32, with the number of the log above; rising where the column rises."""
        return (self._log << _OF_LOG) + column

    def _largest_timestamps(self) -> NDArray[np.int64]:
        """The largest timestamp in the log up to each row."""
        times = self._rows["max_timestamp"]
        order = np.argsort(times)
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        before = self._log * order.size
        largest: NDArray[np.int64] = times[order[np.maximum.accumulate(before + rank) - before]]
        return largest

    def _epoch_ranges(self, partitions: int) -> list[list[EpochRange]]:
        """The leader epochs of the batches of each partition; see ``siblings.LogSummary``."""
        found: list[list[EpochRange]] = [[] for _ in range(partitions)]
        has_epoch = self._rows["leader_epoch"] >= 0
        rows, log = self._rows[has_epoch], self._log[has_epoch]
        if rows.size:
            epoch = rows["leader_epoch"]
            begins = np.append(True, (epoch[1:] != epoch[:-1]) | (log[1:] != log[:-1]))
            ends = np.append(begins[1:], True)
            columns = (
                self._partition[log[begins]],
                epoch[begins],
                rows["base_offset"][begins],
                rows["last_offset"][ends],
            )
            for partition, *values in zip(*(column.tolist() for column in columns), strict=True):
                found[partition].append(EpochRange(*values))
        return found

    def _are_producers_clean(self, first: int, after: int, candidate: _Candidate) -> bool:
        """Whether the producers of a partition, whose logs have the numbers ``first`` to ``after``, do as they must."""
        checks = ProducerChecks(read_snapshot(candidate.logs[0].path))
        checks.start_segment(candidate.bases[0], None)
        rows = self._rows[self._start[first] : self._end[after - 1]]
        is_asked, before, _ = by_producer(rows)
        for number in np.flatnonzero(is_asked).tolist():
            if before[number] >= 0:
                checks.step_over(row_at(rows, int(before[number])))
            if any(True for _ in checks.see(row_at(rows, number))):
                return False
        return not any(True for _ in (*checks.sequence_gaps(is_compacted=False), *checks.finish()))


def _entries(contents: Sequence[bytes], layout: np.dtype[np.void]) -> tuple[NDArray[np.int64], NDArray[np.void]]:
    """The entries of index files one after the other, with the number of the file of each."""
    count = [len(data) // layout.itemsize for data in contents]
    return np.repeat(np.arange(len(contents)), count), np.frombuffer(b"".join(contents), layout)


def _found(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where each key is among rising ``keys``, and whether it is there (else the place is void)."""
    place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return place, keys[place] == wanted


def _read(folder: str, name: str, texts: Mapping[str, bytes | KdumpError | None]) -> bytes:
    """A file of a partition directory. Raises KdumpError."""
    content = texts.get(name)
    if isinstance(content, KdumpError):
        raise content
    return read_beside(os.path.join(folder, name)) if content is None else content
