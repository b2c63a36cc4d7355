"""Numbers of many groups in few bytes: in arrays that grow, and in columns of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

FEW_ROWS: Final = 1 << 15
"""Rows that are held as they are. There may be a group per batch: what has more rows is held in as few bytes as it can.
"""


class GroupNumbers:
    """The numbers of groups. Those of many groups are held in the fewest bytes that hold each of them.

    Args:
        initial: the number of a new group.
    """

    def __init__(self, initial: int) -> None:
        self._initial = initial
        self._data: NDArray[Any] = np.empty(0, np.int64)
        """Narrow integers cannot hold every ``initial``. The nearest that they hold stands for it, and for no other."""

    def grow(self, count: int) -> None:
        """Have room for ``count`` groups."""
        more = count - self._data.size
        if more > 0:
            if self._data.size > FEW_ROWS:
                self._data = self._held_as(self._data, self._kind(self._wide(self._data)))
            new = np.full(max(more, self._data.size // 4), self._initial, np.int64)
            self._data = np.concatenate((self._data, self._held_as(new, self._data.dtype)))

    def one(self, group: int) -> int:
        """The number of a group, which may be new."""
        return int(self._wide(self._data[group : group + 1])[0]) if group < self._data.size else self._initial

    def of(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of groups for which there is room; shapes (groups,)."""
        return self._wide(self._data[groups])

    def first(self, count: int) -> NDArray[np.int64]:
        """The numbers of the first ``count`` groups; shape (count,)."""
        self.grow(count)
        return self._wide(self._data[:count])

    def combine(self, how: np.ufunc, groups: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Combine the numbers of groups for which there is room with others, several of one group too."""
        if self._data.dtype == np.int64:
            how.at(self._data, groups, numbers)
            return
        order = np.argsort(groups, kind="stable")
        first = np.flatnonzero(np.diff(groups[order], prepend=-1))
        found = groups[order[first]]
        self.put(found, how(self.of(found), how.reduceat(numbers[order], first)))

    def put(self, groups: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Set the numbers of groups for which there is room; shapes (groups,)."""
        if self._data.dtype != np.int64:
            kind = np.promote_types(self._data.dtype, self._kind(numbers))
            self._data = self._held_as(self._data, kind)
            numbers = self._held_as(numbers, kind)
        self._data[groups] = numbers

    def _kind(self, numbers: NDArray[np.int64]) -> np.dtype[Any]:
        """The narrowest integers that hold these numbers, and others that stand for ``initial``."""
        numbers = numbers[numbers != self._initial]
        return _narrowest(int(numbers.min(initial=0)) - 1, int(numbers.max(initial=0)) + 1)

    def _held_as(self, numbers: NDArray[Any], kind: np.dtype[Any]) -> NDArray[Any]:
        """The numbers, held as another kind of integers."""
        if numbers.dtype == kind:
            return numbers
        return np.clip(self._wide(numbers), np.iinfo(kind).min, np.iinfo(kind).max).astype(kind)

    def _wide(self, numbers: NDArray[Any]) -> NDArray[np.int64]:
        """The numbers that narrow ones stand for."""
        if numbers.dtype == np.int64:
            return numbers
        wide = numbers.astype(np.int64)
        nearest = min(max(self._initial, np.iinfo(numbers.dtype).min), np.iinfo(numbers.dtype).max)
        if nearest != self._initial:
            wide[numbers == nearest] = self._initial
        return wide


def joined_narrow(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The columns one after the other; many rows in as few bytes as hold each number."""
    if sum(map(len, columns)) > FEW_ROWS:
        columns = [_narrow(column) for column in columns if len(column)]
    return np.concatenate(columns)


def narrowed(column: NDArray[Any]) -> NDArray[Any]:
    """The numbers of a column; many rows in as few bytes as hold each number."""
    return column if len(column) <= FEW_ROWS else _narrow(column)


def _narrow(column: NDArray[Any]) -> NDArray[Any]:
    return column.astype(_narrowest(int(column.min()), int(column.max())), copy=False)


def _narrowest(least: int, most: int) -> np.dtype[Any]:
    """The narrowest integers that hold these two."""
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
            return np.dtype(kind)
    return np.dtype(np.int64)
