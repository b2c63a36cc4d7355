"""The batch table of a copy: one row an entry, over all of its segments, from headers alone, and what is damaged.

Two tables are aligned by offset. Followers copy a leader's batches byte for byte, so the CRCs tell which entries are
the same. Source: docs/spec/replicas.md#5-what-differs-between-healthy-replicas.

A row is small, as there is one for each batch of three copies or more in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes, Finding
from kdump.format.batch import CODEC_MASK, CONTROL, HEADER_SIZE, LENGTH_OFFSET, LOG_OVERHEAD, MAGIC, MAGIC_OFFSET
from kdump.log.content import Content, ContentSource
from kdump.log.gaps import Gap
from kdump.log.opening import open_source
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.source import Source
from kdump.verify.gaps import GapChecks, NextSegment
from kdump.verify.table import UNKNOWN_OFFSET, cleaned, read_rows

_FROM_VERIFY: Final = (
    "position", "base_offset", "last_offset", "producer_id", "size", "leader_epoch", "record_count", "marker_type",
    "crc", "attributes", "producer_epoch", "magic", "is_valid",
)  # fmt: skip
_TYPES: Final = ("i8", "i8", "i8", "i8", "i8", "i4", "i4", "i4", "u4", "u2", "i2", "i1", "?")

_AT_ONCE: Final = 8
"""Segments of a store of which the headers are read at the same time: each waits for its own requests."""
_FIRST_BATCHES: Final = 8
_SMALL: Final = 4096
"""Bytes of a batch, on average of the first ones, below which it is read whole."""

Offsets = NDArray[np.int64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.void]
"""Shape (entries,), of ``row_dtype``."""


@cache
def row_dtype() -> np.dtype[np.void]:
    """The columns: those of ``verify.table.BatchRow`` with these names, and two more.

    ``segment``: the number of the segment. ``is_cleaned``: the log cleaner has been at the batch.
    """
    fields = zip(_FROM_VERIFY, _TYPES, strict=True)
    return np.dtype([*fields, ("segment", "i4"), ("is_cleaned", "?")])


@dataclass(frozen=True, slots=True)
class TableSegment:
    """A segment of a copy: its base offset, its path, bytes that count of it.

    ``content``: what a start makes of it; None: the file itself.
    """

    base_offset: int
    path: str
    size: int
    content: Content | None = None

    def open(self) -> Source:
        """The log. Raises KdumpError where it cannot be opened."""
        return open_source(self.path) if self.content is None else ContentSource(self.path, self.content)


@dataclass(frozen=True)
class CopyTable:
    """The entries of a copy in file order.

    Attributes:
        segments: in the order of their offsets.
        rows: of all segments.
        damage: gaps and wrong CRCs; each has ``path``, and a length where bytes are concerned.
        breaks: numbers of the rows after which bytes follow that are no entry; -1 before the first row.
    """

    segments: tuple[TableSegment, ...]
    rows: Rows
    damage: tuple[Finding, ...] = ()
    breaks: tuple[int, ...] = ()

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """First offset of each entry, shape (rows,).

        The header of a compressed legacy entry has none: it begins after the entry before, or with its segment.
        """
        first: NDArray[np.int64] = self.rows["base_offset"].copy()
        unknown = np.flatnonzero(first == UNKNOWN_OFFSET)
        if unknown.size:
            bases = np.array([segment.base_offset for segment in self.segments], np.int64)
            after = np.concatenate(([-1], self.rows["last_offset"][:-1])) + 1
            begin = np.maximum(after, bases[self.rows["segment"]])
            first[unknown] = np.minimum(begin, self.rows["last_offset"])[unknown]
        return first

    @cached_property
    def last(self) -> NDArray[np.int64]:
        """Last offset of each entry, shape (rows,)."""
        return np.ascontiguousarray(self.rows["last_offset"])

    @cached_property
    def rises(self) -> bool:
        """The last offsets rise from entry to entry, as they do in a log without damage."""
        return rises(self.last)

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The numbers of the rows by their last offsets, shape (rows,)."""
        return np.arange(self.last.size) if self.rises else np.argsort(self.last, kind="stable")

    @cached_property
    def last_sorted(self) -> NDArray[np.int64]:
        """``last`` in ``order``."""
        return self.last if self.rises else self.last[self.order]

    @cached_property
    def first_sorted(self) -> NDArray[np.int64]:
        """``first`` in ``order``; made to rise where damage keeps it from that."""
        return self.first if self.rises else np.maximum.accumulate(self.first[self.order])

    @cached_property
    def is_control(self) -> NDArray[np.bool_]:
        """The entry holds control records and no data; shape (rows,)."""
        found: NDArray[np.bool_] = (self.rows["magic"] >= MAGIC) & (self.rows["attributes"] & CONTROL != 0)
        return found

    @cached_property
    def is_full(self) -> NDArray[np.bool_]:
        """Each offset from the first to the last one has a record, as the header alone tells; shape (rows,)."""
        rows = self.rows
        is_wrapper = (rows["magic"] < 2) & (rows["attributes"] & CODEC_MASK != 0)
        full: NDArray[np.bool_] = (rows["record_count"] == self.last - self.first + 1) & ~is_wrapper & rows["is_valid"]
        return full

    def is_within(self, sizes: Mapping[int, int]) -> NDArray[np.bool_]:
        """Which entries end within so many bytes of their segments, by base offset; shape (rows,)."""
        limits = np.array([sizes.get(segment.base_offset, -1) for segment in self.segments], np.int64)
        if not limits.size:
            return np.zeros(0, np.bool_)
        within: NDArray[np.bool_] = self.rows["position"] + self.rows["size"] <= limits[self.rows["segment"]]
        return within

    def kept(self, sizes: dict[int, int]) -> CopyTable:
        """What a start keeps of it: ``sizes`` has the bytes of each segment that is left, by base offset."""
        kept = tuple(
            TableSegment(segment.base_offset, segment.path, sizes[segment.base_offset])
            for segment in self.segments
            if segment.base_offset in sizes
        )
        numbers = np.cumsum([segment.base_offset in sizes for segment in self.segments]) - 1
        is_kept = self.is_within(sizes)
        rows = self.rows[is_kept]
        rows["segment"] = numbers[rows["segment"]]
        by_path = {segment.path: segment.size for segment in kept}
        damage = tuple(one for one in self.damage if one.position < by_path.get(one.path or "", 0))
        place = np.cumsum(is_kept) - 1
        breaks = (number if number < 0 else int(place[number]) for number in self.breaks)
        return CopyTable(kept, rows, damage, tuple(sorted(set(breaks))))


@dataclass(slots=True)
class _TableReading:
    """What has been read of a copy so far."""

    parts: list[Rows] = field(default_factory=list)
    count: int = 0
    damage: list[Finding] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)

    def add(self, rows: Rows, segment: int) -> None:
        """The rows of a chunk, of ``verify.table.row_dtype``."""
        part = np.empty(len(rows), row_dtype())
        for name in _FROM_VERIFY:
            part[name] = rows[name]
        part["segment"] = segment
        part["is_cleaned"] = cleaned(rows)
        self.parts.append(part)
        self.count += len(rows)


def read_table(segments: Iterable[TableSegment], *, headers_only: bool = False) -> CopyTable:
    """Read all entries of a copy once.

    Args:
        segments: in the order of their offsets.
        headers_only: the headers are to be read, and the payloads passed over.

    Raises:
        KdumpError: a log cannot be opened.
    """
    known = tuple(segments)
    reading = _TableReading()
    headers = _read_headers(known) if headers_only else {}
    for number, segment in enumerate(known):
        if not segment.size:
            continue
        found = headers.get(number)
        if found is not None:
            reading.add(found, number)
            continue
        next_base = known[number + 1].base_offset if number + 1 < len(known) else None
        with segment.open() as source:
            for finding in _read_segment(reading, source, number, NextSegment(next_base)):
                lost_from = segment.base_offset if finding.first_offset is None else finding.first_offset
                reading.damage.append(_located(finding, segment.path, lost_from))
    rows = np.concatenate([np.empty(0, row_dtype()), *reading.parts])
    return CopyTable(known, rows, tuple(reading.damage), tuple(reading.breaks))


def _read_segment(reading: _TableReading, source: Source, number: int, following: NextSegment) -> Iterator[Finding]:
    """Add the rows of one log; gives what is damaged."""
    checks = GapChecks(source, following)
    for item in ResyncWalk(source).items():
        if isinstance(item, Gap):
            reading.breaks.append(reading.count - 1)
            yield from checks.see_gap(item)
            continue
        rows = read_rows(item, is_after_gap=False)
        reading.add(rows, number)
        yield from checks.see_chunk(item, rows)
    yield from checks.finish()


def _located(finding: Finding, path: str, lost_from: int) -> Finding:
    """The finding with its path, and with its first offset where a segment begins with it."""
    is_tail = finding.code is Codes.ZERO_TAIL
    first = None if is_tail else lost_from
    last = finding.last_offset
    if last is None and first is not None and finding.continue_at is not None and finding.continue_at > first:
        last = finding.continue_at - 1
    return replace(finding, path=path, first_offset=first, last_offset=last)


def _read_headers(segments: Sequence[TableSegment]) -> dict[int, Rows | None]:
    """What ``_header_rows`` gives of the segments by number; several are asked for at the same time."""

    def read(number: int) -> Rows | None:
        with segments[number].open() as source:
            return _header_rows(source)

    numbers = [number for number, segment in enumerate(segments) if segment.size]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        # A thread begins without the rate that holds here.
        running = [threads.submit(copy_context().run, read, number) for number in numbers]
        return dict(zip(numbers, (one.result() for one in running), strict=True))


def _header_rows(source: Source) -> Rows | None:
    """The rows of a log of v2 batches whose lengths lead from one to the next, from headers alone; None of another.

    Nothing proves that the payloads are what the CRCs say: where two copies have the same ones, they are believed. Of
    small batches none is read: a request for each would take longer than all bytes.
    """
    size = source.size or 0
    positions: list[int] = []
    headers = bytearray()
    position = 0
    while position + HEADER_SIZE <= size:
        # Nothing after the header is fetched ahead.
        source.stop = position + HEADER_SIZE
        header = source.read(position, HEADER_SIZE)
        if len(header) < HEADER_SIZE or header[MAGIC_OFFSET] != MAGIC:
            return None
        length = int.from_bytes(header[LENGTH_OFFSET : LENGTH_OFFSET + 4], "big", signed=True)
        if length < HEADER_SIZE - LOG_OVERHEAD or position + LOG_OVERHEAD + length > size:
            return None
        positions.append(position)
        headers += header
        if len(positions) == _FIRST_BATCHES and position < _SMALL * _FIRST_BATCHES:
            return None
        position += LOG_OVERHEAD + length
    if position != size:
        return None
    starts = list(range(0, len(headers), HEADER_SIZE))
    rows = read_rows(CheckedChunk(memoryview(headers), 0, starts, len(headers)), is_after_gap=False)
    rows["position"] = positions
    rows["size"] = np.diff(rows["position"], append=size)
    return rows


def aligned(ours: Offsets, theirs: Offsets) -> tuple[Offsets, Offsets]:
    """Numbers of the entries of two logs that end at the same offset, in the order of these offsets.

    The last offset is known of every entry, also of a legacy wrapper that was not looked into.

    Args:
        ours: last offsets of the entries of one log, shape (entries,).
        theirs: those of the other one.
    """
    if not (ours.size and theirs.size):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    # Where the logs are equal these are, but for where they begin. Sorting takes longer.
    lower = max(int(ours[0]), int(theirs[0]))
    shifts = [int(np.searchsorted(last, lower)) for last in (ours, theirs)]
    count = min(ours.size - shifts[0], theirs.size - shifts[1])
    mine, their = (last[shift : shift + count] for last, shift in zip((ours, theirs), shifts, strict=True))
    if np.array_equal(mine, their) and rises(ours) and rises(theirs):
        return np.arange(count) + shifts[0], np.arange(count) + shifts[1]
    _, mine, their = np.intersect1d(ours, theirs, return_indices=True)
    return mine, their


def are_same(ours: Rows, theirs: Rows) -> Mask:
    """Which aligned rows are the same entry, leader epochs aside; shape (rows,).

    Both have the columns ``crc``, ``size`` and ``magic``. The CRCs must be right in both.
    """
    same: Mask = (ours["crc"] == theirs["crc"]) & (ours["size"] == theirs["size"]) & (ours["magic"] == theirs["magic"])
    return same


def rises(last: Offsets) -> bool:
    """The last offsets rise from entry to entry, as they do in a log without damage."""
    return bool((last[1:] > last[:-1]).all())
