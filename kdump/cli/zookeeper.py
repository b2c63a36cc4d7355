"""Files of ZooKeeper: ``kdump stats --at`` and ``--at-zxid``, and what ``kdump dump`` shows of them."""

from __future__ import annotations

from collections.abc import Callable

from kdump.cli.arguments import DumpArguments, StatsArguments
from kdump.cli.common import begin
from kdump.cli.console import Console
from kdump.cli.exit_status import RunStatus
from kdump.cli.whatif_options import NO_CHANGE, NOW
from kdump.codes import DamageError, KdumpError, Severity
from kdump.log.files import strip_credentials
from kdump.reading.selection import RowBudget
from kdump.rows.scalarlines import json_line
from kdump.zookeeper.datafiles import DataSet, data_sets
from kdump.zookeeper.restore import RestoredTree, last_zxid_at, restore, tree_at


def answer_zookeeper(given: StatsArguments, console: Console) -> int:
    """Show the tree of each server among the paths, and give the exit status."""
    from kdump.stats.state.zookeeperstate import node_records, zookeeper_page, zookeeper_rows
    from kdump.verify.report import finding_json, finding_line
    from kdump.verify.zookeeperdata import restored_findings

    status = RunStatus(console.show_error)

    def write(text: str) -> None:
        console.out.write(text.encode("utf-8", "surrogateescape"))

    for files in _sets(given.paths, given.max_decompressed_size, status.fail):
        try:
            if given.at is None and given.at_zxid is None:
                _show_changes(files, given, write, console)
                continue
            found = _restored(files, given)
        except KdumpError as error:
            status.fail(error.located(files.path))
            continue
        secrets = given.show_secrets
        if given.output == "table":
            for part in zookeeper_page(found, files, show_secrets=secrets, width=console.width, color=console.color):
                write(part)
        else:
            is_records = given.output == "records"
            rows = (
                node_records(found, show_secrets=secrets)
                if is_records
                else zookeeper_rows(found, files, show_secrets=secrets)
            )
            for row in rows:
                write(json_line(row))
        for finding in restored_findings(found, files, with_summary=False):
            status.add(damaged=finding.severity is Severity.ERROR)
            if given.output == "jsonl":
                write(finding_json(finding))
            else:
                console.complain(f"kdump: {finding_line(finding, color=False).rstrip()}")
    console.close()
    return status.code


def _show_changes(files: DataSet, given: StatsArguments, write: Callable[[str], None], console: Console) -> None:
    """Show the changes of nodes that ``--between`` and ``--history`` ask for. Raises KdumpError."""
    from kdump.stats.state.zookeeperchanges import change_rows, change_text

    wanted = None if given.history is None else (given.history.kind, given.history.name)
    span = (None, None) if given.between is None else (given.between.first, given.between.end)
    is_any = False
    for row in change_rows(files, span, wanted, show_secrets=given.show_secrets):
        is_any = True
        write(json_line(row) if given.output == "jsonl" else change_text(row))
    if not is_any and wanted is not None:
        console.note(f"{files.path}: {NO_CHANGE}")


def dump_zookeeper(given: DumpArguments) -> int:
    """Show the transactions and nodes of all files, and give the exit status."""
    from kdump.cli import view_options
    from kdump.dump.zookeeper import ZooKeeperDump

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
        fields = view_options.fields_of_zookeeper(given)
        lines = view_options.lines(given, fields, width=console.width, color=console.color)
    dump = ZooKeeperDump(
        lines,
        console.out.write,
        budget=RowBudget(take=given.take),
        resync=given.resync,
        show_secrets=given.show_secrets,
    )
    status = RunStatus(console.show_error)
    for path in given.paths:
        for files in _sets((path,), given.max_decompressed_size, status.fail):
            for file in files.files:
                try:
                    dump.file(file)
                except KdumpError as error:
                    status.fail(error.located(file.path), is_damage=isinstance(error, DamageError))
    console.close()
    return status.code


def _sets(paths: tuple[str, ...], limit: int, on_error: Callable[[KdumpError], None]) -> list[DataSet]:
    try:
        return data_sets(map(strip_credentials, paths), limit)
    except KdumpError as error:
        on_error(error)
        return []


def _restored(files: DataSet, given: StatsArguments) -> RestoredTree:
    if given.at_zxid is not None:
        return tree_at(files, given.at_zxid)
    assert given.at is not None
    return restore(files) if given.at == NOW else tree_at(files, last_zxid_at(files, given.at))
