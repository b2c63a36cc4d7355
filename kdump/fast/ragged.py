"""Copying many byte ranges of different sizes at once.

numpy has no ragged copy. A fixed number of bytes a row, though, can be gathered and scattered as one void element a
row through a view with stride 1; and a range of w to 2w bytes is its first w bytes and its last w bytes. The two
overlap, but both write what belongs there, so the order in which numpy assigns does not matter.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

LARGEST_WINDOW: Final = 512
"""Bytes; longer ranges are cut into several windows."""
_SCRATCH: Final = 1 << 18
"""Bytes that one gather may hold; more would leave the L2 cache."""


def windows(buffer: NDArray[np.uint8], width: int) -> NDArray[np.void]:
    """View of ``buffer`` (contiguous) whose element i is ``buffer[i:i + width]``; copies nothing."""
    return np.ndarray((max(0, buffer.size - width + 1),), np.dtype((np.void, width)), buffer, 0, (1,))


def copy_ranges(
    source: NDArray[np.uint8],
    source_start: NDArray[np.int64],
    size: NDArray[np.int64],
    target: NDArray[np.uint8],
    target_start: NDArray[np.int64],
) -> None:
    """Copy ``source[source_start[i]:][:size[i]]`` to ``target[target_start[i]:]`` for every row i.

    Starts and sizes: shape (rows,); a size of 0 or less copies nothing. Target ranges must not overlap, and target
    and source must be different memory. IndexError when a range leaves its buffer.
    """
    if not size.size:
        return
    smallest, largest = int(size.min()), int(size.max())
    if smallest <= 0:
        filled = np.flatnonzero(size > 0)
        copy_ranges(source, source_start[filled], size[filled], target, target_start[filled])
        return
    if smallest == largest <= LARGEST_WINDOW:
        copy_windows(source, source_start, largest, target, target_start)
        return
    width = min(1 << smallest.bit_length() - 1, LARGEST_WINDOW)
    while width <= min(largest, LARGEST_WINDOW):
        is_last = width == LARGEST_WINDOW
        if smallest >= width and (is_last or largest < 2 * width):
            rows: NDArray[np.intp] | slice = slice(None)
        elif is_last:
            rows = np.flatnonzero(size >= width)
        else:
            rows = np.flatnonzero((size >= width) & (size < 2 * width))
        sizes, from_, to = size[rows], source_start[rows], target_start[rows]
        if is_last:
            _copy_large(source, from_, sizes, target, to)
        else:
            copy_windows(source, from_, width, target, to)
            rest = sizes - width
            copy_windows(source, from_ + rest, width, target, to + rest)
        width *= 2


def copy_windows(
    source: NDArray[np.uint8],
    source_start: NDArray[np.int64],
    width: int,
    target: NDArray[np.uint8],
    target_start: NDArray[np.int64],
) -> None:
    """Copy ranges that all have ``width`` bytes; see ``copy_ranges``."""
    if width == 1:
        target[target_start] = source.take(source_start)
        return
    read, write = windows(source, width), windows(target, width)
    step = max(1, _SCRATCH // width)
    for row in range(0, source_start.size, step):
        block = slice(row, row + step)
        write[target_start[block]] = read[source_start[block]]


def _copy_large(
    source: NDArray[np.uint8],
    source_start: NDArray[np.int64],
    size: NDArray[np.int64],
    target: NDArray[np.uint8],
    target_start: NDArray[np.int64],
) -> None:
    """Ranges of at least the largest window, cut into such windows; the last one is aligned with the end."""
    parts = -(-size // LARGEST_WINDOW)
    index = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
    shift = np.minimum(index * LARGEST_WINDOW, np.repeat(size - LARGEST_WINDOW, parts))
    copy_windows(
        source,
        np.repeat(source_start, parts) + shift,
        LARGEST_WINDOW,
        target,
        np.repeat(target_start, parts) + shift,
    )
