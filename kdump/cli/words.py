"""Words that people type before they read any help, and what works in their place.

``words.txt`` has them. An unknown option is looked for there first, then among the options of other commands, then by
its spelling; so is an unknown command. No hint is better than a wrong one. ``tests/cli/test_words.py`` holds all
answers against the real commands and options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import click

_ALIKE: Final = 0.8
"""How alike a word and a real one must be, see difflib: ``vrify`` and ``verify`` are, ``json`` and ``conf`` are not."""
_SHORTEST_PREFIX: Final = 5


class Words:
    """Words with one meaning, what does that, and what to remark; see ``words.txt``."""

    def __init__(self, typed: str, *answers: str, remark: str = "") -> None:
        self.typed = typed
        self.answers = answers
        self.remark = remark


def _rows() -> Iterator[Words]:
    """The rows of ``words.txt``, which says how it is written."""
    for block in Path(__file__).with_name("words.txt").read_text("utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        typed = " ".join(line for line in lines if not line.startswith(" "))
        *answers, last = [line.strip() for line in lines if line.startswith(" ")] or [""]
        if last.startswith("("):
            yield Words(typed, *answers, remark=last[1:-1])
        elif typed:
            yield Words(typed, *answers, last)


_ROWS: Final = tuple(_rows())
COMMANDS: Final = tuple(row for row in _ROWS if not row.typed.startswith("-"))
"""Unknown commands."""
OPTIONS: Final = tuple(row for row in _ROWS if row.typed.startswith("-"))
"""Unknown options."""


def command_hint(typed: str, commands: Sequence[str]) -> str:
    """What works in place of an unknown command; empty where nobody knows. ``commands``: the real ones."""
    word = typed.casefold().replace("_", "-")
    if word in commands:
        return f"Use: kdump {word}"
    row = _row(COMMANDS, word)
    if row is not None:
        return f"Use: {', or: '.join(row.answers)}"
    alike = _alike(word, commands)
    return f"Did you mean 'kdump {alike}'?" if alike else ""


def option_hint(typed: str, context: click.Context) -> str:
    """What works in place of an unknown option of the command of ``context``; empty where nobody knows."""
    own = option_names(context.command)
    is_program = isinstance(context.command, click.Group)
    word = typed if len(typed) == 2 else f"--{typed.lstrip('-').casefold().replace('_', '-')}"
    if word in own:
        return f"Use: {word}"
    others = list(_others(word, context))
    if others and is_program:
        return f"It follows the command: kdump {others[0]} {word}"
    row = _row(OPTIONS, word)
    answer = None if row is None else own_answer(row, context.info_name or "", own)
    if answer == "--output":
        answer += f" {'|'.join(_outputs(context.command))}"
    if answer is None and others:
        return f"Use: kdump {f' {word}, or: kdump '.join(others)} {word}"
    if row is not None:
        answer = answer or next(one for one in row.answers if one.startswith("kdump")).format("dump")
        return f"Use: {answer}" + (f" ({row.remark})" if row.remark else "")
    alike = _alike(word, own)
    return f"Did you mean '{alike}'?" if alike else ""


def output_hint(word: str, context: click.Context) -> str:
    """What writes the format that is called so, as in ``dump -f csv``; empty where it is no format."""
    wanted = {"json": "jsonl"}.get(word, word)
    for name, command in (context.info_name, context.command), *_commands(context):
        if wanted in _outputs(command):
            return f"Use: kdump {name} --output {wanted} PATH"
    return ""


def one_dash(arguments: Iterable[str], context: click.Context) -> str | None:
    """The first argument that is a long option with one dash, as in ``-json``."""
    own = option_names(context.command)
    return next((one for one in arguments if re.match("-[a-z]{2}", one) and f"-{one.partition('=')[0]}" in own), None)


def _row(rows: Iterable[Words], word: str) -> Words | None:
    return next((row for row in rows if word in row.typed.split()), None)


def own_answer(row: Words, command: str, own: Sequence[str]) -> str | None:
    """The first answer for the command."""
    for answer in row.answers:
        program, _, rest = answer.partition(" ")
        if program != "kdump":
            if program in own:
                return answer
        elif rest.partition(" ")[0] in (command, "{}"):
            return answer.format(command)
    return None


def _outputs(command: click.Command) -> Sequence[str]:
    """What ``--output`` of a command takes."""
    types = (one.type for one in command.params if "--output" in one.opts)
    return next((type.choices for type in types if isinstance(type, click.Choice)), ())


def option_names(command: click.Command) -> list[str]:
    """The options of a command, as they are written."""
    parameters = (one for one in command.params if isinstance(one, click.Option) and not one.hidden)
    return [name for one in parameters for name in (*one.opts, *one.secondary_opts)]


def _others(word: str, context: click.Context) -> Iterator[str]:
    """The commands that have an option."""
    for name, command in _commands(context):
        if command is not context.command and word in option_names(command):
            yield name


def _commands(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """All commands, with their names."""
    root = context.find_root()
    assert isinstance(root.command, click.Group), "commands are in a group"
    for name in root.command.list_commands(root):
        command = root.command.get_command(root, name)
        if command is not None:
            yield name, command


def _alike(word: str, real: Iterable[str]) -> str | None:
    """The real word that is meant, by its spelling."""
    names = list(real)
    longer = [name for name in names if len(word) >= _SHORTEST_PREFIX and name.startswith(word)]
    if len(longer) == 1:
        return longer[0]
    by_letters = {name.lstrip("-"): name for name in names}
    found = get_close_matches(word.lstrip("-"), by_letters, 1, _ALIKE)
    return by_letters[found[0]] if found else None
