"""Figures by group in arrays that grow, and sparse counts by group and bucket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from kdump.stats.grouping import Assigned

LEAST: Final = -(2**63)
MOST: Final = 2**63 - 1
_FEW_ROWS: Final = 1 << 15


class Columns:
    """One number per group and field, with one way to combine two numbers.

    Args:
        fields: their names.
        initial: the number of a new group.
        combine: ``np.add``, ``np.minimum`` or ``np.maximum``.
    """

    def __init__(self, fields: Sequence[str], initial: int, combine: np.ufunc) -> None:
        self._fields = tuple(fields)
        self._initial = initial
        self._combine = combine
        self._data: dict[str, NDArray[np.int64]] = {}
        """The numbers of the groups by field. Fields that were never added have ``initial``."""

    def add(self, ids: NDArray[np.int64], **values: NDArray[np.int64]) -> None:
        """Add a number per group to some fields; ``ids`` are distinct, all shapes (ids,)."""
        count = int(ids.max(initial=-1)) + 1
        for name, column in values.items():
            if (column != self._initial).any():
                self._combined(name, ids, count, column)

    def merge(self, other: Self, ids: NDArray[np.int64]) -> None:
        """Merge numbers of other groups, whose ids here are ``ids``; several may have become one."""
        count = int(ids.max(initial=-1)) + 1
        for name, theirs in other._data.items():
            self._combined(name, ids[: theirs.size], count, theirs[: ids.size])

    def _combined(self, name: str, ids: NDArray[np.int64], count: int, column: NDArray[np.int64]) -> None:
        """Combine a field with a column; ``ids`` are below ``count``."""
        own = self._data.get(name, np.empty(0, np.int64))
        if own.size < count:
            more = np.full(max(count - own.size, own.size // 4), self._initial, np.int64)
            own = self._data[name] = np.concatenate((own, more))
        self._combine.at(own, ids, column)

    def of(self, group: int) -> dict[str, int]:
        """The numbers of a group by field."""
        found = dict.fromkeys(self._fields, self._initial)
        return found | {name: int(own[group]) for name, own in self._data.items() if group < own.size}


class Tally:
    """Sums by group and bucket; only those that occur take room.

    Args:
        bits: buckets are below ``2**bits``, groups below ``2**(63 - bits)``.
        width: how many sums there are per group and bucket.
    """

    def __init__(self, bits: int, width: int = 1) -> None:
        self._bits = bits
        self._keys = np.empty(0, np.int64)
        self._sums: NDArray[np.int64] = np.empty((0, width), np.int64)
        self._pending: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._pending_rows = 0
        self._bounds: NDArray[np.intp] | None = None
        """Where each group begins among the keys, and where the last one ends; None: not known."""

    def add(self, group: NDArray[np.int64], bucket: NDArray[np.int64], *sums: NDArray[np.int64]) -> None:
        """Add rows in any order, several of which may have the same group and bucket; all shapes (rows,)."""
        self._take(group << self._bits | bucket, np.column_stack(sums))

    def merge(self, other: Self, ids: NDArray[np.int64]) -> None:
        """Merge sums of other groups, whose ids here are ``ids``."""
        group, bucket, sums = other.items()
        self._take(ids[group] << self._bits | bucket, sums)

    def items(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Groups, buckets (both rising, shape (rows,)) and sums (shape (rows, width))."""
        self._settle()
        return self._keys >> self._bits, self._keys & (1 << self._bits) - 1, self._sums

    def of(self, group: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The buckets of a group, rising, and their sums (shape (rows, width))."""
        self._settle()
        bounds = self._bounds
        if bounds is None:
            groups = int(self._keys[-1] >> self._bits) + 1 if self._keys.size else 0
            bounds = np.searchsorted(self._keys, np.arange(groups + 1) << self._bits)
            self._bounds = bounds
        first, last = bounds[group : group + 2].tolist() if group + 1 < bounds.size else (0, 0)
        return self._keys[first:last] & (1 << self._bits) - 1, self._sums[first:last]

    def coarsen(self, factor: int) -> None:
        """Merge each ``factor`` buckets into one."""
        group, bucket, sums = self.items()
        self._keys, self._sums = _summed(group << self._bits | bucket // factor, sums)
        self._bounds = None

    def distinct_buckets(self) -> int:
        """How many buckets occur in any group."""
        # np.unique would import numpy.ma, which takes as long as reading 30 MB of headers.
        return int(np.count_nonzero(np.diff(np.sort(self.items()[1]), prepend=-1)))

    def _take(self, keys: NDArray[np.int64], sums: NDArray[np.int64]) -> None:
        self._pending.append((keys, sums))
        self._pending_rows += keys.size
        if self._pending_rows > most_pending(self._keys.size):
            self._settle()

    def _settle(self) -> None:
        if self._pending:
            keys, sums = zip((self._keys, self._sums), *self._pending, strict=True)
            self._pending, self._pending_rows = [], 0
            self._keys, self._sums = _summed(np.concatenate(keys), np.concatenate(sums))
            self._bounds = None

    def __getstate__(self) -> tuple[Any, ...]:
        self._settle()
        return self._bits, self._keys, self._sums

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._bits, self._keys, self._sums = state
        self._pending, self._pending_rows, self._bounds = [], 0, None


def _summed(keys: NDArray[np.int64], sums: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each key once, rising, with the sums of its rows."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
    sums = sums[order]
    return keys[first], sums if first.size == order.size else np.add.reduceat(sums, first, axis=0)


def most_pending(rows: int) -> int:
    """How many rows may wait until they are sorted into ``rows`` others."""
    return max(_FEW_ROWS, rows // 4)


def group_counts(tally: Tally, assigned: Assigned, bucket: NDArray[np.int64], *sums: NDArray[np.int64]) -> None:
    """Add rows to a tally, by bucket first if all are in one group; buckets are few and small."""
    if assigned.index is not None:
        tally.add(assigned.ids[assigned.index], bucket, *sums)
        return
    count = np.bincount(bucket)
    found = np.flatnonzero(count)
    columns = [np.bincount(bucket, column)[found].astype(np.int64) for column in sums]
    tally.add(np.full(found.size, assigned.ids[0]), found, *columns)
