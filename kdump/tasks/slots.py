"""Memory that a process shares with the one that works for it: large results need not go through a pipe.

The memory is cut into slots. The numbers of the free ones lie in a pipe. Who fills a slot takes a number from it and
waits where there is none; who has used what was in a slot puts its number back. So no more than all slots are held. The
slot that was freed last is taken first, as it may still be in the cache of the processor.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from select import POLLIN, poll
from typing import Final

SLOT_BYTES: Final = 4 << 20
"""The text that is made of some thousand records fits."""
_SLOTS: Final = 8


class Slots:
    """Slots of SLOT_BYTES. They are made before the other process, which is a fork of this one."""

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, _SLOTS * SLOT_BYTES))
        self._free, self._freed = os.pipe()
        os.set_blocking(self._free, False)
        self._awaited = poll()
        self._awaited.register(self._free, POLLIN)
        self._known = bytearray(range(_SLOTS))
        """Numbers of free slots that were taken from the pipe; only whoever fills slots uses them."""

    def take(self) -> int:
        """The number of a free slot. This waits until there is one."""
        if not self._known:
            self._awaited.poll()
        with suppress(BlockingIOError):
            self._known += os.read(self._free, _SLOTS)
        return self._known.pop()

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
