"""Maps of which there may be millions of entries, most of them small: these are held as bytes.

A dict with its keys and values as objects takes several hundred bytes for an entry, of which a log has 30.
"""

from __future__ import annotations

import marshal
from array import array
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, Final, Generic, TypeVar, cast

from kdump.format.messagereader import UUID_SIZE, uuid_text

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")
MapT = TypeVar("MapT", bound="PackedMap[Any, Any]")

FEW: Final = 1 << 10
"""Entries of a map that need no packing, which takes time."""
_GONE: Final = 0
"""The start of an entry that was removed: no entry is there."""
_MOST_SHORT: Final = (1 << 32) - 1
"""The largest start of four bytes."""
_LONG: Final = 255
_LENGTH_SIZE: Final = 8
_FEWEST_SLOTS: Final = 8
_KEY_VERSION: Final = 2
"""Of ``marshal``: that in which equal keys are equal bytes."""
_LITTLE: Final = 1 << 12
"""Bytes of entries that are not there any more, which nobody minds."""


class PackedMap(MutableMapping[KeyT, ValueT], Generic[KeyT, ValueT]):
    """A map that keeps the order of a dict.

    A value that was held as bytes is a new object each time that it is asked for: a change of it counts only when it is
    put back. No value is None. Keys and values are of what ``marshal`` writes, unless a subclass says how else.

    ``objects``: the values that are not held as bytes, also those of a map of few entries. As long as all are such,
    this dict is all there is.
    """

    most_objects: int | None = None
    """Entries that need no packing; None: FEW."""

    def __init__(self) -> None:
        self.objects: dict[KeyT, ValueT] = {}
        self._is_packed = False
        self._data = bytearray(1)
        """The entries, from position 1 on: key and packed value, each after its length."""
        self._starts = array("I")
        """Where the entries are, in the order of the map."""
        self._slots = array("I", bytes(4 * _FEWEST_SLOTS))
        """A hash table of the keys: numbers in ``_starts``, counted from 1; 0 is free."""
        self._count = 0
        self._dead = 0
        """Bytes of ``_data`` that are no entry any more."""

    def _key_bytes(self, key: KeyT) -> bytes:
        """The key as bytes, which no other key has."""
        return marshal.dumps(cast(Any, key), _KEY_VERSION)

    def _key(self, data: bytes) -> KeyT:
        """The other way round."""
        return cast(KeyT, marshal.loads(data))

    def _pack(self, value: ValueT) -> bytes | None:
        """The value as bytes; None: it stays an object."""
        return marshal.dumps(cast(Any, value))

    def _unpack(self, key: KeyT, data: bytes) -> ValueT:
        """The other way round."""
        del key
        return cast(ValueT, marshal.loads(data))

    def find(self, key: KeyT) -> ValueT | None:
        """As ``get``, and quicker."""
        found = self.objects.get(key)
        if found is not None or not self._is_packed:
            return found
        at = self._place(_sized(self._key_bytes(key)))
        if at < 0:
            return None
        start, end = self._span(self._span(self._starts[at])[1])
        return self._unpack(key, bytes(self._data[start:end]))

    def __getitem__(self, key: KeyT) -> ValueT:
        found = self.find(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return self.find(key) is not None  # type: ignore[arg-type]

    def __len__(self) -> int:
        return self._count if self._is_packed else len(self.objects)

    def __iter__(self) -> Iterator[KeyT]:
        if not self._is_packed:
            yield from self.objects
        for start in self._starts:
            if start != _GONE:
                yield self._key(bytes(self._data[slice(*self._span(start))]))

    def keys_at(self, places: Iterable[int]) -> Iterator[KeyT]:
        """The keys at these places in the order of the map, counted from 0."""
        if not self._is_packed:
            yield from map(list(self.objects).__getitem__, places)
            return
        if self._count < len(self._starts):
            self._compact()
        for place in places:
            yield self._key(bytes(self._data[slice(*self._span(self._starts[place]))]))

    def __setitem__(self, key: KeyT, value: ValueT) -> None:
        few = FEW if self.most_objects is None else self.most_objects
        is_large = self._is_packed or len(self.objects) >= few
        packed = self._pack(value) if is_large else None
        if packed is None:
            is_new = key not in self.objects
            self.objects[key] = value
            if is_new and self._is_packed:
                self._enter(key, b"")
            return
        if not self._is_packed:
            self._is_packed = True
            for other in self.objects:
                self._enter(other, b"")
        self.objects.pop(key, None)
        self._enter(key, packed)

    def __delitem__(self, key: KeyT) -> None:
        if not self._is_packed:
            del self.objects[key]
            return
        at = self._place(_sized(self._key_bytes(key)))
        if at < 0:
            raise KeyError(key)
        self.objects.pop(key, None)
        start = self._starts[at]
        self._dead += self._end(start) - start
        self._starts[at] = _GONE
        self._count -= 1
        self._tidy()

    def _enter(self, key: KeyT, packed: bytes) -> None:
        head = _sized(self._key_bytes(key))
        entry = head + _sized(packed)
        at = self._place(head)
        if len(self._data) > _MOST_SHORT and self._starts.typecode == "I":
            self._starts = array("Q", self._starts)
        if at < 0:
            self._starts.append(len(self._data))
            self._slots[~at] = len(self._starts)
            self._count += 1
        else:
            start = self._starts[at]
            if self._data.startswith(entry, start):
                return
            self._dead += self._end(start) - start
            self._starts[at] = len(self._data)
        self._data += entry
        self._tidy()

    def _place(self, head: bytes) -> int:
        """The number of the entry that begins with ``head``; where there is none, -1 minus that of a free slot."""
        slots, starts, is_at = self._slots, self._starts, self._data.startswith
        mask = len(slots) - 1
        slot = hash(head) & mask
        while number := slots[slot]:
            start = starts[number - 1]
            if start and is_at(head, start):
                return number - 1
            slot = (slot + 1) & mask
        return ~slot

    def _span(self, position: int) -> tuple[int, int]:
        """Start and end of the bytes whose length is at a position."""
        length = self._data[position]
        start = position + 1
        if length == _LONG:
            length = int.from_bytes(self._data[start : start + _LENGTH_SIZE], "little")
            start += _LENGTH_SIZE
        return start, start + length

    def _end(self, start: int) -> int:
        """The end of the entry that begins at ``start``."""
        return self._span(self._span(start)[1])[1]

    def _tidy(self) -> None:
        """Make room where the table is full, and throw away what is gone where that is half of the data."""
        if self._dead > _LITTLE and self._dead * 2 > len(self._data):
            self._compact()
        elif len(self._starts) * 3 > len(self._slots) * 2:
            if self._count < len(self._starts):
                self._compact()
            else:
                self._index()

    def _compact(self) -> None:
        data, starts = bytearray(1), array(self._starts.typecode)
        for start in self._starts:
            if start != _GONE:
                starts.append(len(data))
                data += self._data[start : self._end(start)]
        self._data, self._starts, self._dead = data, starts, 0
        self._index()

    def _index(self) -> None:
        size = _FEWEST_SLOTS
        while size < self._count * 2:
            size *= 2
        self._slots = array("I")
        slots = array("I", [0]) * size
        mask = size - 1
        for number, start in enumerate(self._starts, 1):
            slot = hash(bytes(self._data[start : self._span(start)[1]])) & mask
            while slots[slot]:
                slot = (slot + 1) & mask
            slots[slot] = number
        self._slots = slots


class TextMap(PackedMap[str, ValueT]):
    """A map by texts."""

    def _key_bytes(self, key: str) -> bytes:
        return text_bytes(key)

    def _key(self, data: bytes) -> str:
        return text_of(data)


class IdMap(PackedMap[str, ValueT]):
    """A map by ids of topics."""

    def _key_bytes(self, key: str) -> bytes:
        return id_bytes(key)

    def _key(self, data: bytes) -> str:
        return id_of(data)


class Members(PackedMap[KeyT, dict[str, Any]]):
    """The members of messages. All are of one schema: their names are held once.

    They change seldom, and a message may have a hundred thousand structs: all are packed.
    """

    most_objects = 0

    def __init__(self) -> None:
        super().__init__()
        self._names: tuple[str, ...] = ()

    def _pack(self, value: dict[str, Any]) -> bytes | None:
        names = tuple(value)
        self._names = self._names or names
        # Nothing is a value too: a change that removes.
        return marshal.dumps(tuple(value.values())) if names in (self._names, ()) else None

    def _unpack(self, key: KeyT, data: bytes) -> dict[str, Any]:
        del key
        return dict(zip(self._names, marshal.loads(data), strict=False))


class MembersById(IdMap[dict[str, Any]], Members[str]):
    """The members of messages by ids."""


class NamesById(IdMap[str]):
    """Names of topics by their ids."""

    def _pack(self, value: str) -> bytes:
        return text_bytes(value)

    def _unpack(self, key: str, data: bytes) -> str:
        del key
        return text_of(data)


class IdsByName(TextMap[str]):
    """Ids of topics by their names."""

    def _pack(self, value: str) -> bytes:
        return id_bytes(value)

    def _unpack(self, key: str, data: bytes) -> str:
        del key
        return id_of(data)


def merged(target: MapT, changes: MapT) -> MapT:
    """The map with changes made in it, of which an empty one removes; where it has nothing, the changes themselves."""
    if not target and all(changes.values()):
        return changes
    for key, value in changes.items():
        if value:
            target[key] = value
        else:
            target.pop(key, None)
    return target


def text_bytes(text: str) -> bytes:
    """Any text."""
    return text.encode("utf-8", "surrogatepass")


def text_of(data: bytes) -> str:
    """The other way round."""
    return data.decode("utf-8", "surrogatepass")


def id_bytes(topic_id: str) -> bytes:
    """The 16 bytes of an id; more for a text that is none."""
    try:
        data = urlsafe_b64decode(topic_id + "==")
        if len(data) == UUID_SIZE and uuid_text(data) == topic_id:
            return data
    except ValueError:
        pass
    return bytes(UUID_SIZE + 1) + text_bytes(topic_id)


def id_of(data: bytes) -> str:
    """The other way round."""
    return uuid_text(data) if len(data) == UUID_SIZE else text_of(data[UUID_SIZE + 1 :])


def _sized(data: bytes) -> bytes:
    """The bytes after their length."""
    if len(data) < _LONG:
        return _LENGTHS[len(data)] + data
    return bytes((_LONG,)) + len(data).to_bytes(_LENGTH_SIZE, "little") + data


_LENGTHS: Final = tuple(bytes((length,)) for length in range(_LONG))
