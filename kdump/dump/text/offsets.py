"""The report of offsets that do not follow one another (docs/spec/dump-output.md#55-offset-continuity-report)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch import wrap_int64

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NO_OFFSET = -1


class OffsetContinuity:
    """Sees every record offset of a file in order and keeps the pairs that are not consecutive.

    ``gaps`` maps an offset to the one that follows it; as in the Java tool's map a later pair of the same offset
    replaces the earlier. ``found`` counts all of them.
    """

    def __init__(self) -> None:
        self.gaps: dict[int, int] = {}
        self.found = 0
        self._last = _NO_OFFSET

    def see(self, offset: int) -> None:
        """The next record."""
        if offset != self._last + 1 and offset != wrap_int64(self._last + 1):
            self.gaps[self._last] = offset
            self.found += 1
        self._last = offset

    def see_column(self, offsets: NDArray[np.int64]) -> None:
        """The next records; shape (rows,)."""
        if not offsets.size:
            return
        import numpy as np

        previous = np.empty_like(offsets)
        previous[0] = self._last
        previous[1:] = offsets[:-1]
        for row in np.flatnonzero(offsets != previous + 1).tolist():
            self.gaps[int(previous[row])] = int(offsets[row])
            self.found += 1
        self._last = int(offsets[-1])

    def reported(self, base_offset: int | None) -> list[tuple[int, int]]:
        """The pairs in the order of the report.

        A log need not start at offset 0: what precedes the first record is reported only where the file's name
        says that offset 0 belongs in it.
        """
        return sorted(pair for pair in self.gaps.items() if base_offset == 0 or pair[0] != _NO_OFFSET)
