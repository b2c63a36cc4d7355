"""How many different keys there are, and which have the most bytes: exact for few keys, else with bounds.

Of the hashes of all keys the smallest are kept: how close they lie tells how many there are. What is kept does not
depend on the order. Of the heaviest keys the bytes are counted; where there are too many of them, the lighter half is
dropped, and its weight becomes part of the error. Keys that are light in every chunk are left out first, which the
error includes too. Both engines read the same chunks and merge them in file order, so they give the same numbers.

Source: Bar-Yossef et al., Counting Distinct Elements in a Data Stream, 2002 (algorithm 2); Misra and Gries, Finding
Repeated Elements, 1982.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import sqrt
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.fast.hashing import hash_ranges
from kdump.stats.grouping import Assigned

_MOST_HASHES: Final = 1 << 13
"""That are kept of a group: a standard error of 1.1 %."""
_MOST_HEAVY: Final = 6000
"""Keys of a group whose bytes are counted."""
_MOST_OF_A_CHUNK: Final = 1024
"""A key with a smaller share of a chunk's bytes is left out of the sketch of heavy keys."""
_STANDARD_DEVIATIONS: Final = 3
_SLOTS: Final = 1 << 13
_MULTIPLIERS: Final = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
_SHIFT: Final = np.uint64(33)
_LONGEST_NAME: Final = 128
"""Longest prefix of a key in bytes; a longer key is its prefix and a hash."""

_Name: TypeAlias = tuple[bytes, int | None]
"""A key, or the beginning of a long one and its hash."""


class DistinctKeys(NamedTuple):
    """An estimate, and bounds that contain the truth in 99.7 % of all logs."""

    estimate: int
    least: int
    most: int


class HeavyKey(NamedTuple):
    """A key, and the least and most bytes that its records may have.

    Of a long key ``key`` is the beginning, and ``is_cut`` is true.
    """

    key: bytes
    is_cut: bool
    least: int
    most: int


@dataclass(slots=True)
class _Sketches:
    """The keys of one group.

    ``hashes``: the smallest ones, rising. ``is_exact``: there are no others. ``heavy``: the bytes of the heaviest keys.
    ``error``: bytes that any key may have besides.
    """

    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    is_exact: bool = True
    heavy: dict[_Name, int] = field(default_factory=dict)
    error: int = 0

    def see(self, hashes: NDArray[np.uint64]) -> None:
        """More keys by the ranks of their hashes, each of which may be there already."""
        if not self.is_exact:
            hashes = hashes[hashes < self.hashes[-1]]
        elif hashes.size == 1 == self.hashes.size and hashes[0] == self.hashes[0]:
            return
        if hashes.size:
            kept = np.unique(np.concatenate((self.hashes, hashes)))
            self.is_exact &= kept.size <= _MOST_HASHES
            self.hashes = kept[:_MOST_HASHES].copy()

    def weigh(self, keys: Iterable[tuple[_Name, int]]) -> None:
        """More bytes of keys."""
        heavy = self.heavy
        for name, weight in keys:
            heavy[name] = heavy.get(name, 0) + weight
            if len(heavy) > _MOST_HEAVY:
                median = sorted(heavy.values())[_MOST_HEAVY // 2]
                self.error += median
                heavy = self.heavy = {one: left - median for one, left in heavy.items() if left > median}

    def merge(self, other: _Sketches) -> None:
        """Take in the keys of another fold."""
        self.see(other.hashes)
        self.is_exact &= other.is_exact
        self.weigh(other.heavy.items())
        self.error += other.error

    def distinct(self) -> DistinctKeys:
        """How many keys there are."""
        count = self.hashes.size
        if self.is_exact:
            return DistinctKeys(count, count, count)
        estimate = (count - 1) * 2.0**64 / (int(self.hashes[-1]) + 1)
        error = _STANDARD_DEVIATIONS / sqrt(count - 2)
        least, most = (round(estimate / (1 + sign * error)) for sign in (1, -1))
        return DistinctKeys(round(estimate), least, most)


KEY_CLASSES: Final = (_Sketches,)
"""The classes inside of ``KeySketches``."""


class KeySketches:
    """The keys of records, by group."""

    def __init__(self) -> None:
        self._sketches: dict[int, _Sketches] = {}

    def add(
        self,
        assigned: Assigned,
        arena: NDArray[np.uint8],
        start: NDArray[np.int64],
        size: NDArray[np.int64],
        weight: NDArray[np.int64],
    ) -> None:
        """Add the keys of a chunk's records.

        Args:
            assigned: the groups of the rows.
            arena: the buffer with the keys.
            start: where each key begins in it; shape (rows,), as the others.
            size: bytes of each key; -1 for null, which is no key.
            weight: bytes of each record.
        """
        rows = np.flatnonzero(size >= 0)
        if not rows.size:
            return
        groups, order, first = _by_group(assigned.rows(rows))
        start, size, weight = (column[rows][order] for column in (start, size, weight))
        hashes = hash_ranges(arena, start, size)
        ranks = _ranks(hashes)
        # There may be a group per key.
        is_single = np.minimum.reduceat(hashes, first) == np.maximum.reduceat(hashes, first)
        sums = np.add.reduceat(weight, first).tolist()
        end = np.append(first[1:], rows.size)
        for number, (group, begin, stop) in enumerate(zip(groups.tolist(), first.tolist(), end.tolist(), strict=True)):
            sketches = self._sketches.setdefault(group, _Sketches())
            if is_single[number]:
                sketches.see(ranks[begin : begin + 1])
                if sums[number]:
                    name = _name(arena, int(start[begin]), int(size[begin]), int(hashes[begin]))
                    sketches.weigh([(name, sums[number])])
                continue
            own = slice(begin, stop)
            sketches.see(ranks[own])
            _add_heavy(sketches, arena, start[own], size[own], weight=weight[own], hashes=hashes[own])

    def merge(self, other: KeySketches, ids: NDArray[np.int64] | range) -> None:
        """Merge the sketches of other groups, whose ids here are ``ids``."""
        for group, theirs in sorted(other._sketches.items(), key=itemgetter(0)):
            self._sketches.setdefault(int(ids[group]), _Sketches()).merge(theirs)

    def distinct(self, group: int) -> DistinctKeys:
        """The number of different keys of a group."""
        sketches = self._sketches.get(group)
        return DistinctKeys(0, 0, 0) if sketches is None else sketches.distinct()

    def heaviest(self, group: int, most: int) -> list[HeavyKey]:
        """Keys of a group whose bytes are known within a factor of two, the heaviest first."""
        sketches = self._sketches.get(group)
        if sketches is None:
            return []
        # For other keys the bound is mostly the error.
        error = sketches.error
        known = [(name, least) for name, least in sketches.heavy.items() if least >= error]
        known.sort(key=lambda item: (-item[1], item[0][0], item[0][1] or 0))
        return [HeavyKey(key, hashed is not None, least, least + error) for (key, hashed), least in known[:most]]


def _ranks(hashes: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The hashes with their bits mixed once more: in those of short keys the highest bits are not random enough.

    Source: the last step of MurmurHash3.
    """
    mixed = hashes.view(np.uint64)
    for multiplier in _MULTIPLIERS:
        mixed = (mixed ^ (mixed >> _SHIFT)) * multiplier
    return mixed ^ (mixed >> _SHIFT)


def _by_group(assigned: Assigned) -> tuple[NDArray[np.int64], NDArray[np.intp] | slice, NDArray[np.intp]]:
    """The groups that have rows, the rows sorted by group, and where those of each begin among them."""
    if assigned.index is None:
        return assigned.ids, slice(None), np.zeros(1, np.intp)
    counts = np.bincount(assigned.index, minlength=assigned.ids.size)
    found = np.flatnonzero(counts)
    return assigned.ids[found], np.argsort(assigned.index, kind="stable"), np.cumsum(counts[found]) - counts[found]


def _add_heavy(
    sketches: _Sketches,
    arena: NDArray[np.uint8],
    start: NDArray[np.int64],
    size: NDArray[np.int64],
    *,
    weight: NDArray[np.int64],
    hashes: NDArray[np.int64],
) -> None:
    """Add the heavy keys of a chunk, with their bytes in it; shapes (rows,)."""
    least = int(weight.sum()) // _MOST_OF_A_CHUNK if hashes.size > _MOST_OF_A_CHUNK else 0
    # Most chunks have few such keys. A table of the hashes' low bits finds the rows that can have one.
    slot = hashes & _SLOTS - 1
    rows = np.flatnonzero(np.bincount(slot, weight, _SLOTS)[slot] > least)
    order = rows[np.argsort(hashes[rows], kind="stable")]
    first = np.flatnonzero(np.diff(hashes[order], prepend=~hashes[order[:1]]))
    sums = np.add.reduceat(weight[order], first) if first.size else weight[order]
    heavy = sums > least
    if rows.size < hashes.size or not heavy.all():
        sketches.error += least
    sketches.weigh(
        (_name(arena, int(start[row]), int(size[row]), int(hashes[row])), bytes_of_key)
        for row, bytes_of_key in zip(order[first[heavy]].tolist(), sums[heavy].tolist(), strict=True)
        if bytes_of_key
    )


def _name(arena: NDArray[np.uint8], start: int, size: int, hashed: int) -> _Name:
    """A key, or the first bytes of a long one and its hash."""
    return bytes(arena[start : start + min(size, _LONGEST_NAME)]), hashed if size > _LONGEST_NAME else None
