"""Numbers of groups in an array that grows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class GroupNumbers:
    """The numbers of groups.

    Args:
        initial: the number of a new group.
    """

    def __init__(self, initial: int) -> None:
        self._initial = initial
        self._data = np.empty(0, np.int64)

    def grow(self, count: int) -> None:
        """Have room for ``count`` groups."""
        more = count - self._data.size
        if more > 0:
            new = np.full(max(more, self._data.size // 4), self._initial, np.int64)
            self._data = np.concatenate((self._data, new))

    def one(self, group: int) -> int:
        """The number of a group, which may be new."""
        return int(self._data[group]) if group < self._data.size else self._initial

    def of(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of groups for which there is room; shapes (groups,)."""
        return self._data[groups]

    def first(self, count: int) -> NDArray[np.int64]:
        """The numbers of the first ``count`` groups; shape (count,)."""
        self.grow(count)
        return self._data[:count]

    def combine(self, how: np.ufunc, groups: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Combine the numbers of groups for which there is room with others, several of one group too."""
        how.at(self._data, groups, numbers)

    def put(self, groups: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Set the numbers of groups for which there is room; shapes (groups,)."""
        self._data[groups] = numbers
