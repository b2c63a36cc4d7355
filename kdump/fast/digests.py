"""128-bit digests of many keys at once.

They tell keys apart (two of 10^9 keys collide by chance with a probability below 10^-20) and order nothing; they are
no defence against keys that were made to collide. The same key has the same digest in every chunk, run and process.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.fast.lanes import descending, lanes_left
from kdump.fast.ragged import windows

_WORD: Final = 8
_LONG: Final = 64 * _WORD
"""Longer keys are digested one by one: few records, many steps."""
_PRIMES: Final = tuple(
    np.uint64(prime) for prime in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xBF58476D1CE4E5B9)
)
_BYTE_MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(_WORD)], np.uint64)


class Digests(NamedTuple):
    """Two independent halves of each digest; shapes (rows,)."""

    high: NDArray[np.uint64]
    low: NDArray[np.uint64]


def digests(arena: NDArray[np.uint8], start: NDArray[np.int64], size: NDArray[np.integer]) -> Digests:
    """Digest ``arena[start[i]:][:size[i]]`` for every row i.

    ``start``, ``size``: shape (rows,); no size is negative and every range lies in the arena.
    """
    if not size.size:
        return Digests(np.empty(0, np.uint64), np.empty(0, np.uint64))
    if arena.size < _WORD:
        arena = np.append(arena, np.zeros(_WORD, np.uint8))
    length = size.astype(np.int64)
    order = descending(length >> 3)
    start, length = start[order], length[order]
    high = length.astype(np.uint64) * _PRIMES[0]
    low = ~high
    words = windows(arena, _WORD)
    count = length >> 3
    # The long ones come first and take no part in the steps.
    skipped = int(np.count_nonzero(count > _LONG // _WORD))
    count[:skipped] = 0
    steps = int(count.max(initial=0))
    for step, active in enumerate(lanes_left(count[skipped:], np.arange(steps)).tolist()):
        lanes = slice(skipped, skipped + active)
        _mix(high[lanes], low[lanes], words[start[lanes] + _WORD * step].view("<u8"))
    _mix(high, low, _last_words(arena, words, start, length))
    for row in range(skipped):
        key = arena[start[row] : start[row] + length[row]]
        high[row], low[row] = np.frombuffer(hashlib.blake2b(key.data, digest_size=16).digest(), np.uint64)
    _finish(high)
    _finish(low)
    found = Digests(np.empty_like(high), np.empty_like(low))
    found.high[order], found.low[order] = high, low
    return found


def _last_words(
    arena: NDArray[np.uint8], words: NDArray[np.void], start: NDArray[np.int64], size: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """The last eight bytes of each range; of a shorter one all its bytes, as a number."""
    is_short = size < _WORD
    at = np.where(is_short, np.minimum(start, arena.size - _WORD), start + size - _WORD)
    last: NDArray[np.uint64] = words[at].view("<u8").astype(np.uint64)
    rows = np.flatnonzero(is_short)
    shift = ((start[rows] - at[rows]) * 8).astype(np.uint64)
    last[rows] = last[rows] >> shift & _BYTE_MASKS[size[rows]]
    # An empty range at the arena's very end would be shifted by 64 bits, which C leaves open.
    last[size == 0] = 0
    return last


def _mix(high: NDArray[np.uint64], low: NDArray[np.uint64], word: NDArray[np.uint64]) -> None:
    """Take in a word; ``high`` and ``low`` change."""
    high ^= word
    high *= _PRIMES[1]
    high ^= high >> np.uint64(29)
    low += word * _PRIMES[2]
    low *= _PRIMES[3]
    low ^= low >> np.uint64(32)


def _finish(half: NDArray[np.uint64]) -> None:
    half ^= half >> np.uint64(33)
    half *= _PRIMES[1]
    half ^= half >> np.uint64(29)
    half *= _PRIMES[2]
    half ^= half >> np.uint64(32)
