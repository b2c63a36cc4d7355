"""How figures are grouped: one mechanism for files, producers, codecs, magics and hours.

Every row of a chunk, a batch or a record, has a group key: a name if all rows of a file share it, else a number from
its columns. Keys get small ids in the order in which they come. Folds keep their figures in arrays by id.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from operator import itemgetter
from typing import Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import CODEC_MASK, codec_name

HOUR: Final = 3_600_000
"""Milliseconds per hour."""
NO_TIME: Final = -(2**63)
"""The hour of rows without a timestamp."""
NONE: Final = "none"

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
    HOUR = "hour"

    @property
    def is_of_files(self) -> bool:
        """Whether all rows of a file are in one group."""
        return self in (By.SEGMENT, By.PARTITION, By.TOPIC)

    def label(self, key: Key) -> str:
        """The name of a group, for people and JSON lines."""
        if isinstance(key, int):
            if self is By.CODEC:
                return codec_name(key)
            if self is By.HOUR:
                return _hour_label(key)
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
            case By.HOUR:
                return hours(rows["max_timestamp"])
        raise ValueError(self)


def hours(timestamp: NDArray[np.int64]) -> NDArray[np.int64]:
    """Hours since 1970, NO_TIME without a timestamp."""
    return np.where(timestamp < 0, NO_TIME, timestamp // HOUR)


def _hour_label(key: int) -> str:
    if key == NO_TIME:
        return NONE
    try:
        return f"{datetime.fromtimestamp(key * 3600, UTC):%Y-%m-%dT%H:00Z}"
    except (OverflowError, ValueError, OSError):
        return f"{key * HOUR} ms"


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
        """The sum of each group; shape (ids,). Sums of one chunk stay below 2**53."""
        if self.index is None:
            return np.array([values.sum(dtype=np.int64)])
        return np.bincount(self.index, values, self.ids.size).astype(np.int64)

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


@dataclass(slots=True)
class Groups:
    """The keys that have occurred, by id."""

    keys: list[Key] = field(default_factory=list)
    _ids: dict[Key, int] = field(default_factory=dict)

    def id_of(self, key: Key) -> int:
        """The id of a key; a new key gets a new one."""
        number = self._ids.setdefault(key, len(self.keys))
        if number == len(self.keys):
            self.keys.append(key)
        return number

    def one(self, key: Key) -> Assigned:
        """Put all rows into one group."""
        return Assigned(np.array([self.id_of(key)]), None)

    def assign(self, keys: NDArray[np.int64]) -> Assigned:
        """Assign rows to groups by their keys; shape (rows,), one row or more."""
        if (keys == keys[0]).all():
            return self.one(int(keys[0]))
        found, index = np.unique(keys, return_inverse=True)
        return Assigned(np.array([self.id_of(key) for key in found.tolist()]), index.reshape(-1))

    def in_order(self, by: By) -> list[tuple[int, Key]]:
        """Ids and keys: files in the order in which they came, numbers rising."""
        found = list(enumerate(self.keys))
        if not by.is_of_files:
            found.sort(key=itemgetter(1))
        return found

    def taken_in(self, other: Groups) -> NDArray[np.int64]:
        """The ids in this object for the ids of ``other``, whose keys are added."""
        return np.array([self.id_of(key) for key in other.keys], np.int64)
