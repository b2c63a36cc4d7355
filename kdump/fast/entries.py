"""Valid entries of a log, many at once, with their records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdump.fast.headers import native_column
from kdump.fast.recordtable import RecordGroups


@dataclass(frozen=True, slots=True)
class Entries:
    """Valid entries of one format side by side in a chunk.

    ``data`` is valid until the next entries are asked for.
    """

    data: memoryview
    bounds: NDArray[np.int64]
    """Shape (entries + 1,): entry i is ``data[bounds[i]:bounds[i + 1]]``."""
    groups: RecordGroups
    """A group an entry."""
    bodies: NDArray[np.uint8]
    """The uncompressed records of batches."""
    body_start: NDArray[np.int64]
    """Shape (entries,), of batches: where the records of each lie in ``bodies``."""
    body_end: NDArray[np.int64]

    @property
    def is_v2(self) -> bool:
        """Batches of magic 2, with their headers."""
        return self.groups.headers is not None

    def record_groups(self) -> Iterator[RecordGroups]:
        """The records in order: all at once, or those of a large entry in pieces, each a group of one or more."""
        yield self.groups

    def extents(
        self, numbers: NDArray[np.intp] | slice
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """First and last offset and largest timestamp of some entries; shapes (numbers,)."""
        groups = self.groups
        timestamp = groups.timestamp[numbers]
        if groups.headers is None:
            offset, bounds = groups.table.offset, groups.bounds
            return offset[bounds[:-1][numbers]], offset[bounds[1:][numbers] - 1], timestamp
        headers = groups.headers[numbers]
        base_offset = native_column(headers, "base_offset")
        return base_offset, base_offset + native_column(headers, "last_offset_delta"), timestamp

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Bytes of each entry; shape (entries,)."""
        return np.diff(self.bounds)


@dataclass(frozen=True, slots=True)
class LargeEntry(Entries):
    """One entry with so many or so large records that they are given in pieces.

    Its group has no rows, although its bounds count them.
    """

    pieces: Callable[[], Iterator[RecordGroups]]
    """Called, gives the records in order, a group at a time. It can be called again."""
    first_offset: int
    last_offset: int
    """Of the first and the last record, or of the batch."""

    def record_groups(self) -> Iterator[RecordGroups]:
        """See Entries."""
        return self.pieces()

    def extents(
        self, numbers: NDArray[np.intp] | slice
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """See Entries."""
        return np.array([self.first_offset]), np.array([self.last_offset]), self.groups.timestamp[numbers]
