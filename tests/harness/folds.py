"""Folds of figures on their way between processes."""

from __future__ import annotations

from kdump.stats.fold import FOLD_CLASSES, StatsFold
from kdump.tasks.plaindata import PlainData

_FOLD = PlainData(FOLD_CLASSES)


def repacked(fold: StatsFold) -> StatsFold:
    """The fold as it would reach another process."""
    made: StatsFold = _FOLD.unpack(_FOLD.pack(fold))
    return made
