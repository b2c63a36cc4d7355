"""Where in a log a range of offsets or times can begin and end, by the index files beside the log.

Source: docs/spec/formats.md#6-indexes. An index is used only where it fits the log: its entries rise, and the batches
that are looked up lie where it says, with right CRCs and the offsets and timestamps that it names. Otherwise the log is
read from its start.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import TypeAlias

from kdump.codes import KdumpError
from kdump.format import legacy
from kdump.format.batch import (
    HEADER_SIZE,
    HEADER_SIZE_UP_TO_MAGIC,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MIN_ENTRY_LENGTH,
    batch_crc,
    parse_header,
)
from kdump.format.index import OffsetEntry, parse_offset_index, parse_time_index, used_entries
from kdump.log.names import Kind, parse_file_name, sibling
from kdump.log.opening import read_whole
from kdump.log.source import Source
from kdump.reading.selection import Selection
from kdump.wire.compression import NONE

Span: TypeAlias = tuple[int, int | None]
"""The positions in a log between which what is asked for can lie: (start, end); None: the end of the file."""


def span_of(source: Source, selection: Selection, note: Callable[[str], None]) -> Span:
    """Where what is selected can lie; the whole log where no index helps.

    ``note`` is told of an index that is there and does not fit the log.
    """
    name = parse_file_name(source.path)
    wants_offsets = not selection.offsets.is_open
    if source.size is None or name is None or name.base_offset is None:
        return 0, None
    if not wants_offsets and selection.times.first is None:
        return 0, None
    try:
        return _Indexes(source, name.base_offset).span(selection)
    except _InvalidIndexError as error:
        note(f"{error.path}: {error}; the log is scanned from its start")
    except KdumpError:
        # A log without its index is common: it is read from its start, and nothing is said.
        pass
    return 0, None


class _InvalidIndexError(Exception):
    """An index that does not fit its log."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(what)
        self.path = path


@dataclass(frozen=True, slots=True)
class _IndexedEntry:
    """What an index can say of the entry at a position."""

    end: int
    base_offset: int
    last_offset: int
    max_timestamp: int


class _Indexes:
    def __init__(self, log: Source, base_offset: int) -> None:
        self._log = log
        self._base_offset = base_offset
        self._path = sibling(log.path, Kind.INDEX)
        entries = parse_offset_index(read_whole(self._path), base_offset)
        self._entries = entries[: sum(1 for _ in used_entries(entries, base_offset))]
        for entry, following in pairwise(self._entries):
            if following.offset <= entry.offset or following.position <= entry.position:
                raise _InvalidIndexError(self._path, "its entries do not rise")

    def span(self, selection: Selection) -> Span:
        first = selection.offsets.first
        if selection.times.first is not None:
            reached = self._offset_before(selection.times.first)
            if reached is not None:
                first = reached if first is None else max(first, reached)
        start = self._position_of(first) if first is not None else 0
        last = selection.offsets.end
        return start, None if last is None else self._end_after(last)

    def _position_of(self, offset: int) -> int:
        """The position of a batch at or before ``offset``, 0 when no entry is that low."""
        count = bisect_right(self._entries, offset, key=attrgetter("offset"))
        return self._checked(self._entries[count - 1]).position if count else 0

    def _end_after(self, offset: int) -> int | None:
        """A position after all batches that hold offsets below ``offset``; None where the index does not tell one."""
        entry = next((entry for entry in self._entries if entry.offset >= offset), None)
        return None if entry is None else self._batch(self._checked(entry).position).end

    def _checked(self, entry: OffsetEntry) -> OffsetEntry:
        batch = self._batch(entry.position)
        # The batch's last offset, for brokers up to 1.1 its first: in any case one of its own.
        if not batch.base_offset <= entry.offset <= batch.last_offset:
            raise _InvalidIndexError(self._path, f"it names offset {entry.offset} at {entry.position}")
        return entry

    def _offset_before(self, timestamp: int) -> int | None:
        """An offset up to which all records are older than ``timestamp``; None when the time index knows none."""
        path = sibling(self._log.path, Kind.TIME_INDEX)
        entries = parse_time_index(read_whole(path), self._base_offset)
        entries = entries[: sum(1 for _ in used_entries(entries, self._base_offset))]
        for entry, following in pairwise(entries):
            if following.timestamp <= entry.timestamp or following.offset < entry.offset:
                raise _InvalidIndexError(path, "its entries do not rise")
        count = bisect_left(entries, timestamp, key=attrgetter("timestamp"))
        if not count:
            return None
        newest = entries[count - 1]
        position = self._position_of(newest.offset)
        batch = self._batch(position)
        while batch.last_offset < newest.offset:
            batch = self._batch(batch.end)
        if batch.max_timestamp != newest.timestamp:
            raise _InvalidIndexError(path, f"it names timestamp {newest.timestamp} for offset {newest.offset}")
        return newest.offset

    def _batch(self, position: int) -> _IndexedEntry:
        """The whole and valid entry at ``position``."""
        size = self._log.size or 0
        head = self._log.read(position, HEADER_SIZE_UP_TO_MAGIC) if 0 <= position < size else b""
        if len(head) == HEADER_SIZE_UP_TO_MAGIC:
            length = int.from_bytes(head[LENGTH_OFFSET:LOG_OVERHEAD], "big", signed=True)
            end = position + LOG_OVERHEAD + length
            if length >= MIN_ENTRY_LENGTH and end <= size:
                batch = _read(self._log.read(position, end - position), end)
                if batch is not None:
                    return batch
        raise _InvalidIndexError(self._path, f"no valid batch at {position}, where it points")


def _read(data: bytes, end: int) -> _IndexedEntry | None:
    view = memoryview(data)
    if data[MAGIC_OFFSET] < 2:
        entry = legacy.parse_message(view)
        # A wrapper has its last offset; where it begins, only its payload tells.
        base_offset = entry.offset if entry.codec == NONE else -1
        return _IndexedEntry(end, base_offset, entry.offset, entry.timestamp) if entry.is_valid else None
    if data[MAGIC_OFFSET] != 2 or len(data) < HEADER_SIZE:
        return None
    header = parse_header(data)
    if batch_crc(view) != header.crc:
        return None
    return _IndexedEntry(end, header.base_offset, header.last_offset, header.max_timestamp)
