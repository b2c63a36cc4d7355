"""Lists of which there may be millions of items, held as bytes."""

from __future__ import annotations

import marshal
import zlib
from array import array
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import Any, Final, Generic, TypeVar, cast

ItemT = TypeVar("ItemT")

BLOCK: Final = 1 << 20
"""Bytes of items that wait until they are compressed."""
_LARGE: Final = 1 << 10
"""Mean bytes of items that are not worth the time: they take about as much as in the file that they come from."""
_POSITION: Final = "Q"


class PackedList(Collection[ItemT], Generic[ItemT]):
    """Items of plain values, as ``marshal`` writes them. Each time that they are gone through they are new objects.

    Items of a log are alike: those of a full block are compressed, and take a tenth of their bytes or less.
    """

    def __init__(self) -> None:
        self._blocks: list[tuple[bytes, array[int], bool]] = []
        """Of each full block the items, the positions between them, and whether it is compressed."""
        self._count = 0
        self._clear()

    def _clear(self) -> None:
        """Begin a block."""
        self._data = bytearray()
        self._bounds = array(_POSITION, [0])

    def append(self, item: ItemT) -> None:
        """Add an item."""
        self._data += marshal.dumps(cast(Any, item))
        self._bounds.append(len(self._data))
        self._count += 1
        if len(self._data) >= BLOCK:
            self._close()

    def _close(self) -> None:
        is_compressed = len(self._data) < (len(self._bounds) - 1) * _LARGE
        data = zlib.compress(self._data, 1) if is_compressed else bytes(self._data)
        self._blocks.append((data, self._bounds, is_compressed))
        self._clear()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[ItemT]:
        for block in self._blocks:
            yield from _items(*block)
        yield from _items(bytes(self._data), self._bounds)

    def __reversed__(self) -> Iterator[ItemT]:
        yield from _items(bytes(self._data), self._bounds, is_backwards=True)
        for block in reversed(self._blocks):
            yield from _items(*block, is_backwards=True)

    def __contains__(self, item: object) -> bool:
        return any(own == item for own in self)


def _items(
    data: bytes, bounds: array[int], is_compressed: bool = False, *, is_backwards: bool = False
) -> Iterator[Any]:
    """The items of a block."""
    if is_compressed:
        data = zlib.decompress(data)
    view = memoryview(data)
    spans: Iterable[tuple[int, int]] = pairwise(bounds)
    if is_backwards:
        spans = ((start, end) for end, start in pairwise(reversed(bounds)))
    for start, end in spans:
        yield marshal.loads(view[start:end])
