"""The subset of the LZ4 frame format that Kafka reads and writes (Lz4BlockInputStream; KIP-57).

Source: docs/spec/formats.md#43-lz4. The lz4 package's own frame reader accepts linked blocks, dictionaries and frames
in a row, and refuses the header checksum of magic 0, so only its block decoder is used.
"""

from __future__ import annotations

from typing import Final

from kdump.codes import Codes, DamageError
from kdump.wire.checksum import Buffer
from kdump.wire.output import Output

_MAGIC: Final = b"\x04\x22\x4d\x18"
_BLOCK_SIZES: Final = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
_WRITTEN_HEADER: Final = _MAGIC + b"\x60\x40\x82"
_WRITTEN_MAGIC0_HEADER: Final = _MAGIC + b"\x60\x40\x1a"
_WRITTEN_BLOCK_SIZE: Final = 1 << 16
_END_MARK: Final = bytes(4)
_DEFAULT_LEVEL: Final = 9
"""Kafka's Lz4BlockOutputStream takes this level for the fast mode, although 8 and 10 are levels of the other mode."""
_STORED: Final = 0x8000_0000
_FLAG_INDEPENDENT: Final = 0x20
_FLAG_BLOCK_CHECKSUM: Final = 0x10
_FLAG_CONTENT_SIZE: Final = 0x08
_FLAG_CONTENT_CHECKSUM: Final = 0x04

_PRIMES: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_MASK: Final = 0xFFFF_FFFF


def decompress(data: memoryview, *, check_header: bool, limit: int) -> bytes | bytearray:
    """The content of the first frame; what follows its end mark is ignored, as Kafka does.

    Args:
        data: the frame.
        check_header: False for magic 0, whose writers hashed the wrong bytes.
        limit: most bytes that may come out. A content size that the frame declares is ignored, as by Kafka, and
            nothing is allocated by it.
    """
    import lz4.block

    position, flags, block_size = _header(data, check_header)
    output = Output(limit)
    while True:
        if len(data) - position < 4:
            raise _damage("the frame has no end mark")
        word = int.from_bytes(data[position : position + 4], "little")
        position += 4
        size = word & ~_STORED
        if size == 0:
            if flags & _FLAG_CONTENT_CHECKSUM and len(data) - position < 4:
                raise _damage("the content checksum is cut short")
            return output.content()
        if size > block_size:
            raise _damage(f"a block of {size} bytes in a frame with blocks of at most {block_size}")
        if size > len(data) - position:
            raise _damage(f"a block of {size} bytes where {len(data) - position} are left")
        block = data[position : position + size]
        position += size
        try:
            part = bytes(block) if word & _STORED else lz4.block.decompress(block, uncompressed_size=block_size)
        except lz4.block.LZ4BlockError as error:
            raise _damage(str(error)) from None
        if flags & _FLAG_BLOCK_CHECKSUM:
            if len(data) - position < 4:
                raise _damage("a block checksum is cut short")
            if int.from_bytes(data[position : position + 4], "little") != xxhash32(block):
                raise _damage("a block checksum is wrong")
            position += 4
        output.add(part)


def compress(data: Buffer, *, old_checksum: bool, level: int | None = None) -> bytes:
    """A frame as Kafka writes it: independent blocks of 64 KiB, stored where compressing gains nothing, no checksums.

    Args:
        data: the content.
        old_checksum: the header checksum of writers of magic 0, which took the frame's magic number in.
        level: 1-17 for the high compression mode; None and Kafka's default level for the fast one.
    """
    import lz4.block

    view = memoryview(data)
    is_fast = level in (None, _DEFAULT_LEVEL)
    mode = {"mode": "fast"} if is_fast else {"mode": "high_compression", "compression": level}
    parts = [_WRITTEN_MAGIC0_HEADER if old_checksum else _WRITTEN_HEADER]
    for start in range(0, len(view), _WRITTEN_BLOCK_SIZE):
        plain = view[start : start + _WRITTEN_BLOCK_SIZE]
        block: bytes = lz4.block.compress(plain, store_size=False, **mode)
        if len(block) < len(plain):
            parts += (len(block).to_bytes(4, "little"), block)
        else:
            parts += ((len(plain) | _STORED).to_bytes(4, "little"), bytes(plain))
    parts.append(_END_MARK)
    return b"".join(parts)


def _header(data: memoryview, check_header: bool) -> tuple[int, int, int]:
    """(position after the frame header, flags, size of the largest block)."""
    if bytes(data[:4]) != _MAGIC:
        raise _damage("no frame (wrong magic number)")
    if len(data) < 7:
        raise _damage("the frame header is cut short")
    flags, descriptor = data[4], data[5]
    if flags >> 6 != 1 or flags & 0x03:
        raise _damage(f"unsupported frame flags {flags:#04x}")
    if not flags & _FLAG_INDEPENDENT:
        raise _damage("the frame has linked blocks, which Kafka does not read")
    block_size = _BLOCK_SIZES.get(descriptor >> 4)
    if block_size is None or descriptor & 0x0F:
        raise _damage(f"unsupported block descriptor {descriptor:#04x}")
    end = 14 if flags & _FLAG_CONTENT_SIZE else 6
    if len(data) <= end:
        raise _damage("the frame header is cut short")
    if check_header and data[end] != xxhash32(data[4:end]) >> 8 & 0xFF:
        raise _damage("the frame header's checksum is wrong")
    return end + 1, flags, block_size


def _damage(what: str) -> DamageError:
    return DamageError(Codes.PAYLOAD, f"lz4: {what}")


def xxhash32(data: memoryview | bytes) -> int:
    """xxHash32 with seed 0, in pure Python.

    It reads frame headers, and the blocks of the few writers that checksum them.
    """
    p1, p2, p3, p4, p5 = _PRIMES
    size = len(data)
    position = 0
    if size >= 16:
        lanes = [p1 + p2 & _MASK, p2, 0, -p1 & _MASK]
        while position + 16 <= size:
            for lane in range(4):
                word = int.from_bytes(data[position : position + 4], "little")
                lanes[lane] = _rotate(lanes[lane] + word * p2 & _MASK, 13) * p1 & _MASK
                position += 4
        value = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
    else:
        value = p5
    value = value + size & _MASK
    while position + 4 <= size:
        value = value + int.from_bytes(data[position : position + 4], "little") * p3 & _MASK
        value = _rotate(value, 17) * p4 & _MASK
        position += 4
    while position < size:
        value = _rotate(value + data[position] * p5 & _MASK, 11) * p1 & _MASK
        position += 1
    value = (value ^ value >> 15) * p2 & _MASK
    value = (value ^ value >> 13) * p3 & _MASK
    return value ^ value >> 16


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
