"""What all commands have in common: declared options come in, an exit status goes out.

A command adds the class of its options and one function, which gets a ``Run``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import click

from kdump.cli.console import Console
from kdump.cli.engine import log_totals
from kdump.cli.exit_status import RunStatus
from kdump.cli.options.declaring import Helping, Option, OptionGroup
from kdump.cli.options.shared import (
    BRIEF,
    CommonArguments,
    LimitArguments,
    LogArguments,
    ReadingArguments,
    TierArguments,
    TopicArguments,
)
from kdump.codes import Finding, OnError, Severity
from kdump.inputs import Input, PartitionChoice, inputs_of
from kdump.log import tiers
from kdump.log.metering import metered
from kdump.wire.compression import DEFAULT_LIMIT

if TYPE_CHECKING:
    from kdump.verify.partitionentries import PartitionEntries

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
        self.status = RunStatus(self.console)
        self.console.progress.in_all = lambda: log_totals(given.inputs)
        if given.verbose:
            self.console.show_log(verbose=True)
        if isinstance(given, ReadingArguments):
            self._read_gently(given)

    def _read_gently(self, given: ReadingArguments) -> None:
        """Keep to ``--rate`` and ``--idle``, and show the progress, until the command ends."""
        if given.idle:
            from kdump.system.processes import be_idle

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

    def partition_entries(self, on_error: OnError | None = None, *, with_worlds: bool = False) -> PartitionEntries:
        """The entries of the inputs by partition. Damage is skipped, which is told; errors as of ``find_inputs``."""
        from kdump.verify.partitionentries import PartitionEntries  # needs numpy

        def skip(path: str, finding: Finding) -> None:
            self.status.add(damaged=True)
            self.console.note(f"{path}: skipped {finding.skipped}")

        given = self.given
        return PartitionEntries(
            given.inputs,
            on_error=on_error or self.status.fail,
            on_damage=skip,
            with_worlds=with_worlds,
            limit=given.max_decompressed_size if isinstance(given, LimitArguments) else DEFAULT_LIMIT,
        )

    def has_pyarrow(self, option: str) -> bool:
        """Whether pyarrow is installed, which ``option`` needs. If not, which extra has it is told."""
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            self.console.note(f"{option} needs pyarrow: pip install pyarrow")
            self.status.add(unreadable=True)
            return False
        return True

    def write(self, text: str) -> None:
        """Write to standard output."""
        self.console.out.write(text.encode("utf-8", "surrogateescape"))

    def write_all(self, texts: Iterable[str]) -> None:
        """Write texts to standard output as they are made."""
        for text in texts:
            self.write(text)

    def write_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write JSON lines to standard output."""
        from kdump.rows.scalarlines import json_line  # not needed by a dump as text

        self.write_all(map(json_line, rows))

    def show_finding(self, finding: Finding) -> None:
        """Show what is wrong with what a state was read from: among JSON lines, else on standard error."""
        from kdump.verify.report import finding_json, finding_line

        self.status.add(damaged=finding.severity is Severity.ERROR)
        if self.given.output == "jsonl":
            self.write(finding_json(finding))
        else:
            self.console.complain(f"kdump: {finding_line(finding, color=False).rstrip()}")


class Command(Helping):
    """A command whose ``--help`` shows all options by groups, and whose ``-h`` shows the most used ones.

    Args:
        arguments: the class of its options.
        most_used: the options that ``-h`` shows, with blanks between them; none: all.
    """

    def __init__(self, name: str, arguments: type[CommonArguments], most_used: str, **attributes: Any) -> None:
        super().__init__(name, params=arguments.parameters(), context_settings=_WIDTH, **attributes)
        self.arguments = arguments
        self.most_used = most_used.split()

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
    arguments: type[A], *, most_used: str = "", examples: str, kind: type[Command] = Command
) -> Callable[[Callable[[Run[A]], None]], Command]:
    """Make a command of a function, under its name. Its docstring is the beginning of the help.

    Args:
        arguments: the class of its options.
        most_used: the options that ``-h`` shows, with blanks between them; none: all.
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

        epilog = f"\b\nExamples:\n{examples}"
        return kind(function.__name__, arguments, most_used, callback=call, help=function.__doc__, epilog=epilog)

    return made
