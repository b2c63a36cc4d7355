"""Entries of one size that lie side by side, as a sequence."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import starmap
from typing import TypeVar, overload

_Entry = TypeVar("_Entry")


class FixedEntries(Sequence[_Entry]):
    """The whole entries in some bytes; a partial one at the end is left out.

    They are made when they are asked for: as objects they would take 20 times as much memory.

    Args:
        data: the bytes.
        layout: the fields of an entry.
        make: an entry of its fields.
    """

    def __init__(
        self, data: bytes | bytearray | memoryview, layout: struct.Struct, make: Callable[..., _Entry]
    ) -> None:
        self._layout = layout
        self._make: Callable[..., _Entry] = make
        self._data = memoryview(data)[: len(data) - len(data) % layout.size]

    def __len__(self) -> int:
        return len(self._data) // self._layout.size

    def __iter__(self) -> Iterator[_Entry]:
        return starmap(self._make, self._layout.iter_unpack(self._data))

    @overload
    def __getitem__(self, number: int) -> _Entry: ...
    @overload
    def __getitem__(self, number: slice) -> FixedEntries[_Entry]: ...
    def __getitem__(self, number: int | slice) -> _Entry | FixedEntries[_Entry]:
        size = self._layout.size
        if isinstance(number, slice):
            start, stop, step = number.indices(len(self))
            if step != 1:
                raise ValueError("a slice of entries has no step")
            return FixedEntries(self._data[start * size : stop * size], self._layout, self._make)
        return self._make(*self._layout.unpack_from(self._data, range(len(self))[number] * size))
