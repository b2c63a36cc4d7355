"""The codecs of Kafka's record payloads: read with bounded output, and written as Kafka writes them.

Source: docs/spec/formats.md#4-compression-payloads; docs/spec/down-conversion.md#2-the-bytes-of-the-payloads for the
bytes of the containers. Each container is read as Kafka's own reader reads it: it accepts what Kafka accepts, and
raises DamageError where Kafka stops. No decompressed payload grows over the caller's limit.
"""

from __future__ import annotations

import struct
from typing import Final

from kdump.codes import Codes, DamageError
from kdump.wire import gzipmember, lz4frame, zstdframe
from kdump.wire.checksum import Buffer
from kdump.wire.output import Output

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

DEFAULT_LIMIT: Final = 128 << 20
"""The largest size of one decompressed batch: 128 times the largest batch that a broker takes by default.

No command needs more than about seven times as much memory for a batch of any shape. So a run stays below 1 GiB, which
a broker's host, or the container that kdump shares with a broker, can spare.
"""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER_SIZE: Final = 16
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_SIZE: Final = 32 << 10


def decompress(codec: int, data: Buffer, *, magic: int, limit: int = DEFAULT_LIMIT) -> bytes | bytearray:
    """The records of one batch (or the message set of one legacy wrapper) out of their container.

    Args:
        codec: codec id, 1-4.
        data: the compressed bytes.
        magic: of the batch; the header checksum of lz4 frames of magic 0 is not checked.
        limit: most bytes that may come out.

    Raises:
        DamageError: CODEC, PAYLOAD or PAYLOAD_TOO_LARGE.
    """
    view = memoryview(data)
    match codec:
        case 1:
            return gzipmember.decompress(view, limit=limit)
        case 2:
            return _snappy(view, limit)
        case 3:
            return lz4frame.decompress(view, check_header=magic > 0, limit=limit)
        case 4:
            return zstdframe.decompress(view, limit=limit)
    raise DamageError(Codes.CODEC, f"unknown compression codec {codec}")


def compress(codec: int, data: Buffer, *, magic: int, level: int | None = None) -> bytes:
    """The records of one batch (or the message set of one legacy wrapper) in their container.

    gzip gives Kafka's bytes; the blocks of the others depend on the library, their framing does not.

    Args:
        codec: codec id, 1-4.
        data: the uncompressed bytes.
        magic: of the batch; lz4 frames of magic 0 have the old header checksum.
        level: within ``LEVELS``; None is Kafka's default. snappy has none.
    """
    match codec:
        case 1:
            return gzipmember.compress(data, level)
        case 2:
            return _snappy_stream(data)
        case 3:
            return lz4frame.compress(data, old_checksum=magic == 0, level=level)
        case 4:
            return zstdframe.compress(data, level)
    raise ValueError(f"codec {codec}")


LEVELS: Final = {GZIP: (1, 9), LZ4: (1, 17), ZSTD: (-131072, 22)}
"""Lowest and highest level of the codecs that have any, as Kafka's ``compression.<codec>.level`` takes them."""


def _snappy(view: memoryview, limit: int) -> bytes | bytearray:
    if not view:
        raise DamageError(Codes.PAYLOAD, "snappy: the payload is empty")
    if len(view) < _XERIAL_HEADER_SIZE or not _is_xerial(view):
        return _snappy_block(view, Output(limit))
    output = Output(limit)
    position = _XERIAL_HEADER_SIZE
    # Fewer than four bytes left end the stream, as in xerial's SnappyInputStream.
    while len(view) - position >= 4:
        size = int.from_bytes(view[position : position + 4], "big", signed=True)
        if bytes(view[position : position + 4]) == _XERIAL_MAGIC[:4]:
            if len(view) - position < _XERIAL_HEADER_SIZE:
                raise DamageError(Codes.PAYLOAD, "snappy: a header in the middle of the stream is cut short")
            if not _is_xerial(view[position:]):
                break
            position += _XERIAL_HEADER_SIZE
            continue
        position += 4
        if not 0 <= size <= len(view) - position:
            raise DamageError(Codes.PAYLOAD, f"snappy: a block of {size} bytes where {len(view) - position} are left")
        output.add(_snappy_block(view[position : position + size], output))
        position += size
    return output.content()


def _snappy_stream(data: Buffer) -> bytes:
    import snappy

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(snappy.compress(bytes(view[start : start + _XERIAL_BLOCK_SIZE])))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _is_xerial(view: memoryview) -> bool:
    return bytes(view[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC


def _snappy_block(block: memoryview, output: Output) -> bytes:
    """One raw block. The size that it declares must fit ``output``."""
    import snappy

    declared = shift = 0
    for byte in block[:5]:
        declared |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    output.need(declared)
    try:
        return bytes(snappy.uncompress(bytes(block)))
    # The package raises errors of whichever back end it found.
    except Exception as error:
        raise DamageError(Codes.PAYLOAD, f"snappy: the block cannot be decompressed {error}".rstrip()) from None
