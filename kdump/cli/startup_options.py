"""``verify --startup`` and what goes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from kdump.cli.params import Moment
from kdump.format.batch import MAX_INT32

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OFFSET: Final = click.IntRange(0, 2**63 - 1)


def startup_options(function: _Function) -> _Function:
    """``--startup`` and what goes with it."""
    for option in (
        click.option(
            "--now",
            type=Moment(),
            help="With --startup: the clock of that start.  [default: when the log was written last]",
        ),
        click.option(
            "--segment-index-bytes",
            type=click.IntRange(12, MAX_INT32),
            metavar="BYTES",
            help="With --startup: the broker's segment.index.bytes.  [default: 10485760]",
        ),
        click.option(
            "--log-start-offset",
            type=_OFFSET,
            metavar="N",
            help="With --startup: use this instead of the checkpoint's.",
        ),
        click.option(
            "--recovery-point", type=_OFFSET, metavar="N", help="With --startup: use this instead of the checkpoint's."
        ),
        click.option(
            "--clean/--unclean",
            "is_clean",
            default=None,
            help="With --startup: the broker was stopped, or killed.  [default: as .kafka_cleanshutdown says]",
        ),
        click.option(
            "--startup",
            is_flag=True,
            help="Predict what a broker's start will do to partition and log directories, and what it will lose.",
        ),
    ):
        function = option(function)
    return function
