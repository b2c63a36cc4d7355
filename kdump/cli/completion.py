"""``kdump completion``: what a shell loads to complete kdump's commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from kdump.cli.command import Run, command
from kdump.cli.options.declaring import argument
from kdump.cli.options.shared import CommonArguments


class CompletionArguments(CommonArguments):
    """Options of ``kdump completion``."""

    shell: str = argument("{bash|zsh|fish}", required=True, type=click.Choice(["bash", "zsh", "fish"]))


@command(CompletionArguments, examples="  kdump completion bash > kdump.bash")
def completion(run: Run[CompletionArguments]) -> None:
    """Print the completion script of a SHELL. Load it in the start file of the shell."""
    from kdump.cli.main import COMPLETION

    found = get_completion_class(run.given.shell)
    assert found is not None, "click knows these shells"
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, "kdump", COMPLETION).source())
