"""What shows that an entry starts at a position of a damaged log.

Positions are those of the file, and the bytes come from a ``Window``. Checks that may find nothing have a cost. The sum
of the costs stays in proportion to the bytes read, so that no input makes a walk quadratic.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from kdump.format.batch import HEADER_SIZE
from kdump.log.heads import LARGEST_ENTRY, SMALLEST_ENTRY, Head, read_head
from kdump.log.window import Window

HORIZON: Final = LARGEST_ENTRY // 2
"""How far after a suspect position entries are known."""

_FIRST_SEARCH: Final = 1 << 20
_LARGEST_SEARCH: Final = 2 * LARGEST_ENTRY
_GROWTH: Final = 8
_WASTE_PER_BYTE: Final = 4
_COST_OF_A_STEP: Final = 256
"""The cost of looking at one position, as a number of bytes whose CRC costs the same."""
_MOST_ENDS: Final = 16
_HEADS_AT_HAND: Final = 16


@dataclass(frozen=True, slots=True)
class Region:
    """The entries from file position ``first`` on.

    ``headers``: where plausible headers start, as far as the file was in memory. ``starts`` and ``ends``: the entries
    with a right CRC. They are complete for entries that start before ``resolved``.
    """

    first: int
    resolved: int
    headers: array[int]
    starts: array[int]
    ends: array[int]

    def valid_end(self, position: int) -> int | None:
        """Where the valid entry that starts at ``position`` ends; None where there is none."""
        index = bisect_left(self.starts, position)
        return self.ends[index] if index < len(self.starts) and self.starts[index] == position else None

    def next_header(self, first: int) -> int | None:
        """Where the first plausible header from ``first`` on starts."""
        index = bisect_left(self.headers, first)
        return self.headers[index] if index < len(self.headers) else None

    def valid_from(self, first: int) -> Iterator[int]:
        """Starts of the valid entries from ``first`` on."""
        return map(self.starts.__getitem__, range(bisect_left(self.starts, first), len(self.starts)))

    def headers_between(self, first: int, last: int) -> Iterator[int]:
        """Plausible headers that start at ``first`` to ``last`` (inclusive)."""
        places = range(bisect_left(self.headers, first), bisect_right(self.headers, last))
        return map(self.headers.__getitem__, places)


class Evidence:
    """The checks of one walk.

    ``keep``: the window must hold the bytes from this position on. ``passed``: bytes that the walk has read. They pay
    for later checks.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self._region: Region | None = None
        self._search_size = _FIRST_SEARCH
        # Near a gap the same few headers are read again and again.
        self._heads: dict[int, Head] = {}
        self._credit = 2 * max(_LARGEST_SEARCH, window.size)
        self.keep = window.base
        self.passed = 0

    @property
    def allowance(self) -> int:
        """The largest cost that a check may have."""
        return self._credit + _WASTE_PER_BYTE * self.passed

    def spend(self, cost: int) -> bool:
        """Pay for a check that costs as much as the CRC of ``cost`` bytes. False: too much was spent."""
        if cost > self._credit + _WASTE_PER_BYTE * self.passed:
            return False
        self._credit -= cost
        return True

    def head(self, position: int) -> Head | None:
        """The header at ``position``; None where fewer than 26 bytes are left."""
        known = self._heads.get(position)
        if known is not None:
            return known
        head = self._read_head(position)
        if head is not None:
            if len(self._heads) >= _HEADS_AT_HAND:
                self._heads.clear()
            self._heads[position] = head
        return head

    def _read_head(self, position: int) -> Head | None:
        window = self._window
        if window.base <= position <= window.stop:
            if position + HEADER_SIZE > window.stop:
                window.fill(self.keep, position + HEADER_SIZE)
            return read_head(window.data, position - window.base, window.stop - position, position)
        raw = window.peek(position, HEADER_SIZE)
        return read_head(raw, 0, len(raw), position)

    def region(self, first: int, horizon: int) -> Region:
        """A region that covers ``first`` and is complete up to ``horizon`` (HORIZON ahead at most) or to the end."""
        window, region = self._window, self._region
        if region is not None and region.first <= first:
            if region.resolved >= horizon:
                return region
            # The last search gained little: search further at once, so that no byte is searched often.
            if first - region.first < self._search_size // 4:
                self._search_size = min(_GROWTH * self._search_size, _LARGEST_SEARCH)
        while True:
            window.fill(self.keep, first + self._search_size)
            region = self._search(first)
            if region.resolved >= horizon or window.stop == window.end or self._search_size == _LARGEST_SEARCH:
                return region
            self._search_size = min(_GROWTH * self._search_size, _LARGEST_SEARCH)

    def forget_region(self) -> None:
        """The window moved to another extent."""
        self._region = None

    def stands(self, position: int, end: int) -> bool:
        """A quick check of the entry from ``position`` to ``end``: an entry starts at its end, and none inside it.

        False also where no region covers it.
        """
        region = self._region
        return region is not None and region.first <= position and region.next_header(position + 1) == end

    def is_entry_at(self, position: int, last_offset: int | None) -> bool:
        """At ``position`` is the end of the log, a valid entry, or a header that hardly can be an accident.

        A header of the last kind is plausible together with its body, or it is telling and comes after ``last_offset``.
        """
        window, region = self._window, self._region
        if position == window.end:
            return True
        head = self.head(position)
        if head is None:
            return False
        if last_offset is not None and head.is_telling and head.is_after(last_offset):
            return True
        if region is not None and region.first <= position < region.resolved:
            return region.next_header(position) == position or region.valid_end(position) is not None
        size = head.end - position
        if not SMALLEST_ENTRY <= size <= LARGEST_ENTRY or not self.spend(size):
            return False
        raw = window.peek(position, size)
        return len(raw) == size and head.checksum(memoryview(raw)[head.crc_start :]) == head.crc

    def is_valid_in_file(self, head: Head, end: int) -> bool:
        """The CRC of an entry that is not in memory is right. False for a stream."""
        if not self._window.is_file or not self.spend(end - head.position):
            return False
        return self._window.checksum(head.position + head.crc_start, end, head.checksum) == head.crc

    def true_end(self, head: Head, region: Region, last: int) -> int | None:
        """The position up to ``last`` at which an entry (or the end) comes and up to which the CRC is right.

        The CRC does not cover the length field, so this proves the length wrong. Only the first few positions are
        tried.
        """
        window = self._window
        start = head.position + head.crc_start
        places: Iterator[int] = islice(region.headers_between(start + 1, last), _MOST_ENDS)
        if last == window.end:
            places = chain(places, (last,))
        checksum, crc, base = head.checksum, 0, window.base
        with memoryview(window.data) as data:
            for place in places:
                if not self.spend(place - start + _COST_OF_A_STEP):
                    break
                crc = checksum(data[start - base : place - base], crc)
                if crc == head.crc:
                    return place
                start = place
        return None

    def straddler(self, owner: Head, end: int) -> int | None:
        """A valid entry that starts inside the valid entry ``owner`` and ends after it."""
        region = self.region(owner.position + 1, end)
        for start in islice(region.valid_from(owner.position + 1), _MOST_ENDS):
            if start >= end:
                break
            head = self.head(start)
            if head is not None and head.end > end and head.is_after(owner.last_offset):
                return start
        return None

    def swallowed(self, head: Head, region: Region) -> int | None:
        """A valid entry inside ``head``'s, with offsets between those of ``head`` and of the entry that follows it.

        An entry that a wrong length took in always has such offsets. Payload would have them only by chance.
        """
        following = self.head(head.end)
        if following is None:
            return None
        for start in islice(region.valid_from(head.position + 1), _MOST_ENDS):
            if start >= head.end:
                break
            inner = self.head(start)
            if inner is not None and head.offset < inner.offset <= inner.last_offset < following.offset:
                return start
        return None

    def next_valid(self, region: Region, first: int, claim: Head | None, last_offset: int | None) -> int | None:
        """The first valid entry from ``first`` on that is no payload, as far as that can be told.

        ``claim`` is a header that may be right about the bytes that it covers. An entry inside these bytes counts if
        its offset is the one after the header's last, or if it is any offset after the header's first and another entry
        follows. An entry elsewhere counts if its offset is after ``last_offset``, or if another entry follows.
        """
        if claim is not None and not (claim.is_telling and claim.is_after(last_offset)):
            claim = None
        for start in region.valid_from(first):
            head = self.head(start)
            if head is None:
                continue
            if claim is None or start >= claim.end:
                counts = head.is_after(last_offset) or self._is_followed(head, region)
            else:
                counts = head.offset == claim.last_offset + 1 or (
                    head.is_after(claim.offset) and self._is_followed(head, region)
                )
            if counts or not self.spend(_COST_OF_A_STEP):
                return start
        return None

    def _is_followed(self, head: Head, region: Region) -> bool:
        """At the end of a valid entry is the end of the file, a valid entry, or an entry with a higher offset."""
        if head.end == self._window.end or region.valid_end(head.end) is not None:
            return True
        following = self.head(head.end)
        return following is not None and following.is_telling and following.is_after(head.last_offset)

    def _search(self, first: int) -> Region:
        self._region = _search(self._window, first)
        return self._region


def _search(window: Window, first: int) -> Region:
    """Search ``window`` from file position ``first`` on."""
    from kdump.log.candidates import find_candidates

    data = memoryview(window.data)[: window.filled]
    room = (window.end if window.end is not None else 1 << 62) - window.base
    found = find_candidates(data, first - window.base, room)
    is_valid = found.valid(data)
    pending = found.start[found.end > window.filled]
    # A header that is not wholly in memory is not seen.
    seen = window.stop if window.stop == window.end else max(first, window.stop - HEADER_SIZE + 1)
    return Region(
        first,
        min(int(pending[0]) + window.base, seen) if pending.size else seen,
        array("q", (found.start + window.base).tobytes()),
        array("q", (found.start[is_valid] + window.base).tobytes()),
        array("q", (found.end[is_valid] + window.base).tobytes()),
    )
