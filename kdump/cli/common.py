"""Options that several or all subcommands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kdump import __version__
from kdump.wire.compression import DEFAULT_LIMIT

_Function = TypeVar("_Function", bound=Callable[..., Any])


def common_options(function: _Function) -> _Function:
    """``-v``, ``--traceback`` and ``--version``; the function takes the first two as ``verbose`` and ``traceback``."""
    for option in (
        click.version_option(__version__, message="kdump %(version)s"),
        click.option("--traceback", is_flag=True, help="Show where in kdump an error came from."),
        click.option("-v", "--verbose", is_flag=True, help="Report on stderr what is read."),
    ):
        function = option(function)
    return function


def limit_option(
    what: str = "Treat a batch that decompresses to more than this as damaged.",
) -> Callable[[_Function], _Function]:
    """``--max-decompressed-size``, as ``max_decompressed_size``; ``what`` is done with larger batches."""
    return click.option(
        "--max-decompressed-size",
        type=click.IntRange(1),
        default=DEFAULT_LIMIT,
        metavar="BYTES",
        help=f"{what}  [default: 128 MiB]",
    )


def color_option(what: str) -> Callable[[_Function], _Function]:
    """``--color``, as ``color``; ``what`` has colours."""
    return click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        help=f"Colours of {what}. [default: auto: on a terminal without NO_COLOR]",
    )


def rate_option(function: _Function) -> _Function:
    """``--rate``, as ``rate``: bytes a second, or None."""
    option = click.option(
        "--rate", type=click.IntRange(1), metavar="BYTES", help="Read at most this many bytes per second."
    )
    return option(function)
