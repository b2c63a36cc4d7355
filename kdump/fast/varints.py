"""Columns of varints: the n-th value of every row is decoded at once.

Source: docs/spec/formats.md#31-record (zig-zag, little-endian base 128, at most 5 bytes for an int32 and 10 for an
int64).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

INT32_BYTES: Final = 5
INT64_BYTES: Final = 10
MALFORMED: Final = 1 << 62
"""The position after a malformed varint: larger than any buffer, so that no later check of a position holds."""

# Largest value of the last byte that does not overflow: 32 - 4 * 7 and 64 - 9 * 7 bits are left for it.
_LAST_BYTE_MAX: Final = {INT32_BYTES: 0x0F, INT64_BYTES: 0x01}


def read_varints(
    arena: NDArray[np.uint8], positions: NDArray[np.int64], longest: int = INT32_BYTES
) -> tuple[NDArray[np.unsignedinteger], NDArray[np.int64]]:
    """Read one varint a row, without undoing the zig-zag.

    ``positions``: shape (rows,), any value >= 0; one after the arena reads the arena's last byte, so a caller
    checks positions afterwards. ``longest``: INT32_BYTES or INT64_BYTES. Returns the raw values and the positions
    after them, new arrays of shape (rows,). The raw values are uint8 where all have one byte, uint16 where none has
    more than two, else uint64: most are short, and the smaller the type, the more of them the processor takes at a
    time. The position after a varint that is too long or overflows is MALFORMED. The arena must not be empty when there
    are rows.
    """
    first = arena.take(positions, mode="clip")
    following = positions + 1
    if first.max(initial=0) < 0x80:
        return first, following
    more = first >> 7
    second = arena.take(following, mode="clip")
    second &= np.negative(more)  # 0 - 1 is 0xFF: rows that have ended see a zero byte
    following += more
    first &= 0x7F
    short = second.astype(np.uint16)
    short <<= 7
    short |= first
    if second.max() < 0x80:
        return short, following
    raw = short.astype(np.uint64)
    raw &= 0x3FFF
    _finish_long(arena, raw, following, np.flatnonzero(second >= 0x80), longest)
    return raw, following


def _finish_long(
    arena: NDArray[np.uint8],
    raw: NDArray[np.uint64],
    following: NDArray[np.int64],
    rows: NDArray[np.intp],
    longest: int,
) -> None:
    """Add the bytes from the third on to the ``rows`` that have them, in place."""
    for index in range(2, longest):
        at = following[rows]
        byte = arena.take(at, mode="clip")
        raw[rows] |= (byte & 0x7F).astype(np.uint64) << (7 * index)
        following[rows] = at + 1
        if index == longest - 1:
            following[rows[byte > _LAST_BYTE_MAX[longest]]] = MALFORMED
            return
        rows = rows[byte >= 0x80]
        if not rows.size:
            return


def zigzag(raw: NDArray[np.unsignedinteger]) -> NDArray[np.signedinteger]:
    """The signed values of raw varints, in the signed type of the same size."""
    return _signed(raw >> 1) ^ -_signed(raw & 1)


def sizes(raw: NDArray[np.unsignedinteger]) -> NDArray[np.signedinteger]:
    """The signed values of raw varints that are sizes: every negative one means null and becomes -1."""
    return _signed(raw >> 1) | -_signed(raw & 1)


def _signed(raw: NDArray[np.integer]) -> NDArray[np.signedinteger]:
    signed: NDArray[np.signedinteger] = raw.view(f"i{raw.itemsize}")
    return signed


def read_varint(body: bytes, position: int) -> tuple[int, int]:
    """One raw int32 varint, for lanes too few for a column; returns it and the position after it.

    IndexError after the end of ``body``, ValueError when it is too long or overflows.
    """
    raw = 0
    for shift in range(0, 7 * INT32_BYTES, 7):
        byte = body[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >> 32:
                break
            return raw, position
    raise ValueError("a varint overflows an int32")
