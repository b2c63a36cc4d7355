"""``kdump dump``: what DumpLogSegments prints, and the same as rows for scripts and people."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from kdump.cli import engine_options, exit_status, view_options
from kdump.cli.common import common_options, limit_option
from kdump.cli.console import Console
from kdump.cli.coordinatorkey import PartitionFinder, coordinated
from kdump.cli.java_options import JavaOptionsCommand, decoder, java_options, once
from kdump.codes import Codes, KdumpError
from kdump.dump.run import FileRun, Target, target_of
from kdump.dump.text.options import MAX_BYTES, MAX_MESSAGE_SIZE, DumpOptions
from kdump.dump.text.targets import target_by_java_name
from kdump.dump.text.tool import DumpTool
from kdump.log.files import strip_credentials
from kdump.log.paths import OtherFile, PathDirectory, TextFile, is_text_file, resolve
from kdump.log.source import open_source, reads_once
from kdump.payloads.java import split_commas
from kdump.reading.printing import Emit
from kdump.reading.reporter import Reporter
from kdump.reading.selection import RowBudget

if TYPE_CHECKING:
    from kdump.dump.rowdump import RowOptions
    from kdump.spark.sessions import Session

_COUNT_ONLY = 1 << 62
"""Rows to skip when they are only counted."""


@click.command(
    cls=JavaOptionsCommand,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  kdump dump 00000000000000000000.log                  the batches of one segment
  kdump dump --print-data-log /data/kafka/orders-0     all records of a partition
  ssh broker cat X.log | kdump dump --deep-iteration - a segment from a pipe
  kdump dump --files 0.log,0.index                     as kafka-dump-log.sh would
  kdump dump --output jsonl --records --key '^user-7$' --time -1d.. orders-0 | jq .value""",
)
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path())
@click.option(
    "--files",
    multiple=True,
    callback=once,
    metavar="A,B,...",
    help="Comma-separated files, taken as DumpLogSegments takes them; PATHs are then ignored, as there.",
)
@click.option("--all-files", is_flag=True, help="Of a directory: the siblings of the .log files too.")
@java_options
@view_options.view_options
@limit_option("Refuse a batch that decompresses to more.")
@click.option(
    "--explain",
    type=click.IntRange(0),
    metavar="POSITION",
    help="Explain the bytes around a file position, field by field, damage included.",
)
@engine_options.engine_options
@common_options
def dump(paths: tuple[str, ...], files: str | None, all_files: bool, **given: Any) -> int:
    """Print Kafka segment files as DumpLogSegments 4.3.1 does, byte for byte.

    A PATH is a segment file (.log .index .timeindex .txnindex .snapshot .checkpoint, also with .deleted, .swap or
    .cleaned behind it), a partition directory, a log directory, a URI of one (s3://bucket/orders-0),
    - for standard input, or a text file of a broker (checkpoints, meta.properties, ...), which is shown as it is.
    """
    if given["fields"] == "help":
        click.echo(view_options.list_fields())
        return exit_status.CLEAN
    if files is None and not paths:
        raise click.UsageError("no PATH given (kdump dump --help)")
    if given["explain"] is not None:
        return _explain(paths, given)
    view_options.check_together(given, paths, other_files=files is not None or all_files)
    is_text = given["output"] == "kafka" and given["template"] is None
    console = Console(
        color=given["color"],
        escapes=given["output"] != "table",
        at_once=given["output"] == "table",
        pager=given["pager"],
        show_traceback=given["traceback"],
    )
    try:
        spark = engine_options.session(
            given,
            tuple(map(strip_credentials, paths)),
            console.note,
            cannot=_local_only(given, paths, files, all_files),
        )
    except KdumpError as error:
        console.show_error(error)
        return exit_status.UNREADABLE
    if spark is not None:
        return _dump_on_spark(spark, paths, given, console)
    wanted = coordinated(given)
    finder = None if wanted is None else PartitionFinder(wanted, given["partitions"])
    make_run = _text_run(given) if is_text else _row_run(given, paths, console)

    def execute(emit: Emit, reporter: Reporter, budget: RowBudget, *, follow: bool = False) -> FileRun:
        run = make_run(emit, reporter, budget)

        def dump_one(target: Target) -> None:
            before = budget.seen
            run.dump(target)
            if finder is not None:
                finder.see(target, has_rows=budget.seen > before)

        if files is not None:
            _dump_names(run, files, dump_one)
        elif follow:
            from kdump.dump.follow import followed

            try:
                for target in followed(paths[0], console.out.flush_and_look):
                    dump_one(target)
                    if budget.is_spent:
                        break
            except KdumpError as error:
                run.fail(error)
        else:
            for target in _targets(run, paths, all_files):
                if finder is None or finder.wants(target, map(strip_credentials, paths)):
                    dump_one(target)
        return run

    # Where the records of a group are is told by counting rows, which a budget without end does not do.
    budget = RowBudget(take=given["take"] if finder is None or given["take"] is not None else _COUNT_ONLY)
    if given["tail"] is not None:
        # Rows are counted first: bounded memory whatever the rows and the format are.
        counted = RowBudget(skip=_COUNT_ONLY)
        execute(lambda text: None, Reporter(lambda error: None, lambda line: None), counted)
        # No end is set: behind the last row there may be damage.
        budget = RowBudget(max(0, counted.seen - given["tail"]), _COUNT_ONLY)
    if files is not None:
        for word in paths:
            console.note(f"{strip_credentials(word)}: ignored, as DumpLogSegments ignores it beside --files")
    reporter = console.reporter(verbose=given["verbose"])
    run = execute(console.out.write, reporter, budget, follow=given["follow"])
    console.out.flush()
    for line in () if finder is None else finder.notes():
        reporter.note(line)
    for line in run.finish():
        console.errors.write(os.fsencode(line))
    console.close()
    return exit_status.combined(damaged=run.damaged, unreadable=run.unreadable)


_WITH_EXPLAIN: Final = {"explain", "paths", "max_decompressed_size", "color", "pager", "verbose", "traceback"}


def _explain(paths: tuple[str, ...], given: Mapping[str, Any]) -> int:
    if len(paths) != 1:
        raise click.UsageError("--explain takes one PATH, a file")
    if view_options.secret(given) is not None:
        raise click.UsageError("--explain shows bytes as they are, it does not go with --redact")
    context = click.get_current_context()
    for parameter in context.command.params:
        is_given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if is_given and parameter.name not in _WITH_EXPLAIN:
            raise click.UsageError(f"--explain is instead of a dump, it does not go with {parameter.opts[-1]}")
    if is_text_file(paths[0]):
        raise click.UsageError(f"{paths[0]} is a text file: there are no fields to explain, kdump dump shows it")
    from kdump.explain import report

    console = Console(color=given["color"], escapes=False, pager=given["pager"], show_traceback=given["traceback"])
    try:
        path = strip_credentials(paths[0])
        with open_source(path) as source:
            found = report(
                source,
                given["explain"],
                limit=given["max_decompressed_size"],
                width=max(80, min(console.width, 120)),
                color=console.color,
            )
    except KdumpError as error:
        console.show_error(error)
        return exit_status.UNREADABLE
    console.out.write(found.text.encode("utf-8", "surrogateescape"))
    console.close()
    return exit_status.combined(damaged=found.is_damaged, unreadable=False)


_MakeRun = Callable[[Emit, Reporter, RowBudget], FileRun]


def _text_run(given: Mapping[str, Any]) -> _MakeRun:
    """The compatible text. UsageError for options that only structured output has."""
    if given["fields"] is not None or given["view"] == "batches":
        raise click.UsageError("--fields and --batches go with --output jsonl, csv or table")
    selection = view_options.selection(given)
    decoders = given["key_decoder_class"], given["value_decoder_class"]
    decoding = view_options.decoding(given)
    options = DumpOptions(
        deep_iteration=given["deep_iteration"],
        print_data_log=given["print_data_log"]
        or given["view"] == "records"
        or selection.by_contents
        or any(name is not None for name in decoders)
        or decoding.is_made,
        skip_record_metadata=given["skip_record_metadata"],
        verify_index_only=given["verify_index_only"],
        index_sanity_check=given["index_sanity_check"],
        max_bytes=MAX_BYTES if given["max_bytes"] is None else given["max_bytes"],
        max_message_size=MAX_MESSAGE_SIZE if given["max_message_size"] is None else given["max_message_size"],
        key_decoder=decoder(decoders[0]),
        value_decoder=decoder(decoders[1]),
        max_decompressed_size=given["max_decompressed_size"],
        selection=selection,
        read_committed=given["isolation"] == "read_committed",
        resync=given["resync"],
        seek=not given["no_index"],
        secret=view_options.secret(given),
        decoding=decoding,
    )
    return lambda emit, reporter, budget: DumpTool(options, emit, reporter, budget=budget)


_TEXT_ONLY = (
    "skip_record_metadata",
    "verify_index_only",
    "index_sanity_check",
    "max_message_size",
    "key_decoder_class",
    "value_decoder_class",
)


def _row_run(given: Mapping[str, Any], paths: Sequence[str], console: Console) -> _MakeRun:
    from kdump.dump.rowdump import RowDump

    options = _row_options(given, paths, console)
    return lambda emit, reporter, budget: RowDump(options, emit, reporter, budget=budget)


def _row_options(given: Mapping[str, Any], paths: Sequence[str], console: Console) -> RowOptions:
    """Structured output. UsageError for options that only the compatible text has."""
    for name in _TEXT_ONLY:
        if given[name]:
            raise click.UsageError(f"--{name.replace('_', '-')} goes with --output kafka only")
    from kdump.dump.rowdump import RowOptions
    from kdump.reading.view import ViewOptions

    selection = view_options.selection(given)
    table = view_options.table(given, selection)
    is_text = bool(paths) and all(map(is_text_file, paths))
    fields = view_options.fields_of_text_files(given) if is_text else view_options.fields(given, table)
    return RowOptions(
        lines=view_options.lines(given, fields, width=console.width, color=console.color),
        table=table,
        fields=fields,
        view=ViewOptions(
            with_records=table.type == "record",
            selection=selection,
            max_bytes=given["max_bytes"],
            max_decompressed_size=given["max_decompressed_size"],
            resync=given["resync"],
            seek=not given["no_index"],
        ),
        read_committed=given["isolation"] == "read_committed",
        secret=view_options.secret(given),
        decoding=view_options.decoding(given),
    )


def _local_only(given: Mapping[str, Any], paths: Sequence[str], files: str | None, all_files: bool) -> dict[str, bool]:
    """What only this process can do, and whether it is asked for."""
    return {
        "--output kafka": given["output"] == "kafka" and given["template"] is None,
        "--output table": given["output"] == "table",
        "--files": files is not None,
        "--all-files": all_files,
        "-n": given["take"] is not None,
        "--tail": given["tail"] is not None,
        "--follow": given["follow"],
        "--group or --transactional-id": coordinated(given) is not None,
        "a stream": any(map(reads_once, paths)),
        "a text file": any(map(is_text_file, paths)),
    }


def _dump_on_spark(spark: Session, paths: Sequence[str], given: Mapping[str, Any], console: Console) -> int:
    from kdump.dump.rowdump import RowDump
    from kdump.dump.tasks import CollectedRun, dump_work, plan_dump
    from kdump.spark.tasks import on_spark

    options = _row_options(given, paths, console)
    run = RowDump(options, console.out.write, console.reporter(verbose=given["verbose"]))
    collected = CollectedRun(run, console.out.write)
    targets = _targets(run, paths, all_files=False)
    tasks = plan_dump((target.path for target in targets), whole_partitions=options.read_committed)
    work = dump_work(list(map(strip_credentials, paths)), options, verbose=given["verbose"])
    try:
        for piece in on_spark(spark, tasks, work):
            collected.take(piece)
    except KdumpError as error:
        run.fail(error)
    console.close()
    return exit_status.combined(damaged=run.damaged, unreadable=run.unreadable)


def _dump_names(run: FileRun, files: str, dump_one: Callable[[Target], None]) -> None:
    for name in split_commas(files):
        target = target_by_java_name(name)
        if target is None:
            run.ignore(name)
        else:
            strip_credentials(target.path)
            dump_one(target)


def _targets(run: FileRun, paths: Sequence[str], all_files: bool) -> Iterator[Target]:
    for path in map(strip_credentials, paths):
        try:
            found = resolve(path)
            if isinstance(found, PathDirectory):
                for file in found.files(run.fail, all_files=all_files):
                    yield replace(target_of(file), is_listed=True)
            elif isinstance(found, OtherFile) and not isinstance(found, TextFile):
                raise _no_segment_file(found)
            else:
                yield target_of(found)
        except KdumpError as error:
            run.fail(error)


def _no_segment_file(file: OtherFile) -> KdumpError:
    error = file.error
    if error.code is Codes.NOT_A_SEGMENT_FILE:
        error.message = "not a segment file by its name (a stream can be read with -)"
    return error
