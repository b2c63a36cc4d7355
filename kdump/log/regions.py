"""The valid entries of a part of a file, searched once and looked up by position."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from kdump.format.batch import HEADER_SIZE
from kdump.log.candidates import find_candidates
from kdump.log.window import Window


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


def search(window: Window, first: int) -> Region:
    """Search ``window`` from file position ``first`` on."""
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
