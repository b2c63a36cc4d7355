"""What the bytes of a compressed payload's container are: headers, flags, blocks, checksums.

Source: RFC 1952 (gzip), RFC 8878 section 3.1 (zstd), the LZ4 frame format and the xerial framing as described in
docs/spec/formats.md#4-compression-payloads. Nothing is checked here; reading stops where pieces cannot be told apart.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kdump.explain.lines import StuckError
from kdump.explain.values import quoted
from kdump.wire.checksum import crc32
from kdump.wire.compression import DEFAULT_LIMIT, GZIP, LZ4, SNAPPY, ZSTD
from kdump.wire.lz4frame import xxhash32


class FieldBytes(NamedTuple):
    """``data[start:end]``, the bytes of one field or block.

    ``block`` numbers pieces that may be many, -1 for all others.
    """

    start: int
    end: int
    name: str
    value: str = ""
    note: str = ""
    block: int = -1


def container_pieces(codec: int, data: memoryview, magic: int) -> Iterator[FieldBytes]:
    """The pieces of the container in order and without gaps. Bytes after the last one belong to no piece.

    Args:
        codec: codec id, 1-4.
        data: the payload.
        magic: of the batch or message it belongs to.

    Raises:
        StuckError: after the last piece that could be read.
    """
    return _CONTAINERS[codec](data, magic)


class _FieldReader:
    """A position in the data; every piece begins where the previous one ended."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.position = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.position

    def piece(self, size: int, name: str, value: str = "", note: str = "", block: int = -1) -> FieldBytes:
        if size > self.left:
            raise StuckError(self.position, f"{name} needs {size} bytes where {self.left} are left")
        start = self.position
        self.position += size
        return FieldBytes(start, self.position, name, value, note, block)

    def number(self, size: int, order: str = "little") -> int:
        """The next ``size`` bytes as an integer; the position stays."""
        raw = bytes(self.data[self.position : self.position + size])
        return int.from_bytes(raw, "little" if order == "little" else "big")


_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_FLAGS: Final = {0x01: "text", 0x02: "header CRC", 0x04: "extra", 0x08: "name", 0x10: "comment"}
_INFLATE_STEP: Final = 1 << 20


def _gzip(data: memoryview, _magic: int) -> Iterator[FieldBytes]:
    reader = _FieldReader(data)
    member = 0
    while member == 0 or bytes(data[reader.position : reader.position + 2]) == _GZIP_MAGIC:
        if bytes(data[reader.position : reader.position + 2]) != _GZIP_MAGIC:
            raise StuckError(reader.position, "gzip begins with 1f 8b")
        prefix = "gzip" if member == 0 else f"gzip[{member}]"
        yield reader.piece(2, f"{prefix} magic", "1f 8b")
        method = reader.number(1)
        yield reader.piece(1, f"{prefix} method", str(method), "deflate" if method == 8 else "unknown")
        flags = reader.number(1)
        names = ", ".join(name for bit, name in _GZIP_FLAGS.items() if flags & bit)
        yield reader.piece(1, f"{prefix} flags", f"{flags:#04x}", names or "none")
        yield reader.piece(4, f"{prefix} mtime", str(reader.number(4)))
        yield reader.piece(1, f"{prefix} extra flags", str(reader.number(1)))
        yield reader.piece(1, f"{prefix} OS", str(reader.number(1)))
        yield from _gzip_options(reader, prefix, flags)
        size, checksum, length = _inflate(data, reader.position)
        yield reader.piece(size, f"{prefix} data", f"{size} bytes", f"deflate stream of {length} bytes")
        stored = reader.number(4)
        verdict = "right" if stored == checksum else f"wrong: {checksum:#010x} computed"
        yield reader.piece(4, f"{prefix} crc", f"{stored:#010x}", verdict)
        verdict = "right" if reader.number(4) == length & 0xFFFF_FFFF else f"wrong: {length} came out"
        yield reader.piece(4, f"{prefix} size", str(reader.number(4)), verdict)
        member += 1


def _gzip_options(reader: _FieldReader, prefix: str, flags: int) -> Iterator[FieldBytes]:
    if flags & 0x04:
        yield reader.piece(2 + reader.number(2), f"{prefix} extra")
    for bit in (0x08, 0x10):
        if flags & bit:
            zero = bytes(reader.data[reader.position :]).find(0)
            text = reader.data[reader.position : reader.position + max(0, zero)]
            size = zero + 1 if zero >= 0 else reader.left + 1
            yield reader.piece(size, f"{prefix} {_GZIP_FLAGS[bit]}", quoted(text))
    if flags & 0x02:
        yield reader.piece(2, f"{prefix} header CRC", f"{reader.number(2):#06x}")


def _inflate(data: memoryview, start: int) -> tuple[int, int, int]:
    """(bytes of the deflate stream, CRC-32 of its content, bytes of its content), in constant memory."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    rest: memoryview | bytes = data[start:]
    checksum = length = 0
    try:
        while not stream.eof:
            part = stream.decompress(rest, _INFLATE_STEP)
            rest = stream.unconsumed_tail
            if not part and not stream.eof:
                raise StuckError(start, "the deflate stream is cut short")
            checksum = crc32(part, checksum)
            length += len(part)
            if length > DEFAULT_LIMIT:
                raise StuckError(start, f"over {DEFAULT_LIMIT:,} bytes come out of the deflate stream")
    except zlib.error as error:
        raise StuckError(start, f"the deflate stream is broken ({error})") from None
    return len(data) - start - len(stream.unused_data), checksum, length


_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"


def _snappy(data: memoryview, _magic: int) -> Iterator[FieldBytes]:
    reader = _FieldReader(data)
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield reader.piece(reader.left, "snappy block", f"{reader.left} bytes", "raw, without xerial's framing")
        return
    block = 0
    # As in xerial's reader, fewer than four bytes at the end are ignored.
    while reader.left >= 4:
        if bytes(data[reader.position : reader.position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            yield reader.piece(8, "snappy magic", quoted(_XERIAL_MAGIC))
            yield reader.piece(4, "snappy version", str(reader.number(4, "big")), "not checked by readers")
            yield reader.piece(4, "snappy compatible", str(reader.number(4, "big")), "not checked by readers")
            continue
        size = reader.number(4, "big")
        if size > reader.left - 4:
            raise StuckError(reader.position, f"a snappy block of {size} bytes where {reader.left - 4} are left")
        yield reader.piece(4, f"block[{block}].size", str(size), block=block)
        if size:
            yield reader.piece(size, f"block[{block}].data", f"{size} bytes", "raw snappy", block)
        block += 1


_LZ4_MAGIC: Final = 0x184D2204
_LZ4_FLAGS: Final = {
    0x20: "independent blocks",
    0x10: "block checksums",
    0x08: "content size",
    0x04: "content checksum",
}
_LZ4_STORED: Final = 0x8000_0000


def _lz4(data: memoryview, magic: int) -> Iterator[FieldBytes]:
    reader = _FieldReader(data)
    if reader.number(4) != _LZ4_MAGIC:
        raise StuckError(0, "an LZ4 frame begins with 04 22 4d 18")
    yield reader.piece(4, "lz4 magic", f"{_LZ4_MAGIC:#010x}")
    flags = reader.number(1)
    names = ", ".join(name for bit, name in _LZ4_FLAGS.items() if flags & bit)
    yield reader.piece(1, "lz4 FLG", f"{flags:#04x}", f"version {flags >> 6}" + (f", {names}" if names else ""))
    descriptor = reader.number(1)
    largest = descriptor >> 4 & 7
    size_note = f"blocks up to {1 << 8 + 2 * largest} bytes" if largest >= 4 else "no such block size"
    yield reader.piece(1, "lz4 BD", f"{descriptor:#04x}", size_note)
    if flags & 0x08:
        yield reader.piece(8, "lz4 content size", str(reader.number(8)), "not checked by readers")
    computed = xxhash32(data[4 : reader.position]) >> 8 & 0xFF
    stored = reader.number(1)
    verdict = "right" if stored == computed else f"wrong: {computed:#04x} computed"
    yield reader.piece(1, "lz4 HC", f"{stored:#04x}", verdict if magic else f"{verdict}; nobody checks it in magic 0")
    block = 0
    while True:
        word = reader.number(4)
        size = word & ~_LZ4_STORED
        if size == 0 and reader.left >= 4:
            yield reader.piece(4, "lz4 end mark", "0")
            break
        if 4 + size > reader.left:
            raise StuckError(
                reader.position,
                "the frame has no end mark"
                if reader.left < 4
                else f"an LZ4 block of {size} bytes where {reader.left - 4} are left",
            )
        note = "stored as it is" if word & _LZ4_STORED else "compressed"
        yield reader.piece(4, f"block[{block}].size", str(size), note, block)
        yield reader.piece(size, f"block[{block}].data", f"{size} bytes", block=block)
        if flags & 0x10:
            yield reader.piece(4, f"block[{block}].xxh32", f"{reader.number(4):#010x}", block=block)
        block += 1
    if flags & 0x04:
        yield reader.piece(4, "lz4 content xxh32", f"{reader.number(4):#010x}", "not checked by readers")


_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_SKIPPABLE: Final = 0x184D2A50
_ZSTD_BLOCKS: Final = ("raw", "RLE", "compressed", "reserved")


def _zstd(data: memoryview, _magic: int) -> Iterator[FieldBytes]:
    reader = _FieldReader(data)
    block = 0
    while reader.left:
        word = reader.number(4)
        if word & 0xFFFF_FFF0 == _ZSTD_SKIPPABLE:
            yield reader.piece(4, "zstd magic", f"{word:#010x}", "skippable frame")
            size = reader.number(4)
            yield reader.piece(4, "zstd frame size", str(size))
            yield reader.piece(size, "zstd skipped", f"{size} bytes")
            continue
        if word != _ZSTD_MAGIC:
            raise StuckError(reader.position, "a zstd frame begins with 28 b5 2f fd")
        yield reader.piece(4, "zstd magic", f"{word:#010x}")
        descriptor = reader.number(1)
        yield from _zstd_header(reader, descriptor)
        is_last = False
        while not is_last:
            head = reader.number(3)
            is_last, kind, length = bool(head & 1), head >> 1 & 3, head >> 3
            note = _ZSTD_BLOCKS[kind] + (", the last" if is_last else "")
            yield reader.piece(3, f"block[{block}].header", f"{length} bytes", note, block)
            size = 1 if kind == 1 else length
            if size:
                yield reader.piece(size, f"block[{block}].data", f"{size} bytes", block=block)
            block += 1
        if descriptor & 0x04:
            yield reader.piece(4, "zstd xxh64", f"{reader.number(4):#010x}", "low 4 bytes, of the content")


def _zstd_header(reader: _FieldReader, descriptor: int) -> Iterator[FieldBytes]:
    is_single = bool(descriptor & 0x20)
    parts = ["single segment"] * is_single + ["content checksum"] * bool(descriptor & 0x04)
    yield reader.piece(1, "zstd descriptor", f"{descriptor:#04x}", ", ".join(parts))
    if not is_single:
        window = reader.number(1)
        base = 1 << 10 + (window >> 3)
        yield reader.piece(1, "zstd window", f"{window:#04x}", f"{base + (base >> 3) * (window & 7)} bytes")
    dictionary = (0, 1, 2, 4)[descriptor & 3]
    if dictionary:
        yield reader.piece(dictionary, "zstd dictionary", str(reader.number(dictionary)))
    size = (int(is_single), 2, 4, 8)[descriptor >> 6]
    if size:
        content = reader.number(size) + (256 if size == 2 else 0)
        yield reader.piece(size, "zstd content size", str(content))


_CONTAINERS: Final[dict[int, Callable[[memoryview, int], Iterator[FieldBytes]]]] = {
    GZIP: _gzip,
    SNAPPY: _snappy,
    LZ4: _lz4,
    ZSTD: _zstd,
}
