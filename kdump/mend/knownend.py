"""Behind which offset a damaged log ended, as far as anything still says so."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kdump.codes import KdumpError
from kdump.format.batch import HEADER_SIZE, MAX_INT32
from kdump.format.index import OffsetEntry
from kdump.log.heads import LARGEST_ENTRY, read_head
from kdump.log.source import Source
from kdump.mend.draft import DraftTable
from kdump.mend.surroundings import Surroundings
from kdump.mend.survey import Survey
from kdump.mend.table import Table

_LONGEST_BATCH = 1 << 20
"""Offsets: what the header of a damaged batch may claim at most."""
_DENSER = 16
_USUAL_RECORD = 16
"""Bytes: hardly any log has smaller records, compressed."""


def known_end(source: Source, found: Survey, good: DraftTable, around: Surroundings, base_offset: int) -> int | None:
    """The offset behind the last one the log had; None where nothing tells more than ``good`` does.

    The next segment's base offset says it exactly. Else it is the largest that is named by the headers of damaged
    batches at the end, by the indexes (where the rest of them agrees with the log), or by snapshots and checkpoints.

    Args:
        source: the log.
        found: what it holds.
        good: the good batches.
        around: the files around it.
        base_offset: of the log.
    """
    end = int(good.last[-1]) + 1 if len(good) else base_offset
    if around.next_base is not None:
        return around.next_base if end < around.next_base <= base_offset + MAX_INT32 + 1 else None
    ours = good.part(good.is_ours)
    position = int(ours.end.max(initial=0))
    ends = [
        _by_headers(source, found, position, end),
        *around.reached,
        *_by_offset_index(around, ours),
        *_by_time_index(around, good),
    ]
    largest = max((one for one in ends if base_offset < one <= base_offset + MAX_INT32), default=end)
    return largest if largest > end else None


def _by_headers(source: Source, found: Survey, position: int, end: int) -> int:
    """Behind the damaged batches from ``position`` on whose headers go on one from the other."""
    starts = found.table.position[~found.is_good].tolist() + [gap.position for gap in found.gaps]
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


def _by_offset_index(around: Surroundings, good: Table) -> Iterator[int]:
    """By the last entry, when all are such as a broker makes for this log.

    They rise, in steps that batches and index.interval.bytes allow; one that leads into a good batch leads to its start
    and names no offset before it; and behind the log no more offsets come to a byte than in it, by far.
    """
    if not around.index or not len(good):
        return
    order = np.argsort(good.position, kind="stable")
    position, end, first = good.position[order], good.end[order], good.first[order]
    offsets_in_log, bytes_in_log = int(good.last[-1] - good.first[0]) + 1, int((end - position).sum())
    before = OffsetEntry(int(first[0]) - 1, 0)
    for entry in around.index:
        place = int(np.searchsorted(position, entry.position, side="right")) - 1
        if place >= 0 and entry.position < end[place]:
            is_right = entry.position == position[place] and entry.offset >= first[place]
        else:
            step, distance = entry.offset - before.offset, entry.position - before.position
            is_right = step * bytes_in_log <= _DENSER * max(offsets_in_log, bytes_in_log // _USUAL_RECORD) * distance
        if not (is_right and entry.offset > before.offset and 0 < entry.position - before.position <= LARGEST_ENTRY):
            return
        before = entry
    yield before.offset + 1


def _by_time_index(around: Surroundings, good: Table) -> Iterator[int]:
    """By the last entry, when those of good batches have the right timestamps, and there are such."""
    if not around.time_index or not len(good):
        return
    latest = good.rows["max_timestamp"]
    matches = 0
    for entry in around.time_index:
        place = int(np.searchsorted(good.last, entry.offset))
        if place < len(good) and good.first[place] <= entry.offset:
            if latest[place] != entry.timestamp:
                return
            matches += 1
    if matches:
        yield around.time_index[-1].offset + 1
