"""CRCs of many ranges of one buffer, which may overlap, in time linear in the buffer and the number of ranges.

A CRC is linear over GF(2): for two adjacent ranges A and B, ``crc(AB) == shift(crc(A), len(B)) ^ crc(B)``, where
``shift`` runs the register over that many zero bytes. So one pass that notes the CRC of the buffer up to each bound
gives the CRC of every range between two bounds. ``shift`` by n bytes is a product of matrices, one for each hexadecimal
digit of n, and a matrix is applied with four look-ups in tables.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.wire.checksum import Checksum, crc32, crc32c

CASTAGNOLI: Final = 0x82F63B78
IEEE: Final = 0xEDB88320

_CHECKSUMS: Final = {CASTAGNOLI: crc32c, IEEE: crc32}
_DIGITS: Final = 6
LONGEST: Final = 16**_DIGITS - 1
"""Longest range in bytes."""
_BOUNDS_AT_A_TIME: Final = 1 << 16
_OVERLAP_WORTH_A_TABLE: Final = 4


def range_crcs(
    data: memoryview, starts: NDArray[np.int64], ends: NDArray[np.int64], polynomial: int
) -> NDArray[np.uint32]:
    """The CRC of ``data[starts[i]:ends[i]]`` for each i, shape (ranges,).

    ``starts``, ``ends``: shape (ranges,), any order, ``0 <= ends - starts <= LONGEST``. ``polynomial`` is CASTAGNOLI
    or IEEE.
    """
    checksum = _CHECKSUMS[polynomial]
    if not starts.size:
        return np.empty(0, np.uint32)
    covered = int(ends.max() - starts.min())
    if int((ends - starts).sum()) <= _OVERLAP_WORTH_A_TABLE * covered:
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        return np.fromiter((checksum(data[start:end], 0) for start, end in pairs), np.uint32, starts.size)
    bounds, where = np.unique(np.concatenate((starts, ends)), return_inverse=True)
    up_to = _prefix_crcs(data, bounds, checksum)
    result: NDArray[np.uint32] = up_to[where[starts.size :]] ^ _shift(
        up_to[where[: starts.size]], ends - starts, polynomial
    )
    return result


def _prefix_crcs(data: memoryview, bounds: NDArray[np.int64], checksum: Checksum) -> NDArray[np.uint32]:
    """CRC of ``data[bounds[0]:bounds[i]]`` for each i; ``bounds`` rise."""
    crcs = np.zeros(bounds.size, np.uint32)
    crc = 0
    for first in range(1, bounds.size, _BOUNDS_AT_A_TIME):
        part = bounds[first - 1 : first + _BOUNDS_AT_A_TIME].tolist()
        crcs[first : first + len(part) - 1] = [crc := checksum(data[start:end], crc) for start, end in pairwise(part)]
    return crcs


def _shift(crcs: NDArray[np.uint32], counts: NDArray[np.int64], polynomial: int) -> NDArray[np.uint32]:
    """Each CRC's register after ``counts[i]`` zero bytes."""
    tables = _shift_tables(polynomial)
    for digit in range(_DIGITS):
        value = counts >> 4 * digit & 15
        if value.any():
            crcs = _apply(tables[digit], value, crcs)
    return crcs


def _apply(tables: NDArray[np.uint32], which: NDArray[np.int64], crcs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Multiply each CRC by the matrix ``tables[which[i]]``; ``tables``: shape (matrices, 4, 256)."""
    flat = tables.ravel()
    base = which * 1024
    result = flat[base + (crcs & 255)]
    for byte in (1, 2, 3):
        result ^= flat[base + (256 * byte + (crcs >> np.uint32(8 * byte) & 255))]
    return result


@cache
def _shift_tables(polynomial: int) -> NDArray[np.uint32]:
    """Tables of the shifts by ``value * 16**digit`` bytes, shape (digit, value, 4, 256)."""
    unit = _one_byte(polynomial)
    tables = np.empty((_DIGITS, 16, 4, 256), np.uint32)
    for digit in range(_DIGITS):
        matrix = np.uint32(1) << np.arange(32, dtype=np.uint32)
        for value in range(16):
            tables[digit, value] = _byte_tables(matrix)
            matrix = _apply(_byte_tables(unit)[None], np.zeros(32, np.int64), matrix)
        unit = matrix
    return tables


def _one_byte(polynomial: int) -> NDArray[np.uint32]:
    """The shift by one zero byte as a matrix: what becomes of each of the 32 bits, shape (32,)."""
    register = np.uint32(1) << np.arange(32, dtype=np.uint32)
    for _ in range(8):
        register = register >> np.uint32(1) ^ np.where(register & 1, np.uint32(polynomial), np.uint32(0))
    return register


def _byte_tables(matrix: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A matrix (images of the 32 bits) as look-ups for each value of each of the four bytes, shape (4, 256)."""
    values = np.arange(256)
    tables = np.zeros((4, 256), np.uint32)
    for bit in range(32):
        byte, position = divmod(bit, 8)
        tables[byte] ^= np.where(values >> position & 1, matrix[bit], np.uint32(0))
    return tables
