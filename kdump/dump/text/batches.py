"""Batches of a log by position, and their largest timestamps, as the index checks of DumpLogSegments look for them.

Source: docs/spec/dump-output.md#6-offset-indexes, docs/spec/dump-output.md#7-time-indexes: timestamps by decoding every
record, never from the batch header.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple

from kdump.codes import Codes, DamageError
from kdump.fast.policy import TIMED_BATCHES
from kdump.format import legacy
from kdump.format import record as v2
from kdump.format.batch import (
    HEADER_SIZE,
    HEADER_SIZE_UP_TO_MAGIC,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MIN_ENTRY_LENGTH,
    is_read_as_batch,
    parse_header,
)
from kdump.log.source import Source
from kdump.log.walk import Chunk, Stop, Walk

NO_TIMESTAMP: Final = -1
_READ_SIZE: Final = 4 << 20


class Located(NamedTuple):
    """A batch's position, its whole size (bytes), and its last offset (the offset field of a legacy entry)."""

    position: int
    size: int
    last_offset: int


def last_offset_at(data: bytes | memoryview, start: int = 0) -> int:
    """The last offset of the entry at ``start``; DamageError when the data ends inside a v2 header."""
    if not is_read_as_batch(data[start + MAGIC_OFFSET]):
        return int.from_bytes(data[start : start + LENGTH_OFFSET], "big", signed=True)
    if len(data) - start < HEADER_SIZE:
        raise DamageError(Codes.HEADER_CUT, "the file ends inside the batch header")
    return parse_header(data, start).last_offset


def batch_at(log: Source, position: int, end: int) -> Located | None:
    """The batch at ``position`` when it ends at or before ``end``; None when no whole one is there.

    Raises:
        DamageError: LENGTH_TOO_SMALL or HEADER_CUT.
    """
    framed = _framed_at(log, position, end)
    return None if framed is None else framed.located(log.path)


class _Framed(NamedTuple):
    """A whole entry of which only the length was read. ``head``: its first bytes."""

    position: int
    size: int
    head: bytes

    def located(self, path: str | None) -> Located:
        """The batch with its last offset. Raises DamageError HEADER_CUT."""
        try:
            return Located(self.position, self.size, last_offset_at(self.head))
        except DamageError as error:
            raise error.located(path, self.position) from None


def _framed_at(log: Source, position: int, end: int) -> _Framed | None:
    """The entry at ``position``, like ``batch_at``, but without its header. Raises DamageError LENGTH_TOO_SMALL."""
    if position >= end - HEADER_SIZE_UP_TO_MAGIC:
        return None
    head = log.read(position, HEADER_SIZE)
    length = int.from_bytes(head[LENGTH_OFFSET:LOG_OVERHEAD], "big", signed=True)
    if length < MIN_ENTRY_LENGTH:
        raise too_small(length, log.path, position)
    if position > end - LOG_OVERHEAD - length:
        return None
    return _Framed(position, LOG_OVERHEAD + length, head)


def too_small(length: int, path: str | None, position: int) -> DamageError:
    """The error of a length field that no reader gets past."""
    return DamageError(
        Codes.LENGTH_TOO_SMALL,
        f"record size {length} is smaller than the smallest possible record ({MIN_ENTRY_LENGTH})",
        path=path,
        position=position,
    )


class BatchSearch:
    """All batches of a log, read once. A search then takes a few steps, whatever the size of the log."""

    def __init__(self, log: Source) -> None:
        self._log = log
        self._positions = array("q")
        self._last_offsets = array("q")
        # The largest last offset up to each batch, which allows a binary search.
        self._highest = array("q")
        # The error after the last batch in the table, and the error that any search meets.
        self._header_cut: DamageError | None = None
        self._unwalkable: DamageError | None = None
        self._end = 0
        self._read(Walk(log))

    def _read(self, walk: Walk) -> None:
        for chunk in walk.chunks():
            # After a cut header, near the end of the file, only the framing is read.
            if self._header_cut is None:
                self._append(chunk)
        if self._header_cut is None:
            self._end = walk.position
        if walk.stop is Stop.LENGTH_TOO_SMALL:
            self._unwalkable = too_small(walk.bad_length, self._log.path, walk.position)

    def _append(self, chunk: Chunk) -> None:
        highest = self._highest[-1] if self._highest else -(2**63)
        for start in chunk.starts:
            self._end = chunk.position + start
            try:
                last_offset = last_offset_at(chunk.data, start)
            except DamageError as error:
                error.located(self._log.path, self._end)
                self._header_cut = error
                return
            highest = max(highest, last_offset)
            self._positions.append(self._end)
            self._last_offsets.append(last_offset)
            self._highest.append(highest)

    def first_reaching(self, offset: int, position: int) -> Located | None:
        """The first batch from ``position`` on whose last offset is at or above ``offset``; None when there is none.

        A position at which no batch starts is read entry by entry from there, until it meets the batches. As in the
        Java tool the walk goes on to the end of the log, also after the batch that is found. Headers are read up to
        that batch only.

        Raises:
            DamageError: the walk meets damage, or a header before the batch is cut.
        """
        size = self._log.size or 0
        found: Located | DamageError | None = None
        while True:
            row = bisect_left(self._positions, position)
            if row < len(self._positions) and self._positions[row] == position:
                if self._unwalkable is not None:
                    raise self._unwalkable
                return self._search(offset, row) if found is None else _found(found)
            framed = _framed_at(self._log, position, size)
            if framed is None:
                return None if found is None else _found(found)
            if found is None:
                try:
                    batch = framed.located(self._log.path)
                except DamageError as error:
                    found = error
                else:
                    found = batch if batch.last_offset >= offset else None
            position += framed.size

    def _search(self, offset: int, first: int) -> Located | None:
        row = bisect_left(self._highest, offset, lo=first)
        if row == first:
            # The offset may be reached by batches before the first one: search one by one.
            while row < len(self._last_offsets) and self._last_offsets[row] < offset:
                row += 1
        if row < len(self._positions):
            return Located(self._positions[row], self._ends(row) - self._positions[row], self._last_offsets[row])
        if self._header_cut is not None:
            raise self._header_cut
        return None

    def _ends(self, row: int) -> int:
        return self._positions[row + 1] if row + 1 < len(self._positions) else self._end


def _found(result: Located | DamageError) -> Located:
    if isinstance(result, DamageError):
        raise result
    return result


class MaxTimestamps:
    """Answers for batches of one log; those announced by ``prepare`` are decoded together."""

    def __init__(self, log: Source, limit: int) -> None:
        self._log = log
        self._limit = limit
        self._known: dict[int, int] = {}

    def prepare(self, batches: Iterable[Located]) -> None:
        """Decode these batches as columns; what that refuses is decoded when it is asked for."""
        wanted = sorted(set(batches))
        self._known.clear()
        if len(wanted) < TIMED_BATCHES:
            return
        group: list[Located] = []
        size = 0
        for batch in wanted:
            group.append(batch)
            size += batch.size
            if size >= _READ_SIZE:
                self._decode(group)
                group, size = [], 0
        if group:
            self._decode(group)

    def of(self, batch: Located) -> int:
        """The largest timestamp (ms) in ``batch``, -1 for none. DamageError when it does not decode."""
        known = self._known.get(batch.position)
        return self._scalar(batch) if known is None else known

    def _decode(self, batches: list[Located]) -> None:
        import numpy as np

        from kdump.fast.blocks import BatchBlock, BlockReader
        from kdump.fast.recordvalues import record_timestamps

        data = b"".join(self._log.read(batch.position, batch.size) for batch in batches)
        bounds = list(accumulate((batch.size for batch in batches), initial=0))
        if len(data) != bounds[-1]:
            return
        for block in BlockReader(self._limit, with_records=True).read(memoryview(data), bounds, 0):
            if not isinstance(block, BatchBlock) or block.records is None:
                continue
            records = block.records
            with_rows = np.flatnonzero(records.row_count)
            timestamps = record_timestamps(block.headers, records)
            if with_rows.size:
                largest = np.maximum.reduceat(timestamps, records.first_row[with_rows])
                for row, timestamp in zip(with_rows.tolist(), largest.tolist(), strict=True):
                    self._known[batches[int(block.numbers[row])].position] = max(NO_TIMESTAMP, timestamp)

    def _scalar(self, batch: Located) -> int:
        data = memoryview(self._log.read(batch.position, batch.size))
        try:
            timestamps: Iterator[int]
            if is_read_as_batch(data[MAGIC_OFFSET]):
                if len(data) < HEADER_SIZE:
                    raise DamageError(Codes.HEADER_CUT, "the batch is shorter than its header")
                timestamps = (record.timestamp for record in v2.read_records(parse_header(data), data, self._limit))
            else:
                timestamps = _legacy_timestamps(legacy.parse_message(data), self._limit)
            return max(NO_TIMESTAMP, max(timestamps, default=NO_TIMESTAMP))
        except DamageError as error:
            raise error.located(self._log.path, batch.position) from None


def _legacy_timestamps(entry: legacy.Message, limit: int) -> Iterator[int]:
    for record in legacy.read_records(entry, limit):
        legacy.check_inner(record, entry)
        yield record.timestamp
