"""``kdump completion``: what a shell loads to complete kdump's commands and options."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import get_completion_class

from kdump.cli.common import common_options
from kdump.cli.options import Command


@click.command(
    cls=Command,
    short_help="Print the completion script of a shell.",
    epilog="Example: kdump completion bash > kdump.bash",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common_options
@click.pass_context
def completion(context: click.Context, /, shell: str, **others: Any) -> int:
    """Print the completion script of a SHELL. Load it in the start file of the shell."""
    from kdump.cli.main import COMPLETION

    found = get_completion_class(shell)
    assert found is not None, "click knows these shells"
    click.echo(found(context.find_root().command, {}, "kdump", COMPLETION).source())
    return 0
