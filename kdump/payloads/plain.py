"""Decoders of single keys or values: numbers and texts as Kafka's own serializers write them, and views of bytes.

A decoder takes bytes and gives a value that JSON can hold. It raises ValueError with the reason where it cannot.
"""

from __future__ import annotations

import json
import re
import struct
import uuid
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

from kdump.wire.jsontext import finite_number, no_constant

PlainDecoder = Callable[[bytes], Any]

_DEEPEST: Final = 100
_BYTES_OF_A_VALUE: Final = 8
"""A value in a list, without its text."""
_FREE_BYTES: Final = 256 << 10
_BYTES_FOR_ONE: Final = 32
"""Bytes of values that one byte of a payload may become, after ``_FREE_BYTES``. No JSON becomes so many: of the two
bytes ``0,`` eight."""
_MOST_BITS: Final = 14_000
"""The largest number in bits: Python writes 4,300 digits at most."""
_UUID_TEXT: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_UUID_BYTES: Final = 16


def _number(layout: str) -> PlainDecoder:
    number = struct.Struct(layout)

    def decode(data: bytes) -> Any:
        if len(data) != number.size:
            raise ValueError(f"it has {len(data)} bytes, not {number.size}")
        return number.unpack(data)[0]

    return decode


def _json(data: bytes) -> Any:
    text = data.decode()
    value = json.loads(text, parse_float=finite_number, parse_constant=no_constant, object_pairs_hook=_without_repeats)
    return json_like(value, len(data))


def json_like(value: Any, size: int) -> Any:
    """``value`` in a form that all outputs can hold. A tuple becomes a list, an object of a subclass one of its base.

    A list may hold another one several times, so a few lists can say 2^40 values. Here each time is a value of its own,
    and their number is bounded by the size of the payload.

    Args:
        value: what a decoder made of a payload. Methods that a subclass overrides are not asked.
        size: of the payload in bytes.

    Raises:
        ValueError: it is nested too deeply, is too large, or holds a number of too many digits or a lone surrogate,
            which JSON can write and UTF-8 cannot.
        TypeError: it is none of JSON's kinds.
    """
    return _Plain(_FREE_BYTES + _BYTES_FOR_ONE * size).value(value, 0)


class _Plain:
    """Makes plain values. ``most``: bytes that they may be, of which each value counts as 8 and a character as 1."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most

    def value(self, value: Any, depth: int = 0) -> Any:
        """``value``, which is inside of ``depth`` lists and objects. Raises as ``json_like``."""
        self._left -= _BYTES_OF_A_VALUE
        if self._left < 0:
            raise ValueError(f"it becomes more than {self._most:,} bytes")
        match value:
            case str():
                return self._text(value)
            case list() | tuple() if depth < _DEEPEST:
                return [self.value(item, depth + 1) for item in value]
            case dict() if depth < _DEEPEST:
                return {self._name(name): self.value(item, depth + 1) for name, item in value.items()}
            case list() | tuple() | dict():
                raise ValueError(f"it is nested more than {_DEEPEST} deep")
            case None | True | False:
                return value
            case int():
                return _whole(value)
            case float():
                return float.__float__(value)
            case _:
                raise TypeError(f"a {type(value).__name__} is no JSON value")

    def _name(self, name: object) -> str:
        if not isinstance(name, str):
            raise TypeError(f"a {type(name).__name__} is no name of a JSON object")
        return self._text(name)

    def _text(self, value: str) -> str:
        text = str.__str__(value)
        text.encode()
        self._left -= len(text)
        return text


def _whole(value: int) -> int:
    number = int.__int__(value)
    if number.bit_length() > _MOST_BITS:
        raise ValueError(f"a number of {number.bit_length():,} bits is too large")
    return number


def _without_repeats(members: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(members)
    if len(values) < len(members):
        raise ValueError("an object has the same name twice, one of its values would be lost")
    return values


def _uuid(data: bytes) -> str:
    """A uuid as Kafka's UUIDSerializer writes it, 36 characters, or 16 bytes."""
    if len(data) == _UUID_BYTES:
        return str(uuid.UUID(bytes=data))
    text = data.decode()
    if not _UUID_TEXT.fullmatch(text):
        raise ValueError(f"it is neither {_UUID_BYTES} bytes nor the 36 characters of a uuid")
    return text.lower()


DECODERS: Final[dict[str, PlainDecoder]] = {
    "text": bytes.decode,
    "hex": bytes.hex,
    "base64": lambda data: b64encode(data).decode(),
    "json": _json,
    "int32": _number(">i"),
    "int64": _number(">q"),
    "float64": _number(">d"),
    "uuid": _uuid,
}
