"""Rows with a key, value or headers that are too long for one text: they are written in pieces.

Escaped, a payload of 64 MiB may become 400 MB of text. Only a small part of it exists at a time.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

from kdump.format.record import ManyHeaders
from kdump.reading.printing import LONG, LongRow, TextRow
from kdump.rows.scalar import ManyKeys
from kdump.rows.scalarlines import ATOMS, FORMULAS, csv_line, json_line, json_text, plain
from kdump.rows.schema import Row
from kdump.wire.madelist import MadeList
from kdump.wire.utf8 import is_utf8, pieces

_BASE64_PIECE: Final = 3 << 16
"""Bytes; a multiple of three, so that the pieces need no padding between them."""
_spaced_text: Final = json.JSONEncoder(ensure_ascii=False).encode
_CSV_QUOTED: Final = (b",", b'"', b"\r", b"\n")
_FORMULAS: Final = tuple(mark.encode() for mark in FORMULAS)


def is_long(row: Row) -> bool:
    """Whether the row of a record, a node or a transaction is made in pieces."""
    return any(map(is_long_value, map(row.get, ("key", "value", "acl")))) or isinstance(row.get("headers"), ManyHeaders)


def is_long_value(value: Any) -> bool:
    """Whether the text of a value is made in pieces."""
    if type(value) in ATOMS:
        return False
    if isinstance(value, bytes):
        return len(value) >= LONG
    if isinstance(value, list | tuple):
        return any(map(is_long_value, value))
    if isinstance(value, dict):
        return any(map(is_long_value, value.values()))
    if isinstance(value, MadeList):
        return value.size >= LONG
    return isinstance(value, ManyHeaders | ManyKeys)


def json_pieces(names: Sequence[str], values: Sequence[Any]) -> Iterator[str]:
    """``rows.json_line`` in pieces."""
    yield from value_pieces(dict(zip(names, values, strict=True)))
    yield "\n"


def json_row(names: Sequence[str], values: Sequence[Any]) -> TextRow:
    """``rows.json_line``, in pieces where a value is long."""
    is_long = any(map(is_long_value, values))
    return LongRow(json_pieces(names, values)) if is_long else json_line(names, values)


def value_pieces(value: Any) -> Iterator[str]:
    """``json_text(plain(value))`` in pieces; a single one where nothing in the value is long."""
    match value:
        case _ if not is_long_value(value):
            yield json_text(plain(value))
        case bytes() if is_utf8(value):
            yield '"'
            yield from (json_text(piece.decode())[1:-1] for piece in pieces(value))
            yield '"'
        case bytes():
            yield '{"base64":"'
            for start in range(0, len(value), _BASE64_PIECE):
                yield b64encode(value[start : start + _BASE64_PIECE]).decode()
            yield '"}'
        case dict():
            before = "{"
            for name, item in value.items():
                yield f"{before}{json_text(name)}:"
                yield from value_pieces(item)
                before = ","
            yield "}"
        case _:
            before = "["
            for item in value:
                yield before
                yield from value_pieces(item)
                before = ","
            yield "]"


def spaced_pieces(values: MadeList) -> Iterator[str]:
    """A list in the JSON of ``json.dumps``, which has spaces; in pieces."""
    before = "["
    for value in values:
        yield before + _spaced_text(plain(value))
        before = ", "
    yield "]" if len(values) else "[]"


def csv_pieces(values: Sequence[Any], *, is_safe: bool = False) -> Iterator[str]:
    """``rows.csv_line`` in pieces."""
    if not any(map(is_long_value, values)):
        yield csv_line(values, is_safe=is_safe)
        return
    before = ""
    for value in values:
        yield before
        before = ","
        if not is_long_value(value):
            # With a neighbour, because a lone empty cell is written differently.
            yield csv_line([value, 0], is_safe=is_safe).removesuffix(",0\n")
        elif isinstance(value, bytes) and is_utf8(value):
            texts: Iterable[str] = (piece.decode() for piece in pieces(value))
            if is_safe and value.startswith(_FORMULAS):
                texts = chain("'", texts)
            yield from _quoted(texts) if any(mark in value for mark in _CSV_QUOTED) else texts
        else:
            yield from _quoted(value_pieces(value))
    yield "\n"


def text_pieces(data: bytes) -> Iterator[str]:
    """The bytes as they are (``surrogateescape``)."""
    return (piece.decode("utf-8", "surrogateescape") for piece in pieces(data))


class TextSlices:
    """The text of ``value_pieces``, in slices of ``size`` characters (the last one: up to that), as often as wanted."""

    def __init__(self, value: Any, size: int) -> None:
        self._value = value
        self._size = size
        self._only = None if is_long_value(value) else list(self._made())

    def __iter__(self) -> Iterator[str]:
        return self._made() if self._only is None else iter(self._only)

    def _made(self) -> Iterator[str]:
        pending = ""
        for text in value_pieces(self._value):
            pending += text
            while len(pending) > self._size:
                yield pending[: self._size]
                pending = pending[self._size :]
        yield pending


def shortened(value: Any, size: int) -> Any:
    """A copy of a value whose text begins with the same ``size`` characters."""
    match value:
        case bytes() if len(value) >= LONG:
            head = next(pieces(value))
            return head.decode()[:size] if is_utf8(value) else {"base64": b64encode(head[: 3 * size]).decode()}
        case str():
            return value[:size]
        case ManyHeaders() | ManyKeys() | MadeList() | list():
            return [shortened(item, size) for item in islice(value, size + 1)]
        case dict():
            return {name: shortened(item, size) for name, item in islice(value.items(), size + 1)}
        case tuple():
            return tuple(shortened(item, size) for item in value)
    return value


def _quoted(texts: Iterable[str]) -> Iterator[str]:
    yield '"'
    yield from (text.replace('"', '""') for text in texts)
    yield '"'
