"""Stretches of one log that can be read apart, each as a walk over the whole log would read it.

A byte range owns the entries and gaps that start in it. Where it begins to be read is a place that a walk from the
log's start certainly comes to: behind it ``PROOF`` bytes of entries with right CRCs follow on one another (or all bytes
from the log's start on). The way there leads over the .index, an entry of which counts where the batch it names has a
right CRC and its offset (the batch's last one; from brokers up to 1.1 its first), else over the lengths of all entries.
Where no such place follows, the range before goes on to the end of the log: no entry is read twice, none is left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from kdump.format.batch import HEADER_SIZE, LENGTH_OFFSET, MAGIC_OFFSET
from kdump.format.index import OffsetEntry
from kdump.log.gaps import Gap
from kdump.log.heads import LARGEST_ENTRY, read_head
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.source import Source
from kdump.log.walk import DEFAULT_CHUNK_SIZE, Walk

NO_OFFSET: Final = -1
PROOF: Final = 1 << 20
"""Bytes of sound entries that must lead to a cut: the largest batch that a broker takes by default."""
_PROOF_CHUNK: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Extent:
    """File positions: ``start`` begins a sound entry, ``end`` too, or is the end of the log; 0 begins any log.

    ``previous_offset``: of the entry before ``start`` if that is of magic 0 or 1, else -1. A wrapper does not say
    itself where its offsets begin.
    """

    start: int
    end: int
    previous_offset: int = NO_OFFSET

    def items(self, source: Source, chunk_size: int = DEFAULT_CHUNK_SIZE) -> Iterator[CheckedChunk | Gap]:
        """What ``ResyncWalk.items`` gives of the entries and gaps that start here; those may end behind ``end``."""
        if self.start >= self.end:
            return
        walk = ResyncWalk(source, start=self.start, chunk_size=chunk_size)
        source.stop = self.end
        for item in walk.items():
            if isinstance(item, Gap):
                if item.position >= self.end:
                    return
                yield item
                continue
            end = self.end - item.position
            if item.starts[-1] >= end:
                first = _first_entries(item, end)
                if first.starts:
                    yield first
                return
            yield item


def _first_entries(chunk: CheckedChunk, end: int) -> CheckedChunk:
    """The entries of a chunk that start before index ``end``, at which one starts or behind which one does."""
    count = next(number for number, start in enumerate(chunk.starts) if start >= end)
    damaged = [number for number in chunk.damaged if number < count]
    return CheckedChunk(chunk.data, chunk.position, chunk.starts[:count], chunk.starts[count], damaged)


def extent_of(source: Source, first: int, last: int, index: Sequence[OffsetEntry], known: int = 0) -> Extent:
    """Where to read what starts at file positions ``first`` to ``last`` (exclusive).

    The ends of one range are the starts of the next one, whoever asks.

    Args:
        source: a file.
        first: 0 begins the log.
        last: the size of the file, or more, ends it.
        index: the entries of the .index beside it, positions rising; none: lengths are hopped over.
        known: the start or the end of another range of the log. Lengths need not be hopped over before it.

    Raises:
        KdumpError: the file cannot be read.
    """
    leads = _IndexLeads(source, index) if index else _HopLeads(source, known)
    start = _cut(source, first, leads)
    return Extent(start.position, max(start.position, _cut(source, last, leads).position), start.previous_offset)


def extents_of(source: Source, starts: Sequence[int], index: Sequence[OffsetEntry]) -> list[Extent]:
    """A whole log in ranges that begin at ``starts``: what ``extent_of`` says of each, a cut only looked for once.

    Raises:
        KdumpError: the file cannot be read.
    """
    leads = _IndexLeads(source, index) if index else _HopLeads(source)
    end = source.size or 0
    cuts = [_cut(source, position, leads) for position in (*starts, end)]
    return [
        Extent(cut.position, max(cut.position, behind.position), cut.previous_offset) for cut, behind in pairwise(cuts)
    ]


def leads(source: Source, index: Sequence[OffsetEntry], position: int) -> Iterator[int]:
    """Where entries start by the .index, from ``position`` backwards; 0 is not among them."""
    true = _IndexLeads(source, index)
    while (position := true.up_to(position)) > 0:
        yield position
        position -= 1


class _ExtentPosition(NamedTuple):
    """A file position, and as in Extent the offset of the entry before it."""

    position: int
    previous_offset: int = NO_OFFSET


def _cut(source: Source, position: int, leads: _Leads) -> _ExtentPosition:
    """The first proven place at ``position`` or behind; the end of the log where there is none."""
    size = source.size or 0
    if position <= 0 or position >= size:
        return _ExtentPosition(min(max(position, 0), size))
    lead: int | None = leads.up_to(position - PROOF)
    while lead is not None:
        # A walk from the log's start comes to 0 without a proof.
        end, is_reached = _follow(source, lead, max(position, lead + PROOF if lead else 0))
        if is_reached:
            return end
        lead = leads.behind(end.position)
    return _ExtentPosition(size)


def _follow(source: Source, start: int, least: int) -> tuple[_ExtentPosition, bool]:
    """Where the first entry at ``least`` or behind starts (or the log ends), if it and all from ``start`` on are sound.

    Else where they cease to be, and False.
    """
    previous_offset = NO_OFFSET
    for item in ResyncWalk(source, start=start, chunk_size=_PROOF_CHUNK).items():
        if isinstance(item, Gap):
            return _ExtentPosition(item.position), False
        first_damaged = item.damaged[0] if item.damaged else len(item.starts)
        number = bisect_left(item.starts, least - item.position, hi=first_damaged)
        if number < first_damaged:
            if number:
                previous_offset = _legacy_offset(item, number - 1)
            return _ExtentPosition(item.position + item.starts[number], previous_offset), True
        if item.damaged:
            return _ExtentPosition(item.position + item.starts[first_damaged]), False
        previous_offset = _legacy_offset(item, len(item.starts) - 1)
    return _ExtentPosition(source.size or 0), True


def _legacy_offset(chunk: CheckedChunk, number: int) -> int:
    """The offset of an entry of magic 0 or 1, else NO_OFFSET."""
    start = chunk.starts[number]
    is_legacy = chunk.data[start + MAGIC_OFFSET] in (0, 1)
    return int.from_bytes(chunk.data[start : start + LENGTH_OFFSET], "big", signed=True) if is_legacy else NO_OFFSET


class _Leads(ABC):
    """Places in a log at which an entry is said to start."""

    @abstractmethod
    def up_to(self, position: int) -> int:
        """The last one up to ``position``; 0 where there is none."""

    @abstractmethod
    def behind(self, position: int) -> int | None:
        """The first one behind ``position``."""


class _IndexLeads(_Leads):
    """By the entries of an .index that name the batch at their position."""

    def __init__(self, source: Source, index: Sequence[OffsetEntry]) -> None:
        self._source = source
        self._index = index

    def up_to(self, position: int) -> int:
        """See _Leads."""
        number = self._number(position)
        return next((entry.position for entry in reversed(self._index[:number]) if self._is_true(entry)), 0)

    def behind(self, position: int) -> int | None:
        """See _Leads."""
        number = self._number(position)
        return next((entry.position for entry in self._index[number:] if self._is_true(entry)), None)

    def _number(self, position: int) -> int:
        return bisect_right(self._index, position, key=lambda entry: entry.position)

    def _is_true(self, entry: OffsetEntry) -> bool:
        """The batch at the position has a right CRC, and its last offset (1.1 and before: its first) is the entry's."""
        source = self._source
        raw = source.read(entry.position, HEADER_SIZE)
        head = read_head(raw, 0, len(raw), entry.position)
        if head is None or not head.is_plausible or head.length > LARGEST_ENTRY:
            return False
        if entry.offset not in (head.offset, head.last_offset):
            return False
        raw = source.read(entry.position, head.end - entry.position)
        return entry.position + len(raw) == head.end and head.checksum(memoryview(raw)[head.crc_start :]) == head.crc


class _HopLeads(_Leads):
    """By the lengths of all entries from the log's start on; none behind one that is wrong."""

    def __init__(self, source: Source, known: int = 0) -> None:
        self._source = source
        self._known = known

    def up_to(self, position: int) -> int:
        """See _Leads."""
        if position <= 0:
            return 0
        last = self._known if self._known <= position else 0
        for place in self._hops(last):
            if place > position:
                break
            last = place
        self._known = last
        return last

    def behind(self, position: int) -> int | None:
        """See _Leads; ``position`` is one of them."""
        return next((place for place in self._hops(position) if place > position), None)

    def _hops(self, start: int) -> Iterator[int]:
        for chunk in Walk(self._source, start=start).chunks():
            yield from (chunk.position + place for place in (*chunk.starts, chunk.end))
