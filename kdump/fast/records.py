"""The columnar decoder of v2 record batches.

It only accepts: a batch is decoded if every byte of its body is as Kafka's strict reader wants it
(docs/spec/formats.md#31-record). Any other batch has no rows here, and ``kdump.format.record`` says what is wrong with
it. Besides, it refuses varints that overflow, which Kafka accepts (Kafka drops the excess bits; no writer makes them).
No Python statement runs once per record, except in the walk of a few huge batches (``walk``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.fast.recordheaders import HeaderColumns, read_record_headers
from kdump.fast.varints import INT64_BYTES, read_varints, sizes, zigzag
from kdump.fast.walk import walk_records, walk_some
from kdump.format.batch import MAX_INT32

_BLOCK_ROWS: Final = 1 << 15
"""Rows decoded at a time: the memory of their dozen intermediate columns is bounded."""
_SLICE_ROWS: Final = 1 << 16
_SLICE_BYTES: Final = 4 << 20
"""Rows of a large batch that are columns at the same time, and the bytes in which they begin."""


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """The records of the accepted batches in stored order; positions are indexes of the arena."""

    accepted: NDArray[np.bool_]
    """Shape (batches,): the batch is well formed and has its rows here."""
    first_row: NDArray[np.int64]
    """Shape (batches,): row of the batch's first record."""
    row_count: NDArray[np.int64]
    """Shape (batches,): number of its rows, 0 for refused ones."""
    headers: HeaderColumns
    """All record headers, row by row."""
    batch: NDArray[np.int32]
    """Shape (rows,), as all below: index of the record's batch."""
    timestamp_delta: NDArray[np.int64]
    """Milliseconds."""
    offset_delta: NDArray[np.int64]
    """In the range of an int32."""
    key_start: NDArray[np.int64]
    key_size: NDArray[np.int32]
    """Bytes, -1 for null."""
    value_start: NDArray[np.int64]
    value_size: NDArray[np.int32]
    """Bytes, -1 for null."""
    header_count: NDArray[np.int32]

    def select(self, rows: NDArray[np.bool_], batches: NDArray[np.bool_]) -> RecordColumns:
        """The columns of ``rows`` (shape (rows,)) in ``batches`` (shape (batches,)), which are numbered anew."""
        rows = rows & batches[self.batch]
        row_count = np.bincount(self.batch[rows], minlength=batches.size)[batches]
        new_number = np.cumsum(batches, dtype=np.int32) - 1
        return RecordColumns(
            self.accepted[batches],
            np.cumsum(row_count) - row_count,
            row_count,
            self.headers.select(np.repeat(rows, self.header_count)),
            new_number[self.batch[rows]],
            self.timestamp_delta[rows],
            self.offset_delta[rows],
            self.key_start[rows],
            self.key_size[rows],
            self.value_start[rows],
            self.value_size[rows],
            self.header_count[rows],
        )


def decode_records(
    arena: NDArray[np.uint8],
    body_start: NDArray[np.int64],
    body_end: NDArray[np.int64],
    count: NDArray[np.int64],
    most_headers: int = MAX_INT32,
) -> RecordColumns:
    """Decode the records of many batches.

    ``arena``: contiguous. ``body_start``, ``body_end``, ``count``: int64, shape (batches,); the uncompressed records
    of batch b lie in ``arena[body_start[b]:body_end[b]]``, ``count[b]`` as its header declares. Bodies must not
    overlap. ``most_headers``: of one record. Never raises on damaged content.
    """
    starts, accepted = walk_records(arena, body_start, body_end, count)
    return _decode(arena, starts, accepted, body_end, count, most_headers=most_headers)


class RecordSlice(NamedTuple):
    """Some records of a large batch, that follow one another."""

    start: int
    """Where the first one begins in the arena."""
    columns: RecordColumns
    """Of one batch, which has these records only."""


class SlicedRecords:
    """The records of one large batch, some thousand decoded at a time, in little memory.

    Iterating decodes them. Where they begin is found the first time, and kept (4 bytes for each) for the next ones.
    Where ``decode_records`` would not accept the batch, the last slice that comes has no rows and is not accepted:
    those before it are right as far as they go.

    Args:
        arena: contiguous.
        start: where the records begin in it.
        end: where they end.
        count: how many there are.
        most_headers: of one record.
    """

    def __init__(
        self, arena: NDArray[np.uint8], start: int, end: int, count: int, most_headers: int = MAX_INT32
    ) -> None:
        self._arena = arena
        self._start = start
        self._end = end
        self._count = count
        self._most_headers = most_headers
        self._walked: list[tuple[NDArray[np.int32], int]] = []
        """Of each slice where its records begin, from the first one on, and where the last one ends in the arena."""

    def __iter__(self) -> Iterator[RecordSlice]:
        """The slices in order."""
        start, left = self._start, self._count
        number = 0
        while left:
            if number == len(self._walked) and not self._walk(start, left):
                yield RecordSlice(start, _refused())
                return
            starts, following = self._walked[number]
            columns = _decode(
                self._arena,
                starts.astype(np.int64) + start,
                np.ones(1, np.bool_),
                np.array([following]),
                np.array([starts.size]),
                most_headers=self._most_headers,
            )
            yield RecordSlice(start, columns)
            if not columns.accepted[0]:
                return
            start, left, number = following, left - starts.size, number + 1

    def _walk(self, start: int, left: int) -> bool:
        """Find the next slice, if the lengths of its records are right."""
        found = walk_some(self._arena, start, min(left, _SLICE_ROWS), min(self._end - start, _SLICE_BYTES))
        if found is None or not found[0] or found[1] > self._end or (found[1] == self._end) != (left == len(found[0])):
            return False
        self._walked.append((np.array(found[0], np.int32), found[1]))
        return True


def _refused() -> RecordColumns:
    none, one = np.empty(0, np.int64), np.zeros(1, np.int64)
    sizes = np.empty(0, np.int32)
    return RecordColumns(
        np.zeros(1, np.bool_), one, one, HeaderColumns.none(), sizes, none, none, none, sizes, none, sizes, sizes
    )


def _decode(
    arena: NDArray[np.uint8],
    starts: NDArray[np.int64],
    accepted: NDArray[np.bool_],
    body_end: NDArray[np.int64],
    count: NDArray[np.int64],
    *,
    most_headers: int,
) -> RecordColumns:
    """The records that begin at ``starts``, those of the accepted batches. ``accepted`` is changed in place."""
    row_count = np.where(accepted, count, 0)
    batch = np.repeat(np.arange(count.size, dtype=np.int32), row_count)
    fields = _BatchFields(starts.size, most_headers)
    ends = _record_ends(starts, row_count, body_end)
    for first in range(0, starts.size, _BLOCK_ROWS):
        fields.decode(arena, starts, ends, slice(first, first + _BLOCK_ROWS))
    headers, are_valid = read_record_headers(arena, fields.header_start, ends, fields.header_count)
    fields.valid &= are_valid
    columns: list[NDArray[Any]] = [batch, *fields.columns()]
    if not fields.valid.all():
        accepted[batch[~fields.valid]] = False
        row_count = np.where(accepted, count, 0)
        keep = accepted[batch]
        headers = headers.select(np.repeat(keep, fields.header_count))
        columns = [column[keep] for column in columns]
    return RecordColumns(accepted, np.cumsum(row_count) - row_count, row_count, headers, *columns)


def _record_ends(
    starts: NDArray[np.int64], row_count: NDArray[np.int64], body_end: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Where each record ends: at the start of the next one, the last of a batch at the end of the body."""
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    filled = row_count > 0
    ends[np.cumsum(row_count[filled]) - 1] = body_end[filled]
    return ends


class _BatchFields:
    """The columns of the fixed fields while they are filled in, block by block."""

    def __init__(self, rows: int, most_headers: int) -> None:
        self._most_headers = most_headers
        self.timestamp_delta = np.empty(rows, np.int64)
        self.offset_delta = np.empty(rows, np.int64)
        self.key_start = np.empty(rows, np.int64)
        self.key_size = np.empty(rows, np.int32)
        self.value_start = np.empty(rows, np.int64)
        self.value_size = np.empty(rows, np.int32)
        self.header_count = np.empty(rows, np.int32)
        self.header_start = np.empty(rows, np.int64)
        self.valid = np.empty(rows, np.bool_)

    def decode(
        self, arena: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], block: slice
    ) -> None:
        """Decode the fields of a block of rows up to the header count.

        A row is valid so far when its fields end at or before its end and its header count can be true. A position
        never decreases from field to field, so checking the last one covers all.
        """
        _, at = read_varints(arena, starts[block])
        at += 1  # the attributes, unused
        raw, at = read_varints(arena, at, INT64_BYTES)
        self.timestamp_delta[block] = zigzag(raw)
        raw, at = read_varints(arena, at)
        self.offset_delta[block] = zigzag(raw)
        raw, at = read_varints(arena, at)
        self.key_start[block] = at
        at += self._sizes(raw, self.key_size[block])
        raw, at = read_varints(arena, at)
        self.value_start[block] = at
        at += self._sizes(raw, self.value_size[block])
        raw, at = read_varints(arena, at)
        self.header_start[block] = at
        # Without headers the record ends here.
        is_plain = at == ends[block]
        is_plain &= raw == 0
        self.valid[block] = is_plain
        self.header_count[block] = 0
        others = np.flatnonzero(~is_plain)
        if others.size:
            # A header takes two bytes or more.
            count = zigzag(raw[others]).astype(np.int64)
            is_possible = (count > 0) & (count <= (ends[block][others] - at[others]) >> 1)
            is_possible &= count <= self._most_headers
            self.valid[block][others] = is_possible
            self.header_count[block][others] = np.where(is_possible, count, 0)

    @staticmethod
    def _sizes(raw: NDArray[np.unsignedinteger], column: NDArray[np.int32]) -> NDArray[np.signedinteger]:
        """Fill in the sizes of a block of keys or values. Returns how many bytes they take."""
        size = sizes(raw)
        column[:] = size
        np.maximum(size, 0, out=size)
        return size

    def columns(self) -> tuple[NDArray[Any], ...]:
        """The columns in the order of RecordColumns."""
        return (
            self.timestamp_delta,
            self.offset_delta,
            self.key_start,
            self.key_size,
            self.value_start,
            self.value_size,
            self.header_count,
        )
