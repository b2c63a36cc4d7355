"""Results of tasks as plain data, for their way from a worker to the process that asked.

Loading a pickle runs the functions that it names. So the driver would run whatever a worker, or somebody on the network
between them, puts into one. Here a result is JSON text. It names classes only by their short names, and the reader says
which classes are allowed. Nothing else can come out of it.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Collection
from enum import Enum
from io import BytesIO
from typing import Any, Final

from kdump.codes import Codes, DamageError, KdumpError

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
        """The value as ASCII text. Raises TypeError for an instance of another class."""
        return json.dumps(self._packed(value), separators=(",", ":")).encode()

    def unpack(self, data: bytes | memoryview) -> Any:
        """The value that was packed. Raises KdumpError UNREADABLE where ``data`` are no such value."""
        try:
            # A large result is not copied as bytes first.
            return self._unpacked(json.loads(str(data, "ascii")))
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, EOFError) as error:
            raise KdumpError(Codes.UNREADABLE, f"the result of a worker is not readable: {error}") from error

    def _packed(self, value: Any) -> object:
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if kind is bytes:
            return ["bytes", base64.b64encode(value).decode()]
        if kind in (list, tuple, set):
            return [kind.__name__, *map(self._packed, value)]
        if kind in (dict, Counter):
            return [kind.__name__, *([self._packed(key), self._packed(of)] for key, of in value.items())]
        if isinstance(value, KdumpError):
            damage = isinstance(value, DamageError)
            return ["error", damage, value.code.name, value.message, value.path, value.position]
        if self._classes.get(kind.__name__) is kind:
            return ["class", kind.__name__, *self._state(value)]
        return self._packed_number(value)

    def _state(self, value: Any) -> list[object]:
        """The state of an instance of one of the classes."""
        if isinstance(value, Enum):
            return [value.name]
        if isinstance(value, tuple):
            return [self._packed(item) for item in value]
        return [self._packed(value.__getstate__())]

    @staticmethod
    def _packed_number(value: Any) -> object:
        """A number, an array or a function of numpy."""
        import numpy as np

        if isinstance(value, np.ndarray):
            target = BytesIO()
            np.save(target, value, allow_pickle=False)
            return ["array", base64.b64encode(target.getbuffer()).decode()]
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ufunc) and value.__name__ in _COMBINING:
            return ["ufunc", value.__name__]
        raise TypeError(f"{type(value)} does not travel as plain data")

    def _unpacked(self, packed: Any) -> Any:
        if not isinstance(packed, list):
            if isinstance(packed, dict):
                raise ValueError("a JSON object")
            return packed
        tag, *items = packed
        return _UNPACKERS[tag](self, items)

    def _instance(self, items: list[Any]) -> Any:
        """An instance of one of the classes. Only tuples are made by their constructor."""
        kind = self._classes[items[0]]
        state = [self._unpacked(item) for item in items[1:]]
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


def _error(_: PlainData, items: list[Any]) -> KdumpError:
    is_damage, code, message, path, position = items
    kind = DamageError if is_damage else KdumpError
    return kind(Codes[code], message, path=path, position=position)


def _array(_: PlainData, items: list[Any]) -> Any:
    import numpy as np

    return np.load(BytesIO(base64.b64decode(items[0], validate=True)), allow_pickle=False)


def _ufunc(_: PlainData, items: list[Any]) -> Any:
    import numpy as np

    if items[0] not in _COMBINING:
        raise ValueError(f"a function {items[0]!r}")
    return getattr(np, items[0])


_UNPACKERS: Final[dict[str, Callable[[PlainData, list[Any]], Any]]] = {
    "bytes": lambda self, items: base64.b64decode(items[0], validate=True),
    "list": lambda self, items: [self._unpacked(item) for item in items],
    "tuple": lambda self, items: tuple(self._unpacked(item) for item in items),
    "set": lambda self, items: {self._unpacked(item) for item in items},
    "dict": lambda self, items: {self._unpacked(key): self._unpacked(value) for key, value in items},
    "Counter": lambda self, items: Counter({self._unpacked(key): self._unpacked(value) for key, value in items}),
    "error": _error,
    "class": lambda self, items: self._instance(items),
    "array": _array,
    "ufunc": _ufunc,
}
