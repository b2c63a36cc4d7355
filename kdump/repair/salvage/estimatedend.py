"""The offset at which a damaged log ended, as far as anything still shows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from kdump.codes import KdumpError
from kdump.format.batch import HEADER_SIZE, MAX_INT32
from kdump.log.heads import LARGEST_ENTRY, read_head
from kdump.log.names import parse_file_name
from kdump.log.opening import open_source
from kdump.log.source import Source
from kdump.repair.salvage.draft import DraftTable
from kdump.repair.salvage.inventory import Inventory, examine
from kdump.repair.salvage.siblingcontext import NearestLog, SiblingContext, valid_rows
from kdump.repair.salvage.table import BatchArrays, index_columns
from kdump.verify.indexedlog import IndexedBatches, IndexedLog, LogColumns
from kdump.verify.indexes import IndexColumns, offset_index_end, time_index_end
from kdump.verify.table import BatchRow, cleaned, first_offset

_LONGEST_BATCH = 1 << 20
"""Offsets: what the header of a damaged batch may claim at most."""


def known_end(
    source: Source, found: Inventory, good: DraftTable, around: SiblingContext, base_offset: int, *, bytes_after: int
) -> int | None:
    """The offset after the last one that the log had; None if nothing tells of more than the ``good`` batches.

    The next segment tells it exactly, by its base offset or by batches before that. Else it is the largest offset that
    is named by the headers of damaged batches at the end, by the indexes (where the rest of them agrees with the log),
    or by snapshots and checkpoints (``verify.reach``). In a compacted log the offsets up to the next segment are not
    lost where no bytes follow the last batch.

    Args:
        source: the log.
        found: what it holds.
        good: the good batches.
        around: the files around it.
        base_offset: of the log.
        bytes_after: the last of the good batches, in the log.
    """
    end = int(good.last[-1]) + 1 if len(good) else base_offset
    if around.next_base is not None:
        next_start = _next_start(around, around.next_base, end)
        if not end < next_start <= base_offset + MAX_INT32 + 1:
            return None
        was_compacted = not bytes_after and _was_compacted(good.part(good.is_ours), base_offset, around)
        return None if was_compacted else next_start
    ours = good.part(good.is_ours)
    position = int(ours.end.max(initial=0))
    ends = [
        _by_headers(source, found, position, end),
        *around.reached(end),
        *_by_indexes(around, base_offset, ours, good),
    ]
    largest = max((one for one in ends if base_offset < one <= base_offset + MAX_INT32), default=end)
    return largest if largest > end else None


def _was_compacted(good: BatchArrays, base_offset: int, around: SiblingContext) -> bool:
    """Whether offsets are missing before the first batch, between neighbouring batches, or in them.

    Where the segment shows none of that, batches of the segments beside it may. The log cleaner leaves empty segments,
    too; for these the log directory tells it, or the next segment that is not empty.
    """
    if not len(good):
        return around.was_cleaned or _is_compacted(around.log_after)
    if _has_gaps(good, base_offset):
        return True
    return any(cleaned(rows, wrappers=True).any() for rows in valid_rows((*around.before[-1:], *around.following[:1])))


def _is_compacted(log: NearestLog | None) -> bool:
    name = None if log is None else parse_file_name(log.path)
    if log is None or name is None or name.base_offset is None:
        return False
    return _has_gaps(BatchArrays(log.first_rows), name.base_offset)


def _has_gaps(good: BatchArrays, base_offset: int) -> bool:
    begins_late = int(good.position[0]) == 0 and int(good.first[0]) > base_offset
    return begins_late or not good.is_gapless()


def _next_start(around: SiblingContext, next_base: int, end: int) -> int:
    """The next segment's base offset, or the one from ``end`` on with which its log really begins.

    Two good batches that continue one another are believed against the name, as in ``choice.in_range``.
    """
    if not around.following:
        return next_base
    with suppress(KdumpError), open_source(around.following[0]) as source:
        first = _good_batch(source, 0)
        second = _good_batch(source, first.position + first.size) if first is not None else None
        if first is not None and second is not None and first_offset(second) == first.last_offset + 1:
            start = first_offset(first)
            return start if end <= start < next_base else next_base
    return next_base


def _good_batch(source: Source, position: int) -> BatchRow | None:
    """That at a position, None if there is none."""
    raw = source.read(position, HEADER_SIZE)
    head = read_head(raw, 0, len(raw), position)
    if head is None or not head.is_plausible or head.length > LARGEST_ENTRY:
        return None
    entry = memoryview(bytes(source.read(position, head.end - position)))
    if len(entry) < head.end - position or head.checksum(entry[head.crc_start :]) != head.crc:
        return None
    row, fault = examine(entry, position)
    return row if fault is None else None


def _by_headers(source: Source, found: Inventory, position: int, end: int) -> int:
    """The offset after the damaged batches from ``position`` on whose headers continue one another."""
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


def _by_indexes(around: SiblingContext, base_offset: int, ours: BatchArrays, good: BatchArrays) -> Iterator[int]:
    """By the last entries of the two indexes, where the rest of them agrees with batches of the log."""
    if len(ours):
        yield indexed_end(around, base_offset, ours) or 0
    if around.time_index and len(good):
        timestamp, offset = index_columns(around.time_index)
        yield time_index_end(IndexColumns(offset, timestamp), _view(base_offset, good)) or 0


def indexed_end(around: SiblingContext, base_offset: int, ours: BatchArrays) -> int | None:
    """The offset after the last one of the .index, where that agrees with the good batches of the log; else None."""
    if not around.index:
        return None
    offset, position = index_columns(around.index)
    return offset_index_end(IndexColumns(offset, position), _view(base_offset, ours))


def _view(base_offset: int, good: BatchArrays) -> IndexedLog:
    """Good batches as the indexes see them."""
    columns = LogColumns(good.position, good.end, good.first, good.last, good.rows["max_timestamp"])
    return IndexedLog(base_offset, int(good.end.max(initial=0)), IndexedBatches.of(columns))
