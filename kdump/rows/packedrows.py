"""Rows of which there may be millions, held as bytes.

A row as an object takes a kilobyte or more. Its values as bytes take about as much as in the log that they come from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar

from kdump.system.packedlist import PackedList

Row: TypeAlias = dict[str, Any]
ItemT = TypeVar("ItemT")


class PackedRows(Collection[Row]):
    """Rows that can be gone through again and again. Each time they are new objects.

    Args:
        rows: of plain values, as in JSON, and bytes; all have the members of the first, in the same order.
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._names: tuple[str, ...] = ()
        self._values = PackedList[tuple[Any, ...]]()
        for row in rows:
            self.append(row)

    def append(self, row: Row) -> None:
        """Add a row."""
        names = tuple(row)
        self._names = self._names or names
        if names != self._names:
            raise ValueError(f"a row of {', '.join(names)} among those of {', '.join(self._names)}")
        self._values.append(tuple(row.values()))

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Row]:
        return (dict(zip(self._names, values, strict=True)) for values in self._values)

    def __contains__(self, row: object) -> bool:
        return any(own == row for own in self)


class ShownRows(Collection[Row], Generic[ItemT]):
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
