"""Distributions of sizes: how many values are in each bucket, exact up to 255, then within 0.8 %.

A bucket covers 1/128 of its power of two. Counts of buckets are sums, so the order in which parts are read and merged
does not matter. Quantile sketches, in contrast, pick samples at random.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from math import ceil
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from kdump.stats.grouping import Assigned
from kdump.stats.tally import LEAST, MOST, Columns, Tally

_STEPS_BITS: Final = 7
_STEPS: Final = 1 << _STEPS_BITS
_EXACT: Final = 2 * _STEPS
"""Each value below this has its own bucket."""
_BUCKET_BITS: Final = 13
RELATIVE_ERROR: Final = 1 / _STEPS
"""A quantile is at most this share of itself above the true one, and never below."""
_DENSE: Final = 4096
_MOST_DENSE_CELLS: Final = 1 << 18
QUANTILES: Final = (0.5, 0.9, 0.99, 0.999)


@dataclass(frozen=True, slots=True)
class SizeSummary:
    """Some values: their number, sum, least, largest, and the quantiles of QUANTILES."""

    count: int
    total: int
    least: int
    most: int
    quantiles: tuple[int, ...]

    @property
    def mean(self) -> float:
        """The average."""
        return self.total / self.count


class Sizes:
    """Sizes by group; null ones (-1) are not counted."""

    def __init__(self) -> None:
        self._tally = Tally(_BUCKET_BITS)
        self._totals = Columns(("total",), 0, np.add)
        self._least = Columns(("least",), MOST, np.minimum)
        self._most = Columns(("most",), LEAST, np.maximum)

    def add(self, assigned: Assigned, values: NDArray[np.int64]) -> None:
        """Add one value per row; shape (rows,), one or more, each below 2**31."""
        if values.min() < 0:
            there = values >= 0
            assigned, values = assigned.rows(there), values[there]
            if not values.size:
                return
        self._totals.add(assigned.ids, total=assigned.sums(values))
        self._least.add(assigned.ids, least=assigned.minima(values, MOST))
        self._most.add(assigned.ids, most=assigned.maxima(values, LEAST))
        if assigned.ids.size * _DENSE > _MOST_DENSE_CELLS:
            self._tally.add(assigned.of_rows(values.size), _buckets(values), np.ones(values.size, np.int64))
            return
        # Most values are small. To count them first is cheaper than to find the bucket of each.
        index: NDArray[np.int64] | int = 0 if assigned.index is None else assigned.index * _DENSE
        cells = np.bincount(np.minimum(values, _DENSE - 1) + index)
        found = np.flatnonzero(cells)
        group, value = np.divmod(found, _DENSE)
        is_small = value < _DENSE - 1
        self._tally.add(assigned.ids[group[is_small]], _buckets(value[is_small]), cells[found[is_small]])
        if not is_small.all():
            large = values >= _DENSE - 1
            rest = values[large]
            self._tally.add(assigned.rows(large).of_rows(rest.size), _buckets(rest), np.ones(rest.size, np.int64))

    def merge(self, other: Self, ids: NDArray[np.int64]) -> None:
        """Merge sizes of other groups, whose ids here are ``ids``."""
        self._tally.merge(other._tally, ids)
        self._totals.merge(other._totals, ids)
        self._least.merge(other._least, ids)
        self._most.merge(other._most, ids)

    def of(self, group: int) -> SizeSummary | None:
        """The summary of a group; None: it has no values."""
        bucket, counts = self._tally.of(group)
        if not bucket.size:
            return None
        up_to = np.cumsum(counts[:, 0]).tolist()
        count = up_to[-1]
        most = self._most.of(group)["most"]
        places = [bisect_left(up_to, ceil(quantile * count)) for quantile in QUANTILES]
        quantiles = tuple(min(most, _largest_of(int(bucket[place]))) for place in places)
        return SizeSummary(count, self._totals.of(group)["total"], self._least.of(group)["least"], most, quantiles)

    def histogram(self, group: int) -> list[tuple[int, int]]:
        """(upper bound, count) of each bucket of a group with a count, rising."""
        bucket, counts = self._tally.of(group)
        return [
            (_largest_of(number), count) for number, count in zip(bucket.tolist(), counts[:, 0].tolist(), strict=True)
        ]


def _buckets(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bucket of each value, 0 or more."""
    exponent = np.frexp(np.maximum(values, _EXACT).astype(np.float64))[1].astype(np.int64) - 1
    shift = exponent - _STEPS_BITS
    return np.where(values < _EXACT, values, (values >> shift) + (shift * _STEPS))


def _largest_of(bucket: int) -> int:
    """The largest value that belongs to a bucket."""
    if bucket < _EXACT:
        return bucket
    shift = bucket // _STEPS - 1
    return (bucket - shift * _STEPS + 1 << shift) - 1
