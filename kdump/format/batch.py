"""The v2 batch header and the framing all formats share.

Source: docs/spec/formats.md#3-record-batches-v2 (KIP-98, KIP-534 for the delete horizon). One field table makes both
the ``struct`` (one header) and the numpy dtype (a column of headers).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kdump.wire.checksum import Buffer, crc32c

if TYPE_CHECKING:
    import numpy as np

# name, struct code, numpy code; big-endian, packed, in file order.
_FIELDS: Final = (
    ("base_offset", "q", "i8"),
    ("batch_length", "i", "i4"),
    ("partition_leader_epoch", "i", "i4"),
    ("magic", "b", "i1"),
    ("crc", "I", "u4"),
    ("attributes", "H", "u2"),
    ("last_offset_delta", "i", "i4"),
    ("base_timestamp", "q", "i8"),
    ("max_timestamp", "q", "i8"),
    ("producer_id", "q", "i8"),
    ("producer_epoch", "h", "i2"),
    ("base_sequence", "i", "i4"),
    ("record_count", "i", "i4"),
)

_CRC: Final = struct.Struct(">I")
_STRUCT: Final = struct.Struct(">" + "".join(code for _, code, _ in _FIELDS))

MAGIC: Final = 2
"""The magic byte of this format."""
LOG_OVERHEAD: Final = 12
"""Bytes of offset and length in front of every entry, of any magic."""
HEADER_SIZE_UP_TO_MAGIC: Final = 17
"""A remainder of this many bytes or fewer is never parsed as an entry."""
LENGTH_OFFSET: Final = 8
LEADER_EPOCH_OFFSET: Final = 12
MAGIC_OFFSET: Final = 16
CRC_START: Final = 21
"""First byte under a v2 batch's CRC-32C; everything before it can change without breaking the CRC."""
ATTRIBUTES_LOW_BYTE: Final = 22
"""The attribute bits that have a meaning; the byte before it is unused."""
HEADER_SIZE: Final = _STRUCT.size
"""61 bytes; also the smallest valid v2 batch."""
MIN_ENTRY_LENGTH: Final = 14
"""Smallest length field that any reader accepts (a v0 message without key and value)."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

CODEC_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Codec names by id, as Kafka's ``compression.type`` spells them; ids 5-7 are invalid."""
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
"""Names of the timestamp types by their attribute bit, as Kafka's ``TimestampType`` prints them."""
NO_TIMESTAMP_TYPE: Final = "NoTimestampType"
"""The timestamp type of messages of magic 0."""

NO_SEQUENCE: Final = -1
MAX_INT32: Final = 2**31 - 1
_LARGEST_MAGIC: Final = 127


class BatchHeader(NamedTuple):
    """The 61 bytes in front of the records, as stored."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch in the file."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        """``baseOffset`` + ``lastOffsetDelta``, with Java's 64-bit wrap. Compaction keeps it."""
        return wrap_int64(self.base_offset + self.last_offset_delta)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last offset, -1 for a producer without idempotence."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> int:
        """Codec id, 0-7."""
        return self.attributes & CODEC_MASK

    @property
    def codec_name(self) -> str:
        """The codec as rows have it."""
        return codec_name(self.codec)

    @property
    def is_log_append_time(self) -> bool:
        """The timestamp of every record is max_timestamp."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def timestamp_type(self) -> str:
        """Whose time the records have, one of TIMESTAMP_TYPES."""
        return TIMESTAMP_TYPES[self.is_log_append_time]

    @property
    def is_transactional(self) -> bool:
        """Written inside a transaction (markers too)."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """The records are Kafka's own, such as markers."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """base_timestamp where the cleaner put the delete horizon there (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def codec_name(codec: int, unknown: str = "unknown({})") -> str:
    """The name of a codec id, ``unknown`` with the id for those that Kafka does not have."""
    return CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else unknown.format(codec)


def parse_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """Read the header at ``position``; ``struct.error`` when fewer than 61 bytes are left."""
    # BatchHeader._make without its Python frame: this runs once for each batch.
    return tuple.__new__(BatchHeader, _STRUCT.unpack_from(buffer, position))


def is_read_as_batch(magic: int) -> bool:
    """Whether readers take an entry with this magic byte (0 to 255) for a v2 batch.

    They take 2 to 127 for 2. A larger byte is a negative number, which they take for an old message.
    """
    return MAGIC <= magic <= _LARGEST_MAGIC


def batch_crc(data: memoryview, start: int = 0, end: int | None = None) -> int:
    """The CRC-32C that the v2 batch ``data[start:end]`` should have."""
    return crc32c(data[start + CRC_START : end])


def write_batch(header: BatchHeader, body: Buffer) -> bytes:
    """A whole batch: ``header`` with the length and the CRC that go with ``body``, the (compressed) records."""
    packed = bytearray(_STRUCT.pack(*header._replace(batch_length=HEADER_SIZE - LOG_OVERHEAD + len(body), crc=0)))
    crc = crc32c(body, batch_crc(memoryview(packed)))
    _CRC.pack_into(packed, MAGIC_OFFSET + 1, crc)
    return b"".join((packed, body))


def header_dtype() -> np.dtype[np.void]:
    """The 61 bytes of a header as a packed big-endian numpy dtype with the field names of BatchHeader."""
    import numpy as np

    return np.dtype([(name, ">" + code) for name, _, code in _FIELDS])


def increment_sequence(sequence: int, increment: int) -> int:
    """The sequence so many records after ``sequence``: after 2^31-1 comes 0 (DefaultRecordBatch.incrementSequence).

    A negative increment (a damaged delta) overflows as it does in Java.
    """
    if sequence > wrap_int32(MAX_INT32 - increment):
        return wrap_int32(increment - (MAX_INT32 - sequence) - 1)
    return wrap_int32(sequence + increment)


def decrement_sequence(sequence: int, decrement: int) -> int:
    """The sequence so many records before ``sequence`` (DefaultRecordBatch.decrementSequence).

    A negative decrement overflows as it does in Java.
    """
    if sequence < decrement:
        return wrap_int32(MAX_INT32 - (decrement - sequence) + 1)
    return wrap_int32(sequence - decrement)


def wrap_int32(value: int) -> int:
    """Two's complement 32-bit, as Java's int arithmetic."""
    return (value + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000


def wrap_int64(value: int) -> int:
    """Two's complement 64-bit, as Java's long arithmetic."""
    return (value + (1 << 63) & (1 << 64) - 1) - (1 << 63)
