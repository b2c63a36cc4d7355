"""``--engine``, ``--master`` and ``--conf``: where directory-sized jobs run.

Source: docs/contract.md#8-engines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kdump.cli.arguments import EngineArguments
from kdump.cli.common import show_log
from kdump.codes import Codes, KdumpError
from kdump.log import files
from kdump.log.lock import is_held
from kdump.log.paths import PathDirectory, resolve

if TYPE_CHECKING:
    from kdump.spark.sessions import Session
    from kdump.tasks.pool import ProcessPool

_Function = TypeVar("_Function", bound=Callable[..., Any])

MOST_LOCAL_SEGMENTS: Final = 64
"""More segments are work for Spark, where it is installed."""
_MASTER: Final = re.compile(r"local$|local\[.+\]$|local-cluster\[.+\]$|yarn$|(?:spark|k8s|sc)://.")


class _Master(click.ParamType[str]):
    """The URL of a cluster. Its beginning is checked, as Spark answers a wrong one with a stack trace."""

    name = "URL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The same."""
        if _MASTER.match(str(value)) is None:
            self.fail(f"'{value}' is none of local[N], spark://..., yarn, k8s://..., sc://...", param, ctx)
        return str(value)


class _Setting(click.ParamType[tuple[str, str]]):
    """``K=V``."""

    name = "setting"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """(K, V)."""
        name, equals, setting = str(value).partition("=")
        if not equals or not name:
            self.fail(f"'{value}' is not of the form K=V", param, ctx)
        return name, setting


def engine_options(function: _Function) -> _Function:
    """The three options; the function takes them as ``engine``, ``master`` and ``conf``."""
    for option in (
        click.option(
            "--conf", multiple=True, type=_Setting(), metavar="K=V", help="A setting of Spark; may be repeated."
        ),
        click.option(
            "--master",
            type=_Master(),
            metavar="URL",
            help="Run on this Spark cluster: local[N], spark://..., yarn, k8s://..., sc://...",
        ),
        click.option(
            "--engine",
            type=click.Choice(["auto", "local", "spark"]),
            default="auto",
            help=f"auto (default): Spark with --master or for more than {MOST_LOCAL_SEGMENTS} segments, "
            "if it is installed and no broker runs here.",
        ),
    ):
        function = option(function)
    return function


def jobs_option(function: _Function) -> _Function:
    """``--jobs``, as ``jobs``."""
    option = click.option(
        "-j",
        "--jobs",
        type=click.IntRange(1),
        default=1,
        metavar="N",
        help="Work in N processes, if there are 64 MiB of logs or more.  [default: 1]",
    )
    return option(function)


def pool(jobs: int, module: str) -> ProcessPool:
    """The processes of ``--jobs``, until the command ends. ``module``: where the functions are that they run."""
    from kdump.tasks.pool import ProcessPool

    return click.get_current_context().with_resource(ProcessPool(jobs, module))


def session(
    given: EngineArguments, paths: Sequence[str], note: Callable[[str], None], *, local_only: bool = False
) -> Session | None:
    """The Spark session to run in; None: in this process.

    Args:
        given: the command's options.
        paths: what it is to work on.
        note: takes the choice and its reason, unless these are obvious.
        local_only: an option was given that only this process can carry out.

    Raises:
        KdumpError: Spark was asked for and is not installed, or does not start.
    """
    engine, master = given.engine, given.master
    if engine == "local" or local_only or given.rate is not None or given.idle:
        return None
    reason = "--engine spark" if engine == "spark" else "--master" if master else _many_segments(paths)
    if reason is None:
        return None
    if engine == "auto" and not master and any(map(_is_live, paths)):
        note(f"engine: local, because a broker runs here ({reason})")
        return None
    from kdump.spark.sessions import session as make_session
    from kdump.spark.sessions import where, why_not

    missing = why_not(master)
    if missing is not None:
        if engine == "spark" or master:
            raise KdumpError(Codes.UNREADABLE, missing)
        note(f"engine: local ({reason}). {missing}")
        return None
    note(f"engine: spark, {where(master)} ({reason})")
    show_log(note, verbose=given.verbose)
    return make_session(master, dict(given.conf))


def _many_segments(paths: Sequence[str]) -> str | None:
    count = 0
    for path in paths:
        # An error of a path is reported when its turn comes.
        with suppress(KdumpError):
            found = resolve(path)
            count += sum(1 for _ in found.paths(lambda error: None)) if isinstance(found, PathDirectory) else 1
    return f"{count} segments" if count > MOST_LOCAL_SEGMENTS else None


def _is_live(path: str) -> bool:
    """A broker holds the log directory that ``path`` is or lies in."""
    whole = files.absolute(path)
    return any(is_held(place) for place in (whole, os.path.dirname(whole), os.path.dirname(os.path.dirname(whole))))
