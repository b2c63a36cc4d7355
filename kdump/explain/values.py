"""Values as text: bytes, timestamps, ranges. Nothing that comes out can drive a terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from kdump.wire.checksum import Buffer

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN_COLUMNS: Final = 72
_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def quoted(data: Buffer, shown: int = _SHOWN_COLUMNS) -> str:
    r"""Bytes in double quotes: as text if they are UTF-8, else ``b"..."`` with ``\xNN`` for what is not ASCII.

    More than ``shown`` columns are shortened in the middle.
    """
    # Only the ends of a large value are shown; its middle need not be decoded.
    most = 4 * shown
    raw = bytes(data) if len(data) <= 2 * most else bytes(data[:most]) + bytes(data[-most:])
    try:
        text, mark = raw.decode(), ""
    except UnicodeDecodeError:
        text, mark = raw.decode("latin-1"), "b"
    characters = [_escape(character, ascii_only=bool(mark)) for character in text]
    if len(raw) < len(data) or sum(map(len, characters)) > shown:
        head = _within(characters, shown - shown // 4)
        tail = _within(characters[::-1], shown // 4)[::-1]
        characters = [*head, " … ", *tail]
    return f'{mark}"{"".join(characters)}"'


def _within(characters: list[str], width: int) -> list[str]:
    """The first characters that fit in ``width`` columns; every character counts at least one."""
    used = 0
    for number, character in enumerate(characters):
        used += len(character)
        if used > width:
            return characters[:number]
    return characters


def escaped(text: str) -> str:
    """``text`` with everything unprintable (control, format and bidirectional characters too) as an escape."""
    return "".join(_escape(character, ascii_only=False) for character in text)


def _escape(character: str, *, ascii_only: bool) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    if character.isprintable() and not (ascii_only and code >= 0x80):
        return character
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def date(milliseconds: int) -> str:
    """A timestamp as ISO 8601 date and time; negative ones are no date in Kafka."""
    if milliseconds < 0:
        return "none" if milliseconds == -1 else "before 1970"
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return "after the year 9999"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03}Z"


def span(start: int, end: int) -> str:
    """The bytes from ``start`` (included) to ``end`` (excluded), in words."""
    if end - start <= 0:
        return f"no bytes at {start}"
    return f"byte {start}" if end - start == 1 else f"bytes {start} to {end - 1}"


def count(number: int, what: str) -> str:
    """``1 record``, ``2 records``."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def sized(size: int) -> str:
    """The size of a nullable value in words."""
    return "null" if size < 0 else "empty" if size == 0 else count(size, "byte")
