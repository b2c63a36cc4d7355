"""Messages of magic 0 and 1, and the compressed wrappers around them.

Source: docs/spec/formats.md#2-messages-v0-and-v1 (KIP-31 for relative offsets, KIP-32 for timestamps).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from kdump.codes import Codes, DamageError
from kdump.format.batch import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MIN_ENTRY_LENGTH,
    NO_SEQUENCE,
    NO_TIMESTAMP_TYPE,
    TIMESTAMP_TYPES,
    codec_name,
    wrap_int64,
)
from kdump.format.record import Record, size_of
from kdump.wire import compression
from kdump.wire.checksum import crc32

if TYPE_CHECKING:
    import numpy as np

NO_TIMESTAMP: Final = -1

# name, struct code, numpy code; big-endian, packed, in file order.
_FIELDS: Final = (
    ("offset", "q", "i8"),
    ("length", "i", "i4"),
    ("crc", "I", "u4"),
    ("magic", "b", "i1"),
    ("attributes", "B", "u1"),
    ("timestamp", "q", "i8"),
)
UNCOVERED: Final = ("offset", "length", "crc")
"""The fields that the CRC does not cover."""
HEAD: Final = struct.Struct(">" + "".join(code for _, code, _ in _FIELDS[:-1]))
"""Offset, length, CRC, magic and attributes: the fields that both magics have."""
_ENTRY: Final = struct.Struct(">" + "".join(code for name, code, _ in _FIELDS if name in UNCOVERED))
_TIMESTAMP: Final = struct.Struct(">q")
_SIZE: Final = struct.Struct(">i")
_TIMESTAMP_POSITION: Final = 18
_KEY_POSITION_V0: Final = 18
_KEY_POSITION_V1: Final = 26


class Message(NamedTuple):
    """One entry of magic 0 or 1: a message, or a wrapper whose value holds compressed messages.

    ``data`` is the whole entry from its offset field on; ``timestamp`` is what the message itself stores
    (-1 for magic 0).
    """

    offset: int
    length: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    data: memoryview

    @property
    def size(self) -> int:
        """Bytes of the whole entry in the file."""
        return LOG_OVERHEAD + self.length

    @property
    def codec(self) -> int:
        """Codec id, 0-7; 4 (zstd) and above are invalid here."""
        return self.attributes & CODEC_MASK

    @property
    def codec_name(self) -> str:
        """The codec as rows have it."""
        return codec_name(self.codec)

    @property
    def is_log_append_time(self) -> bool:
        """The timestamp is the broker's; magic 0 has no timestamp."""
        return self.magic > 0 and bool(self.attributes & LOG_APPEND_TIME)

    @property
    def timestamp_type(self) -> str:
        """The name of the timestamp type."""
        return NO_TIMESTAMP_TYPE if self.magic == 0 else TIMESTAMP_TYPES[self.is_log_append_time]

    @property
    def is_valid(self) -> bool:
        """The CRC is right."""
        return message_crc(self.data) == self.crc

    @property
    def key_position(self) -> int:
        """Where the size of the key lies in ``data``. The size of the value follows the key."""
        return _KEY_POSITION_V0 if self.magic == 0 else _KEY_POSITION_V1

    def key_size(self) -> int:
        """The stored int32, negative for null. DamageError when it lies outside the message."""
        return self._size_at(self.key_position, "key")

    def value_size(self) -> int:
        """The stored int32, negative for null. DamageError when it lies outside the message."""
        return self._size_at(self.key_position + 4 + max(0, self.key_size()), "value")

    def key(self) -> bytes | None:
        """The key. DamageError when it does not fit the message."""
        return self._bytes_at(self.key_position, "key")

    def value(self) -> bytes | None:
        """The value. DamageError when it does not fit the message."""
        return self._bytes_at(self.key_position + 4 + max(0, self.key_size()), "value")

    def content_positions(self) -> tuple[tuple[int, bytes | None], ...]:
        """Key and value, each with its position in ``data``. DamageError when one does not fit the message."""
        key, value = self.key(), self.value()
        at = self.key_position + 4
        return (at, key), (at + len(key or b"") + 4, value)

    def _size_at(self, position: int, what: str) -> int:
        if position + 4 > len(self.data):
            raise ContentSizeError(what, None, 0)
        size: int = _SIZE.unpack_from(self.data, position)[0]
        return size

    def _bytes_at(self, position: int, what: str) -> bytes | None:
        size = self._size_at(position, what)
        if size < 0:
            return None
        start = position + 4
        if size > len(self.data) - start:
            raise ContentSizeError(what, size, len(self.data) - start)
        return bytes(self.data[start : start + size])


class ContentSizeError(DamageError):
    """A ``key`` or ``value`` of ``size`` bytes where its message has ``left``.

    ``size`` None: the size itself lies outside the message.
    """

    def __init__(self, what: str, size: int | None, left: int) -> None:
        outside = f"the {what} size lies outside the message"
        super().__init__(
            Codes.LEGACY_MESSAGE, outside if size is None else f"a {what} of {size} bytes where {left} are left"
        )
        self.what = what
        self.size = size
        self.left = left


class InnerLengthError(DamageError):
    """An inner message with a length below the least. Kafka throws another exception for it than for other damage."""


class LegacyRecord(NamedTuple):
    """A message with the absolute offset and the timestamp that consumers see, which its wrapper decides."""

    offset: int
    timestamp: int
    message: Message


def parse_message(data: memoryview) -> Message:
    """Read one whole entry of 26 bytes or more. The walk has checked its length field."""
    offset, length, crc, magic, attributes = HEAD.unpack_from(data)
    timestamp = NO_TIMESTAMP if magic == 0 else _TIMESTAMP.unpack_from(data, _TIMESTAMP_POSITION)[0]
    return Message(offset, length, crc, magic, attributes, timestamp, data)


def message_crc(data: memoryview, start: int = 0, end: int | None = None) -> int:
    """The CRC-32 that the entry ``data[start:end]`` should have: over everything after the CRC field."""
    return crc32(data[start + MAGIC_OFFSET : end])


def head_dtype(magic: int) -> np.dtype[np.void]:
    """The fields in front of the key's size as a packed big-endian numpy dtype, with the names of Message's fields.

    Magic 0 has no timestamp.
    """
    import numpy as np

    return np.dtype([(name, ">" + code) for name, _, code in (_FIELDS if magic > 0 else _FIELDS[:-1])])


def write_message(
    magic: int, *, offset: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None
) -> bytes:
    """One whole entry with its CRC; magic 0 has no place for the timestamp (ms)."""
    parts = [bytes((magic, attributes))]
    if magic > 0:
        parts.append(_TIMESTAMP.pack(timestamp))
    for content in (key, value):
        parts.append(_SIZE.pack(size_of(content)))
        parts.append(content or b"")
    covered = b"".join(parts)
    return b"".join((_ENTRY.pack(offset, 4 + len(covered), crc32(covered)), covered))


def read_records(entry: Message, limit: int = compression.DEFAULT_LIMIT) -> Iterator[LegacyRecord]:
    """The records of one entry, one or more: itself, or those inside its compressed value.

    As in Kafka a wrapper is read whole before its first record, and a cut last inner message is left out.

    Raises:
        DamageError: PAYLOAD, LEGACY_WRAPPER, LEGACY_MESSAGE. A compressed inner message does not raise here, so that
            the records before it are still given (see ``check_inner``).
    """
    if entry.codec == compression.NONE:
        yield LegacyRecord(entry.offset, entry.timestamp, entry)
        return
    yield from wrapped_records(entry, wrapped_content(entry, limit))


def unpacked_records(entry: Message, limit: int = compression.DEFAULT_LIMIT) -> Iterator[LegacyRecord]:
    """The records of one entry, also those of wrappers inside it, as Kafka 0.8 unpacks them.

    ``limit`` bounds all that is decompressed for them. Raises as ``read_records``.
    """
    open_wrappers = [iter((LegacyRecord(entry.offset, entry.timestamp, entry),))]
    while open_wrappers:
        record = next(open_wrappers[-1], None)
        if record is None:
            open_wrappers.pop()
        elif record.message.codec == compression.NONE:
            yield record
        else:
            content = wrapped_content(record.message, limit)
            limit -= len(content)
            open_wrappers.append(wrapped_records(record.message, content))


def wrapped_records(entry: Message, content: memoryview) -> Iterator[LegacyRecord]:
    """The records of the wrapper ``entry`` in its decompressed ``content``. Raises as ``read_records``."""
    last_offset = _last_inner_offset(content)
    if last_offset is None:
        raise _wrapper("the wrapper holds no message")
    base = 0
    if entry.magic == 1 and entry.offset != 0:
        # Some old librdkafka producers wrote offset 0 on a wrapper: the inner offsets are absolute then.
        if entry.offset < last_offset:
            raise _wrapper(f"the wrapper's offset {entry.offset} is below its last inner offset {last_offset}")
        base = wrap_int64(entry.offset - last_offset)
    for message in _inner_messages(content):
        yield LegacyRecord(
            wrap_int64(base + message.offset),
            entry.timestamp if entry.is_log_append_time and message.magic == 1 else message.timestamp,
            message,
        )


def wrapped_content(entry: Message, limit: int = compression.DEFAULT_LIMIT) -> memoryview:
    """The messages inside a wrapper, decompressed.

    Raises:
        DamageError: PAYLOAD, PAYLOAD_TOO_LARGE, LEGACY_WRAPPER, LEGACY_MESSAGE.
    """
    if entry.magic < 0:
        raise _wrapper(f"a wrapper with magic byte {entry.magic}")
    if entry.codec == compression.ZSTD:
        raise _wrapper("zstd is no codec of this format")
    value = entry.value()
    if value is None:
        raise _wrapper("the wrapper has no value")
    return memoryview(compression.decompress(entry.codec, value, magic=entry.magic, limit=limit))


def plain_records(entry: Message, limit: int = compression.DEFAULT_LIMIT) -> Iterator[Record]:
    """The records of an entry in the form of records of batches.

    Raises as ``read_records`` and ``check_inner``, and where a key or value does not fit its message.
    """
    for record in read_records(entry, limit):
        check_inner(record, entry)
        message = record.message
        yield Record(record.offset, record.timestamp, NO_SEQUENCE, message.key(), message.value(), ())


def check_inner(record: LegacyRecord, entry: Message) -> None:
    """DamageError when ``record`` came out of wrapper ``entry`` and is itself compressed."""
    if record.message is not entry and record.message.codec != compression.NONE:
        raise _wrapper("a message inside a wrapper is compressed itself")


def may_have_timestamp_type(message: Message, wrapper: Message) -> bool:
    """Whether a producer or a broker can have written this timestamp type into a message inside a wrapper.

    Producers always leave the bit of LogAppendTime 0 (Kafka's documentation, "Old Message Format"), and a broker that
    only overwrites the wrapper does not touch it. A broker that writes the messages anew (``MemoryRecordsBuilder`` of
    0.10 to 3.9, for another magic or codec, and the log cleaner) sets it in both, with the same timestamp.
    """
    if not message.is_log_append_time:
        return True
    return wrapper.is_log_append_time and message.timestamp == wrapper.timestamp


def _inner_bounds(data: memoryview) -> Iterator[tuple[int, int]]:
    position = 0
    while len(data) - position >= LOG_OVERHEAD:
        length: int = _SIZE.unpack_from(data, position + 8)[0]
        if length < MIN_ENTRY_LENGTH:
            raise InnerLengthError(Codes.LEGACY_WRAPPER, f"an inner message with length {length}")
        end = position + LOG_OVERHEAD + length
        if end > len(data):
            break
        yield position, end
        position = end


def _inner_messages(data: memoryview) -> Iterator[Message]:
    return (parse_message(data[start:end]) for start, end in _inner_bounds(data))


def _last_inner_offset(data: memoryview) -> int | None:
    last = None
    for start, _ in _inner_bounds(data):
        last = start
    return None if last is None else int.from_bytes(data[last : last + 8], "big", signed=True)


def _wrapper(what: str) -> DamageError:
    return DamageError(Codes.LEGACY_WRAPPER, what)
