"""Objects of which there may be millions, held as bytes.

An object with a few numbers takes several hundred bytes, and the entry of a log that it tells of 70.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar, overload

ItemT = TypeVar("ItemT")

_BLOCK: Final = 4096
"""Items that are packed together."""


class PackedItems(Sequence[ItemT]):
    """Items that never change. Of many all but the last are held as bytes, and are new objects when they are asked for.

    Two of them that hold the same number of items are equal where these are.

    Args:
        items: what to hold.
        pack: plain values and bytes of an item.
        unpack: the item of these.
    """

    def __init__(self, items: Iterable[ItemT], pack: Callable[[ItemT], Any], unpack: Callable[[Any], ItemT]) -> None:
        self._unpack = unpack
        self._blocks: list[bytes] = []
        self._last: list[ItemT] = []
        for item in items:
            if len(self._last) == _BLOCK:
                # What several items share is in a block once.
                self._blocks.append(marshal.dumps(list(map(pack, self._last))))
                self._last.clear()
            self._last.append(item)
        self._shown: tuple[int, Sequence[ItemT]] = len(self._blocks), self._last
        """The number of the block that was asked for last, and its items."""

    def __len__(self) -> int:
        return len(self._blocks) * _BLOCK + len(self._last)

    def __iter__(self) -> Iterator[ItemT]:
        for block in self._blocks:
            yield from map(self._unpack, marshal.loads(block))
        yield from self._last

    @overload
    def __getitem__(self, place: int) -> ItemT: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[ItemT]: ...
    def __getitem__(self, place: int | slice) -> ItemT | Sequence[ItemT]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        number, within = divmod(range(len(self))[place], _BLOCK)
        if number == len(self._blocks):
            return self._last[within]
        if self._shown[0] != number:
            self._shown = number, list(map(self._unpack, marshal.loads(self._blocks[number])))
        return self._shown[1][within]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(one == same for one, same in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]
