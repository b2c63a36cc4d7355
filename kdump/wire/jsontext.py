"""JSON that may be long: of files that somebody else may have written, and of results."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Final

_FREE_VALUES: Final = 1 << 17
_BYTES_OF_A_VALUE: Final = 12
_DEEPEST: Final = 100
"""Levels of values that are shown: what writes them calls itself once or twice for each."""
_TOO_DEEP: Final = "its JSON is nested too deep"
_BLOCK: Final = 1 << 14
"""Parts of JSON, of which a number is one, that are joined."""


def read_json(data: bytes, parse_int: Callable[[str], int] | None = None) -> Any:
    """What JSON says, if it holds no more values than its size explains.

    An empty list of 3 bytes becomes an object of 64, so few bytes would become gigabytes. 131,072 values may be there
    in any case, and one more for each 12 bytes.

    Args:
        data: UTF-8; bytes that are none become lone surrogates.
        parse_int: makes an integer of its digits.

    Raises:
        ValueError: it is no JSON, too deep, has too many values, or half a character that is no such byte.
    """
    text = data.decode("utf-8", "surrogateescape")
    _check_values(text, len(data), "bytes")
    try:
        value = json.loads(text, parse_int=parse_int)
        if "\\u" in text:
            # An escape can say what is no text.
            json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape")
        return value
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error


def _check_values(text: str, size: int, unit: str) -> None:
    """Raises ValueError for JSON of ``size`` units with more values than that explains, see ``read_json``."""
    # Each value but the first follows a comma, or begins a list or an object.
    if 1 + sum(map(text.count, ",[{")) > _FREE_VALUES + size // _BYTES_OF_A_VALUE:
        raise ValueError(f"{size:,} {unit} of JSON hold more values than kdump writes")


def read_shown_json(text: str) -> Any:
    """What JSON says, in values that every output can show. Half a character (a lone surrogate) becomes ``?``.

    Raises:
        ValueError: it is no JSON, has more than 100 levels, too many values (as for ``read_json``, with characters for
            bytes), or a number that is none or infinite.
    """
    _check_values(text, len(text), "characters")
    try:
        value = json.loads(text, parse_float=finite_number, parse_constant=no_constant)
        if "\\u" in text:
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    check_depth(value, _DEEPEST)
    return value


def check_depth(value: object, most: int) -> None:
    """Raises ValueError for a value of JSON with more than ``most`` levels of lists and objects."""
    level, depth = [value] if isinstance(value, (dict, list)) else [], 0
    while level:
        depth += 1
        if depth > most:
            raise ValueError(_TOO_DEEP)
        parts = (one.values() if isinstance(one, dict) else one for one in level)
        level = [inner for part in parts for inner in part if isinstance(inner, (dict, list))]


def finite_number(text: str) -> float:
    """The number that JSON says. Raises ValueError if it is too large."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text} is out of range")
    return number


def no_constant(text: str) -> Any:
    """Raises ValueError: ``NaN`` and ``Infinity`` are no JSON, though Python reads them."""
    raise ValueError(f"{text} is not JSON")


def json_blocks(value: object, indent: int | None = None) -> Iterator[bytes]:
    """The JSON of a value, as of ``json.dumps``, and a newline. It is made in blocks of a few hundred kilobytes.

    An enum counts as its value.
    """
    parts: list[str] = []
    for part in json.JSONEncoder(indent=indent, default=_plain).iterencode(value):
        parts.append(part)
        if len(parts) == _BLOCK:
            yield "".join(parts).encode()
            parts.clear()
    parts.append("\n")
    yield "".join(parts).encode()


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"{type(value)} is nothing for JSON")
