"""``kdump dump --frame``: requests and responses that somebody saved."""

from __future__ import annotations

from typing import Final

from kdump.cli import view_options
from kdump.cli.command import Run
from kdump.cli.options.dump import DumpArguments
from kdump.codes import INPUT_CODES, KdumpError
from kdump.dump.output import DumpOptions
from kdump.dump.text.options import TextOptions
from kdump.kafka07.framedump import FrameRun
from kdump.log.files import strip_credentials
from kdump.reading.selection import RowBudget
from kdump.rows.tables import BATCH
from kdump.worlds import WORLDS

WORLD: Final = next(world for world in WORLDS if world.log_suffix)
"""Whose requests they are."""


def dump_frames(run: Run[DumpArguments], options: DumpOptions, text: TextOptions | None) -> None:
    """Show what is in all files."""
    given, console, status = run.given, run.console, run.status
    table = BATCH if text is not None else view_options.table(given, options.view.selection)
    fields = None if text is not None else view_options.fields(given, table)
    lines = view_options.lines(given, fields, width=console.width, color=console.color)
    frames = FrameRun(
        given.frame or "",
        console.out.write,
        console.reporter(verbose=given.verbose),
        RowBudget(take=given.take),
        view=options.view,
        text=text,
        table=table,
        lines=lines,
    )
    for path in map(strip_credentials, given.paths):
        try:
            frames.dump(path)
        except KdumpError as error:
            status.fail(error.located(path), is_damage=error.code not in INPUT_CODES)
    status.add(damaged=frames.damaged)
