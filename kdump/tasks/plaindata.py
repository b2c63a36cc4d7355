"""Results of tasks as plain data, for their way from a worker to the process that asked.

Loading a pickle runs the functions that it names. So the driver would run whatever a worker, or somebody on the network
between them, puts into one. Here a result is JSON text. It names classes only by their short names, and the reader says
which classes are allowed. Nothing else can come out of it. Large members are not in the text: the bytes of arrays and
of ``bytes`` follow it in the order in which it names them.
"""

from __future__ import annotations

import json
import math
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum
from typing import Any, Final

from kdump.codes import Codes, DamageError, KdumpError

_TEXT_SIZE: Final = struct.Struct("<Q")
"""How a result begins: the size of its text."""
_COMBINING: Final = frozenset({"add", "minimum", "maximum"})
"""Functions of numpy that a result may hold."""


class PlainData:
    """Packs values of some classes, and unpacks them again.

    Besides instances of ``classes``, a value may be None, a bool, a number, text, bytes, a list, tuple, set or dict of
    values, a Counter, a numpy array of numbers, or an error of kdump.

    Args:
        classes: enumerations, named tuples, and classes whose ``__getstate__`` gives all of an instance, which
            ``__setstate__`` takes where there is one. No two have the same name.
    """

    def __init__(self, classes: Collection[type]) -> None:
        self._classes = {made.__name__: made for made in classes}
        if len(self._classes) != len(classes):
            raise ValueError("two classes have the same name")

    def pack(self, value: object) -> bytes:
        """The value as bytes. Raises TypeError for an instance of another class."""
        large: list[bytes | memoryview] = []
        text = json.dumps(self._packed(value, large), separators=(",", ":")).encode()
        return b"".join((_TEXT_SIZE.pack(len(text)), text, *large))

    def unpack(self, data: bytes) -> Any:
        """The value that was packed. Raises KdumpError UNREADABLE where ``data`` are no such value."""
        try:
            large = _Large(data)
            text = large.next(*_TEXT_SIZE.unpack(large.next(_TEXT_SIZE.size)))
            return self._unpacked(json.loads(str(text, "ascii")), large)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, struct.error) as error:
            raise KdumpError(Codes.UNREADABLE, f"the result of a worker is not readable: {error}") from error

    def _packed(self, value: Any, large: list[bytes | memoryview]) -> object:
        """What stands for the value in the text. Its bytes and arrays are added to ``large``."""
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value

        def packed(values: Iterable[Any]) -> Iterator[object]:
            return (self._packed(one, large) for one in values)

        if kind is bytes:
            large.append(value)
            return ["bytes", len(value)]
        if kind in (list, tuple, set):
            return [kind.__name__, *packed(value)]
        if kind in (dict, Counter):
            return [kind.__name__, *(list(packed(item)) for item in value.items())]
        if isinstance(value, KdumpError):
            damage = isinstance(value, DamageError)
            return ["error", damage, value.code.name, value.message, value.path, value.position]
        if self._classes.get(kind.__name__) is kind:
            return ["class", kind.__name__, *packed(_state(value))]
        return _packed_number(value, large)

    def _unpacked(self, packed: Any, large: _Large) -> Any:
        if not isinstance(packed, list):
            if isinstance(packed, dict):
                raise ValueError("a JSON object")
            return packed
        tag, *items = packed
        return _UNPACKERS[tag](self, items, large)

    def _pairs(self, items: list[Any], large: _Large) -> dict[Any, Any]:
        return {self._unpacked(key, large): self._unpacked(value, large) for key, value in items}

    def _instance(self, items: list[Any], large: _Large) -> Any:
        """An instance of one of the classes. Only tuples are made by their constructor."""
        kind = self._classes[items[0]]
        state = [self._unpacked(item, large) for item in items[1:]]
        if issubclass(kind, Enum):
            return kind[state[0]]
        if issubclass(kind, tuple):
            return kind._make(state)  # type: ignore[attr-defined]
        made: Any = object.__new__(kind)
        if hasattr(kind, "__setstate__"):
            made.__setstate__(state[0])
            return made
        # Python's own state of an instance: its dictionary, or that and its slots.
        parts = state[0] if isinstance(state[0], tuple) else state
        for part in parts:
            for name, value in (part or {}).items():
                object.__setattr__(made, name, value)
        return made


class _Large:
    """The bytes of a result, which are read one member after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    def next(self, size: int) -> memoryview:
        """The next ``size`` bytes. Raises ValueError where there are fewer."""
        start, end = self._at, self._at + size
        if not start <= end <= len(self._data):
            raise ValueError(f"{size} bytes at {start} of {len(self._data)}")
        self._at = end
        return self._data[start:end]


def _state(value: Any) -> tuple[object, ...]:
    """The state of an instance of one of the classes."""
    if isinstance(value, Enum):
        return (value.name,)
    return tuple(value) if isinstance(value, tuple) else (value.__getstate__(),)


def _packed_number(value: Any, large: list[bytes | memoryview]) -> object:
    """A number, an array or a function of numpy."""
    import numpy as np

    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise ValueError("Object arrays do not travel as plain data")
        large.append(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
        return ["array", np.lib.format.dtype_to_descr(value.dtype), value.shape]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ufunc) and value.__name__ in _COMBINING:
        return ["ufunc", value.__name__]
    raise TypeError(f"{type(value)} does not travel as plain data")


def _error(_: PlainData, items: list[Any], large: _Large) -> KdumpError:
    is_damage, code, message, path, position = items
    kind = DamageError if is_damage else KdumpError
    return kind(Codes[code], message, path=path, position=position)


def _array(_: PlainData, items: list[Any], large: _Large) -> Any:
    import numpy as np

    descr, shape = items
    kind = np.lib.format.descr_to_dtype(descr)
    # The result as a whole is not kept, and arrays change.
    return np.frombuffer(large.next(kind.itemsize * math.prod(shape)), kind).reshape(shape).copy()


def _ufunc(_: PlainData, items: list[Any], large: _Large) -> Any:
    import numpy as np

    if items[0] not in _COMBINING:
        raise ValueError(f"a function {items[0]!r}")
    return getattr(np, items[0])


_UNPACKERS: Final[dict[str, Callable[[PlainData, list[Any], _Large], Any]]] = {
    "bytes": lambda self, items, large: bytes(large.next(items[0])),
    "list": lambda self, items, large: [self._unpacked(item, large) for item in items],
    "tuple": lambda self, items, large: tuple(self._unpacked(item, large) for item in items),
    "set": lambda self, items, large: {self._unpacked(item, large) for item in items},
    "dict": lambda self, items, large: self._pairs(items, large),
    "Counter": lambda self, items, large: Counter(self._pairs(items, large)),
    "error": _error,
    "class": lambda self, items, large: self._instance(items, large),
    "array": _array,
    "ufunc": _ufunc,
}
