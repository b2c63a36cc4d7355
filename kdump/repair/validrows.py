"""The sound batches of other segments of a partition, which are read for what they say about a damaged one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from kdump.codes import KdumpError
from kdump.log.opening import open_source
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.verify.table import read_rows


def valid_rows(paths: Iterable[str]) -> Iterator[NDArray[np.void]]:
    """The sound batches of other segments (``verify.table.row_dtype``), by chunks, up to one that cannot be read."""
    for path in paths:
        try:
            yield from valid_rows_of(path)
        except KdumpError:
            return


def valid_rows_of(path: str) -> Iterator[NDArray[np.void]]:
    """The same of one segment. Raises KdumpError when it cannot be read."""
    with open_source(path) as source:
        for item in ResyncWalk(source).items():
            if isinstance(item, CheckedChunk):
                rows = read_rows(item, is_after_gap=False)
                yield rows[rows["is_valid"]]
