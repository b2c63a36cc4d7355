"""The few fields of an entry's header, of any magic, by which a walk finds its way."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kdump.format.batch import (
    CODEC_MASK,
    CODEC_NAMES,
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MAX_INT32,
    MIN_ENTRY_LENGTH,
    wrap_int64,
)
from kdump.format.legacy import HEAD
from kdump.wire.checksum import Checksum, crc32, crc32c

SMALLEST_ENTRY: Final = LOG_OVERHEAD + MIN_ENTRY_LENGTH
"""26 bytes: fewer cannot be an entry."""
LARGEST_ENTRY: Final = 1 << 24
"""16 MiB, 16 times the largest batch that a broker takes by default: beyond it a length is no evidence."""
OFFSET_LIMIT: Final = 1 << 56
"""No real partition has offsets near it."""

_BATCH: Final = struct.Struct(">IHi16xqhii")
"""A v2 header from the CRC on: crc, attributes, lastOffsetDelta, producer id, epoch and sequence, record count."""
_BATCH_START: Final = MAGIC_OFFSET + 1
_LEGACY_TIMESTAMP_SIZE: Final = 8


class Head(NamedTuple):
    """The fields of the header at a file position.

    ``offset`` is the first field (v2: the base offset), ``last_offset`` the offset of the last record. ``crc_start`` is
    the first byte under the CRC, relative to the entry. ``is_plausible``: a broker could have written these fields.
    """

    position: int
    length: int
    magic: int
    crc: int
    crc_start: int
    offset: int
    last_offset: int
    is_plausible: bool

    @property
    def end(self) -> int:
        """File position where the entry ends by its length field."""
        return self.position + LOG_OVERHEAD + self.length

    @property
    def header_size(self) -> int:
        """Bytes before the records: of a message those before its key and value, with their lengths."""
        return HEADER_SIZE if self.magic >= 2 else SMALLEST_ENTRY + _LEGACY_TIMESTAMP_SIZE * max(self.magic, 0)

    @property
    def checksum(self) -> Checksum:
        """The checksum of the entry's format."""
        return crc32c if self.magic >= 2 else crc32

    @property
    def is_telling(self) -> bool:
        """Plausible in so many fields (v2, no huge length) that it hardly is an accident."""
        return self.is_plausible and self.magic == 2 and self.length < LARGEST_ENTRY

    def is_after(self, offset: int | None) -> bool:
        """Its offset follows ``offset`` within the range of one segment. True where ``offset`` is not known."""
        return offset is None or 0 < self.offset - offset <= MAX_INT32


def read_head(data: bytes | bytearray | memoryview, index: int, size: int, position: int) -> Head | None:
    """The header at ``data[index]``, which is file position ``position``; None for fewer than 26 bytes.

    ``size``: the number of bytes from there on. A v2 header that is cut by them is not plausible.
    """
    if size < SMALLEST_ENTRY:
        return None
    offset, length, crc, magic, _ = HEAD.unpack_from(data, index)
    if magic < 2:
        smallest = MIN_ENTRY_LENGTH + _LEGACY_TIMESTAMP_SIZE * magic
        plausible = magic >= 0 and 0 <= offset < OFFSET_LIMIT and length >= smallest
        return Head(position, length, magic, crc, MAGIC_OFFSET, offset, offset, plausible)
    if size < HEADER_SIZE:
        return Head(position, length, magic, 0, CRC_START, offset, offset, False)
    crc, attributes, delta, producer_id, epoch, sequence, count = _BATCH.unpack_from(data, index + _BATCH_START)
    plausible = (
        magic == 2
        and 0 <= offset < OFFSET_LIMIT
        and length >= HEADER_SIZE - LOG_OVERHEAD
        and attributes & CODEC_MASK < len(CODEC_NAMES)
        and 0 <= count <= delta + 1
        and producer_id >= -1
        and epoch >= -1
        and sequence >= -1
    )
    return Head(position, length, magic, crc, CRC_START, offset, wrap_int64(offset + delta), plausible)


def is_valid_entry(data: memoryview, start: int, end: int) -> bool:
    """The entry ``data[start:end]``, whose length field says so, has a whole header and a right CRC."""
    head = read_head(data, start, end - start, start)
    if head is None or head.magic < 0 or (head.magic >= 2 and end - start < HEADER_SIZE):
        return False
    return head.crc == head.checksum(data[start + head.crc_start : end])
