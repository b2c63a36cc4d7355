"""zstd frames in a row, with a limit on the output that is checked before anything is decompressed.

Source: RFC 8878 sections 3.1.1 and 3.1.2; what Kafka 4.3.1 makes of cut frames was measured. Kafka writes frames
without content size. Their block headers tell how much can come out at most, where each frame ends and whether it is
cut. So one call of the library for each frame is enough.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from kdump.codes import Codes, DamageError
from kdump.wire.checksum import Buffer
from kdump.wire.output import Output

if TYPE_CHECKING:
    import zstandard

_MAGIC: Final = 0xFD2FB528
_SKIPPABLE: Final = 0x184D2A50
_MAGIC_BYTES: Final = _MAGIC.to_bytes(4, "little")
_SKIPPABLE_BYTES: Final = _SKIPPABLE.to_bytes(4, "little")
_BLOCK_MAX: Final = 1 << 17
_READ_SIZE: Final = 131_075
"""ZSTD_DStreamInSize: what zstd-jni reads at a time."""
_DEFAULT_LEVEL: Final = 3
_RAW, _RLE, _COMPRESSED, _RESERVED = range(4)


def decompress(data: memoryview, *, limit: int) -> bytes | bytearray:
    """All frames in ``data``. DamageError when one is broken or cut, or when more than ``limit`` bytes would come out.

    As in zstd-jni's ZstdInputStream, a second or later frame that is cut ends the stream without an error, with as much
    of its content as is there, unless the reader needs more input inside it.
    """
    import zstandard

    output = Output(limit)
    decompressor = zstandard.ZstdDecompressor()
    position = 0
    try:
        while position < len(data):
            frame = _frame(data, position)
            if not frame.is_whole and (position == 0 or _asks_again(position, len(data))):
                raise _damage("the frame is cut short")
            # The library allocates what a whole frame declares, and of a cut one all that its blocks give.
            output.need(frame.declared if frame.is_whole else frame.bound)
            if frame.bound >= 0:
                output.add(_decode(decompressor, data[position : frame.end], frame, output.room))
            position = frame.end
    except zstandard.ZstdError as error:
        # The library was given the smaller of bound and limit, which keeps a bomb from being allocated.
        output.need(frame.bound)
        raise _damage(str(error)) from None
    return output.content()


class _Frame(NamedTuple):
    """Where a frame ends (the end of the data for a cut one) and the most bytes it can give (-1: skippable).

    ``declared``: its content size by its header, 0 where that does not say.
    """

    end: int
    bound: int
    is_whole: bool
    declared: int = 0


def compress(data: Buffer, level: int | None = None) -> bytes:
    """One frame without content size or checksum; ``level`` None is Kafka's default, 3."""
    return _compressor(_DEFAULT_LEVEL if level is None else level).compress(data)


def _compressor(level: int) -> zstandard.ZstdCompressor:
    """One compressor for each thread, of the level that it used last.

    Making one costs more than a small batch, threads must not share one, and those of high levels are large.
    """
    import zstandard

    thread = threading.get_ident()
    last, compressor = _COMPRESSORS.get(thread, (None, None))
    if compressor is None or last != level:
        compressor = zstandard.ZstdCompressor(level, write_content_size=False)
        _COMPRESSORS[thread] = level, compressor
    return compressor


_COMPRESSORS: Final[dict[int, tuple[int, zstandard.ZstdCompressor]]] = {}
"""Level and compressor by thread."""


def _decode(decompressor: zstandard.ZstdDecompressor, data: memoryview, frame: _Frame, room: int) -> bytes:
    if frame.is_whole:
        return decompressor.decompress(data, max_output_size=max(1, min(frame.bound, room)))
    return decompressor.decompressobj().decompress(data)


def _asks_again(start: int, end: int) -> bool:
    """Whether the reader begins a new piece of its input inside the cut frame, and finds the input ended."""
    return (end - 1) // _READ_SIZE * _READ_SIZE >= start


def _frame(data: memoryview, start: int) -> _Frame:
    """The frame at ``start``. DamageError when none begins there."""
    size = len(data)
    cut = _Frame(size, -1, is_whole=False)
    head = bytes(data[start : start + 4])
    magic = int.from_bytes(head, "little")
    if len(head) < 4:
        if _MAGIC_BYTES.startswith(head) or (head[0] & 0xF0 == 0x50 and _SKIPPABLE_BYTES[1:].startswith(head[1:])):
            return cut
        raise _damage("no frame (wrong magic number)")
    if magic & 0xFFFF_FFF0 == _SKIPPABLE:
        end = start + 8 + int.from_bytes(data[start + 4 : start + 8], "little")
        return cut if size - start < 8 or end > size else _Frame(end, -1, is_whole=True)
    if magic != _MAGIC:
        raise _damage("no frame (wrong magic number)")
    if size - start < 5:
        return cut
    descriptor = data[start + 4]
    single_segment = descriptor >> 5 & 1
    content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
    position = start + 5 + (not single_segment) + (0, 1, 2, 4)[descriptor & 3] + content_size_bytes
    declared = int.from_bytes(data[position - content_size_bytes : position], "little")
    bound = 0
    last = False
    while not last:
        if size - position < 3:
            return _Frame(size, bound, is_whole=False)
        word = int.from_bytes(data[position : position + 3], "little")
        last, kind, length = bool(word & 1), word >> 1 & 3, word >> 3
        bound += _BLOCK_MAX if kind == _COMPRESSED else length
        position += 3 + (1 if kind == _RLE else length)
    position += 4 if descriptor & 4 else 0
    if declared > bound:
        raise _damage(f"the frame declares {declared:,} bytes, its blocks give {bound:,} at most")
    return (
        _Frame(position, bound, is_whole=True, declared=declared)
        if position <= size
        else _Frame(size, bound, is_whole=False)
    )


def _damage(what: str) -> DamageError:
    return DamageError(Codes.PAYLOAD, f"zstd: {what}")
