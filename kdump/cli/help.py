"""``kdump help``: as ``--help`` after a command."""

from __future__ import annotations

from typing import Any

import click

from kdump.cli.common import common_options
from kdump.cli.options import Command


@click.command(cls=Command, short_help="Show the help of a command.", epilog="Example: kdump help verify")
@click.argument("command", required=False)
@common_options
@click.pass_context
def help(context: click.Context, /, command: str | None, **others: Any) -> int:
    """Show the help of a COMMAND."""
    root = context.find_root()
    group = root.command
    assert isinstance(group, click.Group), "commands are in a group"
    found = group if command is None else group.get_command(root, command)
    if found is None:
        raise click.UsageError(f"No such command '{command}'.")
    where = root if command is None else click.Context(found, info_name=command, parent=root)
    click.echo(found.get_help(where))
    return 0
