"""JSON of many megabytes, of which only a part at a time becomes objects.

``json.loads`` would make a text of up to four bytes a character, and an object of 64 bytes and more of each value. Here
a long value stays in its bytes until it is asked for. Each level of nesting is searched once for those who go into it.
What nobody asks for is searched for its end only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

LONG: Final = 1 << 20
"""Bytes of a value from which on it stays in its bytes."""
_TEXT: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TOKEN: Final = re.compile(rb'[\[{](?:[^"\[\]{}]++|' + _TEXT + rb")*+[\]}]|" + _TEXT + rb'|["\[\]{},]', re.DOTALL)
"""A list or object without others in it, a text, or one character; a quote if the text does not end."""
_NAME: Final = re.compile(rb"[ \t\n\r]*+(" + _TEXT + rb")[ \t\n\r]*+:", re.DOTALL)
_SPACE: Final = re.compile(rb"[ \t\n\r]*+")
_PART: Final = re.compile(rb"(?:\\u[dD][89abAB]..\\u....|\\u....|\\.|[^\\]{1,64}+[\x80-\xbf]*+){1,16384}+", re.DOTALL)
"""Up to about 1 MiB of the inside of a text. It cuts no escape, no pair of surrogates and no character."""
_DEEPEST: Final = 1000
"""Levels; ``json`` reads about as many."""
_BLOCK: Final = 1 << 12
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class _Long:
    """A value in ``data[start:end]``, with its brackets or quotes."""

    data: bytes
    start: int
    end: int


class LongText(_Long):
    """A text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "a long text"

    def encode(self) -> bytes:
        """The text in UTF-8. ValueError as ``read_long``; UnicodeEncodeError for a lone surrogate."""
        parts = _PART.finditer(self.data, self.start + 1, self.end - 1)
        return b"".join(_loads(b'"', part.group(), b'"', part.start()).encode() for part in parts)


class LongArray(_Long):
    """An array."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "an array"

    def __iter__(self) -> Iterator[Any]:
        """The elements. ValueError as ``read_long``."""
        for start, end in _groups(self.data, self.start, self.end):
            if end - start > LONG:
                yield _value(self.data, start, end)
            else:
                yield from _loads(b"[", self.data[start:end], b"]", start)


class LongObject(_Long):
    """An object."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "an object"

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """The names and values of the members; a name may come again. ValueError as ``read_long``."""
        for start, end in _groups(self.data, self.start, self.end):
            if end - start <= LONG:
                yield from _loads(b"{", self.data[start:end], b"}", start).items()
                continue
            name = _NAME.match(self.data, start, end)
            if name is None or name.end(1) - name.start(1) > LONG:
                raise ValueError(f"no JSON: no short name at byte {start}")
            yield _loads(b"", name.group(1), b"", start), _value(self.data, name.end(), end)


def read_long(data: bytes) -> Any:
    """What JSON of more than ``LONG`` bytes says: a ``LongText``, ``LongArray`` or ``LongObject``, or a number.

    Raises:
        ValueError: "no JSON: ...", as far as it was looked into. What is iterated over raises it too.
    """
    return _value(data, len(_BOM) if data.startswith(_BOM) else 0, len(data))


def _value(data: bytes, start: int, end: int) -> Any:
    """One value, perhaps between spaces."""
    start = _skip_space(data, start, end)
    end = _before_space(data, start, end)
    if end - start > LONG:
        for brackets, kind in ((b"[]", LongArray), (b"{}", LongObject)):
            if data[start] == brackets[0]:
                if data[end - 1] != brackets[1]:
                    raise ValueError(f"no JSON: what begins at byte {start} does not end")
                return kind(data, start, end)
        if data[start] == ord('"'):
            text = _TOKEN.match(data, start, end)
            if text is None or text.end() != end or end - start == 1:
                raise ValueError(f"no JSON: the text at byte {start} does not end")
            return LongText(data, start, end)
    return _loads(b"", data[start:end], b"", start)


def _skip_space(data: bytes, start: int, end: int) -> int:
    space = _SPACE.match(data, start, end)
    return start if space is None else space.end()


def _before_space(data: bytes, start: int, end: int) -> int:
    while end > start:
        block = data[max(start, end - _BLOCK) : end]
        rest = block.rstrip(b" \t\n\r")
        end -= len(block) - len(rest)
        if rest:
            break
    return end


def _groups(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where the elements between the brackets ``data[start]`` and ``data[end - 1]`` are.

    Several elements at a time with the commas between them, ``LONG`` bytes at most, or one that is longer.
    """
    depth = 0
    first = following = start + 1
    last = end - 1
    for token in _TOKEN.finditer(data, first, last):
        at = token.start()
        if token.end() - at > 1:
            continue
        sign = data[at]
        if sign in b"[{":
            depth += 1
            if depth > _DEEPEST:
                raise ValueError(f"no JSON: more than {_DEEPEST:,} levels at byte {at}")
        elif sign in b"]}":
            depth -= 1
            if depth < 0:
                raise ValueError(f"no JSON: there is more from byte {at + 1} on")
        elif sign == ord('"'):
            raise ValueError(f"no JSON: the text at byte {at} does not end")
        elif not depth:
            if at - first > LONG and following > first:
                yield _filled(data, first, following - 1)
                first = following
            if at - first > LONG:
                yield _filled(data, first, at)
                first = at + 1
            following = at + 1
    if depth:
        raise ValueError(f"no JSON: what begins at byte {start} does not end")
    if last - first > LONG and following > first:
        yield _filled(data, first, following - 1)
        first = following
    yield (first, last) if first == start + 1 else _filled(data, first, last)


def _filled(data: bytes, start: int, end: int) -> tuple[int, int]:
    """The range of elements, of which there is one at least."""
    if _skip_space(data, start, end) == end:
        raise ValueError(f"no JSON: no value at byte {end}")
    return start, end


def _loads(begin: bytes, part: bytes, finish: bytes, position: int) -> Any:
    """JSON of a part of the whole, which begins at its byte ``position``."""
    try:
        return json.loads((begin + part + finish).decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}, counted from byte {position - len(begin)}") from None
