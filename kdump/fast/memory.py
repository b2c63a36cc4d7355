"""Memory of freed arrays: kept for the next ones, or given back."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import numpy as np

_LARGEST_HEAP_BLOCK: Final = 31 << 20
"""glibc never takes 32 MiB and more from its heap."""


def keep_freed_memory() -> None:
    """Let the C library reuse large freed arrays instead of giving them back to the kernel.

    glibc maps large blocks one by one until one of that size is freed. From then on it takes blocks up to that size
    from its heap, and keeps up to twice as much. So one block is made and freed, without touching its pages. Otherwise
    the arrays of every chunk would cost a page fault for each 4 KiB, 10 to 15 % of decoding and text. With other C
    libraries this does nothing.
    """
    np.empty(_LARGEST_HEAP_BLOCK, np.uint8)


def give_back_freed_memory() -> None:
    """Give all freed memory back to the kernel, where what is left waits for its turn. Only glibc can do it."""
    import ctypes  # slow, and not needed for small files

    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
