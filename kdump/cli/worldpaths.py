"""PATHs of another world: what ``kdump dump`` shows of them, and their state at a moment."""

from __future__ import annotations

from kdump.cli.command import Run
from kdump.cli.options.dump import DumpArguments
from kdump.cli.options.state import StateArguments
from kdump.cli.params import NOW
from kdump.cli.staterows import show_rows
from kdump.codes import DamageError, KdumpError
from kdump.dump.worlddump import WorldDump
from kdump.inputs import Input
from kdump.log.files import strip_credentials
from kdump.reading.selection import RowBudget
from kdump.rows.scalarlines import json_line
from kdump.state.changes import NO_CHANGE
from kdump.state.worldstate import Reaches, WorldPlace, WorldState, WorldStates
from kdump.system.units import counted
from kdump.worlds import World


def show_world(run: Run[StateArguments], world: World) -> None:
    """Show the state of each place among the paths, or what changed there."""
    states: WorldStates = world.answer("state")
    given, status = run.given, run.status
    own = [found for found in given.inputs if found.world is world]
    logs = [found for found in given.inputs if found.world is not world]
    try:
        places = states.servers([found.path for found in own], given.max_decompressed_size)
    except KdumpError as error:
        status.fail(error)
        places = ()
    for place in places:
        try:
            if given.at is None and given.at_zxid is None:
                _show_changes(run, place)
                continue
            found = place.at(None if given.at == NOW else given.at, given.at_zxid)
        except KdumpError as error:
            status.fail(error.located(place.path))
            continue
        _show_state(run, found, _reaches(run, logs, found.time if given.at != NOW else None))
        for finding in found.findings():
            run.show_finding(finding)


def _reaches(run: Run[StateArguments], logs: list[Input], time: int | None) -> Reaches | None:
    """How far logs beside a place reach at a time (ms since 1970; None: now), for the lag of its groups; None: none."""
    if not logs:
        return None
    from kdump.stats.reach import reaches
    from kdump.verify.partitionentries import PartitionEntries

    fail = run.status.fail
    return {
        (one.topic, one.partition): one for one in reaches(PartitionEntries(logs, on_error=fail).partitions, time, fail)
    }


def _show_state(run: Run[StateArguments], found: WorldState, reaches: Reaches | None) -> None:
    given, console = run.given, run.console
    secrets = given.show_secrets
    match given.output:
        case "table":
            run.write_all(found.page(show_secrets=secrets, reaches=reaches, width=console.width, color=console.color))
        case "records":
            run.write_rows(found.records(show_secrets=secrets))
        case "reset-csv":
            offsets = [row for row in found.rows(show_secrets=False, reaches=None) if row["type"] == "offset"]
            shown = [row for row in offsets if all(isinstance(row[name], int) for name in ("partition", "offset"))]
            if len(shown) < len(offsets):
                left = counted(len(offsets) - len(shown), "offset")
                console.note(f"{left} left out: those of Kafka 0.7 are byte positions, of partitions of a broker")
            show_rows(run, "committedOffset", shown)
        case _:
            run.write_rows(found.rows(show_secrets=secrets, reaches=reaches))


def _show_changes(run: Run[StateArguments], place: WorldPlace) -> None:
    """Show the changes that ``--between`` and ``--history`` ask for. Raises KdumpError."""
    given = run.given
    wanted = None if given.history is None else (given.history.kind, given.history.name)
    span = (None, None) if given.between is None else (given.between.first, given.between.end)
    is_any = False
    for row, text in place.changes(span, wanted, show_secrets=given.show_secrets):
        is_any = True
        run.write(json_line(row) if given.output == "jsonl" else text)
    if not is_any and wanted is not None:
        run.console.note(f"{place.path}: {NO_CHANGE}")


def dump_world(run: Run[DumpArguments], world: World) -> None:
    """Show what is in all files."""
    from kdump.cli import view_options

    dump: WorldDump = world.answer("dump")
    given, console, status = run.given, run.console, run.status
    lines = None
    if not given.is_text:
        fields = view_options.fields_of(given, f"file of {world.title}", *dump.TABLES)
        lines = view_options.lines(given, fields, width=console.width, color=console.color)
    shown = dump.begin_dump(
        lines,
        console.out.write,
        budget=RowBudget(take=given.take),
        resync=given.resync,
        show_secrets=given.show_secrets,
        limit=given.max_decompressed_size,
    )
    for path in map(strip_credentials, given.paths):
        shown.show(path, lambda error: status.fail(error, is_damage=isinstance(error, DamageError)))
