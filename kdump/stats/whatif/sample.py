"""A random sample of a sequence: equal for equal items, seed and limit."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from kdump.wire.checksum import Buffer

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


class Sample:
    """The items with the smallest random numbers, as many as fit.

    Args:
        limit: bytes that are kept; one item is kept however large it is.
        seed: of the random numbers.
    """

    def __init__(self, limit: int, seed: int) -> None:
        self._limit = limit
        self._seed = np.uint64(seed)
        self._seen = 0
        self._size = 0
        # Ordered by the random number, the largest first.
        self._kept: list[tuple[int, int, bytes]] = []

    def offer(self, count: int, piece: Callable[[int], Buffer]) -> None:
        """Offer the next ``count`` items; ``piece`` returns the bytes of one of them, by its number from 0 on."""
        priority = self._priorities(count)
        wanted: NDArray[np.intp] = np.arange(count)
        if self._size >= self._limit:
            wanted = np.flatnonzero(priority < -self._kept[0][0])
        for number in wanted.tolist():
            if self._size >= self._limit and priority[number] >= -self._kept[0][0]:
                continue
            data = bytes(piece(number))
            heappush(self._kept, (-int(priority[number]), self._seen + number, data))
            self._size += len(data)
            while len(self._kept) > 1 and self._size - len(self._kept[0][2]) >= self._limit:
                self._size -= len(heappop(self._kept)[2])
        self._seen += count

    def pieces(self) -> list[bytes]:
        """The sample, in the order of the sequence."""
        return [data for _, _, data in sorted(self._kept, key=lambda kept: kept[1])]

    def _priorities(self, count: int) -> NDArray[np.uint64]:
        """Pseudorandom numbers of 63 bits (SplitMix64 of the position)."""
        value = (np.arange(self._seen + 1, self._seen + count + 1, dtype=np.uint64) + self._seed) * _STEP
        for shift, mixer in zip(_SHIFTS, _MIXERS, strict=False):
            value = (value ^ value >> shift) * mixer
        priority: NDArray[np.uint64] = (value ^ value >> _SHIFTS[2]) >> np.uint64(1)
        return priority
