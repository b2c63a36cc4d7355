"""Variable-length integers: zig-zag (records) and unsigned (flexible messages).

Source: docs/spec/formats.md#31-record, docs/spec/formats.md#10-messages-with-a-schema. Like Kafka's ByteUtils a varint
takes at most 5 bytes and a varlong at most 10; bits beyond 32 or 64 in the last byte fall away as they do in Java's int
and long arithmetic.
"""

from __future__ import annotations

from kdump.codes import Codes, DamageError
from kdump.wire.checksum import Buffer

_MAX_VARINT = 5
_MAX_VARLONG = 10
_TWO_BYTES = 0x80
"""The first byte of a varint of two bytes or more. Most have one, which is read at once."""


def read_varint(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """Zig-zag int32 at ``position``: (value, position after it). DamageError when it is cut or too long."""
    if position < end and (raw := buffer[position]) < _TWO_BYTES:
        return (raw >> 1) ^ -(raw & 1), position + 1
    raw, position = _read(buffer, position, end, _MAX_VARINT)
    raw &= 0xFFFF_FFFF
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """Zig-zag int64 at ``position``: (value, position after it). DamageError when it is cut or too long."""
    if position < end and (raw := buffer[position]) < _TWO_BYTES:
        return (raw >> 1) ^ -(raw & 1), position + 1
    raw, position = _read(buffer, position, end, _MAX_VARLONG)
    raw &= 0xFFFF_FFFF_FFFF_FFFF
    return (raw >> 1) ^ -(raw & 1), position


def read_unsigned_varint(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """uint32 without zig-zag, as flexible messages use it: (value, position after it)."""
    raw, position = _read(buffer, position, end, _MAX_VARINT)
    return raw & 0xFFFF_FFFF, position


def write_unsigned_varint(value: int) -> bytes:
    """``value``, a uint32, without zig-zag."""
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _read(buffer: Buffer, position: int, end: int, longest: int) -> tuple[int, int]:
    value = shift = 0
    last = min(end, position + longest)
    while position < last:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    what = "is cut short" if last == end else f"is longer than {longest} bytes"
    raise DamageError(Codes.RECORD, f"a variable-length integer {what}")
