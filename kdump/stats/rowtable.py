"""Rows as a table for people: a column for each member."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, Literal

from kdump.system.blocks import escaped

_TIMES: Final = frozenset(
    {
        "largestTimestamp",
        "commitTimestamp",
        "eventTimestamp",
        "timestamp",
        "transactionLastUpdateTimestamp",
        "transactionStartTimestamp",
        "startTimestamp",
    }
)
_NOT_BROKEN: Final = frozenset({"codec", "goes", "reason", "state"})
"""Columns that stay narrow; paths and names wrap if they do not fit."""
_NAME_WIDTH: Final = 14
_MOST_CHARACTERS: Final = 10_000
"""Of a cell."""
_TOGETHER: Final = 500
"""Rows that are laid out at the same time: each takes kilobytes then."""
_FRAME: Final = 3
"""Characters of a column's border and padding."""


def titled(columns: str) -> dict[str, str]:
    """The title of each column of a table; ``columns``: ``name`` or ``name=title``, with commas between them."""
    pairs = (column.partition("=") for column in columns.split(", "))
    return {name: title or name for name, _, title in pairs}


def row_table(columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]], *, width: int, color: bool) -> str:
    """The table; see ``table_parts``."""
    return "".join(table_parts(columns, rows, width=width, color=color))


def table_parts(
    columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]], *, width: int, color: bool
) -> Iterator[str]:
    """The table, some hundred rows at a time.

    Args:
        columns: the title of each member that is shown; from the end, columns that do not fit are left out.
        rows: have these members. They are gone through twice.
        width: characters of a line.
        color: with styles.
    """
    sizes = {name: _ColumnSize(title) for name, title in columns.items()}
    for row in rows:
        for name, size in sizes.items():
            size.see(_cell(name, row[name]), row[name])
    numbers = {name for name, size in sizes.items() if size.has_number} - _TIMES - {"goes"}
    whole = {name for name in sizes if name in numbers | _TIMES | _NOT_BROKEN}
    least = {name: size.longest if name in whole else min(size.longest, _NAME_WIDTH) for name, size in sizes.items()}
    shown = _that_fit(least, width)

    def lines(cells: Iterable[tuple[Sequence[str], str]]) -> list[str]:
        """The lines of a table with these cells and styles of rows, in which a column is as wide as in the whole."""
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        grid = Table(pad_edge=False)
        for name in shown:
            justify: Literal["left", "right"] = "right" if name in numbers else "left"
            no_wrap, title = name in whole, columns[name]
            grid.add_column(title, justify=justify, no_wrap=no_wrap, overflow="fold", min_width=least[name])
        for row, style in cells:
            grid.add_row(*map(Text, row), style=style)
        text = io.StringIO()
        Console(file=text, width=width, force_terminal=color, no_color=not color).print(grid)
        return text.getvalue().splitlines(keepends=True)

    remaining = (([_cell(name, row[name]) for name in shown], _style(row)) for row in rows)
    part = list(islice(remaining, _TOGETHER))
    following = list(islice(remaining, _TOGETHER))
    if not following:
        yield "".join(lines(part))
        return
    # Rows with the longest cells and words stand above each part, and are cut off again.
    models = [([sizes[name].widest for name in shown], ""), ([sizes[name].word for name in shown], "")]
    drawn, twice = lines(models), len(lines(models * 2))
    above = len(drawn) - 1
    head = above - (twice - len(drawn))
    yield "".join(drawn[:head])
    layout = _Layout(drawn[head - 1], [name in numbers for name in shown])
    while part:
        yield layout.lines(part) or "".join(lines([*models, *part])[above:-1])
        part, following = following, list(islice(remaining, _TOGETHER))
    yield drawn[-1]


class _Layout:
    """Lays out rows of which no cell wraps. Rich would take more than ten times as long.

    ``edge``: the line below the titles. ``is_right``: of each column, whether it is aligned right.
    """

    def __init__(self, edge: str, is_right: Sequence[bool]) -> None:
        # Of a table that is too wide the lines are cut off.
        is_whole = edge.endswith("┩\n")
        self._widths = [len(bar) for bar in edge[1:-2].split("━╇━")] if is_whole else []
        cells = (f"{{:{'>' if right else '<'}{width}}}" for right, width in zip(is_right, self._widths, strict=False))
        self._line = f"│{' │ '.join(cells)}│\n"

    def lines(self, rows: Sequence[tuple[Sequence[str], str]]) -> str:
        """The lines of rows; '' where only rich can tell."""
        if not self._widths or any(style or not self._fit(cells) for cells, style in rows):
            return ""
        return "".join(self._line.format(*cells) for cells, _ in rows)

    def _fit(self, cells: Sequence[str]) -> bool:
        return all(
            len(cell) <= width and cell.isascii() and cell.isprintable() and cell == cell.strip()
            for cell, width in zip(cells, self._widths, strict=True)
        )


class _ColumnSize:
    """What makes a column as wide as it is."""

    def __init__(self, title: str) -> None:
        self.longest = len(title)
        self.widest = self.word = ""
        self.has_number = False
        self._width = self._word_width = 0

    def see(self, cell: str, value: Any) -> None:
        """One more cell, and the value that it shows."""
        self.has_number |= isinstance(value, int | float)
        self.longest = max(self.longest, len(cell))
        # Of wide characters some may take two places.
        if len(cell) * (1 if cell.isascii() else 2) <= self._word_width:
            return
        width = _width(cell)
        if width > self._width:
            self.widest, self._width = cell, width
        for word in cell.split():
            if len(word) * 2 > self._word_width and (size := _width(word)) > self._word_width:
                self.word, self._word_width = word, size


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _style(row: Mapping[str, Any]) -> str:
    return "bold red" if row.get("goes") else "bold" if row.get("isDefault") else ""


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
    text = _whole_cell(name, value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}... ({len(text):,} characters)"


def _whole_cell(name: str, value: Any) -> str:
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
