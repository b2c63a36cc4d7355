"""Decoders of single keys or values: numbers and texts as Kafka's own serializers write them, and views of bytes.

A decoder takes bytes and gives a value that JSON can hold; ValueError says why it does not.
"""

from __future__ import annotations

import json
import math
import struct
import uuid
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

PlainDecoder = Callable[[bytes], Any]

_DEEPEST: Final = 100
_UUID_TEXT: Final = 36
_UUID_BYTES: Final = 16


def _number(layout: str) -> PlainDecoder:
    number = struct.Struct(layout)

    def decode(data: bytes) -> Any:
        if len(data) != number.size:
            raise ValueError(f"it has {len(data)} bytes, not {number.size}")
        return number.unpack(data)[0]

    return decode


def _json(data: bytes) -> Any:
    return json_like(json.loads(data.decode(), parse_float=_finite, parse_constant=_no_constant))


def json_like(value: Any, depth: int = 0) -> Any:
    """``value`` itself, if all outputs can hold it.

    Raises:
        ValueError: it is nested too deeply, or holds a lone surrogate, which JSON can write and UTF-8 cannot.
        TypeError: it is none of JSON's kinds.
    """
    match value:
        case str():
            value.encode()
        case list() | tuple() if depth < _DEEPEST:
            for item in value:
                json_like(item, depth + 1)
        case dict() if depth < _DEEPEST:
            for name, item in value.items():
                if not isinstance(name, str):
                    raise TypeError(f"a {type(name).__name__} is no name of a JSON object")
                json_like(name)
                json_like(item, depth + 1)
        case list() | tuple() | dict():
            raise ValueError(f"it is nested more than {_DEEPEST} deep")
        case None | bool() | int() | float():
            pass
        case _:
            raise TypeError(f"a {type(value).__name__} is no JSON value")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text} is out of range")
    return number


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _uuid(data: bytes) -> str:
    """As Kafka's UUIDSerializer has it, 36 characters, or 16 bytes."""
    if len(data) == _UUID_BYTES:
        return str(uuid.UUID(bytes=data))
    text = data.decode()
    if len(text) != _UUID_TEXT:
        raise ValueError(f"it has {len(data)} bytes, not {_UUID_BYTES} or {_UUID_TEXT}")
    return str(uuid.UUID(text))


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
