"""``--version``: what this program is, for a report."""

from __future__ import annotations

import os
import sys
from typing import Final

import click

from kdump import __version__

_PACKAGE: Final = os.path.dirname(os.path.dirname(__file__))
_COMMIT_FILE: Final = "commit.txt"


def show_version(context: click.Context, _parameter: click.Parameter, is_wanted: bool) -> None:
    """Show the version, the commit, Python and the platform, and end."""
    if is_wanted:
        click.echo(version_line())
        context.exit()


def version_line() -> str:
    """One line: ``kdump 0.1.0 (commit, Python, platform), speaks Kafka ...``."""
    from kdump.releases import NEWEST

    commit, system = _commit(), os.uname()
    return (
        f"kdump {__version__} ({'' if commit is None else f'commit {commit}, '}"
        f"Python {sys.version.split()[0]}, {system.sysname} {system.machine}), speaks Kafka {NEWEST.version}"
    )


def _commit() -> str | None:
    """The commit that this was built from, or that is checked out; None: neither is known."""
    try:
        with open(os.path.join(_PACKAGE, _COMMIT_FILE), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        pass
    root = os.path.dirname(_PACKAGE)
    if not os.path.exists(os.path.join(root, ".git")):
        return None
    import subprocess  # slow, and needed in a clone only

    describe = ["git", "-C", root, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(describe, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
