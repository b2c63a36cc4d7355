"""Finds the v2 batches of a chunk whose records are right, by columns. It only accepts.

The rules are those of :mod:`kdump.verify.contents`. That module reads the other batches one by one: those that break a
rule, those that ``fast`` does not decode, and large ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kdump.fast.blocks import BatchBlock, BlockReader, EntryRange
from kdump.fast.headers import native_column
from kdump.fast.ragged import copy_ranges
from kdump.fast.records import RecordColumns
from kdump.fast.recordvalues import record_timestamps
from kdump.format.batch import CONTROL, HEADER_SIZE
from kdump.format.legacy import NO_TIMESTAMP
from kdump.log.resync import CheckedChunk


def record_suspects(reader: BlockReader, chunk: CheckedChunk, rows: NDArray[np.void]) -> Iterator[int]:
    """Numbers of the entries of ``chunk`` with a right CRC that must be read one by one, rising.

    See ``verify.entries.Suspects``. ``reader``: reads with records.
    """
    damaged = set(chunk.damaged)
    for part in reader.read(chunk.data, [*chunk.starts, chunk.end], chunk.position, damaged=chunk.damaged):
        if isinstance(part, EntryRange):
            yield from (number for number in range(part.first, part.last) if number not in damaged)
        elif part.records is not None:
            yield from part.numbers[part.is_valid & ~are_right(part, part.records)].tolist()


@dataclass(frozen=True, slots=True)
class RecordRules:
    """Which rules the records of each batch keep; every array has shape (batches with records,)."""

    deltas_rise: NDArray[np.bool_]
    """The offset deltas rise and are in the range that the header declares."""
    timestamps_are_set: NDArray[np.bool_]
    """No offset delta is below that of a batch without records."""
    keys_are_utf8: NDArray[np.bool_]
    """All header keys are UTF-8."""
    latest: NDArray[np.int64]
    """The largest timestamp (ms)."""

    @classmethod
    def of(cls, headers: NDArray[np.void], arena: NDArray[np.uint8], records: RecordColumns, after: int = -1) -> Self:
        """Check ``records``, one or more; their offset deltas must be larger than ``after``."""
        filled = np.flatnonzero(records.row_count)
        first = records.first_row[filled]
        delta = records.offset_delta
        rising = np.empty(delta.size, np.bool_)
        rising[1:] = delta[1:] > delta[:-1]
        rising[first] = delta[first] > after
        deltas_rise = np.ones(headers.size, np.bool_)
        deltas_rise[records.batch[~rising]] = False
        last = first + records.row_count[filled] - 1
        timestamps = record_timestamps(headers, records)
        keys_are_utf8 = np.ones(filled.size, np.bool_)
        if records.headers.key_size.size and not _are_utf8(arena, records):
            header_count = np.bincount(records.batch, weights=records.header_count, minlength=headers.size)
            keys_are_utf8 = header_count[filled] == 0
        return cls(
            # Deltas that rise from 0 or more are in range when the last one is.
            deltas_rise[filled] & (delta[last] <= headers["last_offset_delta"][filled]),
            np.minimum.reduceat(timestamps, first) >= NO_TIMESTAMP,
            keys_are_utf8,
            np.maximum.reduceat(timestamps, first),
        )


def are_right(block: BatchBlock, records: RecordColumns) -> NDArray[np.bool_]:
    """Whether the records of each batch are right: accepted, and every rule holds; shape (batches,)."""
    headers = block.headers
    right = records.accepted.copy()
    count = records.row_count
    right &= (count > 0) | (headers["batch_length"] + 12 <= HEADER_SIZE)
    # KRaft's control records have contents of their own. The markers of producers were read already.
    right &= (headers["attributes"] & CONTROL == 0) | (headers["producer_id"] >= 0)
    if not records.batch.size:
        return right
    rules = RecordRules.of(headers, block.arena, records)
    filled = count > 0
    right[filled] &= rules.deltas_rise & rules.timestamps_are_set & rules.keys_are_utf8
    right[filled] &= rules.latest == native_column(headers, "max_timestamp")[filled]
    return right


def _are_utf8(arena: NDArray[np.uint8], records: RecordColumns) -> bool:
    """Whether every header key of the block is UTF-8.

    The keys are put side by side with a NUL after each. No malformed sequence contains an ASCII byte, so all keys are
    well formed if the whole is.
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
