"""A window on a source, in memory, that only moves forwards. Unreadable blocks divide the source into extents.

A block that cannot be read (EIO) ends the extent before it. The next extent starts at the next multiple of 4096 bytes
that can be read.
"""

from __future__ import annotations

from kdump.codes import Codes, KdumpError
from kdump.format.batch import HEADER_SIZE
from kdump.log.source import Source
from kdump.wire.checksum import Checksum

_BLOCK = 4096
_UNREADABLE = (Codes.UNREADABLE, Codes.REMOTE_OBJECT)
"""Of a block of a disk, and of a chunk in remote storage."""
_SMALLEST_BUFFER = 1 << 16
_LONG_ZEROS = 1 << 20
"""Bytes without data (zeros of a sparse file) that are worth skipping."""


class Window:
    """``data[:filled]`` are the bytes from file position ``base`` on.

    ``end`` is the end of the readable extent, None while it is unknown (a stream). For a file it is the end of what may
    be read, until an unreadable block is found. ``is_cut``: that end is the limit. ``resume`` is None, or where reading
    goes on after an unreadable block.

    Args:
        source: where the bytes come from.
        start: first position.
        limit: last position (exclusive) that may be read.
        chunk_size: bytes asked for at a time.
    """

    def __init__(self, source: Source, start: int, limit: int | None, chunk_size: int) -> None:
        self._source = source
        source.stop = limit
        self._chunk_size = max(chunk_size, _SMALLEST_BUFFER)
        self._is_file = source.size is not None
        bounds = [bound for bound in (source.size, limit) if bound is not None]
        self._last = max(start, min(bounds)) if bounds else None
        self.is_cut = limit is not None and self._last == limit
        self.base = start
        self.filled = 0
        self.end = self._last if self._is_file else None
        self.resume: int | None = None
        room = self._chunk_size if self.end is None else min(self._chunk_size, self.end - start)
        self.data = bytearray(max(room, 1))

    @property
    def stop(self) -> int:
        """File position after the last byte in memory."""
        return self.base + self.filled

    def fill(self, keep: int, until: int) -> None:
        """Drop what lies before ``keep`` and read at least up to ``until``, as far as there is data."""
        if self.stop >= until or self.stop == self.end:
            return
        kept = self.data[keep - self.base : self.filled]
        # Read more when much is kept, so that moving stays in proportion to reading.
        wanted = max(until, self.stop + max(self._chunk_size, len(kept) // 4))
        if self.end is not None:
            wanted = min(wanted, self.end)
        if wanted - keep > len(self.data):
            self.data = bytearray(wanted - keep)
        self.data[: len(kept)] = kept
        self.base, self.filled = keep, len(kept)
        self._read(wanted if self._last is None else min(wanted, self._last))

    @property
    def size(self) -> int:
        """Bytes of a file, 0 for a stream."""
        return self._source.size or 0

    @property
    def is_file(self) -> bool:
        """Any position can be read at any time."""
        return self._is_file

    def is_hollow(self, start: int, end: int) -> bool:
        """See Source."""
        return self._source.is_hollow(start, end)

    def next_extent(self) -> None:
        """Go on after the unreadable block, at ``resume``."""
        assert self.resume is not None
        self.base, self.filled = self.resume, 0
        self.resume, self.end = None, self._last

    def skip_zeros(self, position: int) -> int:
        """Where to look for the next entry from ``position`` on, without reading a long run of zeros.

        No entry starts where its length field is zero. The window moves past what is skipped.
        """
        data = self._source.data_from(position)
        if self.end is not None:
            data = min(data, self.end)
        if data - position < _LONG_ZEROS:
            return position
        # A header may begin with zeros.
        target = data if data == self.end else data - HEADER_SIZE
        if target > self.stop:
            self.base, self.filled = target, 0
        return target

    def peek(self, position: int, size: int) -> bytes:
        """At most ``size`` bytes from ``position`` on, from the window or the file; fewer where there are none."""
        if self.base <= position and position + size <= self.stop:
            return bytes(self.data[position - self.base : position - self.base + size])
        if not self._is_file:
            return bytes(self.data[position - self.base : self.filled]) if self.base <= position < self.stop else b""
        try:
            return self._source.read(position, max(0, min(size, (self._last or 0) - position)))
        except KdumpError:
            if not self._source.can_skip_errors:
                raise
            return b""

    def checksum(self, first: int, last: int, checksum: Checksum) -> int:
        """The CRC of the bytes of a file from ``first`` to ``last`` (exclusive), a piece at a time."""
        crc = 0
        for position in range(first, last, self._chunk_size):
            crc = checksum(memoryview(self.peek(position, min(self._chunk_size, last - position))), crc)
        return crc

    def _read(self, until: int) -> None:
        """Append the bytes up to ``until``. Sets ``end`` where they end earlier."""
        position = self.stop
        try:
            self._append(position, until)
        except KdumpError as error:
            if error.code not in _UNREADABLE or not self._is_file or not self._source.can_skip_errors:
                raise
            self.end = max(position, min(until, position if error.position is None else error.position))
            try:
                self._append(position, self.end)
            except KdumpError:
                self.end = position
            self.resume = self._readable_from(self.end)
        else:
            if self.stop < until or self.stop == self._last:
                self.end = self.stop

    def _append(self, position: int, until: int) -> None:
        start = position - self.base
        with memoryview(self.data) as view:
            self.filled = start + self._source.read_into(view[start : start + until - position], position)

    def _readable_from(self, position: int) -> int:
        """First block after ``position`` of which at least the start can be read; the end where there is none."""
        last = self._last or 0
        position = position // _BLOCK * _BLOCK + _BLOCK
        while position < last and not self.peek(position, 1):
            position += _BLOCK
        return min(position, last)
