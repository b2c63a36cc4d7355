"""Write what the code knows into the manual: ``make man``, or ``python docs/make-manual.py`` in the root.

The sections OPTIONS come from ``kdump.cli.options``, the sections FINDINGS from ``kdump.codes``. The rest of the pages
is written by hand.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from inspect import cleandoc
from itertools import groupby
from pathlib import Path
from typing import TypeGuard

import click

from kdump.cli.command import group_of
from kdump.cli.main import cli
from kdump.cli.options.declaring import Arguments, Option, OptionGroup
from kdump.codes import Code, Codes

MANUAL = Path(__file__).parents[1] / "man"
BEGIN, END = '.\\" Begin of the findings (docs/make-manual.py).\n', '.\\" End of the findings.\n'
VERIFY = {
    "KD0": "Input and output",
    "KD1": "Framing",
    "KD2": "Contents of a batch",
    "KD3": "Files beside the log",
    "KD4": "Log directories",
    "KD5": "Sequence of batches",
    "KD6": "Producers and transactions",
}
PAGES = {"kdump-verify.1": VERIFY, "kdump-diff.1": {"KD9": "Copies compared"}}
"""The pages with such a section, and its subjects."""
WIDTH = 119


def with_findings(name: str, page: str) -> str:
    """A page with its findings as the catalogue has them now.

    Args:
        name: of the page, one of ``PAGES``.
        page: its text.

    Raises:
        ValueError: a marker line is missing.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{name} has no marker lines")
    return before + begin + "\n".join(findings(PAGES[name])) + "\n" + end + after


def findings(subjects: dict[str, str]) -> Iterator[str]:
    """Lines of man(7): a heading for each subject, a paragraph for each code with its usual severity."""
    codes = [entry.value for entry in Codes if entry.value.code[:3] in subjects]
    for prefix, entries in groupby(codes, key=lambda code: code.code[:3]):
        yield f'.SS "{subjects[prefix]}"'
        for code in entries:
            yield from paragraph(code)


def paragraph(code: Code) -> Iterator[str]:
    """A code with its name, its severity and its text."""
    name = code.name.replace("-", r"\-")
    yield ".TP"
    yield f'.BR "{code.code} {name}" " ({code.severity.value})"'
    yield from map(roff, sentences(code.manual))


def sentences(text: str) -> Iterator[str]:
    """A source line of at most ``WIDTH`` characters at a time. A sentence begins a line, as groff wants it."""
    for sentence in re.split(r"(?<=[.]) (?=[A-Z`*-])", text):
        yield from textwrap.wrap(sentence, WIDTH, break_long_words=False, break_on_hyphens=False)


def with_options(name: str, page: str) -> str:
    """A page with its options as they are declared now.

    Args:
        name: of the page.
        page: its text.
    """
    before, heading, rest = page.partition(".SH OPTIONS\n")
    after = rest[rest.index(".SH ") :]
    mark = '.\\" Made from kdump/cli/options by docs/make-manual.py.\n'
    return before + heading + mark + "\n".join(options(name)) + "\n" + after


def commands() -> Iterator[str]:
    """The pages with a section OPTIONS."""
    for name in ("kdump", *(f"kdump-{name}" for name in cli.list_commands(click.Context(cli)))):
        if (MANUAL / f"{name}.1").exists():
            yield f"{name}.1"


def options(name: str) -> Iterator[str]:
    """Lines of man(7): a heading for each group, a paragraph for each option."""
    command = cli.get_command(click.Context(cli), name[len("kdump-") : -len(".1")]) or cli
    shown = [one for one in command.get_params(click.Context(command, **command.context_settings)) if is_shown(one)]
    arguments = getattr(command, "arguments", Arguments)
    for group in OptionGroup:
        of_group = [one for one in shown if group_of(one) is group]
        if of_group and command is not cli:
            yield f'.SS "{group.value}"'.replace("-", r"\-")
            yield from paragraphs(cleandoc(arguments.about.get(group, "")))
        for option in of_group:
            yield ".TP"
            yield tag(option)
            yield from paragraphs(text_of(option, arguments))


def is_shown(parameter: click.Parameter) -> TypeGuard[Option]:
    """It is an option that the help shows."""
    return isinstance(parameter, Option) and not parameter.hidden


def text_of(option: Option, arguments: type[Arguments]) -> str:
    """The paragraphs of an option."""
    here = getattr(arguments, "local_only", ())
    if option.name != "engine" or not here:
        return option.manual
    listed = ", ".join(f"`{one}`" if one.startswith("-") else one for one in here)
    return f"{option.manual} Spark cannot be combined with: {listed}."


def tag(option: click.Option) -> str:
    """The names of an option, with what stands for its value."""
    names = [name.replace("-", r"\-") for name in (*option.opts, *option.secondary_opts)]
    context = click.Context(click.Command(""))
    value = (
        ""
        if option.is_flag and option.metavar is None
        else (option.metavar or option.type.get_metavar(option, context))
    )
    value = (value or "").removeprefix("[").removesuffix("]") if option.metavar is None else value
    if not value:
        return ".BR " + ' ", " '.join(names) if len(names) > 1 else f".B {names[0]}"
    first, *others = (f'{name} " {value}"' for name in names)
    return ".BI " + ' "\\fR, \\fB" '.join((first, *others))


def paragraphs(text: str) -> Iterator[str]:
    """The text of a declaration. `` `bold` ``, ``*italic*``; names of options and of pages are bold by themselves."""
    for number, part in enumerate(filter(None, text.split("\n\n"))):
        text, is_item = " ".join(part.split()), part.startswith("- ")
        if number or is_item:
            yield r".IP \(bu 2" if is_item else ".IP"
        # A marked piece is one word while lines are filled.
        words = MARKED.sub(lambda found: found[0].replace(" ", "\0"), text.removeprefix("- "))
        for line in sentences(words):
            pieces = MARKED.split(line.replace("\0", " "))
            yield request_free("".join(in_font(piece) if n % 2 else escaped(piece) for n, piece in enumerate(pieces)))


MARKED = re.compile(r"(`[^`]+`|\*[^*\s][^*]*\*|(?<![\w-])--[a-z][\w-]*|\bkdump(?:-[a-z]+)?(?=\(\d\)))")


def in_font(piece: str) -> str:
    """A marked piece of text."""
    is_italic, is_quoted = piece.startswith("*"), piece[0] in "`*"
    text = escaped(piece[1:-1] if is_quoted else piece).replace("\\-", "-").replace("-", r"\-")
    return rf"\f{'I' if is_italic else 'B'}{text}\fR".replace("'", r"\(aq")


def roff(line: str) -> str:
    """A line of text as man(7) takes it."""
    return request_free(escaped(line))


def escaped(text: str) -> str:
    """Text without signs that groff would turn into others."""
    text = re.sub(r"(?<!\w)-|-(?=\d)", r"\\-", text.replace("\\", r"\e"))
    return text.replace("^", r"\(ha").replace("~", r"\(ti")


def request_free(line: str) -> str:
    """A line whose first sign is no request."""
    return rf"\&{line}" if line.startswith((".", "'")) else line


def main() -> None:
    """Rewrite the pages in place."""
    for name in PAGES:
        path = MANUAL / name
        path.write_text(with_findings(name, path.read_text()))
    for name in commands():
        path = MANUAL / name
        path.write_text(with_options(name, path.read_text()))


if __name__ == "__main__":
    main()
