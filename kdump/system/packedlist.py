"""Lists of which there may be millions of items, held as bytes."""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Collection, Iterator
from typing import Any, Final, Generic, TypeVar, cast

ItemT = TypeVar("ItemT")

_POSITION: Final = "Q"


class PackedList(Collection[ItemT], Generic[ItemT]):
    """Items of plain values, as ``marshal`` writes them. Each time that they are gone through they are new objects."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._ends = array(_POSITION)

    def append(self, item: ItemT) -> None:
        """Add an item."""
        self._data += marshal.dumps(cast(Any, item))
        self._ends.append(len(self._data))

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[ItemT]:
        start = 0
        for end in self._ends:
            yield cast(ItemT, marshal.loads(self._data[start:end]))
            start = end

    def __reversed__(self) -> Iterator[ItemT]:
        for number in range(len(self._ends) - 1, -1, -1):
            start = self._ends[number - 1] if number else 0
            yield cast(ItemT, marshal.loads(self._data[start : self._ends[number]]))

    def __contains__(self, item: object) -> bool:
        return any(own == item for own in self)
