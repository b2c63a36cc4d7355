"""Options of ``kdump`` itself, before the command."""

from __future__ import annotations

import click

from kdump import limits
from kdump.cli.about import show_version
from kdump.cli.options.declaring import Arguments, OptionGroup, option


def _set_limits(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> None:
    """Set the limits of ``--most``. Raises click.UsageError."""
    for text in texts:
        kind, _, number = text.partition("=")
        if kind not in limits.DEFAULTS or not number.isascii() or not number.isdecimal() or len(number) > 18:
            raise click.UsageError(f"--most {text}: not one of {', '.join(f'{one}=NUMBER' for one in limits.DEFAULTS)}")
        limits.set_limits({kind: int(number)})


class ProgramArguments(Arguments):
    """Options of ``kdump``. They take effect at once, so they have no values."""

    _version: None = option(
        OptionGroup.GENERAL,
        "--version",
        "Show the version and exit.",
        """
        Print the version of kdump, the commit that it was built from, and those of Python and the platform, and exit.
        """,
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=show_version,
    )
    traceback: bool = option(
        OptionGroup.GENERAL,
        "--traceback",
        "Show where in kdump an error came from.",
        "After an error, show where in kdump it came from.",
    )
    _most: None = option(
        OptionGroup.GENERAL,
        "--most KIND=NUMBER",
        "Keep more in memory of hostile input; man kdump, LIMITS, has the kinds.",
        "Keep more in memory of hostile input; see `LIMITS`. May be repeated.",
        multiple=True,
        callback=_set_limits,
        expose_value=False,
    )
