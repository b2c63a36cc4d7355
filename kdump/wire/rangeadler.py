"""Adler-32 of many ranges of the same bytes, in a time that does not depend on their sizes.

With d the bytes of a range of n, the checksum is 1 + sum(d[i]) and, above it, n + sum((n - i) * d[i]), both modulo
65,521 (RFC 1950 section 8.2). Sums from the start of the bytes give those of every range.
"""

from __future__ import annotations

from typing import Final
from zlib import adler32

_MODULUS: Final = 65521
_BLOCK: Final = 1024


class RangeAdler:
    """Gives the Adler-32 of ``data[start:end]``. The bytes are read once, when the first range is asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._sums: list[tuple[int, int]] = []
        """At the start of each block: the sum of the bytes before it, and that of the bytes times their positions."""

    def __call__(self, start: int, end: int) -> int:
        """The checksum of a range."""
        if not self._sums:
            self._sums.append((0, 0))
            for position in range(_BLOCK, len(self._data) + 1, _BLOCK):
                self._sums.append(self._sums_at(position, position - _BLOCK))
        first, weighted_first = self._sums_at(start, start // _BLOCK * _BLOCK)
        last, weighted_last = self._sums_at(end, end // _BLOCK * _BLOCK)
        total = last - first
        low = (1 + total) % _MODULUS
        high = (end - start + end * total - (weighted_last - weighted_first)) % _MODULUS
        return high << 16 | low

    def _sums_at(self, position: int, block: int) -> tuple[int, int]:
        """The sums before a position, from those at the start of its block."""
        total, weighted = self._sums[block // _BLOCK]
        checksum = adler32(self._data[block:position])
        size = position - block
        own = (checksum & 0xFFFF) - 1
        # The upper half counts from the end of the range.
        by_position = size * own + size - (checksum >> 16)
        return (total + own) % _MODULUS, (weighted + block * own + by_position) % _MODULUS
