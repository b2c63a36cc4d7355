"""PATHs of another world: what ``kdump dump`` shows of them, and their state at a moment."""

from __future__ import annotations

from collections.abc import Callable

from kdump.cli.arguments import DumpArguments, StateArguments
from kdump.cli.common import begin
from kdump.cli.console import Console
from kdump.cli.exit_status import RunStatus
from kdump.cli.state_options import NO_CHANGE, NOW
from kdump.codes import DamageError, Finding, KdumpError, Severity
from kdump.dump.otherworld import WorldDump
from kdump.log.files import strip_credentials
from kdump.reading.selection import RowBudget
from kdump.rows.scalarlines import json_line
from kdump.state.otherworld import WorldPlace, WorldState, WorldStates
from kdump.worlds import World


def show_world(world: World, given: StateArguments, console: Console, status: RunStatus) -> None:
    """Show the state of each place among the paths, or what changed there."""
    states: WorldStates = world.answer("state")

    def write(text: str) -> None:
        console.out.write(text.encode("utf-8", "surrogateescape"))

    try:
        places = states.servers(map(strip_credentials, given.paths), given.max_decompressed_size)
    except KdumpError as error:
        status.fail(error)
        places = ()
    for place in places:
        try:
            if given.at is None and given.at_zxid is None:
                _show_changes(place, given, write, console)
                continue
            found = place.at(None if given.at == NOW else given.at, given.at_zxid)
        except KdumpError as error:
            status.fail(error.located(place.path))
            continue
        _show_state(found, given, write, console)
        for finding in found.findings():
            status.add(damaged=finding.severity is Severity.ERROR)
            _show_finding(finding, given, write, console)


def _show_state(found: WorldState, given: StateArguments, write: Callable[[str], None], console: Console) -> None:
    secrets = given.show_secrets
    if given.output == "table":
        for part in found.page(show_secrets=secrets, width=console.width, color=console.color):
            write(part)
        return
    for row in (found.records if given.output == "records" else found.rows)(show_secrets=secrets):
        write(json_line(list(row), list(row.values())))


def _show_finding(finding: Finding, given: StateArguments, write: Callable[[str], None], console: Console) -> None:
    from kdump.verify.report import finding_json, finding_line

    if given.output == "jsonl":
        write(finding_json(finding))
    else:
        console.complain(f"kdump: {finding_line(finding, color=False).rstrip()}")


def _show_changes(place: WorldPlace, given: StateArguments, write: Callable[[str], None], console: Console) -> None:
    """Show the changes that ``--between`` and ``--history`` ask for. Raises KdumpError."""
    wanted = None if given.history is None else (given.history.kind, given.history.name)
    span = (None, None) if given.between is None else (given.between.first, given.between.end)
    is_any = False
    for row, text in place.changes(span, wanted, show_secrets=given.show_secrets):
        is_any = True
        write(json_line(list(row), list(row.values())) if given.output == "jsonl" else text)
    if not is_any and wanted is not None:
        console.note(f"{place.path}: {NO_CHANGE}")


def dump_world(given: DumpArguments, world: World) -> int:
    """Show what is in all files, and give the exit status."""
    from kdump.cli import view_options

    dump: WorldDump = world.answer("dump")
    console = Console(
        color=given.color,
        output=given.output,
        at_once=given.output == "table",
        pager=given.pager,
        show_traceback=given.traceback,
    )
    begin(given, console)
    lines = None
    if not given.is_text:
        fields = view_options.fields_of(given, f"file of {world.title}", *dump.TABLES)
        lines = view_options.lines(given, fields, width=console.width, color=console.color)
    status = RunStatus(console.show_error)
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
    console.close()
    return status.code
