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

    ``gaps``: an offset and the one that follows it, as they come.
    """

    def __init__(self) -> None:
        self.gaps: list[tuple[int, int]] = []
        self._last = _NO_OFFSET

    def see(self, offset: int) -> None:
        """The next record."""
        if offset != self._last + 1 and offset != wrap_int64(self._last + 1):
            self.gaps.append((self._last, offset))
        self._last = offset

    def see_column(self, offsets: NDArray[np.int64]) -> None:
        """The next records; shape (rows,)."""
        if not offsets.size:
            return
        import numpy as np

        previous = np.empty_like(offsets)
        previous[0] = self._last
        previous[1:] = offsets[:-1]
        rows = np.flatnonzero(offsets != previous + 1)
        self.gaps += zip(previous[rows].tolist(), offsets[rows].tolist(), strict=True)
        self._last = int(offsets[-1])

    def pass_over(self, offset: int) -> None:
        """The next record, which may have any offset."""
        self._last = offset

    @property
    def found(self) -> int:
        """How many pairs the tool notes, those that are not reported included."""
        return len(self.gaps)

    def reported(self, base_offset: int | None) -> list[tuple[int, int]]:
        """The pairs that are reported.

        A log need not start at offset 0: what precedes the first record is reported only where the file's name
        says that offset 0 belongs in it.
        """
        return self.gaps if base_offset == 0 else self._after_first()

    def _after_first(self) -> list[tuple[int, int]]:
        """Without the pair of the first record."""
        return [pair for pair in self.gaps if pair[0] != _NO_OFFSET]


class LaterContinuity(OffsetContinuity):
    """As the tools up to 4.1 do: the first record of a log may have any offset."""

    @property
    def found(self) -> int:
        """See OffsetContinuity."""
        return len(self._after_first())

    def reported(self, base_offset: int | None) -> list[tuple[int, int]]:
        """See OffsetContinuity."""
        return self._after_first()
