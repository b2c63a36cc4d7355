"""Which single changed bit or byte explains a wrong CRC.

CRCs are linear: the stored and the computed checksum differ by the register that the changed bits alone would leave.
Running that register backwards over zero bytes gives, at each byte, the change that this byte would need. A table holds
the registers that a change within the next ``_STRIDE`` bytes leaves, so that the register can be run backwards by that
many bytes at a time.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

CRC32C_POLYNOMIAL: Final = 0x82F63B78
CRC32_POLYNOMIAL: Final = 0xEDB88320
"""Both reflected, as docs/spec/formats.md#2-messages-v0-and-v1 and
docs/spec/formats.md#3-record-batches-v2 give them."""

LONGEST_BITS: Final = 1 << 23
"""Up to this many bytes a flipped bit is looked for: about 50 ms."""
LONGEST_BYTES: Final = 1 << 16
"""Up to this many bytes a changed byte is looked for. In more bytes a match is probably chance."""
_LARGEST: Final = 1 << 28
"""Up to this many bytes ``flipped_bit`` searches."""
_STRIDE: Final = 64


class ByteFlip(NamedTuple):
    """A change of one byte: ``mask`` must be XORed to the byte at index ``place`` under the CRC.

    With place None it is the stored CRC that is wrong.
    """

    place: int | None
    mask: int


def single_change(
    stored: int, computed: int, size: int, polynomial: int, *, longest: int = LONGEST_BITS
) -> ByteFlip | None:
    """The one flipped bit, else the one changed byte, that turns ``computed`` into ``stored``.

    Args:
        stored: the CRC in the file.
        computed: the CRC of the bytes.
        size: how many bytes the CRC covers.
        polynomial: of the CRC, reflected.
        longest: bytes up to which it is looked for.
    """
    difference = stored ^ computed
    if difference == 0 or size > longest:
        return None
    if difference.bit_count() == 1:
        return ByteFlip(None, difference)
    patterns, (back0, back1, back2, back3) = _strides(polynomial)
    found: list[ByteFlip] = []
    register = difference
    for passed in range(0, size, _STRIDE):
        for distance, mask in patterns.get(register, ()):
            index = size - 1 - passed - distance
            if index < 0:
                continue
            # Two flips of one bit each never leave the same register in less than 2^31 bits.
            if mask.bit_count() == 1:
                return ByteFlip(index, mask)
            found.append(ByteFlip(index, mask))
        register = (
            back0[register & 0xFF] ^ back1[register >> 8 & 0xFF] ^ back2[register >> 16 & 0xFF] ^ back3[register >> 24]
        )
    return found[0] if len(found) == 1 and size <= LONGEST_BYTES else None


def flipped_bit(stored: int, computed: int, size: int, polynomial: int) -> ByteFlip | None:
    """The one flipped bit that turns ``computed`` into ``stored``, searched in larger ranges too.

    It may take seconds, which a batch is worth.
    """
    change = single_change(stored, computed, size, polynomial, longest=_LARGEST)
    return change if change is not None and change.mask.bit_count() == 1 else None


@cache
def _strides(polynomial: int) -> tuple[dict[int, list[tuple[int, int]]], list[list[int]]]:
    """Two tables to run a register backwards by a stride of zero bytes.

    The first has by register (number of zero bytes after the changed byte, mask) of the change within a stride that
    leaves that register. The second has for each byte of a register, lowest first, what it contributes to the register
    one stride earlier.
    """
    table = []
    for byte in range(256):
        register = byte
        for _ in range(8):
            register = register >> 1 ^ (polynomial if register & 1 else 0)
        table.append(register)
    # The number of a table entry by its top byte.
    undo = [0] * 256
    for byte, register in enumerate(table):
        undo[register >> 24] = byte
    patterns: dict[int, list[tuple[int, int]]] = {}
    registers = list(enumerate(table))[1:]
    for distance in range(_STRIDE):
        for mask, register in registers:
            patterns.setdefault(register, []).append((distance, mask))
        registers = [(mask, register >> 8 ^ table[register & 0xFF]) for mask, register in registers]
    bits = []
    for bit in range(32):
        register = 1 << bit
        for _ in range(_STRIDE):
            last = undo[register >> 24]
            register = (register ^ table[last]) << 8 & 0xFFFF_FFFF | last
        bits.append(register)
    back = []
    for first in range(0, 32, 8):
        column = [0]
        for bit in bits[first : first + 8]:
            column += [value ^ bit for value in column]
        back.append(column)
    return patterns, back
