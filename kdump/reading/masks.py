"""The filters of ``kdump.reading.selection``, for many batches and records at once."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from kdump.fast.blocks import BatchBlock
from kdump.fast.headers import native_column
from kdump.fast.records import RecordColumns
from kdump.fast.recordvalues import record_offsets, record_timestamps
from kdump.format.batch import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME
from kdump.reading.outcomes import ABORTED, STATES
from kdump.reading.selection import HeaderFilter, Range, Selection


def accepts_batches(headers: NDArray[np.void], selection: Selection) -> NDArray[np.bool_]:
    """``Selection.accepts_batch`` of every batch; shape (batches,)."""
    attributes = headers["attributes"]
    latest = native_column(headers, "max_timestamp")
    base = native_column(headers, "base_timestamp")
    lowest = np.where(attributes & DELETE_HORIZON != 0, -1, np.minimum(base, latest))
    lowest = np.where(attributes & LOG_APPEND_TIME != 0, latest, lowest)
    return (
        may_hold_records(headers, selection)
        & _offsets_overlap(headers, selection)
        & _overlaps(selection.times, lowest, latest)
    )


def may_hold_records(headers: NDArray[np.void], selection: Selection) -> NDArray[np.bool_]:
    """``Selection.may_hold_records`` of every batch; shape (batches,)."""
    last_offset_delta = native_column(headers, "last_offset_delta")
    mask = _offsets_overlap(headers, selection)
    mask |= native_column(headers, "record_count") > last_offset_delta + 1
    if selection.producer_ids:
        mask &= np.isin(native_column(headers, "producer_id"), list(selection.producer_ids))
    if selection.control is not None:
        mask &= (headers["attributes"] & CONTROL != 0) == selection.control
    if selection.committed is not None:
        mask &= selection.committed.column(headers) != STATES.index(ABORTED)
    return mask


def _offsets_overlap(headers: NDArray[np.void], selection: Selection) -> NDArray[np.bool_]:
    base_offset = native_column(headers, "base_offset")
    return _overlaps(selection.offsets, base_offset, base_offset + native_column(headers, "last_offset_delta"))


def accepts_records(block: BatchBlock, records: RecordColumns, selection: Selection) -> NDArray[np.bool_]:
    """``Selection.accepts_record`` of every record of batches that may hold any; shape (rows,)."""
    mask = np.full(records.batch.size, selection.accepts_messages or not block.holds_messages)
    if not selection.offsets.is_open:
        offsets = record_offsets(block.headers, records)
        mask &= within(selection.offsets, offsets)
    if not selection.times.is_open:
        timestamps = record_timestamps(block.headers, records)
        mask &= within(selection.times, timestamps)
        # Magic 0 has no timestamps: any range of times leaves it out.
        mask &= block.headers["magic"].take(records.batch) > 0
    if selection.key is not None:
        _search(mask, block.arena, records.key_start, records.key_size, selection.key)
    if selection.coordinated is not None:
        _search(mask, block.arena, records.key_start, records.key_size, selection.coordinated)
    if selection.value is not None:
        _search(mask, block.arena, records.value_start, records.value_size, selection.value)
    if selection.tombstones:
        mask &= (records.key_size >= 0) & (records.value_size < 0)
    for wanted in selection.headers:
        _search_headers(mask, block.arena, records, wanted)
    return mask


def within(wanted: Range, values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of ``values`` are in a range; shape as ``values``."""
    return _overlaps(wanted, values, values)


def _overlaps(wanted: Range, lowest: NDArray[np.int64], highest: NDArray[np.int64]) -> NDArray[np.bool_]:
    mask = np.full(lowest.size, not wanted.is_empty)
    if wanted.first is not None:
        mask &= highest >= wanted.first
    if wanted.end is not None:
        mask &= lowest < wanted.end
    return mask


def _search(
    mask: NDArray[np.bool_],
    arena: NDArray[np.uint8],
    start: NDArray[np.int64],
    size: NDArray[np.int32],
    pattern: re.Pattern[bytes],
) -> None:
    """Clear ``mask`` where the pattern is not found. Only records that are still selected are searched."""
    mask &= size >= 0
    rows = np.flatnonzero(mask)
    view = arena.data
    search = pattern.search
    # A copy: with positions in the arena, ^ and look-behinds would see the neighbours.
    mask[rows] = [
        search(view[first : first + length]) is not None
        for first, length in zip(start[rows].tolist(), size[rows].tolist(), strict=True)
    ]


def _search_headers(
    mask: NDArray[np.bool_], arena: NDArray[np.uint8], records: RecordColumns, wanted: HeaderFilter
) -> None:
    count = records.header_count
    row_of_header = np.repeat(np.arange(count.size), count)
    headers = records.headers
    fits = (headers.key_size == len(wanted.key)) & mask[row_of_header]
    view = arena.data
    found = np.zeros(count.size, np.bool_)
    for header in np.flatnonzero(fits).tolist():
        start = int(headers.key_start[header])
        if view[start : start + len(wanted.key)] != wanted.key:
            continue
        start, size = int(headers.value_start[header]), int(headers.value_size[header])
        if wanted.value is None or (size >= 0 and wanted.value.search(view[start : start + size])):
            found[row_of_header[header]] = True
    mask &= found
