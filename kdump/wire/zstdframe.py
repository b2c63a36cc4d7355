"""zstd frames in a row, with an output bound that is known before anything is decompressed.

Source: RFC 8878 sections 3.1.1 and 3.1.2. Kafka writes frames without content size. Their block headers say how
much can come out at most, where each frame ends and whether it is cut, so that one exact call of the library per
frame suffices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kdump.codes import Codes, DamageError

_MAGIC: Final = 0xFD2FB528
_SKIPPABLE: Final = 0x184D2A50
_BLOCK_MAX: Final = 1 << 17
_RAW, _RLE, _COMPRESSED, _RESERVED = range(4)


def decompress(data: memoryview, *, limit: int, too_large: Callable[[int], DamageError]) -> bytes:
    """All frames in ``data``; DamageError when one is broken, cut, or when over ``limit`` bytes would come out."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    parts: list[bytes] = []
    room = limit
    position = 0
    while position < len(data):
        end, bound = _frame(data, position)
        if bound >= 0:
            try:
                # Trusting the smaller of bound and limit keeps a bomb from being allocated.
                part = decompressor.decompress(data[position:end], max_output_size=max(1, min(bound, room)))
            except zstandard.ZstdError as error:
                if bound > room:
                    raise too_large(limit) from None
                raise _damage(str(error)) from None
            if len(part) > room:
                raise too_large(limit)
            room -= len(part)
            parts.append(part)
        position = end
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _frame(data: memoryview, start: int) -> tuple[int, int]:
    """End of the frame at ``start`` and the most bytes it can give (-1: a skippable frame)."""
    magic = int.from_bytes(data[start : start + 4], "little")
    if magic & 0xFFFF_FFF0 == _SKIPPABLE and len(data) - start >= 8:
        end = start + 8 + int.from_bytes(data[start + 4 : start + 8], "little")
        if end > len(data):
            raise _damage("a skippable frame is cut short")
        return end, -1
    if magic != _MAGIC or len(data) - start < 5:
        raise _damage("no frame (wrong magic number)")
    descriptor = data[start + 4]
    single_segment = descriptor >> 5 & 1
    content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
    position = start + 5 + (not single_segment) + (0, 1, 2, 4)[descriptor & 3] + content_size_bytes
    bound = 0
    last = False
    while not last:
        if len(data) - position < 3:
            raise _damage("the frame is cut short")
        word = int.from_bytes(data[position : position + 3], "little")
        last, kind, size = bool(word & 1), word >> 1 & 3, word >> 3
        bound += _BLOCK_MAX if kind == _COMPRESSED else size
        position += 3 + (1 if kind == _RLE else size)
    position += 4 if descriptor & 4 else 0
    if position > len(data):
        raise _damage("the frame is cut short")
    return position, bound


def _damage(what: str) -> DamageError:
    return DamageError(Codes.PAYLOAD, f"zstd: {what}")
