"""Segments byte by byte: what no client library writes, but a damaged disk or a foreign producer may.

Only what is needed to build and rebuild entries; field order and encodings are those of
docs/spec/formats.md#2-messages-v0-and-v1 (sections 2 to 4), written apart from ``kdump.format`` so that one cannot hide
the other's mistake.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import crc32c as crc32c_package

from tests.harness.messages import unsigned_varint
from tests.oracle.containers import NONE, compress

LOG_OVERHEAD: Final = 12
BATCH_HEADER_SIZE: Final = 61

_HEADER = struct.Struct(">qiibIhiqqqhii")
_LEGACY_HEAD = struct.Struct(">qiIbB")


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a v2 batch, field by field; length and CRC are computed when it is packed."""

    base_offset: int = 0
    partition_leader_epoch: int = 0
    magic: int = 2
    attributes: int = 0
    last_offset_delta: int = 0
    base_timestamp: int = 1_700_000_000_000
    max_timestamp: int = 1_700_000_000_000
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    record_count: int = 1


def pack_batch(header: Header, body: bytes) -> bytes:
    """A v2 batch around ``body`` (the records as they are stored), with the right length and CRC."""
    fields = (
        header.base_offset,
        BATCH_HEADER_SIZE - LOG_OVERHEAD + len(body),
        header.partition_leader_epoch,
        header.magic,
        0,
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    return with_right_crc(_HEADER.pack(*fields) + body)


def message(
    offset: int,
    magic: int,
    key: bytes | None,
    value: bytes | None,
    *,
    attributes: int = 0,
    timestamp: int = 1_700_000_000_000,
    key_size: int | None = None,
    value_size: int | None = None,
) -> bytes:
    """A message of magic 0 or 1 with the right length and CRC; the sizes may lie."""
    body = struct.pack(">q", timestamp) if magic else b""
    body += _sized(key, key_size) + _sized(value, value_size)
    return with_right_crc(_LEGACY_HEAD.pack(offset, 6 + len(body), 0, magic, attributes) + body)


def _sized(data: bytes | None, size: int | None) -> bytes:
    stored = size if size is not None else -1 if data is None else len(data)
    return struct.pack(">i", stored) + (data or b"")


def with_right_crc(entry: bytes) -> bytes:
    """``entry`` with the CRC that its bytes have; an entry too short for one is left alone."""
    if len(entry) < 26:
        return entry
    magic = struct.unpack_from(">b", entry, 16)[0]
    if magic < 2:
        return entry[:12] + struct.pack(">I", zlib.crc32(entry[16:])) + entry[16:]
    return entry[:17] + struct.pack(">I", crc32c_package.crc32c(entry[21:])) + entry[21:]


def with_length(entry: bytes) -> bytes:
    """``entry`` with the length field that its size asks for."""
    return entry[:8] + struct.pack(">i", len(entry) - LOG_OVERHEAD) + entry[12:]


def entries(data: bytes) -> Iterator[tuple[int, int]]:
    """(start, end) of the entries of a sound segment or of a decompressed wrapper."""
    position = 0
    while position + LOG_OVERHEAD <= len(data):
        end = position + LOG_OVERHEAD + struct.unpack_from(">i", data, position + 8)[0]
        if end > len(data) or end <= position + LOG_OVERHEAD:
            return
        yield position, end
        position = end


def varint(value: int, bits: int = 32) -> bytes:
    """Zig-zag varint."""
    return unsigned_varint((value << 1 ^ value >> bits - 1) & (1 << bits) - 1)


@dataclass(frozen=True, slots=True)
class Fields:
    """A v2 record; the sizes may lie (None: the truth)."""

    offset_delta: int = 0
    timestamp_delta: int = 0
    key: bytes | None = b"key"
    value: bytes | None = b"value"
    headers: tuple[tuple[bytes | None, bytes | None], ...] = ()
    attributes: int = 0
    size: int | None = None
    header_count: int | None = None
    tail: bytes = b""

    def pack(self) -> bytes:
        """The record as it is stored."""
        body = bytes([self.attributes]) + varint(self.timestamp_delta, 64) + varint(self.offset_delta)
        body += _varsized(self.key) + _varsized(self.value)
        body += varint(len(self.headers) if self.header_count is None else self.header_count)
        body += b"".join(_varsized(key) + _varsized(value) for key, value in self.headers) + self.tail
        return varint(len(body) if self.size is None else self.size) + body


def _varsized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def batch_of(records: Sequence[Fields], header: Header | None = None, codec: int = NONE) -> bytes:
    """A v2 batch of ``records``, compressed the plain way."""
    header = replace(header or Header(), record_count=len(records), last_offset_delta=max(0, len(records) - 1))
    header = replace(header, attributes=header.attributes | codec)
    return pack_batch(header, compress(codec, b"".join(record.pack() for record in records)))


def control_record(control_type: int, value: bytes | None, *, key_version: int = 0, key_tail: bytes = b"") -> Fields:
    """A control record."""
    return Fields(key=struct.pack(">hh", key_version, control_type) + key_tail, value=value)


def control_batch(*records: Fields) -> bytes:
    """A batch of control records."""
    return batch_of(records, Header(attributes=0x20))


def wrapper(offset: int, magic: int, codec: int, inner: bytes, *, attributes: int = 0, timestamp: int = 7) -> bytes:
    """A legacy wrapper around already encoded messages."""
    payload = compress(codec, inner)
    return message(offset, magic, None, payload, attributes=attributes | codec, timestamp=timestamp)
