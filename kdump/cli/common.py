"""Options that several or all subcommands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kdump.cli.options import OptionGroup, help_option, option, version_option
from kdump.log.metering import metered
from kdump.system.priority import be_idle
from kdump.wire.compression import DEFAULT_LIMIT
from kdump.worlds import WORLDS, log_formats

if TYPE_CHECKING:
    from kdump.cli.arguments import Arguments
    from kdump.cli.console import Console

_Function = TypeVar("_Function", bound=Callable[..., Any])


def common_options(function: _Function) -> _Function:
    """``-v`` and ``--traceback``, as ``verbose`` and ``traceback``, and the options that show help or version."""
    for each in (
        help_option,
        version_option,
        option(OptionGroup.GENERAL, "--traceback", is_flag=True, help="Show where in kdump an error came from."),
        option(OptionGroup.GENERAL, "-v", "--verbose", is_flag=True, help="Report on stderr what is read."),
    ):
        function = each(function)
    return function


def limit_option(
    what: str = "Treat a batch that decompresses to more than this as damaged.",
) -> Callable[[_Function], _Function]:
    """``--max-decompressed-size``, as ``max_decompressed_size``; ``what`` is done with larger batches."""
    return option(
        OptionGroup.LIMITS,
        "--max-decompressed-size",
        type=click.IntRange(1),
        default=DEFAULT_LIMIT,
        metavar="BYTES",
        show_default="128 MiB",
        help=what,
    )


def log_format_option(function: _Function) -> _Function:
    """``--log-format``, as ``log_format``."""
    return option(
        OptionGroup.READ,
        "--log-format",
        type=click.Choice(log_formats()),
        help=" ".join(
            f"{world.log_format}: the files are logs of {world.title}, whatever their names; by themselves only "
            f"{world.log_suffix} files are."
            for world in WORLDS
            if world.log_format
        ),
    )(function)


def color_option(what: str) -> Callable[[_Function], _Function]:
    """``--color``, as ``color``; ``what`` has colours."""
    return option(
        OptionGroup.OUTPUT,
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default="auto: on a terminal without NO_COLOR",
        help=f"Colours of {what}.",
    )


def reading_options(function: _Function) -> _Function:
    """``--rate`` and ``--idle``, as ``rate`` (bytes a second, or None) and ``idle``."""
    for each in (
        option(
            OptionGroup.LIMITS,
            "--idle",
            is_flag=True,
            help="Take the disk and the processors only when nobody else wants them.",
        ),
        option(
            OptionGroup.LIMITS,
            "--rate",
            type=click.IntRange(1),
            metavar="BYTES",
            help="Read at most this many bytes per second.",
        ),
    ):
        function = each(function)
    return function


def topic_option(function: _Function) -> _Function:
    """``--topic``, as ``topics``."""
    return option(
        OptionGroup.READ,
        "--topic",
        "topics",
        multiple=True,
        metavar="NAME|GLOB",
        help="Of log directories only the partitions of this topic; may be repeated.",
    )(function)


def offset_map_option(function: _Function) -> _Function:
    """``--offset-map``, as ``offset_map``."""
    return option(
        OptionGroup.QUESTIONS,
        "--offset-map",
        multiple=True,
        type=click.Path(),
        metavar="FILE",
        help="With --output reset-csv: offsets as they are in logs that convert --renumber has made.",
    )(function)


def begin(given: Arguments, console: Console) -> None:
    """Do what the options of all commands ask for, until the command ends."""
    if given.verbose:
        show_log(console.note, verbose=True)
    if given.idle:
        try:
            be_idle()
        except OSError as error:
            console.note(f"--idle: {error.strerror or error}")
    click.get_current_context().with_resource(metered(given.rate, console.progress))


def show_log(note: Callable[[str], None], *, verbose: bool) -> None:
    """Let ``note`` take what kdump itself logs: warnings, with ``verbose`` more. What others log is not shown.

    py4j would show the traceback of an interrupt. The messages begin with the program's name, for processes without a
    command line.
    """
    import logging

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            note(record.getMessage().removeprefix("kdump: "))

    logging.getLogger().addHandler(logging.NullHandler())
    log = logging.getLogger("kdump")
    log.handlers[:] = [Notes(logging.INFO if verbose else logging.WARNING)]
    log.setLevel(log.handlers[0].level)


def has_pyarrow(option: str) -> bool:
    """Whether pyarrow is installed, which ``option`` needs. If not, report which extra has it."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        click.echo(f"kdump: {option} needs pyarrow: pip install 'kafka-kdump[parquet]'", err=True)
        return False
    return True
