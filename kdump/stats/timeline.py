"""Bytes and records over time, in steps as short as the limit allows.

The step is the shortest of a ladder with which all groups together stay below the limit of steps that are not empty. So
it does not depend on the order in which rows come.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.stats.grouping import Assigned
from kdump.stats.tally import Tally

_BITS: Final = 42
END_OF_TIME: Final = 1 << _BITS
"""Milliseconds (in 2109): later timestamps, and those below 0, are on no timeline."""
_SECOND: Final = 1000
LADDER: Final = (
    1, 10, 100, _SECOND, 10 * _SECOND, 60 * _SECOND, 600 * _SECOND, 3600 * _SECOND, 6 * 3600 * _SECOND,
    24 * 3600 * _SECOND, 240 * 3600 * _SECOND, 2400 * 3600 * _SECOND, 24000 * 3600 * _SECOND, 240000 * 3600 * _SECOND,
)  # fmt: skip
"""Lengths of a step (ms), each a multiple of the one before."""
_MOST_STEPS: Final = 2048
_CHECK_ROWS: Final = 1 << 14


class TimelineStep(NamedTuple):
    """A step of a timeline that is not empty: when it begins (ms since 1970), its bytes and records."""

    begin: int
    size: int
    records: int


class Timeline:
    """Bytes by the largest timestamp of their batch, and records by their own, by group."""

    def __init__(self) -> None:
        self._tally = Tally(_BITS, 2)
        self._level = 0
        self._unchecked = 0
        """Rows added since the number of steps was checked."""

    @property
    def step(self) -> int:
        """Length of a step, ms."""
        self._coarsen()
        return LADDER[self._level]

    def add_bytes(self, assigned: Assigned, timestamp: NDArray[np.int64], size: NDArray[np.int64]) -> None:
        """Add batches; shapes (rows,)."""
        self._add(assigned, timestamp, size, np.zeros_like(size))

    def add_records(self, assigned: Assigned, timestamp: NDArray[np.int64], count: NDArray[np.int64]) -> None:
        """Add records, or batches with ``count`` of them; shapes (rows,)."""
        self._add(assigned, timestamp, np.zeros_like(count), count)

    def merge(self, other: Timeline, ids: NDArray[np.int64]) -> None:
        """Merge the timeline of other groups, whose ids here are ``ids``."""
        level = max(self._level, other._level)
        self._to_level(level)
        other._to_level(level)
        self._tally.merge(other._tally, ids)
        self._unchecked += 1
        self._coarsen()

    def of(self, group: int) -> list[TimelineStep]:
        """The steps of a group, in order."""
        step = self.step
        bucket, sums = self._tally.of(group)
        return [TimelineStep(begin, *both) for begin, both in zip((bucket * step).tolist(), sums.tolist(), strict=True)]

    def _add(
        self, assigned: Assigned, timestamp: NDArray[np.int64], size: NDArray[np.int64], count: NDArray[np.int64]
    ) -> None:
        is_there = (timestamp >= 0) & (timestamp < END_OF_TIME) & (size + count > 0)
        if not is_there.all():
            assigned, timestamp, size, count = (
                assigned.rows(is_there), timestamp[is_there], size[is_there], count[is_there],
            )  # fmt: skip
        if not timestamp.size:
            return
        step = timestamp // LADDER[self._level]
        first = int(step.min())
        spread = int(step.max()) - first + 1
        if assigned.index is None and spread <= timestamp.size:
            # Summed first: many rows are in one step.
            sums = [np.bincount(step - first, column, spread).astype(np.int64) for column in (size, count)]
            found = np.flatnonzero(sums[0] + sums[1])
            self._tally.add(np.full(found.size, assigned.ids[0]), found + first, sums[0][found], sums[1][found])
        else:
            self._tally.add(assigned.of_rows(step.size), step, size, count)
        self._unchecked += timestamp.size
        if self._unchecked >= _CHECK_ROWS:
            self._coarsen()

    def _coarsen(self) -> None:
        if not self._unchecked:
            return
        self._unchecked = 0
        while self._level < len(LADDER) - 1 and self._tally.distinct_buckets() > _MOST_STEPS:
            self._to_level(self._level + 1)

    def _to_level(self, level: int) -> None:
        if level > self._level:
            self._tally.coarsen(LADDER[level] // LADDER[self._level])
            self._level = level
