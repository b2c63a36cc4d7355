"""``kdump man``: the pages of the manual that come with kdump, also where the system has no ``man``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from kdump.cli.command import Run, command
from kdump.cli.options.declaring import argument
from kdump.cli.options.shared import CommonArguments

_PACKAGE: Final = Path(__file__).parents[1]
_ESCAPES: Final = {
    "\\-": "-",
    "\\(aq": "'",
    "\\(dq": '"',
    "\\(ha": "^",
    "\\(bu": "*",
    "\\(ti": "~",
    "\\&": "",
    "\\|": "",
    "\\ ": " ",
    "\\e": "\\",
}
_INDENT: Final = 7
_TAG: Final = 4
"""Columns of text, and of the tags of lists and the headings of subsections."""


class ManArguments(CommonArguments):
    """Options of ``kdump man``."""

    page: str = argument("[PAGE]", default="kdump")


@command(ManArguments, examples="  kdump man verify")
def man(run: Run[ManArguments]) -> None:
    """Show a PAGE of the manual: kdump (the default), the name of a command, spark or startup."""
    page, pages = run.given.page, manual_pages()
    found = pages.get(page) or pages.get(f"kdump-{page}")
    root = click.get_current_context().find_root()
    assert isinstance(root.command, click.Group), "commands are in a group"
    if page in root.command.list_commands(root):
        # The first page describes the small commands.
        found = found or pages["kdump"]
    if found is None:
        names = ", ".join(name.removeprefix("kdump-") for name in pages)
        raise click.UsageError(f"there is no page '{page}'; there are: {names}")
    text = rendered(found.read_text("utf-8"), terminal_width())
    click.echo_via_pager(text)


def manual_pages() -> dict[str, Path]:
    """The pages by their names: ``kdump``, ``kdump-dump``, ... They lie in the package, in a clone above it."""
    for folder in (_PACKAGE / "man", _PACKAGE.parent / "man"):
        if folder.is_dir():
            return {path.stem: path for path in sorted(folder.iterdir()) if re.fullmatch(r"\.[17]", path.suffix)}
    return {}


def rendered(page: str, width: int) -> str:
    """A page of kdump's manual as text, with the styles of a terminal (see click.style).

    Args:
        page: its source, with the macros that kdump's pages use.
        width: columns.
    """
    return "\n".join(_Renderer(width).lines(page)) + "\n"


class _Renderer:
    """Turns man(7) macros into lines."""

    def __init__(self, width: int) -> None:
        self._width = max(40, min(width, 100))
        self._words: list[str] = []
        self._tag: str | None = None
        self._indent = _INDENT

    def lines(self, page: str) -> Iterator[str]:
        """All lines of a page."""
        takes_tag = is_example = False
        for line in page.splitlines():
            macro, _, rest = line.partition(" ")
            if line.startswith(('.\\"', "'\\\"")) or macro in (".TH", "."):
                continue
            if is_example and macro != ".EE":
                yield " " * _INDENT + _styled(line)
            elif macro in (".SH", ".SS"):
                yield from self._paragraph()
                self._indent = _INDENT
                title = _styled(" ".join(_arguments(rest)))
                yield click.style(title if macro == ".SH" else " " * (_INDENT - _TAG) + title, bold=True)
            elif macro in (".PP", ".TP", ".IP", ".EX"):
                yield from self._paragraph()
                takes_tag = macro == ".TP"
                is_example = macro == ".EX"
                self._indent = _INDENT if macro in (".PP", ".EX") else _INDENT + _TAG
                if macro == ".IP":
                    self._tag = _styled((_arguments(rest) or [""])[0])
            elif macro == ".EE":
                is_example = False
                yield ""
            elif macro == ".br":
                yield from self._broken_line()
            elif takes_tag:
                self._tag, takes_tag = _formatted(macro, rest, line), False
            else:
                self._words += _formatted(macro, rest, line).split(" ")
        yield from self._paragraph()

    def _broken_line(self) -> Iterator[str]:
        """What was gathered; what follows begins a new line of the same paragraph."""
        yield from list(self._paragraph())[:-1]

    def _paragraph(self) -> Iterator[str]:
        """What was gathered, filled, with an empty line after it."""
        if self._tag is None and not self._words:
            return
        if self._tag is not None:
            head = " " * _INDENT + self._tag
            room = self._indent - len(click.unstyle(head))
            if room > 0:
                yield from self._filled(head + " " * room)
            else:
                yield head
                yield from self._filled(" " * self._indent)
        else:
            yield from self._filled(" " * self._indent)
        yield ""
        self._words, self._tag = [], None

    def _filled(self, lead: str) -> Iterator[str]:
        line, is_empty = lead, True
        for word in filter(None, self._words):
            if not is_empty and len(click.unstyle(line)) + 1 + len(click.unstyle(word)) > self._width:
                yield line
                line, is_empty = " " * self._indent, True
            line += word if is_empty else f" {word}"
            is_empty = False
        if not is_empty:
            yield line


def _arguments(text: str) -> list[str]:
    """The arguments of a macro: words, or what stands between double quotes."""
    return [quoted or word for quoted, word in re.findall(r'"([^"]*)"|(\S+)', text)]


def _formatted(macro: str, rest: str, line: str) -> str:
    """A line of text or of a font macro."""
    if not re.fullmatch(r"\.(?:[BI]|[BIR]{2})", macro):
        return _styled(line)
    fonts = macro[1:]
    if len(fonts) == 1:
        return _in_font(fonts, " ".join(_arguments(rest)))
    return "".join(_in_font(fonts[number % 2], part) for number, part in enumerate(_arguments(rest)))


def _in_font(font: str, text: str) -> str:
    """The text, which may change the font itself."""
    return _styled(f"\\f{font}{text}\\fR")


def _styled(text: str) -> str:
    """The text with its escapes resolved; bold and underlined words keep their spaces apart."""
    shown, font = "", "R"
    for part in re.split(r"(\\f[BIRP])", text):
        if re.fullmatch(r"\\f[BIRP]", part):
            font = "R" if part[-1] == "P" else part[-1]
            continue
        plain = re.sub(r"\\(?:\(..|.)", lambda match: _ESCAPES.get(match[0], match[0]), part)
        words = re.split(r"( )", plain)
        shown += "".join(
            word if font == "R" or word in ("", " ") else click.style(word, bold=font == "B", underline=font == "I")
            for word in words
        )
    return shown


def terminal_width() -> int:
    """Columns of the terminal; 80 without one."""
    try:
        return os.get_terminal_size().columns
    except OSError:
        return 80
