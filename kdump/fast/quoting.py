"""Byte strings as JSON and CSV values, a column at a time.

A string is shown as text where it is valid UTF-8 (as ``bytes.decode`` judges it), else as ``{"base64":"..."}``
(docs/contract.md#23-rows). The strings of a column are copied one after the other first: validity and the places of
what needs an escape are then found in one pass over all of them. On JSON texts full of quotes a masked copy takes two
thirds of the time of ``bytes.replace`` and half of the standard library's encoder.
"""

from __future__ import annotations

from binascii import b2a_base64
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.text import Bytes, Choice, Column, Literal, RaggedText, assemble
from kdump.wire.utf8 import FORMULA_SIGNS

_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_SPACE: Final = ord(" ")
"""The first character that is no control character; JSON and CSV both leave it as it is."""

# RFC 8259 section 7: five control characters have a letter, all others are written by number.
_CONTROL_ESCAPES: Final = {
    **{code: b"\\u%04x" % code for code in range(_SPACE)},
    **{ord(code): b"\\" + letter for code, letter in zip("\b\t\n\f\r", (b"b", b"t", b"n", b"f", b"r"), strict=True)},
}

_NULL, _PLAIN, _QUOTED, _BINARY = range(4)
"""Kinds of values; the plain ones occur in CSV only."""
_JSON_BEFORE: Final = (b"null", b"", b'"', b'{"base64":"')
_JSON_AFTER: Final = (b"", b"", b'"', b'"}')
_CSV_BEFORE: Final = (b"", b"", b'"', b'"{""base64"":""')
_CSV_AFTER: Final = (b"", b"", b'"', b'""}"')


_APOSTROPHE: Final = ord("'")
_FORMULA_SIGNS: Final = np.array([int.from_bytes(sign.encode().ljust(3, b"\0")) for sign in FORMULA_SIGNS])
_ASCII: Final = 0x80


def json_strings(source: NDArray[np.uint8], start: NDArray[np.int64], size: NDArray[np.integer]) -> list[Column]:
    """``source[start:start + size]`` of every row as a JSON value, null where the size is negative.

    ``start``, ``size``: shape (rows,), one row or more. The columns together are the value, as ``json.dumps`` with
    ``ensure_ascii=False`` and the separators ``","`` and ``":"`` writes it.
    """
    strings = _Strings(source, start, size)
    strings.kind[strings.kind == _PLAIN] = _QUOTED
    data = strings.text.data
    strings.text = _insert(strings.text, np.flatnonzero((data == _QUOTE) | (data == _BACKSLASH)), _BACKSLASH)
    strings.text = _escape_controls(strings.text)
    return strings.columns(_JSON_BEFORE, _JSON_AFTER)


def csv_strings(
    source: NDArray[np.uint8],
    start: NDArray[np.int64],
    size: NDArray[np.integer],
    *,
    alone: bool = False,
    is_safe: bool = False,
) -> list[Column]:
    """Each string as a CSV field (RFC 4180), empty where the size is negative.

    Only what holds a comma, a quote or a line end is quoted; with ``alone`` (the only field of its row) also what is
    empty, for the row would be an empty line. With ``is_safe`` a text that a spreadsheet would take for a formula gets
    a ``'`` in front.
    """
    strings = _Strings(source, start, size)
    if is_safe:
        first = strings.text.bounds[:-1]
        strings.text = _insert(strings.text, first[_are_formulas(strings.text.data, first)], _APOSTROPHE)
    data = strings.text.data
    is_quote = data == _QUOTE
    places = np.flatnonzero(is_quote | (data == ord(",")) | (data == ord("\n")) | (data == ord("\r")))
    before = np.searchsorted(places, strings.text.bounds)
    needs_quotes = before[1:] > before[:-1]
    if alone:
        needs_quotes |= size <= 0
    strings.kind[needs_quotes & (strings.kind != _BINARY)] = _QUOTED
    strings.text = _insert(strings.text, np.flatnonzero(is_quote), _QUOTE)
    return strings.columns(_CSV_BEFORE, _CSV_AFTER)


class _Strings:
    """The strings of a column, copied: a piece each in ``text``, with a space after it.

    The space keeps a sequence that is cut off at the end of one string from being completed by the next one. Null and
    binary strings are empty there; the base64 texts of the latter lie in ``_base64``.
    """

    def __init__(self, source: NDArray[np.uint8], start: NDArray[np.int64], size: NDArray[np.integer]) -> None:
        self.kind = np.where(size < 0, _NULL, _PLAIN)
        self.text = _copy(source, start, size)
        self._binary = _malformed(self.text)
        if self._binary.size:
            bounds = self.text.bounds
            self._base64 = RaggedText.join(
                [
                    b2a_base64(self.text.data[bounds[row] : bounds[row + 1] - 1].data, newline=False)
                    for row in self._binary.tolist()
                ]
            )
            self.kind[self._binary] = _BINARY
            self.text = _copy(source, start, np.where(self.kind == _BINARY, 0, size))

    def columns(self, before: tuple[bytes, ...], after: tuple[bytes, ...]) -> list[Column]:
        """The strings between the marks of their kinds."""
        data, bounds = self.text.data, self.text.bounds
        start, size = bounds[:-1], np.diff(bounds) - 1
        if self._binary.size:
            start = start.copy()
            start[self._binary] = self._base64.bounds[:-1] + data.size
            size[self._binary] = np.diff(self._base64.bounds)
            data = np.concatenate((data, self._base64.data))
        return [Choice(self.kind, before), Bytes(data, start, size), Choice(self.kind, after)]


def _copy(source: NDArray[np.uint8], start: NDArray[np.int64], size: NDArray[np.integer]) -> RaggedText:
    return assemble([Bytes(source, start, size), Literal(b" ")], start.size)


def _insert(text: RaggedText, places: NDArray[np.intp], character: int) -> RaggedText:
    """``text`` with ``character`` in front of the characters at ``places`` (ascending)."""
    if not places.size:
        return text
    data = np.full(text.data.size + places.size, character, np.uint8)
    is_copied = np.ones(data.size, np.bool_)
    is_copied[places + np.arange(places.size)] = False
    data[is_copied] = text.data
    return RaggedText(data, text.bounds + np.searchsorted(places, text.bounds))


def _are_formulas(data: NDArray[np.uint8], first: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where a text that begins at ``first`` begins with one of ``FORMULA_SIGNS``, which have one byte or three."""
    one, two, three = (data[np.minimum(first + number, data.size - 1)].astype(np.int64) for number in range(3))
    return np.isin(np.where(one < _ASCII, one << 16, one << 16 | two << 8 | three), _FORMULA_SIGNS)


def _escape_controls(text: RaggedText) -> RaggedText:
    """``text`` with its control characters written as JSON wants them."""
    if text.data.min() >= _SPACE:
        return text
    bounds = text.bounds
    whole = text.data.tobytes()
    for code in np.flatnonzero(np.bincount(text.data[text.data < _SPACE])).tolist():
        escape = _CONTROL_ESCAPES[code]
        places = np.flatnonzero(text.data == code)
        bounds = bounds + np.searchsorted(places, text.bounds) * (len(escape) - 1)
        whole = whole.replace(bytes([code]), escape)
    return RaggedText(np.frombuffer(whole, np.uint8), bounds)


def _malformed(text: RaggedText) -> NDArray[np.intp]:
    """Which pieces are no valid UTF-8; each ends with an ASCII character."""
    if text.data.max() >= 0x80:
        try:
            str(text.data.data, "utf-8")
        except UnicodeDecodeError:
            return np.flatnonzero([not _is_utf8(piece) for piece in text.split()])
    return np.empty(0, np.intp)


def _is_utf8(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


def csv_text(text: bytes, *, alone: bool, is_safe: bool = False) -> bytes:
    """One CSV field, as ``csv_strings`` writes it."""
    data = np.frombuffer(text, np.uint8)
    columns = csv_strings(data, np.zeros(1, np.int64), np.array([len(text)]), alone=alone, is_safe=is_safe)
    return assemble(columns, 1).data.tobytes()
