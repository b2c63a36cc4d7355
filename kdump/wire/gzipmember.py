"""gzip as ``java.util.zip.GZIPInputStream`` reads it, with members in a row, and as ``GZIPOutputStream`` writes it.

Source: RFC 1952; the rule for what follows a member was measured on JDK 17. The zlib module decompresses. Which bytes
after a member still count depends on how far the JDK has read ahead.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from kdump.codes import Codes, DamageError
from kdump.wire.checksum import Buffer, crc32
from kdump.wire.output import Output

_MAGIC: Final = b"\x1f\x8b\x08"
_FIXED_SIZE: Final = 10
_HEADER_CRC, _EXTRA, _NAME, _COMMENT = 0x02, 0x04, 0x08, 0x10
_WRITTEN_HEADER: Final = bytes.fromhex("1f8b08000000000000ff")
_TRAILER: Final = struct.Struct("<II")
_READ_SIZE: Final = 8192
"""What Kafka lets the JDK read ahead of the inflater."""
_PIECE: Final = 1 << 24
_FED: Final = 1 << 14
"""Bytes given to zlib at a time: it copies those that follow a member, for each one of millions of members."""
_SMALLEST_MEMBER: Final = 18
"""Read-ahead bytes after a trailer up to which the JDK does not look for another member."""


def decompress(data: memoryview, *, limit: int) -> bytes | bytearray:
    """All members that the JDK would read; DamageError for a broken or cut one, or over ``limit`` bytes."""
    start = _header_end(data, 0)
    if start is None:
        raise _damage("not in gzip format")
    output = Output(limit)
    # How far the JDK has read: it takes the input in pieces, the first one after the header.
    read = start
    while True:
        part, end = _inflate(data, start, output)
        output.add(part)
        if len(data) - end < _TRAILER.size:
            raise _damage("the stream is cut short")
        if _TRAILER.unpack_from(data, end) != (crc32(part), len(part) & 0xFFFF_FFFF):
            raise _damage("the checksum or size after the data is wrong")
        while read < end:
            read = min(read + _READ_SIZE, len(data))
        after = end + _TRAILER.size
        if max(read, after) == len(data) and read - after <= _SMALLEST_MEMBER:
            break
        following = _header_end(data, after)
        if following is None:
            break
        start = following
        read = max(read, start)
    return output.content()


def compress(data: Buffer, level: int | None = None) -> bytes:
    """One member with the JDK's header; ``level`` 1-9, None is zlib's default."""
    stream = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, zlib.DEFLATED, -zlib.MAX_WBITS)
    trailer = _TRAILER.pack(crc32(data), len(data) & 0xFFFF_FFFF)
    return b"".join((_WRITTEN_HEADER, stream.compress(data), stream.flush(), trailer))


def _inflate(data: memoryview, start: int, output: Output) -> tuple[bytearray, int]:
    """The content of the deflate stream at ``start``, and where the stream ends.

    It is made in pieces: in one call the zlib module holds a large result twice.
    """
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    content = bytearray()
    fed = start
    rest: memoryview | bytes = b""
    try:
        while not stream.eof:
            if not rest:
                rest = data[fed : fed + _FED]
                fed += len(rest)
            part = stream.decompress(rest, min(_PIECE, output.room - len(content) + 1))
            if not part and not rest and not stream.eof:
                raise _damage("the stream is cut short")
            content += part
            output.need(len(content))
            rest = stream.unconsumed_tail
    except zlib.error as error:
        raise _damage(str(error)) from None
    return content, fed - len(stream.unused_data)


def _header_end(data: memoryview, start: int) -> int | None:
    """End of the member header at ``start``, None when there is none or it is cut."""
    if len(data) - start < _FIXED_SIZE or bytes(data[start : start + len(_MAGIC)]) != _MAGIC:
        return None
    flags = data[start + 3]
    end = start + _FIXED_SIZE
    if flags & _EXTRA:
        if len(data) - end < 2:
            return None
        end += 2 + int.from_bytes(data[end : end + 2], "little")
    for _ in range(bool(flags & _NAME) + bool(flags & _COMMENT)):
        zero = _find_zero(data, end)
        if zero is None:
            return None
        end = zero + 1
    if flags & _HEADER_CRC:
        if bytes(data[end : end + 2]) != (crc32(data[start:end]) & 0xFFFF).to_bytes(2, "little"):
            return None
        end += 2
    return end if end <= len(data) else None


def _find_zero(data: memoryview, start: int) -> int | None:
    """The position of the first zero byte from ``start`` on. The rest of the data is not copied to find it."""
    for position in range(start, len(data), _FED):
        found = bytes(data[position : position + _FED]).find(0)
        if found >= 0:
            return position + found
    return None


def _damage(what: str) -> DamageError:
    return DamageError(Codes.PAYLOAD, f"gzip: {what}")
