"""The used entries of an .index or a .timeindex as columns."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kdump.log.names import Kind
from kdump.verify.indexedlog import Column

OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_OTHERS: Final = {Kind.INDEX: ("position", OFFSET_ENTRY), Kind.TIME_INDEX: ("timestamp", TIME_ENTRY)}


class IndexColumns:
    """The entries of an .index or a .timeindex; the columns have the shape (entries,).

    Args:
        offset: of each entry, any integers; relative to the base offset.
        other: the position in the log (.index) or the timestamp (.timeindex) of each.
        base_offset: 0 where the offsets are not relative.
    """

    def __init__(self, offset: NDArray[Any], other: NDArray[Any], base_offset: int = 0) -> None:
        self._relative = offset
        self._base_offset = base_offset
        self.offset: Column = offset.astype(np.int64) + np.array([base_offset])
        self.other: Column = other.astype(np.int64)

    @classmethod
    def of_file(cls, kind: Kind, data: bytes, base_offset: int) -> IndexColumns:
        """The entries of an index file (INDEX or TIME_INDEX) up to the zeros after them.

        A running or killed broker leaves such zeros.
        """
        other, layout = _OTHERS[kind]
        entries = np.frombuffer(data, layout, used_count(data, layout.itemsize))
        return cls(entries["offset"], entries[other], base_offset)

    def __len__(self) -> int:
        return self.offset.size

    def entry(self, number: int) -> tuple[int, int]:
        """The offset, and the position or timestamp, of an entry."""
        return int(self.offset[number]), int(self.other[number])

    def largest_offset(self, first: int = 0) -> int:
        """The largest offset from the entry ``first`` on, base - 1 without one."""
        return self._base_offset + int(self._relative[first:].max(initial=-1))

    def before(self, offset: int, other: int) -> tuple[Column, Column]:
        """The offset and the position or timestamp before each entry; before the first one these."""
        return _after(offset, self.offset), _after(other, self.other)

    def other_after(self, last: int) -> Column:
        """The position or timestamp after each entry; after the last one ``last``."""
        return _after(last, self.other[::-1])[::-1]


def _after(first: int, column: Column) -> Column:
    """A value, and after it the column without its last one."""
    return np.append(np.array([first], np.int64), column)[: column.size]


def used_count(data: bytes, entry_size: int) -> int:
    """The number of whole entries up to the zeros at the end."""
    whole = len(data) - len(data) % entry_size
    used = len((data if whole == len(data) else data[:whole]).rstrip(b"\0"))
    return -(-used // entry_size)
