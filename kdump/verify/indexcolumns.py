"""The used entries of an .index or a .timeindex as columns, a block at a time.

As columns of int64, all entries of a large file would take several times the bytes of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.log.names import Kind
from kdump.verify.indexedlog import AskedPlaces, Column

OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_OTHERS: Final = {Kind.INDEX: ("position", OFFSET_ENTRY), Kind.TIME_INDEX: ("timestamp", TIME_ENTRY)}
BLOCK_ENTRIES: Final = 1 << 17


class IndexBlock(NamedTuple):
    """Neighbouring entries; all columns have the shape (entries,)."""

    offset: Column
    other: Column
    """Positions in the log (.index) or timestamps (.timeindex)."""
    offset_before: Column
    """The offset of the entry before each."""
    other_before: Column
    other_after: Column
    """The position or timestamp of the entry after each."""


class IndexColumns:
    """The entries of an .index or a .timeindex.

    Args:
        offset: of each entry, any integers of shape (entries,); relative to the base offset.
        other: the position in the log (.index) or the timestamp (.timeindex) of each.
        base_offset: 0 where the offsets are not relative.
    """

    def __init__(self, offset: NDArray[Any], other: NDArray[Any], base_offset: int = 0) -> None:
        self._offset, self._other = offset, other
        self._base_offset = np.int64(base_offset)

    @classmethod
    def of_file(cls, kind: Kind, data: bytes, base_offset: int) -> IndexColumns:
        """The entries of an index file (INDEX or TIME_INDEX) up to the zeros after them.

        A running or killed broker leaves such zeros.
        """
        other, layout = _OTHERS[kind]
        entries = np.frombuffer(data, layout, used_count(data, layout.itemsize))
        return cls(entries["offset"], entries[other], base_offset)

    def __len__(self) -> int:
        return self._offset.size

    @property
    def offsets(self) -> Column:
        """Of all entries."""
        return self._offset + self._base_offset

    @property
    def others(self) -> Column:
        """The positions or timestamps of all entries."""
        return self._other.astype(np.int64)

    def entry(self, number: int) -> tuple[int, int]:
        """The offset, and the position or timestamp, of an entry."""
        # An array of one wraps as the columns do; a scalar would warn.
        (offset,) = self._offset[[number]] + self._base_offset
        return int(offset), int(self._other[number])

    def largest_offset(self, first: int = 0) -> int:
        """The largest offset from the entry ``first`` on, base - 1 without one."""
        return int(self._base_offset) + int(self._offset[first:].max(initial=-1))

    def largest_other(self) -> int:
        """The largest position or timestamp, 0 without an entry."""
        return int(self._other.max(initial=0))

    def blocks(self, *, before: tuple[int, int], after: int = 0) -> Iterator[IndexBlock]:
        """All entries in order; without entries one empty block.

        Args:
            before: what stands for the offset, and the position or timestamp, before the first entry.
            after: what stands for the position or timestamp after the last one.
        """
        for start in range(0, max(len(self), 1), BLOCK_ENTRIES):
            end = min(start + BLOCK_ENTRIES, len(self))
            offset, other = np.empty(end - start + 1, np.int64), np.empty(end - start + 2, np.int64)
            offset[1:] = self._offset[start:end]
            offset[1:] += self._base_offset
            other[1:-1] = self._other[start:end]
            offset[0], other[0] = self.entry(start - 1) if start else before
            other[-1] = self._other[end] if end < len(self) else after
            yield IndexBlock(offset[1:], other[1:-1], offset[:-1], other[:-2], other[2:])

    def are_all(self, is_right: Callable[[IndexBlock], NDArray[np.bool_]], *, before: tuple[int, int]) -> bool:
        """Whether ``is_right`` holds for each entry."""
        return all(is_right(block).all() for block in self.blocks(before=before))


def used_count(data: bytes, entry_size: int) -> int:
    """The number of whole entries up to the zeros at the end."""
    whole = len(data) - len(data) % entry_size
    used = len((data if whole == len(data) else data[:whole]).rstrip(b"\0"))
    return -(-used // entry_size)


def named_places(index: bytes, time_index: bytes, base_offset: int) -> AskedPlaces:
    """The places of a log that its .index and its .timeindex name."""
    entries = IndexColumns.of_file(Kind.INDEX, index, base_offset)
    times = IndexColumns.of_file(Kind.TIME_INDEX, time_index, base_offset)
    return AskedPlaces(np.sort(entries.others), np.sort(np.concatenate((entries.offsets, times.offsets))))
