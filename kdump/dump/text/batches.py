"""Batches of a log by position, as the index checks of DumpLogSegments look for them.

Source: docs/spec/dump-output.md#6-offset-indexes, docs/spec/dump-output.md#7-time-indexes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import NamedTuple

from kdump.codes import Codes, DamageError
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
