"""64-bit hashes of many byte ranges at once.

Equal bytes have equal hashes in every process and on every machine. Ranges of up to 8 bytes and equal size never
collide; others collide as rarely as random numbers. The hashes do not resist somebody who chooses bytes to collide.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.ragged import windows

_WORD: Final = 8
_LARGEST: Final = 1024
"""Bytes up to which ranges are read word by word, all in step."""
_SEED: Final = 0x2545F4914F6CDD1D
_MULTIPLIERS: Final = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
_SHIFT: Final = np.uint64(32)
_OTHER_SEED: Final = 0x9E3779B97F4A7C15


def hash_ranges(
    arena: NDArray[np.uint8], start: NDArray[np.int64], size: NDArray[np.integer], *, seed: int = _SEED
) -> NDArray[np.int64]:
    """The hash of ``arena[start[i]:start[i] + size[i]]`` of every row; shapes (rows,), sizes 0 or more.

    ``seed``: 64 bits; the hashes of other seeds are others.
    """
    if arena.size < _WORD:
        arena = np.append(arena, np.zeros(_WORD, np.uint8))
    hashes = _mixed(size.astype(np.uint64) ^ np.uint64(seed))
    large = size > _LARGEST
    lanes: NDArray[np.intp] | slice = slice(None)
    if large.any():
        from hashlib import blake2b

        for row in np.flatnonzero(large).tolist():
            first = int(start[row])
            key = arena[first : first + int(size[row])].data
            digest = blake2b(key, digest_size=_WORD, salt=seed.to_bytes(_WORD, "little")).digest()
            hashes[row] = np.uint64(int.from_bytes(digest, "little"))
        lanes = np.flatnonzero(~large)
    at, left = start[lanes], size[lanes].astype(np.int64)
    state = hashes[lanes]
    done = 0
    words = windows(arena, _WORD)
    last_word = arena.size - _WORD
    while True:
        is_open = left > done
        if not is_open.size or not is_open.all():
            hashes[lanes] = state
            open_rows = np.flatnonzero(is_open)
            if not open_rows.size:
                return hashes.view(np.int64)
            lanes = open_rows if isinstance(lanes, slice) else lanes[open_rows]
            at, left, state = at[open_rows], left[open_rows], state[open_rows]
        begin = at + done
        # The last words are read from the last position where a whole word fits.
        inside = np.minimum(begin, last_word)
        word = words[inside].view("<u8").astype(np.uint64) >> ((begin - inside) << 3).astype(np.uint64)
        missing = np.maximum(_WORD - (left - done), 0)
        word &= np.uint64(0xFFFFFFFFFFFFFFFF) >> (missing << 3).astype(np.uint64)
        state = _mixed(state ^ word)
        done += _WORD


def digest_ranges(
    arena: NDArray[np.uint8], start: NDArray[np.int64], size: NDArray[np.integer]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """128 bits for each row, in two halves. The chance that any two of 10^9 keys collide is below 10^-20."""
    return hash_ranges(arena, start, size), hash_ranges(arena, start, size, seed=_OTHER_SEED)


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits, so that each depends on all. Different states stay different."""
    for multiplier in _MULTIPLIERS:
        state = state * multiplier
        state ^= state >> _SHIFT
    return state
