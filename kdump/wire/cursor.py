"""A bounds-checked position in a buffer, for formats that are read field by field."""

from __future__ import annotations

import struct
from typing import Final

from kdump.codes import Codes, DamageError
from kdump.wire.checksum import Buffer
from kdump.wire.varint import read_unsigned_varint

_INTEGERS: Final = {
    size: (struct.Struct(">" + signed), struct.Struct(">" + unsigned))
    for size, signed, unsigned in ((1, "b", "B"), (2, "h", "H"), (4, "i", "I"), (8, "q", "Q"))
}
_FLOAT64: Final = struct.Struct(">d")


class Cursor:
    """Reads big-endian fields off ``buffer[position:end]``; every read past the end is a DamageError."""

    def __init__(self, buffer: Buffer, position: int = 0, end: int | None = None, code: Codes = Codes.RECORD) -> None:
        self.buffer = buffer
        self.position = position
        self.end = len(buffer) if end is None else end
        self.code = code

    @property
    def remaining(self) -> int:
        """Bytes left."""
        return self.end - self.position

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        start = self._advance(size)
        return bytes(self.buffer[start : self.position])

    def view(self, size: int) -> memoryview:
        """The next ``size`` bytes, which are not copied."""
        start = self._advance(size)
        return memoryview(self.buffer)[start : self.position]

    def integer(self, size: int, *, signed: bool = True) -> int:
        """The next 1, 2, 4 or 8 bytes as an integer."""
        reader = _INTEGERS[size][0 if signed else 1]
        value: int = reader.unpack_from(self.buffer, self._advance(size))[0]
        return value

    def float64(self) -> float:
        """The next 8 bytes as an IEEE 754 double."""
        value: float = _FLOAT64.unpack_from(self.buffer, self._advance(8))[0]
        return value

    def unsigned_varint(self) -> int:
        """The next variable-length integer without zig-zag, as the int32 it is in Java: 2^31 and above is negative."""
        value, self.position = read_unsigned_varint(self.buffer, self.position, self.end)
        return value - (value >> 31 << 32)

    def _advance(self, size: int) -> int:
        if not 0 <= size <= self.remaining:
            raise DamageError(self.code, f"{size} bytes asked for where {self.remaining} are left")
        start = self.position
        self.position += size
        return start
