"""``--broker-version``: which broker will run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from kdump.cli.options import OptionGroup, option
from kdump.releases import NEWEST, RELEASES, Release

_Function = TypeVar("_Function", bound=Callable[..., Any])
BROKER_VERSION: Final = "--broker-version"


def broker_version_option(group: OptionGroup, applies: str = "") -> Callable[[_Function], _Function]:
    """The option, whose value is a Release. ``applies``: with what it goes, in front of the help."""
    return option(
        group,
        BROKER_VERSION,
        type=click.Choice(list(RELEASES)),
        callback=_release,
        show_default=NEWEST.name,
        help=f"{applies}The release of Kafka whose broker will run.",
    )


def _release(ctx: click.Context, parameter: click.Parameter, name: str | None) -> Release:
    return NEWEST if name is None else RELEASES[name]
