"""What all commands have in common: declared options come in, an exit status goes out.

A command adds the class of its options and one function, which gets a ``Run``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import click

from kdump.cli.common import show_log
from kdump.cli.console import Console
from kdump.cli.engine import log_totals
from kdump.cli.exit_status import RunStatus
from kdump.cli.options.declaring import Helping, Option, OptionGroup
from kdump.cli.options.shared import (
    BRIEF,
    CommonArguments,
    LogArguments,
    ReadingArguments,
    TierArguments,
    TopicArguments,
)
from kdump.codes import OnError
from kdump.inputs import Input, PartitionChoice, inputs_of
from kdump.log import tiers
from kdump.log.metering import metered
from kdump.system.priority import be_idle

A = TypeVar("A", bound=CommonArguments)
_WIDTH: Final = {"max_content_width": 100}


class Run(Generic[A]):
    """One run of a command.

    Args:
        given: its options; the attribute may be changed to what they mean.

    Attributes:
        console: where its output goes.
        status: what it met, and by that its exit status.
    """

    def __init__(self, given: A) -> None:
        self.given = given
        if not isinstance(given, TierArguments):
            tiers.tell(tiers.Tier())
        self.console = Console(
            color=given.color,
            output=given.stdout_form,
            at_once=given.writes_at_once,
            pager=given.pager,
            show_traceback=given.traceback,
        )
        self.status = RunStatus(self.console.show_error)
        self.console.progress.in_all = lambda: log_totals(given.inputs)
        if given.verbose:
            show_log(self.console.note, verbose=True)
        if isinstance(given, ReadingArguments):
            self._read_gently(given)

    def _read_gently(self, given: ReadingArguments) -> None:
        """Keep to ``--rate`` and ``--idle``, and show the progress, until the command ends."""
        if given.idle:
            try:
                be_idle()
            except OSError as error:
                self.console.note(f"--idle: {error.strerror or error}")
        click.get_current_context().with_resource(metered(given.rate, self.console.progress.show))

    def find_inputs(
        self,
        on_error: OnError | None = None,
        *,
        with_patterns: bool = False,
        apart: bool = False,
    ) -> list[Input]:
        """What the PATHs mean, see ``inputs_of``; errors go to the status, or where ``on_error`` takes them."""
        given = self.given
        given.inputs = inputs_of(
            given.paths,
            on_error or self.status.fail,
            choice=given.choice if isinstance(given, TopicArguments) else PartitionChoice(),
            world=given.world if isinstance(given, LogArguments) else None,
            with_patterns=with_patterns,
            apart=apart,
        )
        given.paths = tuple(one.path for one in given.inputs)
        return given.inputs

    def write(self, text: str) -> None:
        """Write to standard output."""
        self.console.out.write(text.encode("utf-8", "surrogateescape"))


class Command(Helping):
    """A command whose ``--help`` shows all options by groups, and whose ``-h`` shows the most used ones.

    Args:
        arguments: the class of its options.
        most_used: the options that ``-h`` shows; none: all.
    """

    def __init__(
        self, name: str, arguments: type[CommonArguments], most_used: tuple[str, ...] = (), **attributes: Any
    ) -> None:
        super().__init__(name, params=arguments.parameters(), context_settings=_WIDTH, **attributes)
        self.arguments = arguments
        self.most_used = most_used

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; an unknown option is answered with what works."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            from kdump.cli.words import one_dash, option_hint  # slow to load, and rarely needed

            unknown = one_dash(given, ctx)
            if unknown is None and isinstance(error, click.NoSuchOption):
                unknown = error.option_name
            if unknown is not None:
                message = f"No such option '{unknown}'. {option_hint(unknown, ctx)}"
                raise click.UsageError(message.rstrip(), ctx) from None
            if self.arguments.one_path and error.message.startswith("Got unexpected extra argument"):
                raise click.UsageError(f"{error.message}. {self.arguments.one_path}", ctx) from None
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, each under the heading of its group."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        records = [(each, record) for each in options if (record := each.get_help_record(ctx)) is not None]
        if ctx.meta.get(BRIEF) and self.most_used:
            with formatter.section("Options"):
                formatter.write_dl(
                    [record for each, record in records if not set(self.most_used).isdisjoint(each.opts)]
                )
            formatter.write_paragraph()
            formatter.write_text(f"{ctx.command_path} --help shows all {len(records)} options.")
            return
        for group in OptionGroup:
            of_group = [record for each, record in records if group_of(each) is group]
            if of_group:
                with formatter.section(group.value):
                    formatter.write_dl(of_group)


def group_of(given: click.Parameter) -> OptionGroup:
    """An argument has none."""
    return given.group if isinstance(given, Option) else OptionGroup.GENERAL


def command(
    arguments: type[A], *, most_used: tuple[str, ...] = (), examples: str = "", kind: type[Command] = Command
) -> Callable[[Callable[[Run[A]], None]], Command]:
    """Make a command of a function, under its name. Its docstring is the beginning of the help.

    Args:
        arguments: the class of its options.
        most_used: the options that ``-h`` shows; none: all.
        examples: lines at the end of the help.
        kind: another kind of command.
    """

    def made(function: Callable[[Run[A]], None]) -> Command:
        def call(**values: Any) -> int:
            given = arguments(values)
            given.check()
            run = Run(given)
            function(run)
            run.console.close()
            return run.status.code

        epilog = f"\b\nExamples:\n{examples}" if examples else None
        return kind(function.__name__, arguments, most_used, callback=call, help=function.__doc__, epilog=epilog)

    return made
