"""Logs of one entry that becomes much: ``python -m tests.bench.hostile SHAPE CODEC BYTES FILE`` writes one.

They are made in a process of their own, as what the parent of a measured run holds counts as the run's memory (see
``measure``).
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS: Final = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD, "zstd-sized": ZSTD}
"""By name; ``zstd-sized`` is a frame that declares its content size."""
_NOW: Final = 1_700_000_000_000


def varint(value: int) -> bytes:
    """``value`` as a zig-zag varint."""
    raw = value << 1 ^ value >> 63
    made = bytearray()
    while raw >= 0x80:
        made.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes((*made, raw))


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    delta: int, key: bytes | None = None, value: bytes | None = None, headers: int = 0, pair: bytes = b""
) -> bytes:
    """A record of magic 2 with ``headers`` times the encoded header ``pair``."""
    fields = b"".join((b"\0\0", varint(delta), _sized(key), _sized(value), varint(headers), pair * headers))
    return varint(len(fields)) + fields


def _rising(size: int, fields: Callable[[int], bytes]) -> tuple[bytes, int]:
    """Records whose offsets rise, up to ``size`` bytes."""
    body = bytearray()
    count = 0
    while len(body) < size:
        body += fields(count)
        count += 1
    return bytes(body), count


def _headers(count: int, pair: bytes) -> tuple[bytes, int]:
    return record(0, b"k", b"v", count, pair), 1


_PAIR: Final = _sized(b"") + _sized(None)
_NAMED_PAIR: Final = _sized(b"name") + _sized(b"value")
_MALFORMED_PAIR: Final = _sized(b"\xff") + _sized(b"\xff")

BODIES: Final[dict[str, Callable[[int], tuple[bytes, int]]]] = {
    "zeros": lambda size: (record(0, None, bytes(size)), 1),
    "text": lambda size: (record(0, b"key", b'{"name": "value", "number": 12}\n' * (size // 32)), 1),
    "quotes": lambda size: (record(0, b"key", b'"' * size), 1),
    "malformed": lambda size: (record(0, b"key", b"\xff" * size), 1),
    "key": lambda size: (record(0, bytes(range(256)) * (size // 256), None), 1),
    "headers": lambda size: _headers(size // len(_PAIR), _PAIR),
    "named-headers": lambda size: _headers(size // len(_NAMED_PAIR), _NAMED_PAIR),
    "malformed-headers": lambda size: _headers(size // len(_MALFORMED_PAIR), _MALFORMED_PAIR),
    "million-headers": lambda size: _headers(1_000_000, _NAMED_PAIR),
    "million-records": lambda size: _rising_count(1_000_000, lambda delta: record(delta, b"key", b"value")),
    "tiny": lambda size: (record(0) * (size // 7), size // 7),
    "rising": lambda size: _rising(size, record),
    "with-headers": lambda size: _rising(size, lambda delta: record(delta, b"k", b"v", 20, _NAMED_PAIR)),
    "big-keys": lambda size: _rising(size, lambda delta: record(delta, b"k" * (1 << 20), None)),
}
"""Records of about so many bytes, and how many they are."""


def _rising_count(count: int, fields: Callable[[int], bytes]) -> tuple[bytes, int]:
    return b"".join(map(fields, range(count))), count


def message(offset: int, value: bytes | None, attributes: int = 0) -> bytes:
    """A message of magic 1 without a key."""
    covered = struct.pack(">bBqi", 1, attributes, _NOW, -1)
    covered += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(covered), zlib.crc32(covered)) + covered


def batch(body: bytes, count: int, codec: int) -> bytes:
    """A batch of magic 2 with these (compressed) records."""
    from crc32c import crc32c

    tail = struct.pack(">HiqqqhiI", codec, count - 1, _NOW, _NOW, -1, -1, -1, count) + body
    return struct.pack(">qiibI", 0, 9 + len(tail), 0, 2, crc32c(tail)) + tail


def wrapped(count: int, codec: str) -> bytes:
    """``count`` messages of magic 1; with a codec in one wrapper."""
    inner = b"".join(message(offset, None) for offset in range(count))
    return inner if codec == "none" else message(count - 1, compressed(codec, inner), CODECS[codec])


def nested(count: int, codec: str) -> bytes:
    """A wrapper in a wrapper, which Kafka does not read."""
    return message(0, compressed(codec, wrapped(count, codec)), CODECS[codec])


def compressed(codec: str, data: bytes) -> bytes:
    """``data`` in the container of a codec of ``CODECS``."""
    if codec == "zstd-sized":
        import zstandard

        return zstandard.ZstdCompressor().compress(data)
    from kdump.wire.compression import compress

    return data if codec == "none" else compress(CODECS[codec], data, magic=2)


def later(entry: bytes) -> bytes:
    """The entry with other timestamps, so that a copy differs in each of its records."""
    from crc32c import crc32c

    if entry[16] == 2:
        entry = entry[:27] + struct.pack(">qq", _NOW + 1, _NOW + 1) + entry[43:]
        return entry[:17] + struct.pack(">I", crc32c(entry[21:])) + entry[21:]
    entry = entry[:18] + struct.pack(">q", _NOW + 1) + entry[26:]
    return entry[:12] + struct.pack(">I", zlib.crc32(entry[16:])) + entry[16:]


def write(shape: str, codec: str, size: int, path: Path) -> None:
    """A log of one entry of ``shape``, and in the directory ``copy`` beside it a copy that differs."""
    if shape == "messages":
        data = wrapped(size // 34, codec)
    elif shape == "million-messages":
        data = wrapped(1_000_000, codec)
    elif shape == "nested":
        data = nested(size // 34, codec)
    else:
        body, count = BODIES[shape](size)
        data = batch(compressed(codec, body), count, CODECS[codec])
    copy = path.parent / "copy" / path.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    copy.write_bytes(data if codec == "none" and shape in LEGACY else later(data))


LEGACY: Final = ("messages", "million-messages", "nested")
SHAPES: Final = (*BODIES, *LEGACY)

if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
