"""Few findings for many entries of one file with the same fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kdump.codes import Codes, Finding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_FINDINGS: Final = 8
"""Findings per code and file; the last one counts the entries that are left."""


def grouped(
    numbers: Sequence[int] | NDArray[np.intp], entry_size: int, code: Codes, describe: Callable[[int], str]
) -> Iterator[Finding]:
    """A finding per entry for the first few, the last of which counts the others.

    Args:
        numbers: of the entries, rising.
        entry_size: bytes of an entry.
        code: what is wrong.
        describe: returns what is wrong with the entry of a number.
    """
    for place, number in enumerate(numbers):
        left = len(numbers) - place - 1
        message = f"entry {number}: {describe(int(number))}"
        position = int(number) * entry_size
        if place == MOST_FINDINGS - 1 and left:
            extent = (int(numbers[-1]) + 1) * entry_size - position
            yield Finding(code, f"{message}; and {left} more entries", position, extent)
            return
        yield Finding(code, message, position, entry_size)
