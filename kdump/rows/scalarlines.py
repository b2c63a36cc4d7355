"""One row at a time as a JSON line or a CSV line.

Source: docs/contract.md#23-rows: bytes are a string when they are valid UTF-8, else ``{"base64": "..."}``.
"""

from __future__ import annotations

import csv
import io
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, TypeAlias

from kdump.log.context import as_text
from kdump.wire.utf8 import FORMULA_SIGNS

Output: TypeAlias = Literal["jsonl", "csv", "csv-safe"]
"""``csv-safe``: CSV in which no text begins like a formula of a spreadsheet."""

json_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""A value of JSON's kinds, without spaces."""


_ATOMS = frozenset({int, float, bool, type(None)})
"""Types whose values JSON has as they are: most values are of them, or text."""


def plain(value: Any) -> Any:
    """A value as JSON has it: bytes become strings or objects, names of files become UTF-8, enums their values.

    So do those inside lists and objects. For many rows ``fast.quoting`` writes the same.
    Source: docs/contract.md#23-rows.
    """
    if type(value) in _ATOMS:
        return value
    if isinstance(value, str):
        return value if value.isascii() else as_text(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": b64encode(value).decode()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return plain(value.value) if isinstance(value, Enum) else value


def json_line(row: Mapping[str, Any], names: Iterable[str] | None = None) -> str:
    """The members of a row, or those with these names, in this order, as a JSON object and a line end."""
    return json_text({name: plain(row[name]) for name in (row if names is None else names)}) + "\n"


def csv_line(values: Sequence[Any], *, is_safe: bool = False) -> str:
    """A line of CSV (RFC 4180, but with a line feed). Null is empty; a value that is no text or number is JSON.

    ``is_safe``: a text that begins with one of ``FORMULA_SIGNS`` gets a ``'`` in front.
    """
    text = io.StringIO()
    # With a bare line feed as terminator the module, before Python 3.13, leaves a lone carriage return unquoted.
    csv.writer(text, lineterminator="\r\n").writerow(map(_safe_cell if is_safe else _cell, values))
    return text.getvalue().removesuffix("\r\n") + "\n"


def _cell(value: Any) -> Any:
    value = plain(value)
    if isinstance(value, bool | list | dict):
        return json_text(value)
    return value


def _safe_cell(value: Any) -> Any:
    value = _cell(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_SIGNS) else value
