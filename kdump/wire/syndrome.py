"""Which single changed bit or byte explains a wrong CRC.

CRCs are linear: the stored and the computed checksum differ by the CRC register that the error pattern alone leaves
behind. Running that register backwards over zero bytes gives, at each byte, the pattern that this byte would need.
In short ranges that is done byte by byte. In long ones only a flipped bit is looked for, in strides: the registers that
a bit within one stride leaves are known, and the register is run back a stride at a time, which is one linear map.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

CRC32C_POLYNOMIAL: Final = 0x82F63B78
CRC32_POLYNOMIAL: Final = 0xEDB88320
"""Both reflected, as shared/spec/formats.md gives them."""

LONGEST_BITS: Final = 1 << 28
"""Bytes up to which a flipped bit is looked for: in more, two bits might leave the same register behind."""
LONGEST_BYTES: Final = 1 << 16
"""Bytes up to which a changed byte is looked for; in more, one that fits is likely to be chance."""
_STRIDE: Final = 2048


class Change(NamedTuple):
    """``mask`` is to be XORed to the byte at index ``place`` under the CRC; place None: to the stored CRC itself."""

    place: int | None
    mask: int


def single_change(stored: int, computed: int, size: int, polynomial: int) -> Change | None:
    """The one flipped bit, else the one changed byte, that turns ``computed`` into ``stored``.

    Args:
        stored: the CRC in the file.
        computed: the CRC of the bytes.
        size: how many bytes the CRC covers.
        polynomial: of the CRC, reflected.
    """
    difference = stored ^ computed
    if difference == 0 or size > LONGEST_BITS:
        return None
    if difference.bit_count() == 1:
        return Change(None, difference)
    if size > LONGEST_BYTES:
        return flipped_bit(stored, computed, size, polynomial)
    table, undo = _tables(polynomial)
    patterns = {table[mask]: mask for mask in range(1, 256)}
    found: list[Change] = []
    register = difference
    for index in range(size - 1, -1, -1):
        mask = patterns.get(register)
        if mask is not None:
            # Two flips of one bit each never leave the same register in less than 2^31 bits.
            if mask.bit_count() == 1:
                return Change(index, mask)
            found.append(Change(index, mask))
        last = undo[register >> 24]
        register = (register ^ table[last]) << 8 & 0xFFFF_FFFF | last
    return found[0] if len(found) == 1 else None


def flipped_bit(stored: int, computed: int, size: int, polynomial: int) -> Change | None:
    """The one flipped bit that turns ``computed`` into ``stored``; for the arguments see ``single_change``.

    The first one costs some hundredths of a second, the others next to nothing.
    """
    register = stored ^ computed
    if register == 0 or size > LONGEST_BITS:
        return None
    if register.bit_count() == 1:
        return Change(None, register)
    near, back = _strides(polynomial)
    for behind in range(0, size, _STRIDE):
        found = near.get(register)
        if found is not None:
            distance, mask = found
            index = size - 1 - behind - distance
            return Change(index, mask) if index >= 0 else None
        low, high = register & 0xFFFF, register >> 16
        register = back[0][low & 255] ^ back[1][low >> 8] ^ back[2][high & 255] ^ back[3][high >> 8]
    return None


@cache
def _strides(polynomial: int) -> tuple[dict[int, tuple[int, int]], tuple[tuple[int, ...], ...]]:
    """What bits leave behind that lie within a stride of the end, and the map that runs a register back a stride.

    The first: (bytes behind it, mask) by register. The second: by each of the four bytes of the register.
    """
    table, undo = _tables(polynomial)
    near = {}
    for bit in range(8):
        register = table[1 << bit]
        for distance in range(_STRIDE):
            near[register] = distance, 1 << bit
            register = register >> 8 ^ table[register & 255]
    images = []
    for bit in range(32):
        register = 1 << bit
        for _ in range(_STRIDE):
            last = undo[register >> 24]
            register = (register ^ table[last]) << 8 & 0xFFFF_FFFF | last
        images.append(register)
    back = []
    for byte in range(4):
        values = [0]
        for image in images[8 * byte : 8 * byte + 8]:
            values += [value ^ image for value in values]
        back.append(tuple(values))
    return near, tuple(back)


@cache
def _tables(polynomial: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The byte table of the CRC, and for each top byte of an entry the entry's number."""
    table = []
    for byte in range(256):
        register = byte
        for _ in range(8):
            register = register >> 1 ^ (polynomial if register & 1 else 0)
        table.append(register)
    undo = [0] * 256
    for byte, register in enumerate(table):
        undo[register >> 24] = byte
    return tuple(table), tuple(undo)
