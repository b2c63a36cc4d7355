"""An entry whose CRC is wrong as it stands, made whole where the CRC itself proves how.

The CRC does not cover the length, and in v2 not the magic: other values are tried, and the stored CRC says which are
right. What is left may be one flipped bit, which a CRC locates (``wire.syndrome``). Either way the result must decode
to its last record.

Source: docs/spec/formats.md#3-record-batches-v2 and docs/spec/formats.md#2-messages-v0-and-v1 for what the CRCs cover.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from kdump.explain.trueend import end_candidates
from kdump.format.batch import CRC_START, HEADER_SIZE, LENGTH_OFFSET, LOG_OVERHEAD, MAGIC_OFFSET, parse_header
from kdump.log.heads import SMALLEST_ENTRY
from kdump.repair.entry import ByteChange, Entry, length_change, magic_change, patched
from kdump.repair.inventory import examine
from kdump.repair.pieces import PieceOrigin
from kdump.verify.table import BatchRow
from kdump.wire.checksum import crc32, crc32c
from kdump.wire.compression import DEFAULT_LIMIT
from kdump.wire.syndrome import CRC32_POLYNOMIAL, CRC32C_POLYNOMIAL, flipped_bit

_MAGICS: Final = (2, 1, 0)
_V2_CRC_OFFSET: Final = MAGIC_OFFSET + 1
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_KEY_OFFSETS: Final = {0: 18, 1: 26}
"""Where the key size of a legacy message lies, by magic."""


def proved(window: memoryview, position: int, path: str, *, is_whole: bool, limit: int = DEFAULT_LIMIT) -> Entry | None:
    """The entry that begins with ``window``, with another length or magic for which its CRC is right.

    Args:
        window: the bytes from its start to where it ends at the latest.
        position: of the window in the file ``path``.
        path: the file.
        is_whole: what follows the window is known: an entry, or the end of the file.
        limit: most bytes that it may decompress to.
    """
    if len(window) < SMALLEST_ENTRY:
        return None
    length = _INT32.unpack_from(window, LENGTH_OFFSET)[0]
    for magic in _MAGICS:
        for end in _ends(window, magic, LOG_OVERHEAD + length, is_whole=is_whole):
            if not _is_right(window, magic, end):
                continue
            changes: tuple[ByteChange, ...] = ()
            if magic != window[MAGIC_OFFSET]:
                why = f"the CRC is right for magic {magic} only"
                changes += (magic_change(window[MAGIC_OFFSET], magic, why),)
            if end != LOG_OVERHEAD + length:
                changes += (length_change(length, end, "the CRC is right for this length"),)
            row = _examined(window[:end], position, changes, limit)
            if row is not None:
                return Entry(row, PieceOrigin.RESTORED, path, changes)
    return None


def corrected(data: memoryview, position: int, path: str, limit: int = DEFAULT_LIMIT) -> Entry | None:
    """The whole entry ``data`` with one bit flipped, when that makes its CRC right and its records decode."""
    magic = data[MAGIC_OFFSET]
    if magic not in _MAGICS or len(data) < (HEADER_SIZE if magic == 2 else SMALLEST_ENTRY):
        return None
    start, field, polynomial = _coverage(magic)
    stored = _UINT32.unpack_from(data, field)[0]
    computed = (crc32c if magic == 2 else crc32)(data[start:])
    change = flipped_bit(stored, computed, len(data) - start, polynomial)
    if change is None:
        return None
    if change.place is None:
        byte = 3 - (change.mask.bit_length() - 1) // 8
        at, mask = field + byte, change.mask >> 8 * (3 - byte)
    else:
        at, mask = start + change.place, change.mask
    why = "the CRC is right with this bit flipped"
    flip = ByteChange(at, bytes([data[at] ^ mask]), f"bit {mask.bit_length() - 1}", data[at], data[at] ^ mask, why)
    row = _examined(data, position, (flip,), limit)
    return None if row is None else Entry(row, PieceOrigin.CORRECTED, path, (flip,))


def _examined(data: memoryview, position: int, changes: tuple[ByteChange, ...], limit: int) -> BatchRow | None:
    """The row of an entry with its changes; None when it is no good."""
    row, fault = examine(memoryview(patched(data, changes)), position, limit)
    return row if fault is None else None


def _coverage(magic: int) -> tuple[int, int, int]:
    """First byte under the CRC, where the CRC is stored, its polynomial."""
    if magic == 2:
        return CRC_START, _V2_CRC_OFFSET, CRC32C_POLYNOMIAL
    return MAGIC_OFFSET, LOG_OVERHEAD, CRC32_POLYNOMIAL


def _is_right(window: memoryview, magic: int, end: int) -> bool:
    start, field, _ = _coverage(magic)
    stored = _UINT32.unpack_from(window, field)[0]
    if magic == 2:
        return bool(crc32c(window[start:end]) == stored)
    return bool(crc32(window[start + 1 : end], crc32(bytes([magic]))) == stored)


def _ends(window: memoryview, magic: int, by_length: int, *, is_whole: bool) -> Iterator[int]:
    """Where an entry of this magic may end: each place once."""
    smallest = HEADER_SIZE if magic == 2 else _KEY_OFFSETS[magic] + 8
    seen = set()
    for end in _likely_ends(window, magic, by_length, is_whole=is_whole):
        if smallest <= end <= len(window) and end not in seen:
            seen.add(end)
            yield end


def _likely_ends(window: memoryview, magic: int, by_length: int, *, is_whole: bool) -> Iterator[int]:
    yield by_length
    if is_whole:
        yield len(window)
    if magic == 2:
        if len(window) >= HEADER_SIZE:
            yield from end_candidates(parse_header(window), window, is_whole=False)
        return
    at = _KEY_OFFSETS[magic]
    for _ in range(2):
        if at + 4 > len(window):
            return
        at += 4 + max(0, _INT32.unpack_from(window, at)[0])
    yield at
