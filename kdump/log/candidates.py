"""Where in a buffer an entry may start: plausible headers, found with numpy.

It is used after damage only. The rules are tighter than a reader's: what a broker writes passes; bytes with a magic and
a length in the right places by accident do not. Source: docs/spec/formats.md#1-entries (sections 1 to 4).

- The offset is 0 to 2^56 - 1, the length field below 2^24.
- v2: codec 0-4; lastOffsetDelta not negative; producer fields not below -1; a body that starts as its codec's container
  does or as a record does, or none where recordCount is 0. Any other recordCount passes: a batch with a right CRC and a
  wrong count is one that was written so, and verify says what is wrong with it.
- Legacy: codec 0-3, and key and value sizes that fill the entry exactly; a wrapper has no key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MIN_ENTRY_LENGTH,
    header_dtype,
)
from kdump.log.rangecrc import CASTAGNOLI, IEEE, range_crcs

_LENGTH_LIMIT: Final = 1 << 24

LEGACY_OVERHEAD: Final = (26, 34)
"""Bytes of an entry of magic 0 and 1 without key and value."""
_SMALLEST_ENTRY: Final = LOG_OVERHEAD + MIN_ENTRY_LENGTH
_SMALLEST_RECORD_LENGTH: Final = 12
"""The length varint of the smallest record, of 7 bytes, zig-zag."""
_CODECS: Final = 5
_LEGACY_CODECS: Final = 4
_FIRST_BYTES: Final = np.array([-1, 0x1F8B, -1, 0x0422, 0x28B5])
"""How a compressed body starts, by codec id. A snappy body without framing starts with any bytes."""
_BLOCK: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Candidates:
    """Plausible entries in file order: ``start``, ``end`` as indexes into the buffer, the stored ``crc``, ``magic``.

    All shape (candidates,).
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    crc: NDArray[np.uint32]
    magic: NDArray[np.uint8]

    def valid(self, data: memoryview) -> NDArray[np.bool_]:
        """Which candidates lie wholly in ``data`` and have a right CRC; shape (candidates,)."""
        right = np.zeros(self.start.size, np.bool_)
        within = self.end <= len(data)
        for polynomial, crc_start, kind in (
            (CASTAGNOLI, CRC_START, self.magic == 2),
            (IEEE, MAGIC_OFFSET, self.magic < 2),
        ):
            which = np.flatnonzero(kind & within)
            crcs = range_crcs(data, self.start[which] + crc_start, self.end[which], polynomial)
            right[which] = crcs == self.crc[which]
        return right


def find_candidates(data: memoryview, first: int, room: int) -> Candidates:
    """All plausible entries that start at index ``first`` or later and end at ``room`` at most.

    The header must lie in ``data``. ``room`` may be larger than its size.
    """
    octets = np.frombuffer(data, np.uint8)
    parts = [
        part
        for start in range(first, len(data) - _SMALLEST_ENTRY + 1, _BLOCK)
        for part in _find_block(octets, start, min(start + _BLOCK, len(data) - _SMALLEST_ENTRY + 1), room)
    ]
    if not parts:
        return Candidates(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint8))
    start = np.concatenate([part.start for part in parts])
    order = np.argsort(start, kind="stable")
    return Candidates(
        start[order],
        np.concatenate([part.end for part in parts])[order],
        np.concatenate([part.crc for part in parts])[order],
        np.concatenate([part.magic for part in parts])[order],
    )


def _find_block(octets: NDArray[np.uint8], first: int, last: int, room: int) -> Iterator[Candidates]:
    """The candidates that start at ``first`` to ``last`` (exclusive), those of v2 and the legacy ones."""

    def column(offset: int) -> NDArray[np.uint8]:
        return octets[first + offset : last + offset]

    # The cheapest rules first, on whole columns of bytes: few zeros or random bytes pass them.
    is_possible = column(MAGIC_OFFSET) <= 2
    is_possible &= column(0) == 0
    is_possible &= column(LENGTH_OFFSET) < _LENGTH_LIMIT >> 24
    is_possible &= (
        column(LENGTH_OFFSET + 1) | column(LENGTH_OFFSET + 2) | (column(LENGTH_OFFSET + 3) >= MIN_ENTRY_LENGTH)
    ) != 0
    start = np.flatnonzero(is_possible) + first
    if not start.size:
        return
    end = start + LOG_OVERHEAD + _int32_at(octets, start + LENGTH_OFFSET)
    start, end = _where(end <= room, start, end)
    is_v2 = octets[start + MAGIC_OFFSET] == 2
    yield _v2(octets, *_where(is_v2 & (end - start >= HEADER_SIZE) & (start + HEADER_SIZE <= octets.size), start, end))
    for magic, overhead in enumerate(LEGACY_OVERHEAD):
        is_legacy = octets[start + MAGIC_OFFSET] == magic
        fits = is_legacy & (end - start >= overhead) & (start + overhead <= octets.size)
        yield _legacy(octets, magic, *_where(fits, start, end))


def _v2(octets: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64]) -> Candidates:
    headers = _overlapping(octets, header_dtype())[start]
    codec = headers["attributes"] & CODEC_MASK
    body = end - start - HEADER_SIZE
    fits = codec < _CODECS
    for name in ("last_offset_delta", "producer_id", "producer_epoch", "base_sequence"):
        fits &= headers[name] >= (0 if name == "last_offset_delta" else -1)
    fits &= (body > 0) | (headers["record_count"] == 0)
    # A body that starts after the end of the buffer is not checked.
    is_seen = (body > 0) & (start + HEADER_SIZE + 2 <= octets.size)
    body_start = np.where(is_seen, start + HEADER_SIZE, 0)
    first, second = octets[body_start].astype(np.int64), octets[np.minimum(body_start + 1, octets.size - 1)]
    is_record = (first & 1 == 0) & (first >= _SMALLEST_RECORD_LENGTH)
    wanted = _FIRST_BYTES[np.minimum(codec, _CODECS - 1)]
    fits &= ~is_seen | np.where(codec == 0, is_record, (wanted < 0) | (wanted == first << 8 | second))
    start, end = _where(fits, start, end)
    return Candidates(start, end, headers["crc"][fits].astype(np.uint32), np.full(start.size, 2, np.uint8))


def _legacy(octets: NDArray[np.uint8], magic: int, start: NDArray[np.int64], end: NDArray[np.int64]) -> Candidates:
    key_at = start + LEGACY_OVERHEAD[magic] - 8
    key_size = _int32_at(octets, key_at)
    value_at = key_at + 4 + np.maximum(key_size, 0)
    codec = octets[start + MAGIC_OFFSET + 1] & CODEC_MASK
    fits = (key_size >= -1) & (value_at + 4 <= end) & ((codec == 0) | (codec < _LEGACY_CODECS) & (key_size == -1))
    start, end, value_at = start[fits], end[fits], value_at[fits]
    is_seen = value_at + 4 <= octets.size
    value_size = _int32_at(octets, np.where(is_seen, value_at, 0))
    fits = ~is_seen | (value_size >= -1) & (value_at + 4 + np.maximum(value_size, 0) == end)
    start, end = _where(fits, start, end)
    crc = _int32_at(octets, start + LOG_OVERHEAD).astype(np.uint32)
    return Candidates(start, end, crc, np.full(start.size, magic, np.uint8))


def _where(which: NDArray[np.bool_], *columns: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    return tuple(column[which] for column in columns)


def _int32_at(octets: NDArray[np.uint8], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """The big-endian int32 at each position, shape (positions,)."""
    return _overlapping(octets, np.dtype(">i4"))[positions].astype(np.int64)


def _overlapping(octets: NDArray[np.uint8], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A view with an item of ``dtype`` from every byte on."""
    return np.ndarray((max(0, octets.size - dtype.itemsize + 1),), dtype, octets.data, strides=(1,))
