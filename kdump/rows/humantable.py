"""Rows as a table for people, as wide as the terminal, with colours."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

from kdump.log.context import FileContext
from kdump.reading.outcomes import ABORTED
from kdump.rows.columns import Column, ColumnType, Meaning, Row, Table
from kdump.rows.printers import Lines
from kdump.rows.scalarlines import plain
from kdump.system.blocks import escaped
from kdump.system.units import time_text

if TYPE_CHECKING:
    from rich.text import Text


_PAGE_ROWS: Final = 200
"""Rows that share one set of column widths. A page bounds the memory of a long dump."""
_TIMES: Final = frozenset({Meaning.TIME, Meaning.RECORD_TIME})
_NUMBERS: Final = frozenset({ColumnType.INT32, ColumnType.INT64})
_LEAST_CONTENTS: Final = 10
_FRAME: Final = 3
"""Characters of a column's border and padding."""
_MOST_CHARACTERS: Final = 200
"""Characters of a cell: rich would measure megabytes only to cut them."""


class HumanTable(Lines):
    """Collects rows and gives them back as tables, a page at a time.

    Args:
        fields: columns; None: those that fit a terminal.
        context: the file the rows come from.
        width: characters of the terminal.
        color: ANSI colours.
    """

    def __init__(self, fields: Sequence[str] | None, context: FileContext, *, width: int, color: bool) -> None:
        self._fields = fields
        self._context = context
        self._width = width
        self._color = color
        self._table: Table | None = None
        self._rows: list[Row] = []

    def line(self, table: Table, row: Row) -> str:
        """Take a row. Returns the text of a page when one is full."""
        before = self.finish() if self._table not in (None, table) else ""
        self._table = table
        # Shortened copies: a row would keep the whole of a large batch in memory until the page is full.
        self._rows.append({name: _shortened(value) for name, value in row.items()})
        return before + (self.finish() if len(self._rows) >= _PAGE_ROWS else "")

    def _default_fields(self, table: Table) -> list[str]:
        """Columns with a value in some row. Bytes are left out where their decoded value is shown."""
        names = [name for name in table.shown if any(row.get(name) not in (None, ()) for row in self._rows)]
        hidden = {column.decodes for column in table.columns if column.name in names}
        return [name for name in names if name not in hidden]

    def finish(self) -> str:
        """The text of the rows that are left."""
        if self._table is None or not self._rows:
            return ""
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        names = self._fields or self._default_fields(self._table)
        columns = {column.name: column for column in self._table.columns}
        file_columns = {"type": self._table.type, **self._context.columns()}
        rows = [{**file_columns, **row} for row in self._rows]
        self._rows = []
        cells = [[_cell(columns.get(name), row.get(name)) for name in names] for row in rows]
        widest = [
            max(len(name), *(cell_row[number].cell_len for cell_row in cells)) for number, name in enumerate(names)
        ]
        is_contents = [name in columns and columns[name].type not in (*_NUMBERS, ColumnType.BOOLEAN) for name in names]
        shown = _fitting(widest, is_contents, self._width)
        hidden = len(names) - shown
        title = f"{self._context.file}  {self._table.type}" + (f" (+{hidden} columns: --fields)" if hidden else "")
        # A Text, as rich takes brackets in a str for markup.
        grid = RichTable(title=Text(escaped(title), overflow="ellipsis", no_wrap=True), pad_edge=False)
        grid.title_justify = "left"
        widths = _shared(widest[:shown], is_contents[:shown], self._width)
        for name, width in zip(names, widths, strict=False):
            column = columns.get(name)
            is_number = column is not None and column.type in _NUMBERS and column.meaning not in _TIMES
            justify: Literal["left", "right"] = "right" if is_number else "left"
            grid.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", width=width)
        for row, cell_row in zip(rows, cells, strict=True):
            grid.add_row(*cell_row[:shown], style=_style(row))
        text = io.StringIO()
        Console(file=text, width=self._width, force_terminal=self._color, no_color=not self._color).print(grid)
        return text.getvalue()


def _shortened(value: Any) -> Any:
    """A copy of a value whose text begins with the same characters, as many as a cell has."""
    value = plain(value)
    match value:
        case str():
            return value[:_MOST_CHARACTERS]
        case list():
            return [_shortened(item) for item in value[:_MOST_CHARACTERS]]
        case dict():
            return {name: _shortened(item) for name, item in islice(value.items(), _MOST_CHARACTERS)}
    return value


def _fitting(widest: list[int], is_contents: list[bool], width: int) -> int:
    """How many columns fit, from the left, at least one. Numbers are shown whole or not at all."""
    needed = 0
    for shown, (size, gives) in enumerate(zip(widest, is_contents, strict=True)):
        needed += (min(size, _LEAST_CONTENTS) if gives else size) + _FRAME
        if needed > width and shown:
            return shown
    return len(widest)


def _shared(widest: list[int], is_contents: list[bool], width: int) -> list[int]:
    """Column widths. Columns that identify a row are shown whole; contents share the rest, narrow ones first."""
    left = (
        width - _FRAME * len(widest) - sum(size for size, gives in zip(widest, is_contents, strict=True) if not gives)
    )
    shared = list(widest)
    flexible = sorted((column for column, gives in enumerate(is_contents) if gives), key=lambda column: widest[column])
    for done, column in enumerate(flexible):
        shared[column] = min(widest[column], max(_LEAST_CONTENTS, left // (len(flexible) - done)))
        left -= shared[column]
    return shared


def _cell(column: Column | None, value: Any) -> Text:
    """The text of a cell. ``column`` is None where the table does not have it."""
    from rich.text import Text

    if value is None:
        return Text("null" if column is not None and column.type is ColumnType.BYTES else "", style="dim")
    if column is not None and column.meaning in _TIMES and isinstance(value, int):
        return Text(time_text(value))
    value = plain(value)
    if isinstance(value, bool):
        return Text("yes" if value else "no", style="" if value else "dim")
    return Text(escaped(value_text(value)[:_MOST_CHARACTERS]))


def value_text(value: Any) -> str:
    """A value of JSON's kinds in few characters."""
    match value:
        case None:
            return "null"
        case {"base64": str(data)} if len(value) == 1:
            return f"base64:{data}"
        case {"schema": {"id": int(number)}, "data": decoded}:
            return f"{value_text(decoded)} (schema {number})"
        case dict() if len(value) == 1 and (name := next(iter(value))).startswith("$"):
            # A type that JSON does not have.
            return value_text(value[name])
        case dict():
            return " ".join(f"{name}={_pair(item)}" for name, item in value.items())
        case list():
            return ",".join(_pair(item) for item in value)
        case _:
            return str(value)


def _pair(item: Any) -> str:
    """A header, or an element of any other list."""
    match item:
        case [key, value] if not isinstance(key, list | dict) or "base64" in key:
            return f"{value_text(key)}={value_text(value)}"
        case dict():
            return f"({value_text(item)})"
        case _:
            return value_text(item)


def _style(row: Row) -> str:
    """Damage red, aborted records dim, control batches magenta, transactional ones cyan."""
    if row.get("isValid") is False or row.get("problem"):
        return "bold red"
    if row.get("txnState") == ABORTED:
        return "dim yellow"
    if row.get("isControl"):
        return "magenta"
    return "cyan" if row.get("isTransactional") else ""
