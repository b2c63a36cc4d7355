"""How a row of columns is written as a JSON line and as a line of CSV.

Source: docs/contract.md#23-rows. A value is a list of text columns, one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kdump.fast.quoting import csv_strings, csv_text, json_strings
from kdump.fast.text import Column, assemble
from kdump.rows.scalarlines import Output


class Syntax(Protocol):
    """What the two outputs write differently. Numbers and booleans are the same in both."""

    null: bytes
    end: bytes
    """After the last value of a row."""

    def columns(self, fields: Sequence[str]) -> list[str]:
        """The columns of a row that shows ``fields``."""

    def before(self, name: str, *, is_first: bool) -> bytes:
        """What stands in front of the value of the column ``name``."""

    def text(self, value: str) -> bytes:
        """One text."""

    def strings(self, source: NDArray[np.uint8], start: NDArray[np.int64], size: NDArray[np.integer]) -> list[Column]:
        """Bytes ``source[start:start + size]``, null where the size is negative; shapes (rows,)."""

    def json(self, columns: list[Column], rows: int) -> list[Column]:
        """A value that is JSON in both outputs."""


class JsonSyntax:
    """Objects, as ``json.dumps`` writes them with ``ensure_ascii=False`` and ``separators=(",", ":")``."""

    null = b"null"
    end = b"}\n"

    def columns(self, fields: Sequence[str]) -> list[str]:
        """An object has each member once."""
        return list(dict.fromkeys(fields))

    def before(self, name: str, *, is_first: bool) -> bytes:
        """See Syntax."""
        return (b"{" if is_first else b",") + self.text(name) + b":"

    def text(self, value: str) -> bytes:
        """See Syntax."""
        return json.dumps(value, ensure_ascii=False).encode()

    def strings(self, source: NDArray[np.uint8], start: NDArray[np.int64], size: NDArray[np.integer]) -> list[Column]:
        """See Syntax."""
        return json_strings(source, start, size)

    def json(self, columns: list[Column], rows: int) -> list[Column]:
        """See Syntax."""
        return columns


class CsvSyntax:
    """Fields after RFC 4180, with a line feed after each row.

    Args:
        alone: rows have one field only. It is quoted where it is empty, as a row must not be an empty line.
        is_safe: no text begins like a formula of a spreadsheet.
    """

    end = b"\n"

    def __init__(self, *, alone: bool, is_safe: bool) -> None:
        self._alone, self._is_safe = alone, is_safe
        self.null = b'""' if alone else b""

    def columns(self, fields: Sequence[str]) -> list[str]:
        """See Syntax."""
        return list(fields)

    def before(self, name: str, *, is_first: bool) -> bytes:
        """See Syntax."""
        return b"" if is_first else b","

    def text(self, value: str) -> bytes:
        """See Syntax."""
        return csv_text(value.encode(), alone=self._alone, is_safe=self._is_safe)

    def strings(self, source: NDArray[np.uint8], start: NDArray[np.int64], size: NDArray[np.integer]) -> list[Column]:
        """See Syntax."""
        return csv_strings(source, start, size, alone=self._alone, is_safe=self._is_safe)

    def json(self, columns: list[Column], rows: int) -> list[Column]:
        """See Syntax."""
        lines = assemble(columns, rows)
        return csv_strings(lines.data, lines.bounds[:-1], np.diff(lines.bounds))


def syntax_of(output: Output, fields: Sequence[str]) -> Syntax:
    """The syntax of rows that have ``fields``. ValueError without fields."""
    if not fields:
        raise ValueError("a row needs a field")
    return JsonSyntax() if output == "jsonl" else CsvSyntax(alone=len(fields) == 1, is_safe=output == "csv-safe")
