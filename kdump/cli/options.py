"""An option that knows its group in the help, and the command that shows the help by groups."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, TypeVar

import click
from click.types import OptionHelpExtra

_Function = TypeVar("_Function", bound=Callable[..., Any])
_IS_BRIEF: Final = "kdump.brief_help"


class OptionGroup(StrEnum):
    """The headings of the help and of the section OPTIONS of the manual, in their order."""

    READ = "What to read"
    MODE = "Mode"
    SALVAGE = "With --salvage"
    CHECK = "What is checked"
    COMPARE = "What is compared"
    COUNT = "What is counted"
    CHOICE = "Ranges and filters"
    START = "What a start will do"
    QUESTIONS = "Questions"
    WRITE = "What is written"
    BROKER = "For a broker"
    SERVER = "How clients connect"
    OUTPUT = "Output"
    DAMAGE = "Damage"
    KNOWN = "What is known"
    IN_PLACE = "In place"
    LIMITS = "Engine and limits"
    JAVA = "As kafka-dump-log.sh"
    GENERAL = "General"


class Option(click.Option):
    """An option of a group. Its help shows the default, but not the range of a number."""

    def __init__(self, *arguments: Any, group: OptionGroup = OptionGroup.GENERAL, **attributes: Any) -> None:
        super().__init__(*arguments, **{"show_default": True, **attributes})
        self.group = group

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        """As click does, with a default in words as it is written."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        if isinstance(self.show_default, str):
            extra["default"] = self.show_default
        return extra


class Command(click.Command):
    """A command whose ``--help`` shows all options by groups, and whose ``-h`` shows the most used ones.

    Args:
        most_used: the options that ``-h`` shows; none: all.
    """

    def __init__(self, *arguments: Any, most_used: tuple[str, ...] = (), **attributes: Any) -> None:
        super().__init__(*arguments, **{"context_settings": {"max_content_width": 100}, **attributes})
        self.most_used = most_used

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, each under the heading of its group."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        records = [(each, record) for each in options if (record := each.get_help_record(ctx)) is not None]
        if ctx.meta.get(_IS_BRIEF) and self.most_used:
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


def option(group: OptionGroup, *names: str, **attributes: Any) -> Callable[[_Function], _Function]:
    """As ``click.option``, in a group."""
    return click.option(*names, cls=Option, group=group, **attributes)


def version_option(function: _Function) -> _Function:
    """``--version``: the version, the commit, Python and the platform."""
    return option(
        OptionGroup.GENERAL,
        "--version",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_show_version,
        help="Show the version and exit.",
    )(function)


def _show_version(context: click.Context, _parameter: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        from kdump.cli.about import version_line

        click.echo(version_line())
        context.exit()


def help_option(function: _Function) -> _Function:
    """``-h``; click makes ``--help``."""
    return option(
        OptionGroup.GENERAL,
        "-h",
        "brief_help",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_show_brief,
        help="Show the most used options and exit.",
    )(function)


def _show_brief(context: click.Context, _parameter: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        context.meta[_IS_BRIEF] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


def group_of(given: click.Parameter) -> OptionGroup:
    """Click's own ``--help`` has none."""
    return given.group if isinstance(given, Option) else OptionGroup.GENERAL
