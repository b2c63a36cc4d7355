"""``--broker-version``: which broker will run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kdump.cli.options import OptionGroup, option
from kdump.releases import NEWEST, RELEASES

_Function = TypeVar("_Function", bound=Callable[..., Any])


def broker_version_option(group: OptionGroup, applies: str = "") -> Callable[[_Function], _Function]:
    """The option, whose value is a key of RELEASES. ``applies``: with what it goes, in front of the help."""
    return option(
        group,
        "--broker-version",
        type=click.Choice(list(RELEASES)),
        default=NEWEST.name,
        help=f"{applies}The release of Kafka whose broker will run.",
    )
