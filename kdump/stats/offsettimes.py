"""Timestamps along offsets: one curve per partition, in few enough steps for a chart.

A step is a range of offsets whose length is a power of two. The length is the smallest with which every partition stays
below the limit of steps, so it does not depend on the order in which batches come.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_MOST_STEPS: Final = 512


class CurveStep(NamedTuple):
    """The batches that end in a range of offsets: its first offset, their least and largest timestamps (ms)."""

    offset: int
    least: int
    largest: int


def _nothing() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


@dataclass
class _Curve:
    """Steps of 2^``shift`` offsets; shapes (steps,), rising by ``step``."""

    shift: int = 0
    step: NDArray[np.int64] = field(default_factory=_nothing)
    least: NDArray[np.int64] = field(default_factory=_nothing)
    largest: NDArray[np.int64] = field(default_factory=_nothing)

    def add(self, step: NDArray[np.int64], least: NDArray[np.int64], largest: NDArray[np.int64]) -> None:
        """Add steps of the curve's length, in any order."""
        found, index = np.unique(np.append(self.step, step), return_inverse=True)
        least, largest = np.append(self.least, least), np.append(self.largest, largest)
        self.step = found
        self.least, self.largest = np.full(found.size, least.max(initial=0)), np.zeros(found.size, np.int64)
        np.minimum.at(self.least, index.reshape(-1), least)
        np.maximum.at(self.largest, index.reshape(-1), largest)
        while self.step.size > _MOST_STEPS:
            self.coarsen(self.shift + 1)

    def coarsen(self, shift: int) -> None:
        """Merge steps into longer ones."""
        step, least, largest = self.step >> (shift - self.shift), self.least, self.largest
        self.shift = shift
        self.step, self.least, self.largest = _nothing(), _nothing(), _nothing()
        self.add(step, least, largest)


CURVE_CLASSES: Final = (_Curve,)
"""The classes inside of ``OffsetTimes``."""


class OffsetTimes:
    """The curves, by partition directory."""

    def __init__(self) -> None:
        self._curves: dict[str, _Curve] = {}

    def add(self, directory: str, offset: NDArray[np.int64], timestamp: NDArray[np.int64]) -> None:
        """Add the last offsets and largest timestamps (ms) of the next batches; -1 does not count."""
        is_there = (timestamp >= 0) & (offset >= 0)
        if not is_there.any():
            return
        curve = self._curves.setdefault(directory, _Curve())
        timestamp = timestamp[is_there]
        curve.add(offset[is_there] >> curve.shift, timestamp, timestamp)

    def merge(self, other: OffsetTimes) -> None:
        """Merge other curves."""
        for directory, theirs in other._curves.items():
            mine = self._curves.setdefault(directory, _Curve())
            shift = max(mine.shift, theirs.shift)
            for curve in (mine, theirs):
                if curve.shift < shift:
                    curve.coarsen(shift)
            mine.add(theirs.step, theirs.least, theirs.largest)

    def curves(self) -> dict[str, list[CurveStep]]:
        """The curves by directory, each in offset order."""
        return {
            directory: [
                CurveStep(step << curve.shift, least, largest)
                for step, least, largest in zip(
                    curve.step.tolist(), curve.least.tolist(), curve.largest.tolist(), strict=True
                )
            ]
            for directory, curve in sorted(self._curves.items())
        }
