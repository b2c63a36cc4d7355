r"""Records by a format string with the verbs of kcat and rpk.

``%t`` topic, ``%p`` partition, ``%o`` offset, ``%T`` or ``%d`` timestamp (ms), ``%k`` key, ``%K`` its size, ``%v`` or
``%s`` value, ``%V`` or ``%S`` its size, ``%h`` headers as ``name=value,...``, ``%H`` how many, ``%e`` leader epoch,
``%x`` producer id, ``%y`` producer epoch, ``%f`` file, ``%i`` number of the row from 1, ``%%`` a percent sign; ``\n``,
``\t``, ``\r``, ``\0``, ``\\`` and ``\xNN``. Null is empty, or what is chosen for it, and its size is -1.
No line end is added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from kdump.log.context import FileContext
from kdump.rows.columns import Column, ColumnType, Row, Table
from kdump.rows.printers import Lines
from kdump.rows.tables import RECORD, RECORD_DECODED

_TOKEN: Final = re.compile(r"%(.)|\\(x[0-9a-fA-F]{2}|.)|([^%\\]+)|(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


_Part: TypeAlias = Callable[[Row], str]
"""What a piece of the format becomes."""


def _column(name: str) -> Callable[[Row], str]:
    return lambda row: _text(row[name])


def _contents(name: str, decoded: str, null: str) -> Callable[[Row], str]:
    """The decoded value, else the bytes, or ``null``."""

    def text(row: Row) -> str:
        value = row.get(decoded)
        if value is None:
            return null if row[name] is None else _text(row[name])
        return value if isinstance(value, str) else json.dumps(value, **_JSON)

    return text


_JSON: Final[dict[str, Any]] = {"ensure_ascii": False, "separators": (",", ":")}


def _verb(column: Column, decoded: str | None, null: str) -> _Part:
    """``decoded``: the column that shows what a decoder makes of this one."""
    if column.type is ColumnType.HEADERS:
        return partial(_headers, null)
    return _column(column.name) if decoded is None else _contents(column.name, decoded, null)


def _headers(null: str, row: Row) -> str:
    return ",".join(f"{_text(key)}={null if value is None else _text(value)}" for key, value in row["headers"])


def _verbs(table: Table, null: str) -> dict[str, _Part]:
    """What the letters of a table's columns, and those of no column, become."""
    decoded = {column.decodes: column.name for column in table.columns if column.decodes is not None}
    return {
        **{verb: _verb(column, decoded.get(column.name), null) for column in table.columns for verb in column.verbs},
        "H": lambda row: str(len(row["headers"])),
        "i": _column("number"),
        "%": lambda row: "%",
    }


class FormatLines(Lines):
    """Rows of records, written by a format string.

    Args:
        template: the format string.
        context: the file the rows come from.
        table: whose columns have verbs.
        null: what stands for a key, a value or the value of a header that is null.

    Raises:
        ValueError: an unknown verb or escape.
    """

    def __init__(self, template: str, context: FileContext, table: Table = RECORD_DECODED, null: str = "") -> None:
        verbs = _verbs(table, null)
        self._parts = [_part(match, verbs) for match in _TOKEN.finditer(template)]
        self._file = context.columns()
        self._number = 0

    def line(self, table: Table, row: Row) -> str:
        """One record; rows of other tables print nothing."""
        if table.type != RECORD.type:
            return ""
        self._number += 1
        row = {**self._file, "number": self._number, **row}
        return "".join(part(row) for part in self._parts)


def has_field(template: str) -> bool:
    """Whether a format string shows anything of a record."""
    return any(match[1] not in (None, "%") for match in _TOKEN.finditer(template))


def _part(match: re.Match[str], verbs: dict[str, _Part]) -> _Part:
    verb, escape, text, stray = match.groups()
    if verb is not None:
        if verb not in verbs:
            raise ValueError(f"unknown verb %{verb}")
        return verbs[verb]
    if escape is not None:
        text = bytes([int(escape[1:], 16)]).decode("latin-1") if escape[0] == "x" and len(escape) == 3 else None
        if text is not None and ord(text) > 0x7F:
            text = text.encode("latin-1").decode("utf-8", "surrogateescape")
        text = text if text is not None else _ESCAPES.get(escape)
    if text is None:
        raise ValueError(f"unknown escape \\{escape}" if escape is not None else f"'{stray}' at the end")
    literal = text
    return lambda row: literal


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return str(value)
