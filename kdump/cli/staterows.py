"""Rows of a state as ``--output`` asks for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kdump.cli.command import Run
from kdump.cli.exit_status import RunStatus
from kdump.cli.options.state import StateArguments
from kdump.cli.options.stats import StatsArguments
from kdump.codes import KdumpError
from kdump.rows.columns import Row
from kdump.rows.scalarlines import csv_line


def show_rows(run: Run[StateArguments] | Run[StatsArguments], kind: str, rows: Collection[Row]) -> None:
    """Show rows of one type as ``--output`` asks for; of ``reset-csv`` only those with offsets."""
    from kdump.state.coordinatorpage import state_table

    given, console = run.given, run.console
    match given.output:
        case "jsonl":
            run.write_rows({"type": kind, **row} for row in rows)
        case "reset-csv" if kind in ("committedOffset", "offsetForTime"):
            names = ("group",) if kind == "committedOffset" else ()
            translated = _translated(rows, given.offset_map, run.status)
            columns = (*names, "topic", "partition", "offset")
            run.write_all(csv_line([row[name] for name in columns]) for row in translated)
        case "table":
            run.write_all(state_table(kind, rows, width=console.width, color=console.color))


def _translated(rows: Iterable[Row], maps: tuple[str, ...], status: RunStatus) -> Iterable[Row]:
    """Rows with offsets as they are after the logs were renumbered, if maps are given."""
    if not maps:
        return rows
    from kdump.restore.offsetmaps import OffsetMaps

    try:
        return list(map(OffsetMaps(maps).translated, rows))
    except KdumpError as error:
        status.fail(error)
        return ()
