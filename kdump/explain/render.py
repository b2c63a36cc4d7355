"""Rows as text, plain or coloured. Only the coloured renderer imports rich."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from typing import TYPE_CHECKING, Final

from kdump.explain.layout import Style, StyledText, rows
from kdump.explain.lines import Line

if TYPE_CHECKING:
    from rich.text import Text

_COLORS: Final = {
    Style.TITLE: "bold",
    Style.GROUP: "bold cyan",
    Style.TEXT: "",
    Style.DAMAGE: "bold red",
    Style.KAFKA: "yellow",
    Style.TARGET: "bold reverse",
    Style.POSITION: "dim",
    Style.COVERED: "green",
    Style.UNCOVERED: "blue",
    Style.PAYLOAD: "magenta",
    Style.NAME: "",
    Style.VALUE: "bold",
    Style.NOTE: "dim",
}


def plain(lines: Iterable[Line], width: int) -> str:
    """The explanation for pipes and files: no escape sequences, a line end after every line."""
    return "".join("".join(piece.text for piece in row) + "\n" for row in rows(lines, width))


def colored(lines: Iterable[Line], width: int) -> str:
    """The explanation with ANSI colours by meaning; the text equals the plain one."""
    from rich.console import Console

    out = StringIO()
    console = Console(file=out, width=10 * width, force_terminal=True, color_system="standard", legacy_windows=False)
    for row in rows(lines, width):
        console.print(_text(row), highlight=False, soft_wrap=True)
    return out.getvalue()


def rich_lines(lines: Iterable[Line], width: int) -> list[Text]:
    """The rows as rich texts, for a console of the caller."""
    return [_text(row) for row in rows(lines, width)]


def _text(row: list[StyledText]) -> Text:
    from rich.text import Text

    return Text.assemble(*((piece.text, _COLORS[piece.style]) for piece in row))
