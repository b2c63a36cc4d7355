"""Messages of Kafka 0.7, and the compressed wrappers around them.

Source: docs/spec/old-kafka.md#12-entry, docs/spec/old-kafka.md#14-compressed-sets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, Self

from kdump.codes import Codes, DamageError
from kdump.format.batch import NO_SEQUENCE, NO_TIMESTAMP_TYPE, wrap_int64
from kdump.format.legacy import NO_TIMESTAMP, LegacyRecord, Message
from kdump.format.record import Record
from kdump.wire import compression
from kdump.wire.checksum import crc32

LENGTH: Final = struct.Struct(">i")
MIN_LENGTH: Final = 5
"""The least that a length field may say."""
MAGIC_POSITION: Final = 4
_CODEC_MASK: Final = 3
_MAGICS: Final = (0, 1)
HEAD_SIZES: Final = (9, 10)
"""Bytes of an entry before its payload, by magic."""
_CODEC_NAMES: Final = ("none", "gzip", "snappy", "unknown")


class Message07(Message):
    """One entry of a 0.7 log: a message, or a wrapper whose payload holds compressed messages.

    ``data`` is the whole entry from its length field on. ``offset`` is the byte position of that field in the
    partition; of a message inside a wrapper it is that of the wrapper.
    """

    __slots__ = ()

    @property
    def size(self) -> int:
        """Bytes of the whole entry."""
        return LENGTH.size + self.length

    @property
    def next_offset(self) -> int:
        """The offset of the entry after this one; beyond 64 bits it wraps, as in Java."""
        return wrap_int64(self.offset + self.size)

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 unknown."""
        return self.attributes & _CODEC_MASK

    @property
    def codec_name(self) -> str:
        """The codec as rows have it."""
        return _CODEC_NAMES[self.codec]

    @property
    def is_log_append_time(self) -> bool:
        """There is no timestamp."""
        return False

    @property
    def timestamp_type(self) -> str:
        """No message of 0.7 has a timestamp."""
        return NO_TIMESTAMP_TYPE

    @property
    def payload(self) -> memoryview:
        """The payload as it is stored."""
        return self.data[HEAD_SIZES[self.magic] :]

    @property
    def is_valid(self) -> bool:
        """The CRC, which covers the payload only, is right."""
        return crc32(self.payload) == self.crc

    def key_size(self) -> int:
        """There are no keys."""
        return -1

    def value_size(self) -> int:
        """Bytes of the payload."""
        return len(self.payload)

    def key(self) -> bytes | None:
        """There are no keys."""
        return None

    def value(self) -> bytes | None:
        """The payload; it is never null."""
        return bytes(self.payload)

    def content_positions(self) -> tuple[tuple[int, bytes | None], ...]:
        """See Message."""
        return ((HEAD_SIZES[self.magic], self.value()),)


class Record07(LegacyRecord):
    """A message as a consumer of 0.7 gets it; ``next_offset`` is where the consumer goes on."""

    next_offset: int

    @classmethod
    def of(cls, message: Message07, next_offset: int) -> Self:
        """The record with that label."""
        record = cls(message.offset, NO_TIMESTAMP, message)
        record.next_offset = next_offset
        return record

    def plain(self) -> Record:
        """The record in the form of records of batches."""
        return Record(self.offset, NO_TIMESTAMP, NO_SEQUENCE, None, self.message.value(), ())

    def _replace(self, **values: Any) -> Self:
        changed = super()._replace(**values)
        changed.next_offset = self.next_offset
        return changed


def parse_message(data: memoryview, offset: int) -> Message07:
    """Read one whole entry, whose length field was checked by the walk.

    Args:
        data: the entry.
        offset: the byte position of the entry in the partition; beyond 64 bits it wraps.

    Raises:
        DamageError: MAGIC, or LEGACY_MESSAGE where the length leaves no place for the CRC.
    """
    length: int = LENGTH.unpack_from(data)[0]
    magic = data[MAGIC_POSITION] - (data[MAGIC_POSITION] >> 7 << 8)
    if magic not in _MAGICS:
        raise DamageError(Codes.MAGIC, f"Magic byte value of {magic} is unknown")
    payload = HEAD_SIZES[magic]
    if len(data) < payload:
        raise DamageError(Codes.LEGACY_MESSAGE, f"a message of magic {magic} with length {length} ends inside its CRC")
    attributes = data[MAGIC_POSITION + 1] if magic else 0
    crc = int.from_bytes(data[payload - 4 : payload], "big")
    return Message07(wrap_int64(offset), length, crc, magic, attributes, NO_TIMESTAMP, data)


def write_message(payload: bytes, *, magic: int = 1, attributes: int = 0) -> bytes:
    """One whole entry with its CRC."""
    head = bytes((magic, attributes)) if magic else bytes((magic,))
    return LENGTH.pack(len(head) + 4 + len(payload)) + head + crc32(payload).to_bytes(4, "big") + payload


def read_records(entry: Message07, limit: int = compression.DEFAULT_LIMIT) -> Iterator[Record07]:
    """The records of one entry as a consumer gets them: itself, or those inside it, to any depth.

    Each record of a wrapper but the last leads back to the wrapper, because there is no offset inside it.

    Raises:
        DamageError: CODEC, PAYLOAD, PAYLOAD_TOO_LARGE, LEGACY_WRAPPER, LEGACY_MESSAGE or MAGIC, after the records
            before the damage.
    """
    if entry.codec == compression.NONE:
        yield Record07.of(entry, entry.next_offset)
        return
    held = None
    try:
        for message in _leaves(entry, limit):
            if held is not None:
                yield Record07.of(held, entry.offset)
            held = message
    except DamageError:
        if held is not None:
            yield Record07.of(held, entry.offset)
        raise
    if held is not None:
        yield Record07.of(held, entry.next_offset)


def _leaves(entry: Message07, limit: int) -> Iterator[Message07]:
    """The messages inside a wrapper that are no wrappers; ``limit`` bounds all that is decompressed for them."""
    open_sets: list[Iterator[Message07]] = []
    message: Message07 | None = entry
    while message is not None or open_sets:
        if message is None:
            message = next(open_sets[-1], None)
            if message is None:
                open_sets.pop()
        elif message.codec == compression.NONE:
            yield message
            message = None
        else:
            content = decompressed(message, limit)
            limit -= len(content)
            open_sets.append(_inner_messages(content, entry.offset))
            message = None


def decompressed(message: Message07, limit: int = compression.DEFAULT_LIMIT) -> memoryview:
    """The message set inside a wrapper. DamageError: CODEC, PAYLOAD, PAYLOAD_TOO_LARGE."""
    if message.codec not in (compression.GZIP, compression.SNAPPY):
        raise DamageError(Codes.CODEC, f"{message.codec} is an unknown compression codec")
    return memoryview(compression.decompress(message.codec, message.payload, magic=0, limit=limit))


def _inner_messages(data: memoryview, offset: int) -> Iterator[Message07]:
    """The messages of a set; a cut last one is dropped, as ByteBufferMessageSet drops it."""
    position = 0
    while len(data) - position >= LENGTH.size:
        length: int = LENGTH.unpack_from(data, position)[0]
        end = position + LENGTH.size + length
        if length < MIN_LENGTH:
            raise DamageError(Codes.LEGACY_WRAPPER, f"an inner message with length {length}")
        if end > len(data):
            if position == 0:
                raise DamageError(
                    Codes.LEGACY_WRAPPER, f"an inner message of {length} bytes where {len(data) - 4} are left"
                )
            return
        yield parse_message(data[position:end], offset)
        position = end
