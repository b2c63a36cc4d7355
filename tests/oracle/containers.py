"""Compressed containers: the usual ones, and legal, odd, damaged or cut ones.

Source: docs/spec/formats.md#4-compression-payloads.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from typing import Final

import lz4.block
import lz4.frame
import snappy
import zstandard

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)


def xerial(data: bytes, *, block_size: int = 32 * 1024, versions: tuple[int, int] = (1, 1)) -> bytes:
    """The snappy framing of the Java client."""
    out = b"\x82SNAPPY\0" + struct.pack(">ii", *versions)
    for start in range(0, len(data), block_size):
        block = snappy.compress(data[start : start + block_size])
        out += struct.pack(">i", len(block)) + block
    return out


def lz4_frame(data: bytes, **options: int | bool) -> bytes:
    """An LZ4 frame as Kafka takes it: independent blocks, no content size."""
    return bytes(lz4.frame.compress(data, **{"block_linked": False, "store_size": False, **options}))


def compress(codec: int, data: bytes) -> bytes:
    """``data`` in the usual container of ``codec``."""
    return CONTAINERS[codec][0](data)


def _gzip_with_name(data: bytes) -> bytes:
    plain = gzip.compress(data)
    return plain[:3] + b"\x08" + plain[4:10] + b"name\0" + plain[10:]


def _zstd_stream(data: bytes) -> bytes:
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


def _zstd_skippable(data: bytes) -> bytes:
    return b"\x50\x2a\x4d\x18" + struct.pack("<I", 5) + b"12345" + _zstd_stream(data)


CONTAINERS: Final[dict[int, tuple[Callable[[bytes], bytes], ...]]] = {
    NONE: (bytes,),
    GZIP: (
        gzip.compress,
        lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:]),
        lambda data: gzip.compress(data) + bytes(20),
        lambda data: gzip.compress(data) + b"\x1f\x8b\x08",
        lambda data: gzip.compress(data) + b"\x1f\x8b\x08" + bytes(15),
        lambda data: gzip.compress(data) + b"x" * 5,
        lambda data: gzip.compress(data) + gzip.compress(b"")[:15],
        _gzip_with_name,
        zlib.compress,
        lambda data: gzip.compress(data)[:-8],
        lambda data: gzip.compress(data)[:-1],
        lambda data: gzip.compress(data)[:-4] + bytes(4),
        lambda data: gzip.compress(data)[:-8] + bytes(8),
        lambda data: gzip.compress(data) * 2,
        *(lambda data, size=size: gzip.compress(data) + (b"\x1f\x8b\x08" + bytes(40))[:size] for size in range(1, 30)),
        *(lambda data, size=size: gzip.compress(data) + gzip.compress(b"")[:size] for size in range(16, 20)),
        *(lambda data, size=size: gzip.compress(data) + bytes(size) for size in (1, 17, 18, 19, 27)),
    ),
    SNAPPY: (
        xerial,
        snappy.compress,
        lambda data: xerial(data, block_size=7),
        lambda data: xerial(data, versions=(0, 9)),
        lambda data: xerial(data[:5]) + xerial(data[5:]),
        lambda data: xerial(data) + b"\0",
        lambda data: xerial(data) + bytes(4),
        lambda data: xerial(data) + bytes(16),
        lambda data: xerial(data) + struct.pack(">i", -1) + b"abc",
        lambda data: xerial(data) + struct.pack(">i", 999) + b"abc",
        lambda data: xerial(data)[:-1],
        lambda data: xerial(data)[:12],
        lambda data: xerial(data)[:16],
        lambda data: snappy.compress(data) + b"xx",
        lambda data: snappy.compress(data)[:-1],
        lambda data: xerial(data) + b"\x82SNAPPY\0",
        lambda data: xerial(data) + xerial(b""),
        lambda data: b"",
    ),
    LZ4: (
        lz4_frame,
        lambda data: lz4_frame(data, content_checksum=True),
        lambda data: lz4_frame(data, block_checksum=True),
        lambda data: lz4_frame(data, store_size=True),
        lambda data: lz4_frame(data, store_size=True, content_checksum=True, block_checksum=True),
        lambda data: lz4_frame(data, block_size=lz4.frame.BLOCKSIZE_MAX4MB),
        lambda data: lz4_frame(data, block_linked=True),
        lambda data: lz4_frame(data) * 2,
        lambda data: lz4_frame(data) + b"rubbish",
        lambda data: lz4_frame(data)[:-4],
        lambda data: lz4_frame(data)[:-2],
        lambda data: lz4_frame(data)[:6] + b"\0" + lz4_frame(data)[7:],
        lambda data: lz4_frame(data, content_checksum=True)[:-1] + b"\xff",
        lambda data: lz4_frame(data, content_checksum=True)[:-3],
        lambda data: lz4_frame(data)[:7] + struct.pack("<I", 1 << 31 | len(data)) + data + bytes(4),
        lambda data: lz4_frame(data)[:7] + struct.pack("<I", 1 << 31) + bytes(4),
        lambda data: lz4_frame(data)[:7] + struct.pack("<I", 70_000) + lz4_frame(data)[11:],
        lambda data: lz4.block.compress(data, store_size=False),
        lambda data: b"",
        lambda data: b"\x04\x22\x4d\x18",
    ),
    ZSTD: (
        _zstd_stream,
        zstandard.ZstdCompressor().compress,
        zstandard.ZstdCompressor(write_checksum=True).compress,
        lambda data: _zstd_stream(data[:7]) + _zstd_stream(data[7:]),
        _zstd_skippable,
        lambda data: _zstd_stream(data) + b"rubbish",
        lambda data: _zstd_stream(data) + _zstd_skippable(b"")[:11],
        lambda data: _zstd_stream(data) + b"\x50\x2a\x4d\x18" + struct.pack("<I", 9) + b"x",
        lambda data: _zstd_stream(data)[:-1],
        lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data)[:-1] + b"\xff",
        lambda data: _zstd_stream(data) + _zstd_stream(b"more"),
        lambda data: _zstd_stream(data) + _zstd_stream(b"more")[:-1],
        lambda data: b"",
        lambda data: b"\x28\xb5\x2f\xfd",
        *(lambda data, size=size: _zstd_stream(data) + _zstd_stream(b"x" * 300)[:size] for size in range(1, 20)),
        *(lambda data, size=size: _zstd_stream(data) + _zstd_skippable(b"")[:size] for size in range(1, 22)),
        *(lambda data, tail=tail: _zstd_stream(data) + tail for tail in (b"\0", b"\x28\0", b"\x50\x2a\0", b"x" * 4)),
    ),
}
"""Containers of each codec: first the usual one, then others that are legal, odd, damaged or cut."""
