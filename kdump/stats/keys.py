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
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.fast.hashing import hash_ranges
from kdump.stats.grouping import Assigned
from kdump.stats.numbers import GroupNumbers

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
_NO_KEY, _MORE_KEYS = -1, -2
_LONGEST_NAME: Final = 128
"""Longest prefix of a key in bytes; a longer key is its prefix and a hash."""

_Name: TypeAlias = tuple[bytes, int | None]
"""A key, or the beginning of a long one and its hash."""
_Packed: TypeAlias = tuple[int, NDArray[np.uint64], bool, list[tuple[bytes, int | None, int]], int]
_State: TypeAlias = tuple[list[_Packed], list[NDArray[np.int64]], bytes]
"""The sketches by group; groups with one key, and its columns; the names of these keys."""


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

    def see(self, hashes: NDArray[np.int64]) -> None:
        """More keys, each of which may be there already."""
        self._keep(_ranks(hashes))

    def _keep(self, hashes: NDArray[np.uint64]) -> None:
        if not self.is_exact:
            hashes = hashes[hashes < self.hashes[-1]]
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
        self._keep(other.hashes)
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


@dataclass(frozen=True, slots=True)
class _Keys:
    """Keys in an arena, and the bytes of their records; shapes (rows,)."""

    start: NDArray[np.int64]
    size: NDArray[np.int64]
    weight: NDArray[np.int64]
    hashes: NDArray[np.int64]

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> _Keys:
        """The keys of some rows, by their numbers or marked by a mask."""
        return _Keys(self.start[rows], self.size[rows], self.weight[rows], self.hashes[rows])


class _SingleKeys:
    """The groups with one key so far, in arrays by group: they have no sketches yet."""

    def __init__(self) -> None:
        self.hash = GroupNumbers(0)
        self.weight = GroupNumbers(0)
        """Bytes of the records."""
        self.size = GroupNumbers(_NO_KEY)
        """Bytes of the key, or one of _NO_KEY and _MORE_KEYS."""
        self.start = GroupNumbers(0)
        """Where the beginning of the key is in ``names``."""
        self.names = bytearray()
        self.count = 0
        """Groups that there is room for."""

    def groups(self) -> NDArray[np.int64]:
        """The groups that have one key, rising."""
        return np.flatnonzero(self.size.first(self.count) >= 0)

    def can_have(self, groups: NDArray[np.int64], hashes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each group, which occurs once, has no key but one with this hash; shapes (groups,)."""
        self._grow(int(groups.max(initial=-1)) + 1)
        size = self.size.of(groups)
        found: NDArray[np.bool_] = (size == _NO_KEY) | (size >= 0) & (self.hash.of(groups) == hashes)
        return found

    def add(self, groups: NDArray[np.int64], arena: NDArray[np.uint8] | bytearray, keys: _Keys) -> None:
        """Add a key to each of some groups that can have it; ``keys``: of each, in ``arena``."""
        self.weight.combine(np.add, groups, keys.weight)
        is_new = self.size.of(groups) == _NO_KEY
        groups, keys = groups[is_new], keys.take(is_new)
        self.hash.put(groups, keys.hashes)
        self.size.put(groups, keys.size)
        stored = np.minimum(keys.size, _LONGEST_NAME)
        self.start.put(groups, len(self.names) + np.cumsum(stored) - stored)
        for begin, length in zip(keys.start.tolist(), stored.tolist(), strict=True):
            self.names += bytes(arena[begin : begin + length])

    def of(self, groups: NDArray[np.int64]) -> _Keys:
        """The keys of some groups that have one, in ``names``."""
        return _Keys(*(column.of(groups) for column in (self.start, self.size, self.weight, self.hash)))

    def has(self, group: int) -> bool:
        """Whether a group has one key."""
        return self.size.one(group) >= 0

    def sketches(self, group: int) -> _Sketches:
        """The sketches of a group that has one key."""
        made = _Sketches()
        value, weight = self.hash.one(group), self.weight.one(group)
        made.see(np.array([value]))
        if weight:
            made.weigh(((_name(self.names, self.start.one(group), self.size.one(group), value), weight),))
        return made

    def leave(self, group: int) -> None:
        """The group has sketches from now on."""
        self._grow(group + 1)
        self.size.put(np.array([group]), np.array([_MORE_KEYS]))

    def _grow(self, count: int) -> None:
        if count > self.count:
            self.count = count
            for column in (self.hash, self.weight, self.size, self.start):
                column.grow(count)


class KeySketches:
    """The keys of records, by group.

    There may be a group per key. So groups with one key have no sketches.
    """

    def __init__(self) -> None:
        self._single = _SingleKeys()
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
        keys = _Keys(start, size, weight, weight).take(rows)
        keys = replace(keys, hashes=hash_ranges(arena, keys.start, keys.size))
        groups, order, first = _by_group(assigned.rows(rows))
        keys = keys.take(order)
        is_single = np.minimum.reduceat(keys.hashes, first) == np.maximum.reduceat(keys.hashes, first)
        is_single &= self._single.can_have(groups, keys.hashes[first])
        singles = replace(keys.take(first), weight=np.add.reduceat(keys.weight, first))
        self._single.add(groups[is_single], arena, singles.take(is_single))
        end = np.append(first[1:], keys.start.size)
        has_more = ~is_single
        for group, *part in np.column_stack((groups, first, end))[has_more].tolist():
            sketches, own = self._use(group), keys.take(slice(*part))
            sketches.see(own.hashes)
            _add_heavy(sketches, arena, own)

    def merge(self, other: KeySketches, ids: NDArray[np.int64]) -> None:
        """Merge the sketches of other groups, whose ids here are ``ids``."""
        single = other._single.groups()
        has_more = sorted(other._sketches)
        targets, keys = ids[single], other._single.of(single)
        # Several groups that become one are merged in their order.
        fits = np.bincount(np.append(targets, ids[has_more]).astype(np.int64), minlength=1)[targets] == 1
        fits &= self._single.can_have(targets, keys.hashes)
        self._single.add(targets[fits], other._single.names, keys.take(fits))
        for group in sorted((*has_more, *single[~fits].tolist())):
            theirs = other._look(group)
            assert theirs is not None, "the group has keys"
            self._use(int(ids[group])).merge(theirs)

    def distinct(self, group: int) -> DistinctKeys:
        """The number of different keys of a group."""
        sketches = self._look(group)
        return DistinctKeys(0, 0, 0) if sketches is None else sketches.distinct()

    def heaviest(self, group: int, most: int) -> list[HeavyKey]:
        """Keys of a group whose bytes are known within a factor of two, the heaviest first."""
        sketches = self._look(group)
        if sketches is None:
            return []
        # For other keys the bound is mostly the error.
        error = sketches.error
        known = [(name, least) for name, least in sketches.heavy.items() if least >= error]
        known.sort(key=lambda item: (-item[1], item[0][0], item[0][1] or 0))
        return [HeavyKey(key, hashed is not None, least, least + error) for (key, hashed), least in known[:most]]

    def __getstate__(self) -> _State:
        single = self._single.groups()
        columns = self._single.of(single)
        return (
            [
                (group, one.hashes, one.is_exact, [(*name, weight) for name, weight in one.heavy.items()], one.error)
                for group, one in self._sketches.items()
            ],
            [single, columns.start, columns.size, columns.weight, columns.hashes],
            bytes(self._single.names),
        )

    def __setstate__(self, state: _State) -> None:
        self._sketches, self._single = {}, _SingleKeys()
        sketches, (single, *columns), names = state
        keys = _Keys(*columns)
        self._single.can_have(single, keys.hashes)
        self._single.add(single, bytearray(names), keys)
        for group, hashes, is_exact, heavy, error in sketches:
            counted: dict[_Name, int] = {(key, hashed): weight for key, hashed, weight in heavy}
            self._sketches[group] = _Sketches(hashes, is_exact, counted, error)
            self._single.leave(group)

    def _look(self, group: int) -> _Sketches | None:
        """The sketches of a group, to be read; None without a key."""
        return self._single.sketches(group) if self._single.has(group) else self._sketches.get(group)

    def _use(self, group: int) -> _Sketches:
        """The sketches of a group, to be changed."""
        sketches = self._sketches.get(group)
        if sketches is None:
            sketches = self._sketches[group] = self._look(group) or _Sketches()
            self._single.leave(group)
        return sketches


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


def _add_heavy(sketches: _Sketches, arena: NDArray[np.uint8], keys: _Keys) -> None:
    """Add the heavy keys of a chunk, with their bytes in it."""
    hashes, weight = keys.hashes, keys.weight
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
        (_name(arena, int(keys.start[row]), int(keys.size[row]), int(hashes[row])), bytes_of_key)
        for row, bytes_of_key in zip(order[first[heavy]].tolist(), sums[heavy].tolist(), strict=True)
        if bytes_of_key
    )


def _name(arena: NDArray[np.uint8] | bytearray, start: int, size: int, hashed: int) -> _Name:
    """A key, or the first bytes of a long one and its hash."""
    return bytes(arena[start : start + min(size, _LONGEST_NAME)]), hashed if size > _LONGEST_NAME else None
