"""Which v2 batches of a chunk have records that are right, by columns: it only accepts.

The rules are those of :mod:`kdump.checks.contents`; batches that break one, or that ``fast`` does not decode, are read
one by one there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kdump.fast.blocks import BatchBlock, BlockReader, Stretch
from kdump.fast.headers import native_column
from kdump.fast.ragged import copy_ranges
from kdump.fast.records import RecordColumns
from kdump.fast.recordvalues import record_timestamps
from kdump.format.batch import CONTROL, HEADER_SIZE
from kdump.log.resync import CheckedChunk

_NO_TIMESTAMP = -1


class RecordChecks:
    """Reads the records of chunks only to check them. ``limit``: most bytes that one batch may decompress to."""

    def __init__(self, limit: int) -> None:
        self._reader = BlockReader(limit, with_records=True)

    def in_doubt(self, chunk: CheckedChunk, rows: NDArray[np.void]) -> Iterator[int]:
        """Numbers of the entries of ``chunk`` with a right CRC that are to be read one by one, rising.

        See ``checks.entries.Doubts``.
        """
        damaged = set(chunk.damaged)
        for part in self._reader.read(chunk.data, [*chunk.starts, chunk.end], chunk.position, damaged=chunk.damaged):
            if isinstance(part, Stretch):
                yield from (number for number in range(part.first, part.last) if number not in damaged)
            elif part.records is not None:
                yield from part.numbers[part.is_valid & ~are_right(part, part.records)].tolist()


def are_right(block: BatchBlock, records: RecordColumns) -> NDArray[np.bool_]:
    """Of which batches the records are right: accepted, and every rule holds; shape (batches,)."""
    headers = block.headers
    right = records.accepted.copy()
    count = records.row_count
    right &= (count > 0) | (headers["batch_length"] + 12 <= HEADER_SIZE)
    # KRaft's control records have contents of their own; the markers of producers were read already.
    right &= (headers["attributes"] & CONTROL == 0) | (headers["producer_id"] >= 0)
    if not records.batch.size:
        return right
    filled = np.flatnonzero(count)
    first = records.first_row[filled]
    delta = records.offset_delta
    rising = np.empty(delta.size, np.bool_)
    rising[1:] = delta[1:] > delta[:-1]
    rising[first] = delta[first] >= 0
    right[records.batch[~rising]] = False
    last = first + count[filled] - 1
    # Deltas that rise from 0 or more are in range when the last one is.
    right[filled] &= delta[last] <= headers["last_offset_delta"][filled]
    timestamps = record_timestamps(headers, records)
    right[filled] &= np.maximum.reduceat(timestamps, first) == native_column(headers, "max_timestamp")[filled]
    right[filled] &= np.minimum.reduceat(timestamps, first) >= _NO_TIMESTAMP
    if records.headers.key_size.size and not _are_utf8(block.arena, records):
        right &= np.bincount(records.batch, weights=records.header_count, minlength=count.size) == 0
    return right


def _are_utf8(arena: NDArray[np.uint8], records: RecordColumns) -> bool:
    """Every header key of the block is UTF-8.

    The keys are put side by side with a NUL behind each: no malformed sequence swallows an ASCII byte, so all are well
    formed when the whole is.
    """
    size = records.headers.key_size.astype(np.int64)
    start = np.cumsum(size + 1) - size - 1
    keys = np.zeros(int(start[-1] + size[-1] + 1), np.uint8)
    copy_ranges(arena, records.headers.key_start, size, keys, start)
    if keys.max() < 0x80:
        return True
    try:
        keys.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True
