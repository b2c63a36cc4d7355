"""``verify --startup`` and what goes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from kdump.cli.broker_option import broker_version_option
from kdump.cli.options import OptionGroup, option
from kdump.cli.params import Moment
from kdump.format.batch import MAX_INT32

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OFFSET: Final = click.IntRange(0, 2**63 - 1)


def startup_options(function: _Function) -> _Function:
    """``--startup`` and what goes with it."""
    for each in (
        broker_version_option(OptionGroup.START, "With --startup: "),
        option(
            OptionGroup.START,
            "--now",
            type=Moment(),
            show_default="when the log was written last",
            help="With --startup: the clock of that start.",
        ),
        option(
            OptionGroup.START,
            "--segment-index-bytes",
            type=click.IntRange(12, MAX_INT32),
            metavar="BYTES",
            show_default="10485760",
            help="With --startup: the broker's segment.index.bytes.",
        ),
        option(
            OptionGroup.START,
            "--log-start-offset",
            type=_OFFSET,
            metavar="N",
            help="With --startup: use this instead of the checkpoint's.",
        ),
        option(
            OptionGroup.START,
            "--recovery-point",
            type=_OFFSET,
            metavar="N",
            help="With --startup: use this instead of the checkpoint's.",
        ),
        option(
            OptionGroup.START,
            "--clean/--unclean",
            "is_clean",
            default=None,
            show_default="as .kafka_cleanshutdown says",
            help="With --startup: the broker was stopped, or killed.",
        ),
        option(
            OptionGroup.START,
            "--startup",
            is_flag=True,
            help="Predict what a broker's start will do to partition and log directories, and what it will lose.",
        ),
    ):
        function = each(function)
    return function
