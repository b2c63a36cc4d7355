"""``kdump``: the group of subcommands, and rules that hold for all of them.

A closed pipe ends kdump without a message, an interrupt with status 130, and users see tracebacks only with
``--traceback``.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from typing import Any, Final

import click

from kdump.cli import exit_status
from kdump.cli.options.declaring import Helping
from kdump.cli.options.program import ProgramArguments

COMPLETION = "_KDUMP_COMPLETE"
"""Environment variable by which a shell asks for completions (see click's documentation)."""
_COMMANDS = {
    "dump": "Print Kafka segment files as DumpLogSegments does.",
    "verify": "Check segments, indexes and checkpoints; report what is lost.",
    "diff": "Compare copies of partitions; what each would lose if another one led.",
    "stats": "Count what is in segments: what takes the space, and what is unusual.",
    "state": "Show what a cluster, its groups and its transactions knew at a time.",
    "repair": "Repair damaged logs; print a plan and its cost first.",
    "restore": "Restore partitions that are left into a cluster; print a plan first.",
    "convert": "Convert message format, compression or file type.",
    "serve": "Serve logs to every Kafka client, read-only.",
    "explain": "Explain the bytes at a position or of an offset, field by field.",
    "man": "Show a page of the manual.",
    "completion": "Print the completion script of a shell.",
    "help": "Show the help of a command.",
}


FIRST_PAGE: Final = """\
kdump reads the files of a Kafka broker: a segment, a partition directory, or a log directory.

  is it damaged?       kdump verify PATH
  what is in it?       kdump stats PATH
                       kdump dump --records --limit 10 PATH
  save it:             kdump repair PATH                        (prints a plan first)
                       kdump repair --salvage PATH -o DIR
  export it:           kdump convert PATH --to parquet -o DST   (or jsonl, csv)
                       kdump dump --json --records PATH

kdump --help lists all commands, kdump COMMAND -h the most used options of one.
"""
"""What ``kdump`` alone shows on a terminal."""


class LazyGroup(Helping, click.Group):
    """Imports the module of a subcommand when it is used, which keeps the start short."""

    about_help = "Print a summary and exit."

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the help."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of module ``kdump.cli.<name>``."""
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"kdump.cli.{cmd_name}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; what is no command is answered with what works."""
        if args and args[0] not in _COMMANDS and not ctx.resilient_parsing:
            ctx.fail(self.no_such_command(args[0]))
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; without anything, on a terminal, what to type first is shown."""
        if not args and sys.stdout.isatty() and not ctx.resilient_parsing:
            click.echo(FIRST_PAGE, nl=False)
            ctx.exit()
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            from kdump.cli.words import option_hint

            raise click.UsageError(f"{error.message} {option_hint(error.option_name, ctx)}".rstrip(), ctx) from None

    @staticmethod
    def no_such_command(word: str) -> str:
        """The message for a word that is no command."""
        if os.path.exists(word) or "://" in word:
            return f"'{word}' is no command but a PATH: kdump dump shows it, kdump verify checks it"
        from kdump.cli.words import command_hint

        return f"No such command '{word}'. {command_hint(word, list(_COMMANDS))}".rstrip()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in ``--help``, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _begin(**_given: Any) -> None:
    """A forensic tool for Kafka log segments: what is in them, damage included.

    Exit status: 0 clean, 1 damage found, 2 usage, 3 a path that is missing or unreadable, 130 interrupted.
    """


cli: Final = LazyGroup(
    "kdump",
    params=ProgramArguments.parameters(),
    callback=_begin,
    help=_begin.__doc__,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: kdump dump --print-data-log 00000000000000000000.log",
)


def main() -> None:
    """The console script."""
    _hold_closed_descriptors()
    show_traceback = "--traceback" in sys.argv[1:]
    try:
        status = _run()
    except Exception as error:
        if show_traceback:
            sys.excepthook(type(error), error, error.__traceback__)
        else:
            from kdump.system.blocks import escaped

            text = f"internal error: {type(error).__name__}: {escaped(str(error))} (--traceback shows where)"
            _tell(f"kdump: {text}\n")
        status = exit_status.UNREADABLE
    _leave(status)


def _run() -> int:
    instruction = os.environ.get(COMPLETION)
    if instruction is not None:
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "kdump", COMPLETION, instruction)
    try:
        # Not cli.main(): that ends with 1 when the reader of a pipe has gone away.
        with cli.make_context("kdump", sys.argv[1:]) as context:
            return cli.invoke(context) or exit_status.CLEAN
    except click.exceptions.Exit as request:
        return request.exit_code
    except click.ClickException as error:
        _show_usage(error)
        return exit_status.USAGE
    except (click.Abort, KeyboardInterrupt):
        return exit_status.INTERRUPTED
    except BrokenPipeError:
        # The reader has what it wanted (kdump dump F | head -1).
        return exit_status.CLEAN
    except OSError as error:
        _show_error(error)
        return exit_status.UNREADABLE


def _show_error(error: OSError) -> None:
    """Show an error of the operating system that no command expects, with the file that it names."""
    from kdump.system.blocks import escaped

    where = f"{error.filename}: " if isinstance(error.filename, str) else ""
    _tell(escaped(f"kdump: {where}{error.strerror or error}") + "\n")


def _show_usage(error: click.ClickException) -> None:
    """Show a usage error as click does. Control characters in it are escaped, as it quotes what was given."""
    from kdump.system.blocks import escaped

    text = io.StringIO()
    error.show(text)
    _tell(escaped(text.getvalue(), keep="\n"))


def _tell(text: str) -> None:
    """Write to standard error if that can be written. The exit status tells the same."""
    with contextlib.suppress(OSError):
        click.echo(text, err=True, nl=False)


def _hold_closed_descriptors() -> None:
    """Let no file get the number of a closed standard stream: what is written to the stream would go into it.

    Reading and writing fail there as before, also through ``sys.stdout``.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if descriptor else os.O_WRONLY)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  # as long as the process


def _leave(status: int) -> None:
    """Leave at once. Otherwise the interpreter would flush to a pipe that may be gone, and take its time."""
    for stream in (sys.stdout, sys.stderr):
        # A descriptor that was closed before the start has no stream.
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.flush()
    os._exit(status)
