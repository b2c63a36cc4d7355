"""Rows of which there may be millions, held as bytes.

A row as an object takes a kilobyte or more. Its values as bytes take about as much as in the log that they come from.
"""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, Generic, TypeAlias, TypeVar

Row: TypeAlias = dict[str, Any]
ItemT = TypeVar("ItemT")

_POSITION: Final = "Q"


class PackedRows(Collection[Row]):
    """Rows that can be gone through again and again. Each time they are new objects.

    Args:
        rows: of plain values, as in JSON, and bytes; all have the members of the first, in the same order.
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._names: tuple[str, ...] = ()
        self._data = bytearray()
        self._ends = array(_POSITION)
        for row in rows:
            self.append(row)

    def append(self, row: Row) -> None:
        """Add a row."""
        names = tuple(row)
        self._names = self._names or names
        if names != self._names:
            raise ValueError(f"a row of {', '.join(names)} among those of {', '.join(self._names)}")
        self._data += marshal.dumps(tuple(row.values()))
        self._ends.append(len(self._data))

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[Row]:
        start = 0
        for end in self._ends:
            yield dict(zip(self._names, marshal.loads(self._data[start:end]), strict=True))
            start = end

    def __contains__(self, row: object) -> bool:
        return any(own == row for own in self)


class Shown(Collection[Row], Generic[ItemT]):
    """The items of several collections one after the other, each as the row ``change`` makes when it is asked for."""

    def __init__(self, parts: Iterable[Collection[ItemT]], change: Callable[[ItemT], Row]) -> None:
        self._parts = tuple(parts)
        self._change = change

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[Row]:
        return (self._change(item) for part in self._parts for item in part)

    def __contains__(self, row: object) -> bool:
        return any(own == row for own in self)


ShownRows: TypeAlias = Shown[Row]
"""Rows made of rows."""
