"""What a start looks up by offset, with the offsets in order: segments, and the names of snapshots."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, MutableMapping
from typing import TypeVar

from kdump.kafka.startup.names import offset_of

_Value = TypeVar("_Value")


class ByOffset(MutableMapping[int, _Value]):
    """Values by offset. ``offsets`` are the keys, rising: they are never sorted anew. It is for reading only."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self._values: dict[int, _Value] = {}

    def __getitem__(self, offset: int) -> _Value:
        return self._values[offset]

    def __setitem__(self, offset: int, value: _Value) -> None:
        if offset not in self._values:
            insort(self.offsets, offset)
        self._values[offset] = value

    def __delitem__(self, offset: int) -> None:
        del self._values[offset]
        del self.offsets[bisect_left(self.offsets, offset)]

    def __iter__(self) -> Iterator[int]:
        return iter(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets)

    def covering(self, start: int, end: int | None = None) -> list[int]:
        """The offsets from the last one up to ``start`` on (if all are higher, from the first), below ``end``."""
        first = max(bisect_right(self.offsets, start) - 1, 0)
        return self.offsets[first : None if end is None else bisect_left(self.offsets, end)]


class SnapshotNames:
    """Names of snapshots. Several may begin with the same offset, such as ``5`` and ``05``: the last one counts.

    Raises:
        StartFailureError: a name without a number.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names: ByOffset[list[str]] = ByOffset()
        for name in names:
            self.add(name)

    @property
    def offsets(self) -> list[int]:
        """The offsets, rising; for reading only."""
        return self._names.offsets

    def name_of(self, offset: int) -> str | None:
        """The name that counts, None without one."""
        names = self._names.get(offset)
        return names[-1] if names else None

    def known(self) -> SnapshotNames:
        """An independent copy of the names that count."""
        return SnapshotNames(names[-1] for names in self._names.values())

    def add(self, name: str) -> None:
        """Add a name. Raises StartFailureError when it has no number."""
        names = self._names.setdefault(offset_of(name), [])
        at = bisect_left(names, name)
        if names[at : at + 1] != [name]:
            names.insert(at, name)

    def discard(self, name: str) -> None:
        """Forget a name if it is there."""
        offset = offset_of(name)
        names = self._names.get(offset, [])
        at = bisect_left(names, name)
        if names[at : at + 1] == [name]:
            del names[at]
            if not names:
                del self._names[offset]
