"""UTF-8 as the JVM decodes it (docs/spec/dump-output.md#54-utf-8-decoding)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


_PIECE: Final = 1 << 17
_LONGEST: Final = 4


def decode_utf8(data: bytes) -> str:
    """``new String(bytes, UTF_8)``: malformed input becomes U+FFFD, as many as Java makes.

    Python makes the same number, except for encoded surrogates: one U+FFFD in Java, up to three in Python.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", data).decode("utf-8", "replace")


def pieces(data: bytes) -> Iterator[bytes]:
    """``data`` in pieces. Each piece decodes, well or badly, as it does in the whole.

    A piece ends before a byte that continues no character, or after more continuation bytes than a character has.
    """
    start = 0
    while len(data) - start > _PIECE:
        end = start + _PIECE
        for cut in range(end, end - _LONGEST, -1):
            if data[cut] & 0xC0 != 0x80:
                end = cut
                break
        yield data[start:end]
        start = end
    yield data[start:]


def is_utf8(data: bytes) -> bool:
    """``data`` is valid UTF-8. Only a piece of it is decoded at a time."""
    try:
        for piece in pieces(data):
            piece.decode()
    except UnicodeDecodeError:
        return False
    return True
