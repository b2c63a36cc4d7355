"""Lanes: things of different lengths that are read in step. Sorted by length, the active ones come first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def descending(count: NDArray[np.int64]) -> NDArray[np.intp] | slice:
    """Index that sorts ``count`` (shape (lanes,), one or more) in descending order, equal ones as they are."""
    if count.min() == count.max():
        return slice(None)
    return np.argsort(-count, kind="stable")


def lanes_left(count: NDArray[np.int64], step: NDArray[np.int64]) -> NDArray[np.intp]:
    """How many lanes of ``count`` (descending) have a step number ``step``, counted from 0; shape as ``step``."""
    return np.asarray(np.searchsorted(-count, -step, side="left"))
