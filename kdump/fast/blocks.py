"""Entries of a chunk as blocks: v2 batches that are read as columns, and ranges of entries that are not.

A block holds batches that follow one another, with their headers, whether their CRCs are right and, when asked for,
their records. The scalar decoders read the rest: legacy entries, unknown magics and codecs, batches shorter than their
header, and within a block every batch that ``fast.records`` does not accept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kdump.codes import DamageError
from kdump.fast.headers import native_column, read_headers
from kdump.fast.memory import keep_freed_memory
from kdump.fast.records import RecordColumns, decode_records
from kdump.format.batch import (
    ATTRIBUTES_LOW_BYTE,
    CODEC_MASK,
    CODEC_NAMES,
    CRC_START,
    HEADER_SIZE,
    MAGIC,
    MAGIC_OFFSET,
)
from kdump.format.record import most_headers
from kdump.wire import compression
from kdump.wire.checksum import Buffer, crc32c

_ARENA_SIZE = 8 << 20
"""Bytes of decompressed batches that are decoded together."""
_LARGEST_COUNT = 500_000
"""The most records of one batch whose columns and text (some 300 bytes a record) are made at once."""
_LARGEST_BODY = 8 << 20
"""The largest uncompressed body that is read as columns: the scalar decoders hold one record at a time."""
_REFUSED = -1
"""A record count that no decoder accepts."""


@dataclass(frozen=True, slots=True)
class EntryRange:
    """Entries ``first`` to ``last`` (exclusive) of a chunk that the scalar decoders are to read."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class BatchBlock:
    """v2 batches of a chunk, in order."""

    numbers: NDArray[np.int64]
    """Shape (batches,): the number of each entry in the chunk."""
    headers: NDArray[np.void]
    """Shape (batches,), of ``format.batch.header_dtype``."""
    position: NDArray[np.int64]
    """Shape (batches,): where each begins in the file."""
    is_valid: NDArray[np.bool_]
    """Shape (batches,): the stored CRC is right."""
    arena: NDArray[np.uint8]
    """What the positions in ``records`` refer to."""
    records: RecordColumns | None
    """None when only batches were asked for."""
    body_start: NDArray[np.int64]
    """Shape (batches,): where each batch's records, uncompressed, begin in the arena."""
    body_end: NDArray[np.int64]

    @property
    def holds_messages(self) -> bool:
        """The batches are entries of magic 0 and 1; see ``legacymessages.message_blocks``."""
        return bool(self.headers["magic"][:1] < MAGIC)

    def select(self, batches: NDArray[np.bool_], rows: NDArray[np.bool_] | None = None) -> BatchBlock:
        """The block with some ``batches`` (shape (batches,)), and of their records some ``rows`` (shape (rows,))."""
        records = self.records
        if records is not None:
            records = records.select(np.ones(records.batch.size, np.bool_) if rows is None else rows, batches)
        return BatchBlock(
            self.numbers[batches],
            self.headers[batches],
            self.position[batches],
            self.is_valid[batches],
            self.arena,
            records,
            self.body_start[batches],
            self.body_end[batches],
        )


class BlockReader:
    """Reads chunks; one object serves a whole run.

    Args:
        limit: most bytes that one batch may decompress to.
        with_records: decode the records too.
        largest_count: records of one batch up to which they are decoded.
        only_valid: leave batches with a wrong CRC to the scalar decoders.
    """

    def __init__(
        self, limit: int, *, with_records: bool, largest_count: int = _LARGEST_COUNT, only_valid: bool = False
    ) -> None:
        keep_freed_memory()
        self._limit = limit
        self._most_headers = most_headers(limit)
        self._with_records = with_records
        self._largest_count = largest_count
        self._only_valid = only_valid

    def read(
        self,
        view: memoryview,
        bounds: list[int],
        position: int,
        wanted: Callable[[NDArray[np.void]], NDArray[np.bool_]] | None = None,
        damaged: Sequence[int] | None = None,
    ) -> Iterator[BatchBlock | EntryRange]:
        """The entries of a chunk in order, each in exactly one block or range.

        Args:
            view: the chunk's bytes; blocks of uncompressed batches refer to them.
            bounds: where entry i begins, and at the end where the last one ends.
            position: of the chunk in the file.
            wanted: which batches, by their headers; CRC and records of the others are not read.
            damaged: the numbers of the entries whose CRC is wrong, where that is known.
        """
        data = np.frombuffer(view, np.uint8)
        bound = np.array(bounds, np.int64)
        starts, ends = bound[:-1], bound[1:]
        eligible = (data[starts + MAGIC_OFFSET] == 2) & (ends - starts >= HEADER_SIZE)
        eligible[eligible] = data[starts[eligible] + ATTRIBUTES_LOW_BYTE] & CODEC_MASK < len(CODEC_NAMES)
        cuts = np.flatnonzero(np.diff(eligible, prepend=not eligible[0], append=not eligible[-1]))
        for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            if not eligible[first]:
                yield EntryRange(first, last)
                continue
            numbers = np.arange(first, last)
            headers = read_headers(data, starts[first:last])
            if wanted is not None:
                keep = wanted(headers)
                numbers, headers = numbers[keep], headers[keep]
            if numbers.size:
                entries = _Entries(numbers, starts[numbers], ends[numbers], headers)
                if damaged is None:
                    is_valid = _crcs(view, entries) == native_column(headers, "crc")
                else:
                    is_valid = ~np.isin(numbers, damaged)
                yield from self._blocks(view, data, position, entries, is_valid)

    def _blocks(
        self,
        view: memoryview,
        data: NDArray[np.uint8],
        position: int,
        entries: _Entries,
        is_valid: NDArray[np.bool_],
    ) -> Iterator[BatchBlock | EntryRange]:
        if not self._with_records:
            yield from self._headers(data, position, entries, is_valid)
            return
        file_position = entries.starts + position
        for begin, end, bodies in self._bodies(view, data, entries, is_valid):
            part = slice(begin, end)
            records = decode_records(bodies.arena, bodies.start, bodies.end, bodies.count, self._most_headers)
            yield BatchBlock(
                entries.numbers[part],
                entries.headers[part],
                file_position[part],
                is_valid[part],
                bodies.arena,
                records,
                bodies.start,
                bodies.end,
            )

    def _headers(
        self, data: NDArray[np.uint8], position: int, entries: _Entries, is_valid: NDArray[np.bool_]
    ) -> Iterator[BatchBlock | EntryRange]:
        """Batches without their records."""
        kept = is_valid if self._only_valid else np.ones(is_valid.size, np.bool_)
        cuts = np.flatnonzero(np.diff(kept, prepend=not kept[0], append=not kept[-1]))
        for first, last in pairwise(cuts.tolist()):
            part = slice(first, last)
            numbers, starts = entries.numbers[part], entries.starts[part]
            if kept[first]:
                yield BatchBlock(
                    numbers,
                    entries.headers[part],
                    starts + position,
                    is_valid[part],
                    data,
                    None,
                    starts + HEADER_SIZE,
                    entries.ends[part],
                )
            else:
                yield from (EntryRange(number, number + 1) for number in numbers.tolist())

    def _bodies(
        self, view: memoryview, data: NDArray[np.uint8], entries: _Entries, is_valid: NDArray[np.bool_]
    ) -> Iterator[tuple[int, int, _Bodies]]:
        """(first, last, bodies) of ranges of batches. Uncompressed bodies stay where they are."""
        count = native_column(entries.headers, "record_count")
        count[count > self._largest_count] = _REFUSED
        if self._only_valid:
            count[~is_valid] = _REFUSED
        count[entries.ends - entries.starts > HEADER_SIZE + _LARGEST_BODY] = _REFUSED
        codec = native_column(entries.headers, "attributes") & CODEC_MASK
        body_starts = entries.starts + HEADER_SIZE
        if not codec.any():
            yield 0, count.size, _Bodies(data, body_starts, entries.ends, count)
            return
        first = size = 0
        pieces: list[Buffer] = []
        for number, (start, end, kind) in enumerate(
            zip(body_starts.tolist(), entries.ends.tolist(), codec.tolist(), strict=True)
        ):
            piece: Buffer = view[start:end]
            if kind and count[number] > 0:
                try:
                    piece = compression.decompress(kind, piece, magic=2, limit=min(self._limit, _LARGEST_BODY))
                except DamageError:
                    count[number] = _REFUSED
            pieces.append(piece)
            size += len(piece)
            if size >= _ARENA_SIZE or number == count.size - 1:
                yield first, number + 1, _Bodies.join(pieces, count[first : number + 1])
                first, size = number + 1, 0
                pieces = []


@dataclass(frozen=True, slots=True)
class _Entries:
    """Some v2 batches of a chunk: their numbers, where they lie in its bytes, their headers."""

    numbers: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    headers: NDArray[np.void]


@dataclass(frozen=True, slots=True)
class _Bodies:
    """The records of some batches, uncompressed: batch b's lie in ``arena[start[b]:end[b]]``, ``count[b]`` of them."""

    arena: NDArray[np.uint8]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    count: NDArray[np.int64]

    @classmethod
    def join(cls, pieces: list[Buffer], count: NDArray[np.int64]) -> _Bodies:
        """The bodies one after the other in an arena of their own."""
        end = np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)))
        return cls(np.frombuffer(b"".join(pieces), np.uint8), np.append(0, end[:-1]), end, count)


def _crcs(view: memoryview, entries: _Entries) -> NDArray[np.int64]:
    """The CRC-32C that each whole batch should have."""
    # Not batch_crc: calling it takes a third of the time where batches are small.
    bounds = zip((entries.starts + CRC_START).tolist(), entries.ends.tolist(), strict=True)
    return np.array([crc32c(view[start:end]) for start, end in bounds], np.int64)
