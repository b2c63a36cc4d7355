"""Options that every subcommand has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kdump import __version__

_Function = TypeVar("_Function", bound=Callable[..., Any])


def common_options(function: _Function) -> _Function:
    """``-v``, ``--traceback`` and ``--version``; the function takes the first two as ``verbose`` and ``traceback``."""
    for option in (
        click.version_option(__version__, message="kdump %(version)s"),
        click.option("--traceback", is_flag=True, help="Show where in kdump an error came from."),
        click.option("-v", "--verbose", is_flag=True, help="Say on stderr what is read, and how."),
    ):
        function = option(function)
    return function
