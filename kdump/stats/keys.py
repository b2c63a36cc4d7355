"""How many different keys there are, and which have the most bytes: sketches of the Apache DataSketches library.

A theta sketch counts distinct keys; its union does not depend on the order. A frequent-items sketch finds the heaviest
keys. Keys that are light in every chunk are left out first, which its error bound includes. Both depend on the chunks
by no more than the bound. Both engines read the same chunks and merge them in file order, so they give the same
numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.fast.hashing import hash_ranges
from kdump.stats.grouping import Assigned
from kdump.stats.numbers import GroupNumbers

if TYPE_CHECKING:
    from datasketches import frequent_strings_sketch, theta_sketch, update_theta_sketch

_LG_DISTINCT: Final = 13
"""8192 hashes are kept: a standard error of 1.1 %."""
_LG_HEAVY: Final = 13
_MOST_OF_A_CHUNK: Final = 1024
"""A key with a smaller share of a chunk's bytes is left out of the sketch of heavy keys."""
_STANDARD_DEVIATIONS: Final = 3
_SLOTS: Final = 1 << 13
_MOST_OPEN: Final = 1000
"""Groups whose sketches are ready for more keys."""
_NO_KEY, _MORE_KEYS = -1, -2
_LONGEST_NAME: Final = 128
"""Longest prefix of a key in bytes; a longer key is its prefix and a hash."""
_HASH_MARK: Final = "\N{HORIZONTAL ELLIPSIS}#"


_State: TypeAlias = tuple[list[tuple[int, bytes, bytes, int]], list[NDArray[np.int64]], bytes]
"""Packed sketches by group; groups with one key, and its columns; the names of these keys."""


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


class _Packed(NamedTuple):
    """The sketches of one group, serialized."""

    distinct: bytes
    heavy: bytes
    unseen: int


@dataclass(slots=True)
class _Sketches:
    """The sketches of one group.

    ``merged``: the distinct keys of other folds. ``unseen``: bytes that a key may have and ``heavy`` does not count.
    """

    distinct: update_theta_sketch
    heavy: frequent_strings_sketch
    merged: theta_sketch | None = None
    unseen: int = 0

    @classmethod
    def unpacked(cls, packed: _Packed) -> _Sketches:
        """The sketches that were packed."""
        from datasketches import compact_theta_sketch, frequent_strings_sketch

        own = _new()
        own.merged, own.unseen = compact_theta_sketch.deserialize(packed.distinct), packed.unseen
        own.heavy = frequent_strings_sketch.deserialize(packed.heavy)
        return own

    def packed(self) -> _Packed:
        """The sketches in the least bytes."""
        return _Packed(self.all_distinct().serialize(), self.heavy.serialize(), self.unseen)

    def all_distinct(self) -> theta_sketch:
        """The distinct keys of all folds; independent of the order of merges."""
        # A union needs a table of 64 KiB for a moment, and there may be a group per batch: not for a single sketch.
        if self.merged is None:
            is_small = self.distinct.num_retained <= 1 << _LG_DISTINCT
            return self.distinct.compact() if is_small else _united((self.distinct,))
        return self.merged if self.distinct.is_empty() else _united((self.distinct, self.merged))


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
        made = _new()
        value, weight = self.hash.one(group), self.weight.one(group)
        made.distinct.update(value)
        if weight:
            made.heavy.update(_name(self.names, self.start.one(group), self.size.one(group), value), weight)
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

    There may be a group per batch. So groups with one key have no sketches, and only the sketches of the groups that
    were used last are open: the tables of open ones take several times the bytes of what is in them.
    """

    def __init__(self) -> None:
        self._single = _SingleKeys()
        self._open: dict[int, _Sketches] = {}
        """Those used last come last."""
        self._packed: dict[int, _Packed] = {}

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
            update = sketches.distinct.update
            for value in own.hashes.tolist():
                update(value)
            _add_heavy(sketches, arena, own)

    def merge(self, other: KeySketches, ids: NDArray[np.int64]) -> None:
        """Merge the sketches of other groups, whose ids here are ``ids``."""
        single = other._single.groups()
        has_more = sorted((*other._packed, *other._open))
        targets, keys = ids[single], other._single.of(single)
        # Several groups that become one are merged in their order.
        fits = np.bincount(np.append(targets, ids[has_more]).astype(np.int64), minlength=1)[targets] == 1
        fits &= self._single.can_have(targets, keys.hashes)
        self._single.add(targets[fits], other._single.names, keys.take(fits))
        by_number: dict[int, list[int]] = {}
        for group in sorted((*has_more, *single[~fits].tolist())):
            by_number.setdefault(int(ids[group]), []).append(group)
        for number, groups in by_number.items():
            own = self._use(number)
            own.merged = _joined(self._taken(own, map(other._look, groups)))

    @staticmethod
    def _taken(own: _Sketches, others: Iterable[_Sketches | None]) -> Iterator[theta_sketch]:
        """The distinct keys of ``own`` from other folds, then those of ``others``, whose heavy keys it takes in."""
        if own.merged is not None:
            yield own.merged
        for theirs in others:
            assert theirs is not None, "the group has keys"
            own.heavy.merge(theirs.heavy)
            own.unseen += theirs.unseen
            yield theirs.all_distinct()

    def distinct(self, group: int) -> DistinctKeys:
        """The number of different keys of a group."""
        sketches = self._look(group)
        if sketches is None:
            return DistinctKeys(0, 0, 0)
        sketch = sketches.all_distinct()
        bounds = (sketch.get_lower_bound(_STANDARD_DEVIATIONS), sketch.get_upper_bound(_STANDARD_DEVIATIONS))
        least, most = (round(bound) for bound in bounds)
        return DistinctKeys(round(sketch.get_estimate()), least, most)

    def heaviest(self, group: int, most: int) -> list[HeavyKey]:
        """Keys of a group whose bytes are known within a factor of two, the heaviest first."""
        sketches = self._look(group)
        if sketches is None:
            return []
        from datasketches import frequent_items_error_type

        found = sketches.heavy.get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES)
        unseen = sketches.unseen
        # For other keys the bound is mostly the error of the sketch.
        known = [(name, low, high + unseen) for name, _, low, high in found if 2 * low >= high + unseen]
        known.sort(key=lambda item: (-item[1], item[0]))
        return [_heavy_key(*item) for item in known[:most]]

    def pack(self) -> None:
        """Pack all sketches. It changes the order in which they drop keys."""
        self._packed |= {group: sketches.packed() for group, sketches in self._open.items()}
        self._open = {}

    def __getstate__(self) -> _State:
        self.pack()
        single = self._single.groups()
        columns = self._single.of(single)
        return (
            [(group, *sketches) for group, sketches in self._packed.items()],
            [single, columns.start, columns.size, columns.weight, columns.hashes],
            bytes(self._single.names),
        )

    def __setstate__(self, state: _State) -> None:
        self._open, self._packed, self._single = {}, {}, _SingleKeys()
        packed, (single, *columns), names = state
        keys = _Keys(*columns)
        self._single.can_have(single, keys.hashes)
        self._single.add(single, bytearray(names), keys)
        for group, distinct, heavy, unseen in packed:
            self._packed[group] = _Packed(distinct, heavy, unseen)
            self._single.leave(group)

    def _look(self, group: int) -> _Sketches | None:
        """The sketches of a group, to be read; None without a key."""
        if self._single.has(group):
            return self._single.sketches(group)
        packed = self._packed.get(group)
        return self._open.get(group) if packed is None else _Sketches.unpacked(packed)

    def _use(self, group: int) -> _Sketches:
        """The sketches of a group, to be changed before the next call."""
        sketches = self._open.pop(group, None)
        if sketches is None:
            packed = self._packed.pop(group, None)
            if self._single.has(group):
                sketches = self._single.sketches(group)
            else:
                sketches = _new() if packed is None else _Sketches.unpacked(packed)
            self._single.leave(group)
        self._open[group] = sketches
        if len(self._open) > _MOST_OPEN:
            oldest = next(iter(self._open))
            self._packed[oldest] = self._open.pop(oldest).packed()
        return sketches


def _new() -> _Sketches:
    from datasketches import frequent_strings_sketch, update_theta_sketch

    return _Sketches(update_theta_sketch(_LG_DISTINCT), frequent_strings_sketch(_LG_HEAVY))


def _joined(sketches: Iterator[theta_sketch]) -> theta_sketch:
    """The only sketch, or the union. There may be one per batch, so they are not held together."""
    first = next(sketches)
    second = next(sketches, None)
    return first if second is None else _united(chain((first, second), sketches))


def _united(sketches: Iterable[Any]) -> Any:
    from datasketches import theta_union

    union = theta_union(_LG_DISTINCT)
    for sketch in sketches:
        union.update(sketch)
    return union.get_result()


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
        sketches.unseen += least
    update = sketches.heavy.update
    for row, bytes_of_key in zip(order[first[heavy]].tolist(), sums[heavy].tolist(), strict=True):
        update(_name(arena, int(keys.start[row]), int(keys.size[row]), int(hashes[row])), bytes_of_key)


def _name(arena: NDArray[np.uint8] | bytearray, start: int, size: int, hashed: int) -> str:
    """A key as text: its bytes, or the first of them and its hash."""
    name = bytes(arena[start : start + min(size, _LONGEST_NAME)]).decode("latin-1")
    return f"{name}{_HASH_MARK}{hashed:x}" if size > _LONGEST_NAME else name


def _heavy_key(name: str, least: int, most: int) -> HeavyKey:
    beginning, mark, _ = name.partition(_HASH_MARK)
    return HeavyKey(beginning.encode("latin-1"), bool(mark), least, most)
