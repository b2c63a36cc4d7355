"""Collections whose copies share what they have in common.

The plan of a repair keeps the producers before each segment. There may be thousands of segments and a million
producers, of which few change from one segment to the next.

Both collections consist of layers. The newest changes are the first layer, which is a collection's own. Copies share
the others, which never change. Each has more than twice as many members as the one before it, else the two become one.
So there are few layers, and a member is moved only as often as there are layers.
"""

from __future__ import annotations

import heapq
from collections.abc import ItemsView, Iterator, MutableMapping, ValuesView
from enum import Enum
from typing import Any, Final, Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_Item = TypeVar("_Item", int, tuple[int, int])


class _Gone(Enum):
    """Stands for the value of a key that is not there."""

    GONE = 0


_GONE: Final = _Gone.GONE


class SharedMap(MutableMapping[_Key, _Value]):
    """A dictionary of values that do not change. A copy costs no more than the changes since the last one.

    Keys come in the order in which they were put in; one that was removed and put in again may keep its old place.
    """

    def __init__(self) -> None:
        self._layers: list[dict[_Key, _Value | _Gone]] = [{}]
        self._count = 0

    def copy(self) -> SharedMap[_Key, _Value]:
        """An independent copy."""
        self._share()
        other: SharedMap[_Key, _Value] = SharedMap()
        other._layers, other._count = [{}, *self._layers[1:]], self._count
        return other

    def __getitem__(self, key: _Key) -> _Value:
        value = self._find(key)
        if value is _GONE:
            raise KeyError(key)
        return value

    def get(self, key: _Key, default: Any = None) -> Any:
        """See Mapping. That of MutableMapping raises and catches an error for each key that is not there."""
        value = self._find(key)
        return default if value is _GONE else value

    def __setitem__(self, key: _Key, value: _Value) -> None:
        self._count += self._find(key) is _GONE
        self._layers[0][key] = value

    def __delitem__(self, key: _Key) -> None:
        if self._find(key) is _GONE:
            raise KeyError(key)
        self._count -= 1
        self._layers[0][key] = _GONE

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._merged())

    def items(self) -> ItemsView[_Key, _Value]:
        """See Mapping. That of MutableMapping looks for each key again."""
        return self._merged().items()

    def values(self) -> ValuesView[_Value]:
        """See ``items``."""
        return self._merged().values()

    def _merged(self) -> dict[_Key, _Value]:
        everything: dict[_Key, _Value | _Gone] = {}
        for layer in reversed(self._layers):
            everything |= layer
        return {key: value for key, value in everything.items() if value is not _GONE}

    def _find(self, key: _Key) -> _Value | _Gone:
        for layer in self._layers:
            if key in layer:
                return layer[key]
        return _GONE

    def _share(self) -> None:
        newest, *shared = self._layers
        while shared and newest and len(newest) * 2 >= len(shared[0]):
            newest = shared.pop(0) | newest
        if not shared:
            newest = {key: value for key, value in newest.items() if value is not _GONE}
        self._layers = [{}, newest, *shared] if newest else [{}, *shared]


class SharedHeap(Generic[_Item]):
    """A heap. A copy costs no more than the items that were added since the last one."""

    def __init__(self) -> None:
        self._own: list[_Item] = []
        # Each layer is sorted with the least item last. Of it this heap still has so many items.
        self._layers: list[list[_Item]] = []
        self._counts: list[int] = []

    def copy(self) -> SharedHeap[_Item]:
        """An independent copy."""
        self._share()
        other: SharedHeap[_Item] = SharedHeap()
        other._layers, other._counts = self._layers.copy(), self._counts.copy()
        return other

    @property
    def least(self) -> _Item | None:
        """The least item; None: there is none."""
        least = self._own[0] if self._own else None
        for layer, count in zip(self._layers, self._counts, strict=True):
            if least is None or layer[count - 1] < least:
                least = layer[count - 1]
        return least

    def push(self, item: _Item) -> None:
        """Add an item."""
        heapq.heappush(self._own, item)

    def pop(self) -> _Item:
        """Remove the least item. Raises IndexError if there is none."""
        least = self.least
        if least is None or (self._own and self._own[0] == least):
            return heapq.heappop(self._own)
        place = next(place for place, count in enumerate(self._counts) if self._layers[place][count - 1] == least)
        self._counts[place] -= 1
        if not self._counts[place]:
            del self._layers[place], self._counts[place]
        return least

    def _share(self) -> None:
        newest: list[_Item] = sorted(self._own, reverse=True)
        self._own = []
        while self._layers and newest and len(newest) * 2 >= self._counts[0]:
            newest = sorted(self._layers.pop(0)[: self._counts.pop(0)] + newest, reverse=True)
        if newest:
            self._layers.insert(0, newest)
            self._counts.insert(0, len(newest))
