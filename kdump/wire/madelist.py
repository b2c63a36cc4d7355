"""Lists whose items are made while somebody goes through them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class MadeList:
    """A list for an output. All its items at once could take gigabytes, and often nobody shows it.

    ``sources``: one for each item; ``make``: the item of a source; ``size``: bytes of all sources in a file.
    """

    sources: Collection[Any]
    make: Callable[[Any], Any]
    size: int

    def __len__(self) -> int:
        return len(self.sources)

    def __iter__(self) -> Iterator[Any]:
        return map(self.make, self.sources)
