"""Writers of what the formats' readers are tested with: batches, messages, wrappers, compressed payloads.

Written from docs/spec/formats.md#2-messages-v0-and-v1 (sections 2 to 4); the reader's code is not used, so that a
mistake in one is not repeated in the other. Every header field can be set to anything, sensible or not.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterable

import lz4.frame
import snappy
import zstandard
from crc32c import crc32c

from tests.harness.fast_reference import Row, encode

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = (GZIP, SNAPPY, LZ4, ZSTD)
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
ABORT, COMMIT = 0, 1

MAX_INT64 = 2**63 - 1

NOW = 1_700_000_000_000
"""Base timestamp (ms) of batches and messages that ask for no other."""

XERIAL_HEADER = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)


def v2_batch(rows: Iterable[Row] = (), *, body: bytes | None = None, codec: int = NONE, **header: int) -> bytes:
    """A whole batch of magic 2.

    Args:
        rows: its records; counted, and encoded unless ``body`` is given.
        body: the bytes after the header, instead of the encoded and compressed rows.
        codec: compresses the rows and goes into the attributes.
        header: header fields by the names of ``kdump.format.batch.BatchHeader`` that are to have other values than
            the rows call for; a length or CRC given here is written as it is.
    """
    rows = list(rows)
    if body is None:
        body = compress(codec, b"".join(map(encode, rows)))
    base_timestamp = header.get("base_timestamp", NOW)
    latest = max((row.timestamp_delta for row in rows), default=0)
    tail = struct.pack(
        ">HiqqqhiI",
        header.get("attributes", 0) | codec,
        header.get("last_offset_delta", max((row.offset_delta for row in rows), default=0)),
        base_timestamp,
        header.get("max_timestamp", max(-MAX_INT64 - 1, min(base_timestamp + latest, MAX_INT64))),
        header.get("producer_id", -1),
        header.get("producer_epoch", -1),
        header.get("base_sequence", -1),
        header.get("record_count", len(rows)) & 0xFFFF_FFFF,
    )
    head = struct.pack(
        ">qiibI",
        header.get("base_offset", 0),
        header.get("batch_length", 9 + len(tail) + len(body)),
        header.get("partition_leader_epoch", 0),
        header.get("magic", 2),
        header.get("crc", crc32c(tail + body)),
    )
    return head + tail + body


def plain_rows(count: int, size: int = 10) -> list[Row]:
    """``count`` records with consecutive offsets, a key each and a value of ``size`` bytes."""
    return [Row(number, number, b"key-%d" % number, bytes([65 + number % 26]) * size) for number in range(count)]


def marker(
    offset: int,
    producer_id: int,
    kind: int,
    *,
    epoch: int = 0,
    coordinator_epoch: int = 5,
    value: bytes | None = None,
    **header: int,
) -> bytes:
    """The end of a transaction. ``kind``: ABORT, COMMIT, or a type that is neither. ``value``: another one."""
    value = struct.pack(">hi", 0, coordinator_epoch) if value is None else value
    fields = {"attributes": CONTROL | TRANSACTIONAL, "producer_epoch": epoch} | header
    row = Row(0, 0, struct.pack(">hh", 0, kind), value)
    return v2_batch([row], base_offset=offset, producer_id=producer_id, **fields)


def producer_snapshot(
    *entries: tuple[int, ...], version: int = 1, count: int | None = None, crc: int | None = None
) -> bytes:
    """A .snapshot, of each producer the fields in their order (docs/spec/formats.md#7-producer-snapshots)."""
    covered = struct.pack(">i", len(entries) if count is None else count)
    covered += b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    return struct.pack(">hI", version, crc32c(covered) if crc is None else crc) + covered


def message(
    magic: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    timestamp: int = NOW,
    attributes: int = 0,
    crc: int | None = None,
) -> bytes:
    """One entry of magic 0 or 1; magic 0 has no place for the timestamp."""
    covered = struct.pack(">bB", magic, attributes)
    if magic > 0:
        covered += struct.pack(">q", timestamp)
    covered += sized(key) + sized(value)
    return struct.pack(">qiI", offset, 4 + len(covered), zlib.crc32(covered) if crc is None else crc) + covered


def wrapper(
    magic: int, offset: int, inner: Iterable[bytes], codec: int = GZIP, *, timestamp: int = NOW, attributes: int = 0
) -> bytes:
    """An entry whose value holds the entries ``inner``, compressed."""
    value = compress(codec, b"".join(inner), magic)
    return message(magic, offset, None, value, timestamp=timestamp, attributes=attributes | codec)


def sized(data: bytes | None) -> bytes:
    """Int32 size and bytes, -1 for null."""
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def entries(log: bytes) -> list[bytes]:
    """The whole entries at the start of ``log``."""
    found, position = [], 0
    while position + 12 <= len(log):
        end = position + 12 + struct.unpack_from(">i", log, position + 8)[0]
        if not position + 26 <= end <= len(log):
            break
        found.append(bytes(log[position:end]))
        position = end
    return found


def compress(codec: int, data: bytes, magic: int = 2) -> bytes:
    """``data`` in the container that Kafka's writers use for ``codec``."""
    if codec == NONE:
        return data
    if codec == GZIP:
        return gzip.compress(data, mtime=0)
    if codec == SNAPPY:
        return XERIAL_HEADER + xerial_blocks(data)
    if codec == LZ4:
        frame = lz4_frame(data)
        # Clients of magic 0 hashed the wrong bytes.
        return frame if magic > 0 else frame[:6] + bytes([frame[6] ^ 0x55]) + frame[7:]
    if codec == ZSTD:
        stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
        return stream.compress(data) + stream.flush()
    raise ValueError(f"codec {codec}")


def xerial_blocks(data: bytes, size: int = 32768) -> bytes:
    """``data`` as raw snappy blocks with their lengths, without the header in front."""
    blocks = [snappy.compress(data[start : start + size]) for start in range(0, len(data), size)]
    return b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def lz4_frame(data: bytes, **options: bool) -> bytes:
    """An LZ4 frame of independent 64 KiB blocks; ``options`` are those of ``lz4.frame.compress``."""
    settings = {"block_linked": False, "store_size": False, **options}
    frame: bytes = lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, **settings)
    return frame
