"""Options that say what is in remote storage: the bucket beside the log directories, and its keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kdump.cli.options import OptionGroup, option
from kdump.log import tiers

_Function = TypeVar("_Function", bound=Callable[..., Any])


def tier_options(function: _Function) -> _Function:
    """Add --tier and --key-ring. Their values are told to ``log.tiers`` before any PATH is looked at."""
    for add in (
        option(
            OptionGroup.READ,
            "--key-ring",
            "keys",
            multiple=True,
            metavar="ID=FILE",
            callback=lambda context, param, value: _tell_keys(value),
            expose_value=False,
            help="The private key (PEM) of an id that manifests in the bucket name; repeatable.",
        ),
        option(
            OptionGroup.READ,
            "--tier",
            metavar="BUCKET",
            callback=lambda context, param, value: tiers.tell(tiers.given()._replace(bucket=value)),
            expose_value=False,
            help="The remote storage of the log directories: a partition begins with its remote segments.",
        ),
    ):
        function = add(function)
    return function


def _tell_keys(texts: tuple[str, ...]) -> None:
    """Raises click.UsageError, which never shows the value: it might be a key."""
    if not all(text.partition("=")[0] and text.partition("=")[2] for text in texts):
        raise click.UsageError("--key-ring: not of the form ID=FILE")
    tiers.tell(tiers.given()._replace(keys=dict(text.split("=", 1) for text in texts)))
