"""From bytes to entries: chunks of a log, with the positions of the whole entries in them.

Source: docs/spec/dump-output.md#41-batch-scan and docs/spec/recovery.md#rule-1-framing (FileLogInputStream). The
framing rules are the same for every magic. The walk reads into one buffer, which it uses again and enlarges only for an
entry that does not fit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise

from kdump.format.batch import (
    HEADER_SIZE,
    HEADER_SIZE_UP_TO_MAGIC,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MAX_INT32,
    MIN_ENTRY_LENGTH,
    is_read_as_batch,
    parse_header,
)
from kdump.log.source import LARGEST_HOLLOW, Source
from kdump.wire.checksum import Buffer

_LENGTH = struct.Struct(">i")

DEFAULT_CHUNK_SIZE = 1 << 20
_SMALLEST_BUFFER = 1 << 16


class Stop(Enum):
    """Why a walk ended."""

    END = auto()
    """Nothing is left, or bytes that cannot be a whole entry, or a huge one that a sparse file does not store."""
    LENGTH_TOO_SMALL = auto()
    """A length field below 14 (also negative and zero). No reader gets past it."""


@dataclass(slots=True)
class Chunk:
    """Some whole entries, in file order.

    ``data`` holds them (and whatever follows) and is valid until the next chunk is asked for. Entry i occupies
    ``data[starts[i]:starts[i + 1]]``, the last one up to ``end``; ``position`` is the file position of ``data[0]``.
    """

    data: memoryview
    position: int
    starts: list[int]
    end: int

    def entry(self, number: int) -> tuple[int, int]:
        """(start, end) in ``data`` of one entry."""
        return self.starts[number], self.starts[number + 1] if number + 1 < len(self.starts) else self.end

    def bounds(self, first: int = 0, last: int | None = None) -> list[int]:
        """Where entries ``first`` to ``last`` (exclusive) start in ``data``, and where the last of them ends.

        Only these positions are copied.
        """
        bounds = self.starts[first : None if last is None else last + 1]
        if last is None or last >= len(self.starts):
            bounds.append(self.end)
        return bounds

    def entries(self, first: int = 0, last: int | None = None) -> Iterator[tuple[int, int]]:
        """(start, end) in ``data`` of entries ``first`` to ``last`` (exclusive), which lie side by side."""
        return pairwise(self.bounds(first, last))

    def declared_records(self, enough: int = MAX_INT32) -> int:
        """How many records the headers of the batches declare, counted until they are ``enough``.

        A message counts as one.
        """
        count = 0
        for start in self.starts:
            if is_read_as_batch(self.data[start + MAGIC_OFFSET]) and len(self.data) - start >= HEADER_SIZE:
                count += max(0, parse_header(self.data, start).record_count)
            else:
                count += 1
            if count >= enough:
                break
        return count


class Walk:
    """One pass over the entries of a source.

    Args:
        source: where the bytes come from.
        limit: parse no further than this many bytes (``--max-bytes``).
        start: first position.
        chunk_size: bytes asked for at a time.

    After ``chunks`` is exhausted, ``position`` is the end of the last whole entry, ``end`` where the parsed range ends,
    ``stop`` why the walk ended, and ``bad_length`` the length field that ended it.
    """

    _length_offset = LENGTH_OFFSET
    """Where the length field lies in an entry."""

    def __init__(
        self, source: Source, *, limit: int | None = None, start: int = 0, chunk_size: int = DEFAULT_CHUNK_SIZE
    ) -> None:
        self._source = source
        self._limit = limit
        self._chunk_size = chunk_size
        self.position = start
        self.end = start
        self.stop = Stop.END
        self.bad_length = 0

    def chunks(self) -> Iterator[Chunk]:
        """Chunks in file order. Raises KdumpError when the source cannot be read."""
        self._source.stop = self._limit
        size = self._source.size
        wanted = self._chunk_size if size is None else min(self._chunk_size, max(size - self.position, 0) + 1)
        if self._limit is not None:
            # After the limit, only what shows that it is one is read, and the rest of a header.
            wanted = min(wanted, max(self._limit - self.position, 0) + HEADER_SIZE + 1)
        buffer = bytearray(max(wanted, _SMALLEST_BUFFER))
        base = self.position
        filled = 0
        at_end = False
        while True:
            filled, at_end = self._fill(buffer, base, filled, at_end)
            # end: the last byte that may be parsed, as an index into the buffer.
            end = filled if self._limit is None else min(filled, max(self._limit - base, 0))
            final = at_end or end < filled
            starts, position, stop, needed = self._scan(buffer, end, filled, final)
            if starts:
                yield Chunk(memoryview(buffer)[:filled], base, starts, position)
            self.position = base + position
            self.end = base + end
            if stop is Stop.LENGTH_TOO_SMALL and self._is_blank(buffer, position, end):
                base, filled = self.position, 0
                continue
            if stop is not None:
                self.stop = stop
                if stop is Stop.LENGTH_TOO_SMALL:
                    self.bad_length = _LENGTH.unpack_from(buffer, position + self._length_offset)[0]
                return
            rest = buffer[position:filled]
            if needed > len(rest):
                self._source.expects(self.position, needed)
            if needed > len(buffer) and 2 * len(rest) > len(buffer):
                if self._source.is_hollow(self.position, base + filled):
                    self.end = self._source.size or self.end
                    return
                # A wrong length must not allocate gigabytes: of a stream twice as much, of a file what is left of it.
                most = 2 * len(buffer) if size is None else min(size - self.position + 1, LARGEST_HOLLOW)
                buffer = bytearray(min(needed, max(most, 2 * len(buffer))))
            buffer[: len(rest)] = rest
            base += position
            filled = len(rest)

    @staticmethod
    def _scan(buffer: Buffer, end: int, filled: int, final: bool) -> tuple[list[int], int, Stop | None, int]:
        """Find the entries in ``buffer[:end]``.

        Returns their starts, the end of the last, why to stop (None: more bytes), bytes needed.
        """
        starts: list[int] = []
        append = starts.append
        unpack = _LENGTH.unpack_from
        position = 0
        last = end - HEADER_SIZE_UP_TO_MAGIC
        needed = 0
        while position < last:
            (length,) = unpack(buffer, position + LENGTH_OFFSET)
            following = position + LOG_OVERHEAD + length
            if length < MIN_ENTRY_LENGTH:
                return starts, position, Stop.LENGTH_TOO_SMALL, 0
            if following > end:
                needed = following - position
                break
            if following - position < HEADER_SIZE and _header_is_cut(buffer, position, filled, final):
                needed = HEADER_SIZE
                break
            append(position)
            position = following
        else:
            needed = HEADER_SIZE_UP_TO_MAGIC + 1
        return starts, position, Stop.END if final else None, needed

    def _is_blank(self, buffer: bytearray, position: int, end: int) -> bool:
        """There were only zeros, which a broker may still overwrite; now there is something else."""
        return buffer.count(0, position, end) == end - position and self._source.awaits(self.position)

    def _fill(self, buffer: bytearray, base: int, filled: int, at_end: bool) -> tuple[int, bool]:
        if at_end or filled == len(buffer):
            return filled, at_end
        view = memoryview(buffer)[filled:]
        size = self._source.size
        if size is None:
            count = self._source.read_some(view, base + filled)
            return filled + count, count == 0
        filled += self._source.read_into(view, base + filled)
        # A file that grows is read up to the size that it had when it was opened.
        if base + filled >= size:
            return size - base, True
        return filled, filled < len(buffer)


def whole_chunk(data: memoryview) -> Chunk | None:
    """The entries of a whole log; None: it holds none, or something besides whole entries."""
    starts, end, _, _ = Walk._scan(data, len(data), len(data), True)
    return Chunk(data, 0, starts, end) if starts and end == len(data) else None


def _header_is_cut(buffer: Buffer, position: int, filled: int, final: bool) -> bool:
    """A v2 entry shorter than its header is shown with the bytes after it, so these must be in the buffer."""
    return not final and position + HEADER_SIZE > filled and is_read_as_batch(buffer[position + MAGIC_OFFSET])
