"""Many entries at once on the columnar path, in runs with what the scalar path must print itself.

Batches of a chunk that ``fast`` can take (magic 2, a whole header, a known codec) are decoded and printed as
columns; legacy entries, control records, damage and whatever else ``fast`` refuses come back as runs without text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdump.codes import DamageError
from kdump.fast.headers import native_column, read_headers
from kdump.fast.memory import keep_freed_memory
from kdump.fast.records import decode_records
from kdump.fast.text import RaggedText
from kdump.format.batch import (
    ATTRIBUTES_LOW_BYTE,
    CODEC_MASK,
    CODEC_NAMES,
    CRC_START,
    HEADER_SIZE,
    MAGIC_OFFSET,
)
from kdump.kafka.dumplog.columnlines import RecordTextOptions, batch_text, dump_runs
from kdump.kafka.dumplog.options import DumpOptions
from kdump.log.walk import Chunk
from kdump.wire import compression
from kdump.wire.checksum import crc32c

_ARENA_SIZE = 8 << 20
"""Bytes of decompressed batches that are decoded together."""
_LARGEST_COUNT = 500_000
"""Records of one batch up to which its columns and its text (some 300 bytes a record) are made at once."""
_REFUSED = -1
"""A record count that no decoder accepts."""


@dataclass(frozen=True, slots=True)
class Run:
    """Entries ``first`` to ``last`` (exclusive) of a chunk.

    ``text`` is all they print; None: the scalar path prints them. ``offsets`` are those of their records.
    """

    first: int
    last: int
    text: memoryview | None = None
    damaged: bool = False
    offsets: NDArray[np.int64] | None = None


class ColumnarText:
    """Makes the text of chunks; one object serves a whole run."""

    def __init__(self, options: DumpOptions) -> None:
        keep_freed_memory()
        self._records = options.records
        self._limit = options.max_decompressed_size
        self._record_options = RecordTextOptions(
            metadata=not options.skip_record_metadata, contents=options.print_data_log
        )

    def runs(self, chunk: Chunk) -> Iterator[Run]:
        """Every entry of the chunk is in exactly one run, in order."""
        data = np.frombuffer(chunk.data, np.uint8)
        bounds = np.array([*chunk.starts, chunk.end], np.int64)
        starts, ends = bounds[:-1], bounds[1:]
        eligible = (data[starts + MAGIC_OFFSET] == 2) & (ends - starts >= HEADER_SIZE)
        eligible[eligible] = data[starts[eligible] + ATTRIBUTES_LOW_BYTE] & CODEC_MASK < len(CODEC_NAMES)
        cuts = np.flatnonzero(np.diff(eligible, prepend=not eligible[0], append=not eligible[-1]))
        for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            if eligible[first]:
                yield from self._batches(chunk, data, bounds[first : last + 1], first)
            else:
                yield Run(first, last)

    def _batches(self, chunk: Chunk, data: NDArray[np.uint8], bounds: NDArray[np.int64], first: int) -> Iterator[Run]:
        """The runs of some batches; ``first`` is the first one's number in the chunk."""
        starts, ends = bounds[:-1], bounds[1:]
        headers = read_headers(data, starts)
        is_valid = _crcs(chunk.data, starts, ends) == native_column(headers, "crc")
        batches = batch_text(headers, starts + chunk.position, is_valid)
        if not self._records:
            yield Run(first, first + starts.size, batches.data.data, damaged=not is_valid.all())
            return
        for begin, end, bodies in self._bodies(chunk.data, data, starts, ends, headers):
            columns = decode_records(bodies.arena, bodies.start, bodies.end, bodies.count)
            base_offset = native_column(headers[begin:end], "base_offset")
            offsets = base_offset.take(columns.batch) + columns.offset_delta
            lines = RaggedText(batches.data, batches.bounds[begin : end + 1])
            for run in dump_runs(bodies.arena, columns, headers[begin:end], self._record_options, lines):
                entries = begin + run.first_batch, begin + run.last_batch
                if run.text is None:
                    yield Run(first + entries[0], first + entries[1])
                    continue
                first_row = columns.first_row[run.first_batch]
                last_row = first_row + columns.row_count[run.first_batch : run.last_batch].sum()
                yield Run(
                    first + entries[0],
                    first + entries[1],
                    run.text.data,
                    damaged=not is_valid[slice(*entries)].all(),
                    offsets=offsets[first_row:last_row],
                )

    def _bodies(
        self,
        view: memoryview,
        data: NDArray[np.uint8],
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
        headers: NDArray[np.void],
    ) -> Iterator[tuple[int, int, Bodies]]:
        """(first, last, bodies) of ranges of batches; uncompressed ones stay where they are."""
        count = native_column(headers, "record_count")
        count[count > _LARGEST_COUNT] = _REFUSED
        codec = native_column(headers, "attributes") & CODEC_MASK
        if not codec.any():
            yield 0, starts.size, Bodies(data, starts + HEADER_SIZE, ends, count)
            return
        first = size = 0
        pieces: list[bytes | memoryview] = []
        for number, (start, end, kind) in enumerate(zip(starts.tolist(), ends.tolist(), codec.tolist(), strict=True)):
            piece: bytes | memoryview = view[start + HEADER_SIZE : end]
            if kind and count[number] > 0:
                try:
                    piece = compression.decompress(kind, piece, magic=2, limit=self._limit)
                except DamageError:
                    count[number] = _REFUSED
            pieces.append(piece)
            size += len(piece)
            if size >= _ARENA_SIZE or number == starts.size - 1:
                yield first, number + 1, Bodies.join(pieces, count[first : number + 1])
                first, size = number + 1, 0
                pieces = []


@dataclass(frozen=True, slots=True)
class Bodies:
    """The records of some batches, uncompressed: batch b's lie in ``arena[start[b]:end[b]]``, ``count[b]`` of them."""

    arena: NDArray[np.uint8]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    count: NDArray[np.int64]

    @classmethod
    def join(cls, pieces: list[bytes | memoryview], count: NDArray[np.int64]) -> Bodies:
        """The bodies one after the other in an arena of their own."""
        end = np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)))
        return cls(np.frombuffer(b"".join(pieces), np.uint8), np.append(0, end[:-1]), end, count)


def _crcs(data: memoryview, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """The CRC-32C that each whole batch should have."""
    return np.fromiter(
        (crc32c(data[start:end]) for start, end in zip((starts + CRC_START).tolist(), ends.tolist(), strict=True)),
        np.int64,
        starts.size,
    )
