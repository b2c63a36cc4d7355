"""How figures are grouped: one mechanism for files, columns of batches, times and contents.

Every row of a chunk, a batch or a record, has a group key: a name if all rows of a file share it, else a number from
its columns, else the bytes of a record's key or header (``stats.partfold``). Keys get small ids in the order in which
they come. Folds keep their figures in arrays by id.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import CODEC_MASK, codec_name

NO_TIME: Final = -(2**63)
"""The minute, hour and day of rows without a timestamp."""
NONE: Final = "none"
OF_BATCHES, NULL, ABSENT, CONTROL_RECORDS, OTHERS = range(-1, -6, -1)
"""Keys of groups by contents: what counts for batches only; records whose key (or header value) is null; without such a
header; of control batches; and those of all keys over the limit."""
OTHER_NUMBERS: Final = "(others)"
"""The key of all numbers over the limit."""
MOST_CONTENTS: Final = 1000
"""Keys (or header values) that have groups of their own. This bounds the memory: a group takes some kilobytes."""

Key: TypeAlias = str | int | None
"""The key of a group; None: all groups together."""


class By(Enum):
    """What one line of figures describes."""

    SEGMENT = "segment"
    PARTITION = "partition"
    TOPIC = "topic"
    PRODUCER = "producer"
    CODEC = "codec"
    MAGIC = "magic"
    LEADER_EPOCH = "leader-epoch"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    KEY = "key"
    HEADER = "header"

    @property
    def is_of_files(self) -> bool:
        """Whether all rows of a file are in one group."""
        return self in (By.SEGMENT, By.PARTITION, By.TOPIC)

    @property
    def is_of_contents(self) -> bool:
        """Whether the contents of a record decide. A batch is in no such group."""
        return self in (By.KEY, By.HEADER)

    @property
    def span(self) -> int | None:
        """Milliseconds of time in a group; None: times do not decide."""
        return {By.MINUTE: 60_000, By.HOUR: 3_600_000, By.DAY: 86_400_000}.get(self)

    def label(self, key: Key) -> str:
        """The name of a group, for people and JSON lines."""
        if isinstance(key, int):
            if self is By.CODEC:
                return codec_name(key)
            if self.span is not None:
                return _time_label(key, self)
            if self.is_of_contents:
                return _SPECIAL[key]
        return str(key)

    def keys_of_batches(self, rows: NDArray[np.void]) -> NDArray[np.int64]:
        """The keys of rows of the batch table (``verify.table``), if files do not decide; shape (batches,)."""
        match self:
            case By.PRODUCER:
                return rows["producer_id"].astype(np.int64)
            case By.CODEC:
                return (rows["attributes"] & CODEC_MASK).astype(np.int64)
            case By.MAGIC:
                return rows["magic"].astype(np.int64)
            case By.LEADER_EPOCH:
                return rows["leader_epoch"].astype(np.int64)
            case By.KEY | By.HEADER:
                return np.full(rows.size, OF_BATCHES)
        return self.spans(rows["max_timestamp"])

    def spans(self, timestamp: NDArray[np.int64]) -> NDArray[np.int64]:
        """Minutes, hours or days since 1970, NO_TIME without a timestamp; shape as ``timestamp`` (ms)."""
        if self.span is None:
            raise ValueError(self)
        return np.where(timestamp < 0, NO_TIME, timestamp // self.span)


_SPECIAL: Final = {
    NULL: "(null)",
    ABSENT: "(no header)",
    CONTROL_RECORDS: "(control)",
    OTHERS: OTHER_NUMBERS,
}


def grouping_of(text: str) -> tuple[By, str]:
    """What makes a group, as a user names it, and for ``header:NAME`` the name. Raises ValueError."""
    kind, colon, name = text.partition(":")
    by = By(kind)
    if (by is By.HEADER) != bool(colon):
        raise ValueError(text)
    return by, name


def _time_label(key: int, by: By) -> str:
    assert by.span is not None, "times decide"
    if key == NO_TIME:
        return NONE
    try:
        moment = datetime.fromtimestamp(key * by.span // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{key * by.span} ms"
    return f"{moment:%Y-%m-%d}" if by is By.DAY else f"{moment:%Y-%m-%dT%H:%MZ}"


@dataclass(frozen=True, slots=True)
class Assigned:
    """The groups of the rows of a chunk.

    ``ids``: of the groups that occur, each once. ``index``: shape (rows,), the group of each row as an index into
    ``ids``; None: all rows are in the only group.
    """

    ids: NDArray[np.int64]
    index: NDArray[np.int64] | None

    def rows(self, rows: NDArray[Any]) -> Self:
        """The groups of some rows only, or of rows in another order: a mask, or numbers."""
        return self if self.index is None else type(self)(self.ids, self.index[rows])

    def sums(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """The sum of each group; shape (ids,)."""
        if self.index is None:
            return np.array([values.sum(dtype=np.int64)])
        sums = np.zeros(self.ids.size, np.int64)
        np.add.at(sums, self.index, values)
        return sums

    def counts(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many rows of each group the mask marks; shape (ids,)."""
        if self.index is None:
            return np.array([np.count_nonzero(mask)])
        return np.bincount(self.index[mask], minlength=self.ids.size)

    def minima(self, values: NDArray[np.int64], initial: int) -> NDArray[np.int64]:
        """The least value of each group, ``initial`` without a row; shape (ids,)."""
        if self.index is None:
            return np.array([values.min(initial=initial)])
        found = np.full(self.ids.size, initial, np.int64)
        np.minimum.at(found, self.index, values)
        return found

    def maxima(self, values: NDArray[np.int64], initial: int) -> NDArray[np.int64]:
        """The largest value of each group, ``initial`` without a row; shape (ids,)."""
        if self.index is None:
            return np.array([values.max(initial=initial)])
        found = np.full(self.ids.size, initial, np.int64)
        np.maximum.at(found, self.index, values)
        return found

    def of_rows(self, count: int) -> NDArray[np.int64]:
        """The group id of each of ``count`` rows."""
        return np.full(count, self.ids[0]) if self.index is None else self.ids[self.index]


_FEW: Final = 1 << 12
"""Files that are held as Python's objects, which take ten times the bytes of an array."""
_FILE_BITS: Final = 32
_LAST_FILE: Final = (1 << _FILE_BITS) - 1


@dataclass(slots=True)
class Groups:
    """The keys that have occurred, by id: a number from 0.

    ``limit``: of groups; the rows of further keys are in the group ``others``, a key of another type than theirs.
    """

    limit: int | None = None
    others: Key = OTHERS
    _ids: dict[Key, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many groups."""
        return len(self._ids)

    @property
    def has_others(self) -> bool:
        """Whether there were more keys than the limit."""
        return self.others in self._ids

    def id_of(self, key: Key) -> int:
        """The id of a key; a new key gets a new one."""
        if self.limit is not None and len(self._ids) >= self.limit and key not in self._ids:
            # Keys of the other type are a few: of records without a name, and of all over the limit.
            key = key if isinstance(key, str) is isinstance(self.others, str) else self.others
        return self._ids.setdefault(key, len(self._ids))

    def one(self, key: Key) -> Assigned:
        """Put all rows into one group."""
        return Assigned(np.array([self.id_of(key)]), None)

    def assign(self, keys: NDArray[np.int64]) -> Assigned:
        """Assign rows to groups by their keys; shape (rows,), one row or more."""
        if (keys == keys[0]).all():
            return self.one(int(keys[0]))
        found, index = np.unique(keys, return_inverse=True)
        ids, group = np.unique([self.id_of(key) for key in found.tolist()], return_inverse=True)
        return Assigned(ids, group.reshape(-1)[index.reshape(-1)])

    def in_order(self, by: By) -> list[tuple[Key, int]]:
        """Keys with their ids: numbers rising, others in the order in which they came."""
        if by.is_of_files or by.is_of_contents:
            return [(key, number) for key, number in self._ids.items() if not by.is_of_contents or key != OF_BATCHES]
        return sorted(self._ids.items(), key=lambda one: (isinstance(one[0], str), one[0]))

    def taken_in(self, other: Groups) -> NDArray[np.int64]:
        """The ids in this object for the ids of ``other``, whose keys are added."""
        return np.array([self.id_of(key) for key in other._ids], np.int64)


class GroupFiles:
    """Which files each group has rows of, as numbers ``group << _FILE_BITS | file``."""

    def __init__(self) -> None:
        self._pairs = np.empty(0, np.int64)
        """Rising."""
        self._new: set[int] = set()

    def add(self, groups: NDArray[np.int64], file: int) -> None:
        """Note that groups have rows of a file."""
        self._new.update(group << _FILE_BITS | file for group in groups.tolist())
        if len(self._new) > max(_FEW, self._pairs.size // 8):
            self._settled()

    def merge(self, other: GroupFiles, ids: NDArray[np.int64], files: NDArray[np.int64]) -> None:
        """Merge the files of other groups; ``ids`` and ``files``: the numbers here of their groups and files."""
        pairs = other._settled()
        self._settled(ids[pairs >> _FILE_BITS] << _FILE_BITS | files[pairs & _LAST_FILE])

    def counts(self, groups: int) -> NDArray[np.int64]:
        """How many files each of ``groups`` has rows of; shape (groups,)."""
        return np.bincount(self._settled() >> _FILE_BITS, minlength=groups)

    def _settled(self, *more: NDArray[np.int64]) -> NDArray[np.int64]:
        """All pairs, each once; ``more`` are added."""
        if self._new or more:
            # np.unique would import numpy.ma.
            pairs = np.sort(np.concatenate((self._pairs, np.fromiter(self._new, np.int64, len(self._new)), *more)))
            self._pairs, self._new = pairs[np.diff(pairs, prepend=-1) != 0], set()
        return self._pairs
