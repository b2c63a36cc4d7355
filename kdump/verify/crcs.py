"""A wrong CRC in words, with the one flipped bit or changed byte that explains it."""

from __future__ import annotations

from kdump.format.batch import CRC_START, LOG_OVERHEAD, MAGIC_OFFSET
from kdump.wire.checksum import crc32, crc32c
from kdump.wire.syndrome import CRC32_POLYNOMIAL, CRC32C_POLYNOMIAL, ByteFlip, single_change


def describe_crc(entry: memoryview, position: int) -> str:
    """The wrong CRC of the whole ``entry`` at ``position``: stored, computed, and the change that explains it."""
    is_legacy = entry[MAGIC_OFFSET] < 2
    start, field = (MAGIC_OFFSET, LOG_OVERHEAD) if is_legacy else (CRC_START, MAGIC_OFFSET + 1)
    computed = (crc32 if is_legacy else crc32c)(entry[start:])
    stored = int.from_bytes(entry[field : field + 4], "big")
    message = f"the CRC is wrong: stored {stored:#010x}, computed {computed:#010x}"
    polynomial = CRC32_POLYNOMIAL if is_legacy else CRC32C_POLYNOMIAL
    change = single_change(stored, computed, len(entry) - start, polynomial)
    return message if change is None else f"{message}; {_explain(change, entry, start, position)}"


def _explain(change: ByteFlip, entry: memoryview, start: int, position: int) -> str:
    if change.place is None:
        return "one flipped bit in the stored CRC explains it"
    index = start + change.place
    bits = change.mask.bit_count()
    what = f"one flipped bit ({change.mask.bit_length() - 1})" if bits == 1 else "one changed byte"
    return f"{what} at byte {position + index} explains it: {entry[index]:#04x} for {entry[index] ^ change.mask:#04x}"
