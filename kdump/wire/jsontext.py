"""JSON that may be long: of files that somebody else may have written, and of results."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from enum import Enum
from typing import Any, Final

_FREE_VALUES: Final = 1 << 17
_BYTES_OF_A_VALUE: Final = 12
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
        ValueError: it is no JSON, too deep, or has too many values.
    """
    # Each value but the first follows a comma, or begins a list or an object.
    if 1 + sum(map(data.count, (b",", b"[", b"{"))) > _FREE_VALUES + len(data) // _BYTES_OF_A_VALUE:
        raise ValueError(f"{len(data):,} bytes of JSON hold more values than kdump writes")
    try:
        return json.loads(data.decode("utf-8", "surrogateescape"), parse_int=parse_int)
    except RecursionError as error:
        raise ValueError("its JSON is nested too deep") from error


def json_blocks(value: object, indent: int | None = None) -> Iterator[bytes]:
    """The JSON of a value, as of ``json.dumps``, and a newline. It is made in blocks of a few hundred kilobytes.

    An enum counts as its value. A collection of another kind than those of ``json`` is an array: each of its elements
    is there only while it is written.
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
    if isinstance(value, Collection):
        return _Array(value)
    raise TypeError(f"{type(value)} is nothing for JSON")


class _Array(list[Any]):
    """A list to ``json``, which goes through it once and asks before whether it is empty."""

    def __init__(self, elements: Collection[Any]) -> None:
        super().__init__()
        self._elements = elements

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._elements)
