"""Arranges lines in columns, for the plain and the coloured renderer.

Columns: marks, position, bytes in hex, name, value with its note. The note follows the value and both are wrapped in
the last column.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from io import StringIO
from typing import TYPE_CHECKING, Final, NamedTuple

from kdump.explain.lines import Bits, Labelled, Line, Space, Statement, Tone

if TYPE_CHECKING:
    from rich.text import Text


NARROWEST: Final = 80
"""Least number of columns, however narrow the terminal."""

_HEX_BYTES: Final = 8
_HEX_WIDTH: Final = 3 * _HEX_BYTES - 1
_NAME_WIDTH: Final = 21
_MOST_HEX_ROWS: Final = 4
_INDENT: Final = "    "
_LEAST_POSITION_WIDTH: Final = 6


class Style(Enum):
    """What a piece of text means, so that a renderer can colour it."""

    TITLE = auto()
    GROUP = auto()
    TEXT = auto()
    DAMAGE = auto()
    KAFKA = auto()
    TARGET = auto()
    POSITION = auto()
    COVERED = auto()
    UNCOVERED = auto()
    PAYLOAD = auto()
    NAME = auto()
    VALUE = auto()
    NOTE = auto()


class StyledText(NamedTuple):
    """Some text in one style."""

    text: str
    style: Style


_TONES: Final = {
    Tone.TITLE: (Style.TITLE, "", ""),
    Tone.GROUP: (Style.GROUP, "", "  "),
    Tone.TEXT: (Style.TEXT, "", _INDENT),
    Tone.DAMAGE: (Style.DAMAGE, "!!", _INDENT),
    Tone.KAFKA: (Style.KAFKA, "", _INDENT),
}


def rows(lines: Iterable[Line], width: int) -> Iterator[list[StyledText]]:
    """The printed lines, each as its pieces from left to right, without trailing space.

    Args:
        lines: an explanation.
        width: columns to fit in, at least NARROWEST.
    """
    width = max(width, NARROWEST)
    known = list(lines)
    position_width = max([_LEAST_POSITION_WIDTH, *(len(str(line.end)) for line in known if isinstance(line, Labelled))])
    is_first = True
    for line in known:
        if isinstance(line, Statement):
            if line.tone in (Tone.TITLE, Tone.GROUP) and not is_first:
                yield []
            yield from _statement(line, width)
        else:
            yield from _columns(line, position_width, width)
        is_first = isinstance(line, Statement) and line.tone is Tone.TITLE
    if any(isinstance(line, Labelled) for line in known):
        yield []
        yield [StyledText("> the position asked for   | under the CRC   ! damage", Style.NOTE)]


def _statement(line: Statement, width: int) -> Iterator[list[StyledText]]:
    style, mark, indent = _TONES[line.tone]
    text = f"Kafka: {line.text}" if line.tone is Tone.KAFKA else line.text
    for part in textwrap.wrap(text, width - len(indent), break_on_hyphens=False):
        yield [StyledText(mark.ljust(len(indent)) + part, style)]
        mark = ""


def _columns(line: Labelled | Bits, position_width: int, width: int) -> Iterator[list[StyledText]]:
    value_width = width - (4 + position_width + 2 + _HEX_WIDTH + 2 + _NAME_WIDTH + 2)
    is_summary = isinstance(line, Labelled) and line.is_summary
    value = textwrap.wrap(line.value, value_width) if is_summary else _fold(line.value, value_width)
    values = _wrapped(value, line.note if isinstance(line, Labelled) else "", value_width)
    left = _left(line)
    for number in range(max(len(left), len(values))):
        position, shown = left[number] if number < len(left) else ("", "")
        pieces = [
            _marks(line, is_first=number == 0),
            StyledText(position.rjust(position_width) + "  ", _position_style(line, is_first=number == 0)),
            StyledText(shown.ljust(_HEX_WIDTH) + "  ", _bytes_style(line)),
            StyledText(
                (_name(line) if number == 0 else "").ljust(_NAME_WIDTH) + "  ",
                Style.DAMAGE if line.is_damaged else Style.NAME,
            ),
            *(values[number] if number < len(values) else ()),
        ]
        yield _stripped(pieces)


def _name(line: Labelled | Bits) -> str:
    if isinstance(line, Bits):
        return f"  {line.name}"
    return line.name if len(line.name) <= _NAME_WIDTH else f"{line.name[: _NAME_WIDTH - 1]}…"


def _marks(line: Labelled | Bits, *, is_first: bool) -> StyledText:
    is_target = is_first and isinstance(line, Labelled) and line.is_target
    text = ("> " if is_target else "  ") + ("!" if line.is_damaged else "|" if line.is_covered else " ") + " "
    return StyledText(text, Style.DAMAGE if line.is_damaged else Style.TARGET if is_target else Style.COVERED)


def _position_style(line: Labelled | Bits, *, is_first: bool) -> Style:
    return Style.TARGET if is_first and isinstance(line, Labelled) and line.is_target else Style.POSITION


def _bytes_style(line: Labelled | Bits) -> Style:
    if line.is_damaged:
        return Style.DAMAGE
    if isinstance(line, Labelled) and line.space is Space.PAYLOAD:
        return Style.PAYLOAD
    return Style.COVERED if line.is_covered else Style.UNCOVERED


def _left(line: Labelled | Bits) -> list[tuple[str, str]]:
    """(position, hex) of every row; a long run of bytes is shortened in the middle."""
    if isinstance(line, Bits):
        return [("", line.pattern.rjust(_HEX_WIDTH))]
    size = len(line.data)
    if line.is_summary:
        return [(str(line.position), f"… {size:,} byte{'s' * (size != 1)}")]
    starts = list(range(0, size, _HEX_BYTES))
    gap = None
    if len(starts) > _MOST_HEX_ROWS:
        gap = starts[2], starts[-1]
        starts = [*starts[:2], -1, starts[-1]]
    shown = []
    for start in starts:
        if start < 0 and gap is not None:
            shown.append(("", f"… {gap[1] - gap[0]:,} bytes"))
        else:
            text = bytes(line.data[start : start + _HEX_BYTES]).hex(" ")
            shown.append((str(line.position + start), text))
    return shown


def _wrapped(value: list[str], note: str, width: int) -> list[list[StyledText]]:
    """Value and note in lines of at most ``width`` columns; the note begins on the value's last line if it fits."""
    lines = [[StyledText(part, Style.VALUE)] for part in value]
    if not note:
        return lines
    used = len(lines[-1][0].text) + 2 if lines else 0
    parts = textwrap.wrap(note, width, initial_indent=" " * min(used, width), break_on_hyphens=False)
    if lines and len(parts[0].strip()) and used < width and parts[0].startswith(" " * used):
        lines[-1].append(StyledText("  " + parts[0].strip(), Style.NOTE))
        parts = parts[1:]
    return lines + [[StyledText(part.strip(), Style.NOTE)] for part in parts]


def _fold(text: str, width: int) -> list[str]:
    return [text[start : start + width] for start in range(0, len(text), width)]


def _stripped(pieces: list[StyledText]) -> list[StyledText]:
    while pieces and not pieces[-1].text.strip():
        pieces.pop()
    if pieces:
        pieces[-1] = StyledText(pieces[-1].text.rstrip(), pieces[-1].style)
    return pieces


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


def report(lines: Iterable[Line], *, width: int = 100, color: bool = False) -> str:
    """An explanation as text.

    Args:
        lines: of ``explain``. Raises as that.
        width: columns of the text, at least NARROWEST.
        color: ANSI colours by meaning. The contents of the file are escaped either way.
    """
    if not color:
        return "".join("".join(piece.text for piece in row) + "\n" for row in rows(lines, width))
    from rich.console import Console

    out = StringIO()
    console = Console(file=out, width=10 * width, force_terminal=True, color_system="standard", legacy_windows=False)
    for row in rows(lines, width):
        console.print(_text(row), highlight=False, soft_wrap=True)
    return out.getvalue()


def _text(row: list[StyledText]) -> Text:
    from rich.text import Text

    return Text.assemble(*((piece.text, _COLORS[piece.style]) for piece in row))
