"""Which single changed bit or byte explains a wrong CRC.

CRCs are linear: the stored and the computed checksum differ by the CRC register that the error pattern alone leaves
behind. Running that register backwards over zero bytes gives, at each byte, the pattern that this byte would need.
O(n) steps of one table look-up each.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

CRC32C_POLYNOMIAL: Final = 0x82F63B78
CRC32_POLYNOMIAL: Final = 0xEDB88320
"""Both reflected, as shared/spec/formats.md gives them."""

LONGEST_BITS: Final = 1 << 23
"""Bytes up to which a flipped bit is looked for: about a second."""
LONGEST_BYTES: Final = 1 << 16
"""Bytes up to which a changed byte is looked for; in more, one that fits is likely to be chance."""


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
    return found[0] if len(found) == 1 and size <= LONGEST_BYTES else None


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
