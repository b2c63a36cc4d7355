"""``kdump dump``: what DumpLogSegments prints, and rows for scripts and people."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kdump.cli import view_options
from kdump.cli.command import Run, command
from kdump.cli.console import Console
from kdump.cli.coordinatorkey import PartitionFinder, coordinated
from kdump.cli.engine import choose_engine
from kdump.cli.java_options import JavaOptionsCommand, asked_dialect, decoder
from kdump.cli.options.dump import DumpArguments
from kdump.codes import KdumpError, ignore_error
from kdump.dump.output import DumpOptions, OutputMaker
from kdump.dump.run import DumpRun
from kdump.dump.targets import Target, bytes_of, followed, listed_targets, target_by_java_name, targets_of
from kdump.dump.text.dialect import NEWEST_DIALECT, Dialect, TooNewError
from kdump.dump.text.options import MAX_BYTES, MAX_MESSAGE_SIZE, TextOptions
from kdump.dump.text.output import text_output
from kdump.inputs import input_of, is_text_file
from kdump.log.files import strip_credentials
from kdump.payloads.java import split_commas
from kdump.reading.reporter import Reporter
from kdump.reading.selection import Range, RowBudget
from kdump.reading.timerange import ClockRange
from kdump.reading.view import ViewOptions
from kdump.worlds import world_of_path

if TYPE_CHECKING:
    from kdump.kafka.image.names import TopicNames
    from kdump.rows.arrowfiles import TableForm, TableWriter
    from kdump.spark.sessions import Session

_COUNT_ONLY = 1 << 62
"""Rows to skip when they are only counted."""


@command(
    DumpArguments,
    kind=JavaOptionsCommand,
    most_used=(
        "--topic --print-data-log --output --fields --decode --schemas --offset --time --key --value -n "
        "--tail -f --resync --explain"
    ),
    examples="""\
  kdump dump 00000000000000000000.log                  the batches of one segment
  kdump dump --print-data-log /data/kafka/orders-0     all records of a partition
  ssh broker cat X.log | kdump dump --deep-iteration - a segment from a pipe
  kdump dump --files 0.log,0.index                     as kafka-dump-log.sh would
  kdump dump --dialect 2.8 --print-data-log X.log      as the one of Kafka 2.8 did
  kdump dump --output jsonl --records --key '^user-7$' --time -1d.. orders-0 | jq .value""",
)
def dump(run: Run[DumpArguments]) -> None:
    """Print Kafka segment files as DumpLogSegments 4.4.0 does, byte for byte.

    A PATH is a segment file (.log .index .timeindex .txnindex .snapshot .checkpoint, also with the
    suffix .deleted, .swap or .cleaned), a partition directory, a log directory, a URI of one (s3://bucket/orders-0),
    - for standard input, or a text file of a broker (checkpoints, meta.properties, ...), which is shown as it is.
    """
    given, console, status = run.given, run.console, run.status
    if given.explain is not None:
        _explain(run, given.explain)
        return
    if given.files is None and (world := world_of_path(strip_credentials(given.paths[0]))) is not None:
        from kdump.cli.worldpaths import dump_world

        dump_world(run, world)
        return
    if given.files is None:
        run.find_inputs()
    try:
        given.decoding = view_options.decoding(given)
    except KdumpError as error:
        status.fail(error)
        return
    given.times = _times(given, console)
    writer: TableWriter | None = None
    if given.output in ("arrow", "parquet"):
        if not run.has_pyarrow(f"--output {given.output}"):
            return
        if console.is_terminal:
            raise click.UsageError(f"--output {given.output} is for a file or a pipe, not for a terminal")
        options, writer = _table_options(run, given.output)
    else:
        options = _text_options(given) if given.is_text else _row_options(given, console)
    if given.frame is not None:
        from kdump.cli.frame import dump_frames  # not needed by a dump of logs

        dump_frames(run, options, _text(given) if given.is_text else None)
        return
    try:
        session = _session(given, console)
    except KdumpError as error:
        status.fail(error)
        return
    if session is None:
        done = _dump_here(options, given, console, writer)
    else:
        done = _dump_on_spark(session, options, given, console)
    status.add(damaged=done.damaged, unreadable=done.unreadable)


def _times(given: DumpArguments, console: Console) -> Range | None:
    """The range of ``--time``. UsageError where it has no day, and the logs do not tell it."""
    if not isinstance(given.times, ClockRange):
        return given.times
    from kdump.cli.logday import on_day_of_logs  # rarely needed

    return on_day_of_logs(given.times, given.inputs, console)


def _session(given: DumpArguments, console: Console) -> Session | None:
    """The session of Spark that makes the dump; None: this process. Raises as ``choose_engine``."""
    if given.is_text:
        return None
    only_here = given.given().first(given.local_only)
    return choose_engine(given, given.inputs, console, only_here=only_here).spark


def _dump_here(options: DumpOptions, given: DumpArguments, console: Console, writer: TableWriter | None) -> DumpRun:
    """Dump all files in this process, and print the reports at the end. ``writer`` takes rows that are no text."""
    wanted = coordinated(given)
    finder = None if wanted is None else PartitionFinder(wanted, given.partitions)

    def execute(emit: Callable[[Any], None], reporter: Reporter, budget: RowBudget, *, follow: bool = False) -> DumpRun:
        found: list[Target | KdumpError] = []
        if given.files is None and not follow:
            found = listed_targets(given.inputs, all_files=given.all_files)
        run = DumpRun(options, emit, reporter, budget=budget, size=bytes_of(found))
        run.expect(one for one in found if isinstance(one, Target))

        def dump_one(target: Target) -> None:
            before = budget.seen
            try:
                run.dump(target)
            except TooNewError as error:
                console.close()
                raise click.UsageError(f"{target.path}: {error}") from None
            if finder is not None:
                finder.see(target, has_rows=budget.seen > before)

        if given.files is not None:
            _dump_names(run, given, dump_one)
        elif follow:
            try:
                for target in followed(given.inputs[0], partial(_before_wait, console)):
                    dump_one(target)
                    if budget.is_spent:
                        break
            except KdumpError as error:
                run.fail(error)
        else:
            for one in found:
                if isinstance(one, KdumpError):
                    run.fail(one)
                elif finder is None or finder.wants(one, given.paths):
                    dump_one(one)
        return run

    # Counting rows shows where the records of a group are, and an unlimited budget does not count.
    budget = RowBudget(take=given.take if finder is None or given.take is not None else _COUNT_ONLY)
    if given.tail is not None:
        # Rows are counted first, which bounds the memory for any rows and any format.
        counted = RowBudget(skip=_COUNT_ONLY)
        execute(lambda text: None, Reporter(ignore_error, lambda line: None), counted)
        # No end is set: after the last row there may be damage.
        budget = RowBudget(max(0, counted.seen - given.tail), _COUNT_ONLY)
    if given.files is not None:
        for word in given.paths:
            console.note(f"{strip_credentials(word)}: ignored, as DumpLogSegments ignores it beside --files")
    reporter = console.reporter(verbose=given.verbose)
    run = execute(console.out.write if writer is None else writer.add, reporter, budget, follow=given.follow)
    if writer is not None:
        writer.close()
    console.out.flush()
    for line in () if finder is None else finder.notes():
        reporter.note(line)
    for line in run.finish():
        console.errors.write(os.fsencode(line))
    return run


def _before_wait(console: Console, news: str) -> None:
    """What --follow does before it waits for more; see GrowingFile."""
    console.out.flush_and_check_reader()
    if news:
        console.note(news)


def _explain(run: Run[DumpArguments], position: int) -> None:
    from kdump.cli.explain import show_explanation

    try:
        show_explanation(run, input_of(run.given.paths[0]), position)
    except KdumpError as error:
        run.status.fail(error)


def _text(given: DumpArguments, dialect: Dialect = NEWEST_DIALECT) -> TextOptions:
    """What the compatible text shows."""
    decoders = given.key_decoder_class, given.value_decoder_class
    return TextOptions(
        print_data_log=given.print_data_log
        or given.view == "records"
        or view_options.selection(given).by_contents
        or any(name is not None for name in decoders)
        or given.decoding.is_made,
        skip_record_metadata=given.skip_record_metadata,
        verify_index_only=given.verify_index_only,
        index_sanity_check=given.index_sanity_check,
        max_message_size=MAX_MESSAGE_SIZE if given.max_message_size is None else given.max_message_size,
        key_decoder=decoder(decoders[0], dialect),
        value_decoder=decoder(decoders[1], dialect),
    )


def _text_options(given: DumpArguments) -> DumpOptions:
    """The compatible text."""
    dialect = asked_dialect(given.dialect)
    text = _text(given, dialect)
    chooses_records = given.view == "records" or view_options.selection(given).by_contents
    return _options(
        given,
        text_output(text, dialect),
        with_records=given.deep_iteration or chooses_records or (text.print_data_log and dialect.print_shows_records),
        # The Java tool takes its default for the whole file.
        max_bytes=None if given.max_bytes == MAX_BYTES else given.max_bytes,
        unpacks_nested=dialect.unpacks_nested,
    )


def _row_options(given: DumpArguments, console: Console) -> DumpOptions:
    """Structured output. UsageError for unknown columns and a wrong ``--format``."""
    from kdump.dump.rows import RowOptions, row_output

    table = view_options.table(given, view_options.selection(given))
    is_text = bool(given.paths) and all(map(is_text_file, given.paths))
    fields = view_options.fields_of_text_files(given) if is_text else view_options.fields(given, table)
    lines = view_options.lines(given, fields, width=console.width, color=console.color)
    return _options(
        given,
        row_output(RowOptions(lines, table, fields, _names(given))),
        with_records=table.type == "record",
        max_bytes=given.max_bytes,
    )


def _names(given: DumpArguments) -> TopicNames | None:
    """The names of topics, for a table; the other outputs show what the records hold."""
    if given.output != "table" or given.template is not None:
        return None
    from kdump.kafka.image.names import TopicNames

    return TopicNames(given.paths)


def _table_options(run: Run[DumpArguments], form: TableForm) -> tuple[DumpOptions, TableWriter]:
    """Arrow and Parquet, and who writes the rows. UsageError for unknown columns."""
    from kdump.cli.schemas import flattened
    from kdump.dump.printed import arrow_output
    from kdump.rows.arrow import row_schema
    from kdump.rows.arrowfiles import TableWriter
    from kdump.rows.logs import table_of

    given = run.given
    table = table_of(given.world, view_options.table(given, view_options.selection(given)))
    schema = row_schema(table, view_options.fields(given, table))
    with_records = table.type == "record"
    options = _options(given, arrow_output(table, schema), with_records=with_records, max_bytes=given.max_bytes)
    return options, TableWriter(schema, form, run.console.out.write, flattened(run) if given.flatten else None)


def _options(
    given: DumpArguments,
    output: OutputMaker,
    *,
    with_records: bool,
    max_bytes: int | None,
    unpacks_nested: bool = False,
) -> DumpOptions:
    """The options that both formats share."""
    return DumpOptions(
        output,
        ViewOptions(
            with_records=with_records,
            selection=view_options.selection(given),
            max_bytes=max_bytes,
            max_decompressed_size=given.max_decompressed_size,
            resync=given.resync,
            seek=not given.no_index,
            unpacks_nested=unpacks_nested,
        ),
        read_committed=given.isolation == "read_committed",
        secret=view_options.secret(given),
        decoding=given.decoding,
    )


def _dump_on_spark(session: Session, options: DumpOptions, given: DumpArguments, console: Console) -> DumpRun:
    """Have Spark dump all files, and put together what it made."""
    from kdump.dump.tasks import CollectedRun, dump_work, plan_dump
    from kdump.spark.tasks import on_spark

    run = DumpRun(options, console.out.write, console.reporter(verbose=given.verbose))
    targets = list(targets_of(given.inputs, run.fail))
    if targets:
        run.begin_elsewhere(targets[0])
    work = dump_work(list(given.paths), options, verbose=given.verbose)
    collected = CollectedRun(run, console.out.write_through, targets)
    try:
        for piece in on_spark(session, plan_dump(targets, whole_partitions=options.read_committed), work):
            collected.take(piece)
    except KdumpError as error:
        run.fail(error)
    return run


def _dump_names(run: DumpRun, given: DumpArguments, dump_one: Callable[[Target], None]) -> None:
    for name in split_commas(given.files or ""):
        target = target_by_java_name(name, world=given.world)
        if target is None:
            run.ignore(name)
        else:
            strip_credentials(target.path)
            dump_one(target)
