"""Memory that a process shares with the one that works for it: large results need not go through a pipe.

The memory is cut into slots. The numbers of the free ones lie in a pipe. Who fills a slot takes a number from it and
waits where there is none; who has used what was in a slot puts its number back. So no more than all slots are held.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from typing import Final

SLOT_BYTES: Final = 4 << 20
_SLOTS: Final = 6


class Slots:
    """Slots of SLOT_BYTES. They are made before the other process, which is a fork of this one."""

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, _SLOTS * SLOT_BYTES))
        self._free, self._freed = os.pipe()
        os.write(self._freed, bytes(range(_SLOTS)))

    def take(self) -> int:
        """The number of a free slot. This waits until there is one."""
        [slot] = os.read(self._free, 1)
        return slot

    def part(self, slot: int, start: int, end: int) -> memoryview:
        """These bytes of a slot, until it is freed."""
        first = slot * SLOT_BYTES
        return self._memory[first + start : first + end]

    def release(self, slot: int) -> None:
        """Nobody needs what is in the slot any more."""
        os.write(self._freed, bytes((slot,)))

    def close(self) -> None:
        """Give the descriptors of this process back."""
        for descriptor in (self._free, self._freed):
            with suppress(OSError):
                os.close(descriptor)
