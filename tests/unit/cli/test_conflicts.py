"""Options that do not go together: the tables, and what reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click
import pytest

from kdump.cli.command import Command
from kdump.cli.conflicts import Conflict, GivenOptions
from kdump.cli.main import cli
from kdump.cli.options.shared import SPARK

CONTEXT = click.Context(cli)
COMMANDS = cli.list_commands(CONTEXT)


@pytest.mark.parametrize("name", COMMANDS)
def test_rules_name_options_of_the_command(name: str) -> None:
    command = cli.get_command(CONTEXT, name)
    assert isinstance(command, Command)
    known = {
        spelling: parameter for parameter in command.params for spelling in (*parameter.opts, *parameter.secondary_opts)
    }
    for conflict in command.arguments.all_conflicts():
        if conflict.excludes == SPARK:
            # The rule of the engines holds for what a command has of them.
            continue
        for option in (*conflict.options, *conflict.excludes, *conflict.needs):
            if option.startswith("-"):
                spelling, _, value = option.partition(" ")
                kind = known[spelling].type
                assert not value or not isinstance(kind, click.Choice) or value in kind.choices, option
        assert (conflict.only or set()) <= {parameter.name for parameter in command.params}


@contextmanager
def given(*words: str) -> Iterator[None]:
    """A command was called with these words."""

    @click.command()
    @click.argument("paths", nargs=-1)
    @click.option("--flag", is_flag=True)
    @click.option("--yes/--no", "both", default=None)
    @click.option("--one", "way", flag_value="one", default=True)
    @click.option("--other", "way", flag_value="other")
    @click.option("--number", type=int, default=3)
    @click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
    @click.option("--many", multiple=True)
    def command(**values: object) -> None:
        """Nothing."""

    with command.make_context("command", list(words)):
        yield


@pytest.mark.parametrize(
    ("words", "named", "found"),
    [
        ("--flag", "--flag", True),
        ("", "--flag", False),
        ("--yes", "--yes", True),
        ("--yes", "--no", False),
        ("--no", "--no", True),
        ("", "--no", False),
        ("--other", "--other", True),
        ("--one", "--other", False),
        ("--number 0", "--number", True),
        ("--number 3", "--number", False),
        ("--number 4", "--number 4", True),
        ("--output json", "-o json", True),
        ("--output json", "--output text", False),
        ("", "--output text", True),
        ("--many a", "--many", True),
        ("", "--many", False),
    ],
)
def test_what_is_given(words: str, named: str, found: bool) -> None:
    with given(*words.split()):
        assert GivenOptions().first(["--unknown", named]) == (named if found else None)


EXCLUDES = Conflict("--flag", excludes=("--yes", "a pipe"))
NEEDS = Conflict("--flag", needs=("--yes", "-o json"))
ONLY = Conflict("--flag", only=frozenset({"both"}), message="{option} alone, not {other}")
ALWAYS = Conflict(needs=("--flag", "--yes"), message="nothing to do")


@pytest.mark.parametrize(
    ("rule", "words", "message"),
    [
        (EXCLUDES, "--flag --no", None),
        (EXCLUDES, "--yes", None),
        (EXCLUDES, "--flag --yes", "--flag does not go with --yes"),
        (NEEDS, "--flag", "--flag goes with --yes or -o json"),
        (NEEDS, "--flag -o json", None),
        (NEEDS, "", None),
        (ONLY, "--flag --yes", None),
        (ONLY, "--flag a", "--flag alone, not paths"),
        (ONLY, "--flag --number 3", "--flag alone, not --number"),
        (ONLY, "a", None),
        (ALWAYS, "", "nothing to do"),
        (ALWAYS, "--yes", None),
    ],
)
def test_rules(rule: Conflict, words: str, message: str | None) -> None:
    with given(*words.split()):
        if message is None:
            GivenOptions().check([rule])
            return
        with pytest.raises(click.UsageError) as raised:
            GivenOptions().check([rule])
        assert raised.value.message == message


def test_facts_are_shown_by_their_text() -> None:
    with given("--flag"):
        GivenOptions({"a pipe": None}).check([EXCLUDES])
        with pytest.raises(click.UsageError, match="--flag does not go with /dev/stdin"):
            GivenOptions({"a pipe": "/dev/stdin"}).check([EXCLUDES])
