"""Behind which offset a damaged log ended, as far as anything still says so."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kdump.codes import KdumpError
from kdump.format.batch import HEADER_SIZE, MAX_INT32
from kdump.log.heads import read_head
from kdump.log.source import Source
from kdump.mend.restore import first_offsets
from kdump.mend.surroundings import Surroundings
from kdump.mend.survey import Survey

_LONGEST_BATCH = 1 << 20
"""Offsets: what the header of a damaged batch may claim at most."""


def known_end(
    source: Source, found: Survey, rows: NDArray[np.void], around: Surroundings, base_offset: int
) -> int | None:
    """The offset behind the last one the log had; None where nothing tells more than ``rows`` do.

    The next segment's base offset says it exactly. Else it is the largest that is named by the headers of damaged
    batches at the end, by the indexes (where the rest of them agrees with the log), or by snapshots and checkpoints.

    Args:
        source: the log.
        found: what it holds.
        rows: the good batches in offset order.
        around: the files around it.
        base_offset: of the log.
    """
    end = int(rows["last_offset"][-1]) + 1 if rows.size else base_offset
    if around.next_base is not None:
        return around.next_base if around.next_base > end else None
    position = int((rows["position"] + rows["size"]).max()) if rows.size else 0
    ends = [
        _by_headers(source, found, position, end),
        *around.reached,
        *_by_offset_index(around, rows, source.size or 0),
        *_by_time_index(around, rows),
    ]
    largest = max((one for one in ends if base_offset < one <= base_offset + MAX_INT32), default=end)
    return largest if largest > end else None


def _by_headers(source: Source, found: Survey, position: int, end: int) -> int:
    """Behind the damaged batches from ``position`` on whose headers go on one from the other."""
    starts = found.rows["position"][~found.is_good].tolist() + [gap.position for gap in found.gaps]
    for start in sorted(start for start in starts if start >= position):
        try:
            raw = source.read(start, HEADER_SIZE)
        except KdumpError:
            break
        head = read_head(raw, 0, len(raw), start)
        if head is None or not head.is_plausible or head.offset != end:
            break
        if not 0 <= head.last_offset - head.offset < _LONGEST_BATCH:
            break
        end = head.last_offset + 1
    return end


def _by_offset_index(around: Surroundings, rows: NDArray[np.void], size: int) -> Iterator[int]:
    """By the last entry; of entries that lead to good batches each must name an offset that is not before them."""
    if not around.index or not rows.size:
        return
    order = np.argsort(rows["position"], kind="stable")
    position, first = rows["position"][order], first_offsets(rows)[order]
    before = None
    for entry in around.index:
        place = int(np.searchsorted(position, entry.position))
        is_there = place < position.size and int(position[place]) == entry.position
        if (is_there and entry.offset < int(first[place])) or (before is not None and entry.offset <= before):
            return
        before = entry.offset
    yield around.index[-1].offset + 1


def _by_time_index(around: Surroundings, rows: NDArray[np.void]) -> Iterator[int]:
    """By the last entry, when those of good batches have the right timestamps."""
    if not around.time_index or not rows.size:
        return
    first, last = first_offsets(rows), rows["last_offset"]
    for entry in around.time_index:
        place = int(np.searchsorted(last, entry.offset))
        if place < last.size and first[place] <= entry.offset and rows["max_timestamp"][place] != entry.timestamp:
            return
    yield around.time_index[-1].offset + 1
