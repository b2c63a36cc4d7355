"""Rows as a table for people: a column for each member."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

from kdump.system.blocks import escaped

_TIMES: Final = frozenset(
    {
        "largestTimestamp",
        "commitTimestamp",
        "timestamp",
        "transactionLastUpdateTimestamp",
        "transactionStartTimestamp",
        "startTimestamp",
    }
)
_NOT_BROKEN: Final = frozenset({"codec", "goes", "reason", "state"})
"""Columns that stay narrow; paths and names wrap if they do not fit."""
_NAME_WIDTH: Final = 14
_FRAME: Final = 3
"""Characters of a column's border and padding."""


def row_table(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]], *, width: int, color: bool) -> str:
    """The table.

    Args:
        columns: the title of each member that is shown; from the end, columns that do not fit are left out.
        rows: have these members.
        width: characters of a line.
        color: with styles.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = {name: [title, *(_cell(name, row[name]) for row in rows)] for name, title in columns.items()}
    longest = {name: max(map(len, column)) for name, column in cells.items()}
    numbers = {name for name in cells if any(isinstance(row[name], int | float) for row in rows)} - _TIMES - {"goes"}
    whole = {name for name in cells if name in numbers | _TIMES | _NOT_BROKEN}
    least = {name: longest[name] if name in whole else min(longest[name], _NAME_WIDTH) for name in cells}
    shown = _that_fit(least, width)
    grid = Table(pad_edge=False)
    for name in shown:
        justify: Literal["left", "right"] = "right" if name in numbers else "left"
        grid.add_column(cells[name][0], justify=justify, no_wrap=name in whole, overflow="fold", min_width=least[name])
    for number, row in enumerate(rows, 1):
        style = "bold red" if row.get("goes") else "bold" if row.get("isDefault") else ""
        grid.add_row(*(Text(cells[name][number]) for name in shown), style=style)
    text = io.StringIO()
    Console(file=text, width=width, force_terminal=color, no_color=not color).print(grid)
    return text.getvalue()


def _that_fit(least: Mapping[str, int], width: int) -> list[str]:
    """The first column, and those after it that fit."""
    shown: list[str] = []
    room = width - 1
    for name, size in least.items():
        room -= size + _FRAME
        if room < 0 and shown:
            break
        shown.append(name)
    return shown


def _cell(name: str, value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int() if name in _TIMES:
            return _time(value)
        case int() if name not in ("level", "magic", "partition", "producerId", "producerEpoch"):
            return f"{value:,}"
        case float():
            return f"{value:,.2f}" if name == "ratio" else f"{value:,.0f}"
        case list():
            return escaped(", ".join(map(str, value)))
    return escaped(str(value))


def _time(milliseconds: int) -> str:
    if milliseconds < 0:
        return ""
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
