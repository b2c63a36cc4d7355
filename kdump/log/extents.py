"""Where a log can be cut, so that each byte range is read as a walk over the whole log would read it.

A range owns the entries and gaps that start in it. It begins at a position that a walk from the start of the log surely
reaches: ``PROOF`` bytes of entries with right CRCs follow one another up to there, or all entries since the start of
the log are valid. The search for such a position begins at an entry of the .index. That entry counts if the batch at
its position has a right CRC and its offset (the batch's last one; brokers up to 1.1 stored its first). Without an
.index the search follows the lengths of all entries.

A range after which no such position follows goes on to the end of the log. So no entry is read twice, and none is left
out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
"""Bytes of valid entries that must lead to a cut: the largest batch that a broker takes by default."""
_PROOF_CHUNK: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Extent:
    """A byte range: a valid entry begins at ``start`` and at ``end``, or ``end`` is the end of the log.

    0 begins any log.

    ``previous_offset``: the offset of the entry before ``start`` if that has magic 0 or 1, else -1. A wrapper does not
    say where its offsets begin, the entry before it does.
    """

    start: int
    end: int
    previous_offset: int = NO_OFFSET

    def items(self, source: Source, chunk_size: int = DEFAULT_CHUNK_SIZE) -> Iterator[CheckedChunk | Gap]:
        """The entries and gaps that start in the range, as ``ResyncWalk.items`` gives them.

        The last may end after ``end``.
        """
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
    """The entries of a chunk that start before index ``end``. An entry starts at ``end`` or later."""
    count = next(number for number, start in enumerate(chunk.starts) if start >= end)
    damaged = [number for number in chunk.damaged if number < count]
    return CheckedChunk(chunk.data, chunk.position, chunk.starts[:count], chunk.starts[count], damaged)


class LogCuts:
    """Finds where a log can be cut. It remembers the last cut.

    Args:
        index: the entries of the .index beside the log, positions rising; none: lengths are followed.
    """

    def __init__(self, index: Sequence[OffsetEntry]) -> None:
        self._leads: _Leads = _IndexLeads(index) if index else _LengthLeads()
        self._last: tuple[int, _ExtentPosition] | None = None

    def extent(self, source: Source, first: int, last: int) -> Extent:
        """Where to read what starts at file positions ``first`` to ``last`` (exclusive).

        Every process finds the same ranges: each ends where the next one begins.

        Args:
            source: the log, of the same size each time.
            first: 0 begins the log.
            last: the size of the file, or more, ends it.

        Raises:
            KdumpError: the file cannot be read.
        """
        start = self._cut(source, first)
        end = self._cut(source, last)
        return Extent(start.position, max(start.position, end.position), start.previous_offset)

    def start(self, source: Source, first: int) -> int:
        """Where the extent starts that begins at ``first``. Raises as ``extent``."""
        return self._cut(source, first).position

    def _cut(self, source: Source, position: int) -> _ExtentPosition:
        if self._last is not None and self._last[0] == position:
            return self._last[1]
        cut = _cut(source, position, self._leads)
        self._last = position, cut
        return cut


def leads(source: Source, index: Sequence[OffsetEntry], position: int) -> Iterator[int]:
    """Positions at which entries start according to the .index, from ``position`` backwards, without 0."""
    true = _IndexLeads(index)
    while (position := true.up_to(source, position)) > 0:
        yield position
        position -= 1


class _ExtentPosition(NamedTuple):
    """A position in a file, with the offset of the entry before it; see Extent."""

    position: int
    previous_offset: int = NO_OFFSET


def _cut(source: Source, position: int, leads: _Leads) -> _ExtentPosition:
    """The first proven position at ``position`` or later; the end of the log where there is none."""
    size = source.size or 0
    if position <= 0 or position >= size:
        return _ExtentPosition(min(max(position, 0), size))
    lead: int | None = leads.up_to(source, position - PROOF)
    while lead is not None:
        # A walk from the start of the log begins at 0, which needs no proof.
        end, is_reached = _follow(source, lead, max(position, lead + PROOF if lead else 0))
        if is_reached:
            return end
        lead = leads.after(source, end.position)
    return _ExtentPosition(size)


def _follow(source: Source, start: int, least: int) -> tuple[_ExtentPosition, bool]:
    """Follow valid entries from ``start`` on to the first one at ``least`` or later, or to the end of the log.

    Returns:
        That position and True, or the position of the first damage and False.
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
    """Positions in a log at which an entry is said to start."""

    @abstractmethod
    def up_to(self, source: Source, position: int) -> int:
        """The last position up to ``position``; 0 where there is none."""

    @abstractmethod
    def after(self, source: Source, position: int) -> int | None:
        """The first position after ``position``; None where there is none."""


class _IndexLeads(_Leads):
    """The positions in an .index whose batch has the offset of the entry."""

    def __init__(self, index: Sequence[OffsetEntry]) -> None:
        self._index = index

    def up_to(self, source: Source, position: int) -> int:
        """See _Leads."""
        number = self._number(position)
        return next((entry.position for entry in reversed(self._index[:number]) if self._is_true(source, entry)), 0)

    def after(self, source: Source, position: int) -> int | None:
        """See _Leads."""
        number = self._number(position)
        return next((entry.position for entry in self._index[number:] if self._is_true(source, entry)), None)

    def _number(self, position: int) -> int:
        return bisect_right(self._index, position, key=lambda entry: entry.position)

    @staticmethod
    def _is_true(source: Source, entry: OffsetEntry) -> bool:
        """The batch at the position has a right CRC, and its last (1.1 and before: first) offset is the entry's."""
        raw = source.read(entry.position, HEADER_SIZE)
        head = read_head(raw, 0, len(raw), entry.position)
        if head is None or not head.is_plausible or head.length > LARGEST_ENTRY:
            return False
        if entry.offset not in (head.offset, head.last_offset):
            return False
        raw = source.read(entry.position, head.end - entry.position)
        return entry.position + len(raw) == head.end and head.checksum(memoryview(raw)[head.crc_start :]) == head.crc


class _LengthLeads(_Leads):
    """Positions by the lengths of all entries from the start of the log, up to the first wrong one.

    It remembers how far it has followed them.
    """

    def __init__(self) -> None:
        self._followed = 0

    def up_to(self, source: Source, position: int) -> int:
        """See _Leads."""
        if position <= 0:
            return 0
        last = self._followed if self._followed <= position else 0
        for place in _places(source, last):
            if place > position:
                break
            last = place
        self._followed = last
        return last

    def after(self, source: Source, position: int) -> int | None:
        """See _Leads. ``position`` is one of the positions."""
        return next((place for place in _places(source, position) if place > position), None)


def _places(source: Source, start: int) -> Iterator[int]:
    """Where entries start and end by their lengths, from the entry at ``start`` on."""
    for chunk in Walk(source, start=start).chunks():
        yield from (chunk.position + place for place in (*chunk.starts, chunk.end))
