"""``kdump dump --frame``: requests and responses that somebody saved."""

from __future__ import annotations

import click

from kdump.cli import exit_status, view_options
from kdump.cli.arguments import DumpArguments
from kdump.cli.console import Console
from kdump.cli.exit_status import RunStatus
from kdump.codes import INPUT_CODES, KdumpError
from kdump.dump.frames import AmbiguousVersionError, FrameOptions, FrameRun
from kdump.dump.output import DumpOptions
from kdump.dump.text.options import TextOptions
from kdump.format.frame import KINDS, KINDS_07, versions_of
from kdump.log.context import FileContext
from kdump.log.files import strip_credentials
from kdump.reading.selection import RowBudget
from kdump.rows.printers import Lines
from kdump.rows.tables import BATCH


def parse_kind(text: str) -> tuple[str, int | None]:
    """The kind of a frame and its API version. UsageError for unknown ones."""
    kind, colon, number = text.partition(":")
    if kind in KINDS_07 and not colon:
        return kind, None
    if kind not in KINDS:
        known = ", ".join((*KINDS_07, *(f"{name}[:V]" for name in KINDS)))
        raise click.UsageError(f"--frame: no frame '{text}' (known: {known})")
    versions = versions_of(kind)
    if not colon:
        return kind, None
    if number not in map(str, versions):
        raise click.UsageError(f"--frame: {kind} has the versions {versions[0]} to {versions[-1]}, not '{number}'")
    return kind, int(number)


def dump_frames(given: DumpArguments, options: DumpOptions, text: TextOptions | None, console: Console) -> int:
    """The command; gives its exit status."""
    kind, version = parse_kind(given.frame or "")
    table = BATCH if text is not None else view_options.table(given, options.view.selection)
    fields = None if text is not None else view_options.fields(given, table)

    def lines(context: FileContext) -> Lines:
        return view_options.lines(given, fields, width=console.width, color=console.color)(context)

    frame_options = FrameOptions(kind, version, options.view, text, table, lines)
    status = RunStatus(console.show_error)
    run = FrameRun(
        frame_options, console.out.write, console.reporter(verbose=given.verbose), RowBudget(take=given.take)
    )
    is_ambiguous = False
    for path in map(strip_credentials, given.paths):
        try:
            run.dump(path)
        except AmbiguousVersionError as error:
            console.show_error(error)
            is_ambiguous = True
        except KdumpError as error:
            status.fail(error.located(path), is_damage=error.code not in INPUT_CODES)
    console.close()
    status.add(damaged=run.damaged)
    return exit_status.USAGE if is_ambiguous else status.code
