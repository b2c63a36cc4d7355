"""Whether the offsets of a log rise, for readers that read its records in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class OffsetOrder:
    """Counts offsets that are not above all previous ones; an OffsetObserver (``kdump.reading.printing``).

    At the end: ``count``, and ``first``, an offset and the highest one before it (None: all rise).

    Args:
        base_offset: no offset is below it.
    """

    def __init__(self, base_offset: int = 0) -> None:
        self._highest = base_offset - 1
        self.count = 0
        self.first: tuple[int, int] | None = None

    def see(self, offset: int) -> None:
        """Note one offset; see OffsetObserver."""
        if offset <= self._highest:
            self._note(1, offset, self._highest)
        else:
            self._highest = offset

    def see_column(self, offsets: NDArray[np.int64]) -> None:
        """Note a column of offsets; see OffsetObserver."""
        import numpy as np

        if not len(offsets):
            return
        before = np.maximum.accumulate(np.concatenate(([self._highest], offsets)))
        (misfits,) = (offsets <= before[:-1]).nonzero()
        if len(misfits):
            self._note(len(misfits), int(offsets[misfits[0]]), int(before[misfits[0]]))
        self._highest = int(before[-1])

    def _note(self, count: int, offset: int, highest: int) -> None:
        self.count += count
        self.first = self.first or (offset, highest)
