"""``kdump help``: as ``--help`` after a command."""

from __future__ import annotations

import click

from kdump.cli.command import Run, command
from kdump.cli.options.declaring import argument
from kdump.cli.options.shared import CommonArguments


class HelpArguments(CommonArguments):
    """Options of ``kdump help``."""

    command: str | None = argument("[COMMAND]")


@command(HelpArguments, examples="  kdump help verify")
def help(run: Run[HelpArguments]) -> None:
    """Show the help of a COMMAND."""
    from kdump.cli.main import LazyGroup  # which imports this module

    name = run.given.command
    root = click.get_current_context().find_root()
    group = root.command
    assert isinstance(group, LazyGroup), "commands are in this group"
    if name is None:
        click.echo(group.get_help(root))
        return
    found = group.get_command(root, name)
    if found is None:
        raise click.UsageError(group.no_such_command(name))
    click.echo(found.get_help(click.Context(found, info_name=name, parent=root)))
