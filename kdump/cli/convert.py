"""``kdump convert``: other message formats and codecs, parts of a log, files for other tools, and back."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any, Final

import click

from kdump.cli import exit_status
from kdump.cli.arguments import ConvertArguments
from kdump.cli.common import begin, common_options, has_pyarrow, limit_option, log_format_option, reading_options
from kdump.cli.conflicts import CONVERSIONS, CONVERT, CONVERT_LOCAL_ONLY, GivenOptions
from kdump.cli.console import Console
from kdump.cli.conversion_options import check_level, conversion_of, conversion_options
from kdump.cli.engine_options import Engine, choose_engine, engine_options
from kdump.cli.exit_status import RunStatus
from kdump.cli.options import Command, OptionGroup, option
from kdump.cli.params import OutputFormat
from kdump.cli.signals import unwound
from kdump.cli.tier_options import tier_options
from kdump.codes import INPUT_CODES, Codes, Finding, KdumpError
from kdump.convert.conversion import Conversion
from kdump.convert.export import export_text
from kdump.convert.report import converted_lines, converted_row, loss_lines, loss_rows, marker_rows
from kdump.convert.run import DestinationError, Job, Outputs, plan_conversion, plan_export, plan_import, run_in_order
from kdump.convert.segment import SegmentResult
from kdump.inputs import input_of
from kdump.log.files import strip_credentials
from kdump.log.named import reads_once
from kdump.log.names import is_uri
from kdump.reading.reporter import Reporter
from kdump.verify.report import finding_json
from kdump.worlds import log_titles, world_of_store

_KEEP: Final = "keep"
_STDOUT: Final = "-"
_WHAT_HELPS: Final = (
    "kdump verify says what is damaged, kdump repair saves what is valid, --skip-damaged leaves the damage out"
)


@click.command(
    cls=Command,
    most_used=(
        "-o",
        "--to-magic",
        "--codec",
        "--to",
        "--from",
        "--offset",
        "--time",
        "--overwrite",
        "--skip-damaged",
        "-j",
    ),
    epilog="""\b
Examples:
  kdump convert X.log -o old/ --to-magic 1           as an old consumer would get it
  kdump convert orders-0 -o archive --codec zstd     recompress a partition
  kdump convert X.log -o part.log --offset 100:200   a slice as a segment
  kdump convert X.log -o X.parquet --to parquet      for Spark, pandas, DuckDB
  kdump convert rows.jsonl -o new/ --from jsonl      a segment out of JSON lines""",
)
@click.argument("source", metavar="SRC", required=False, type=click.Path())
@conversion_options
@option(
    OptionGroup.WRITE,
    "-o",
    "destination",
    metavar="DST",
    type=click.Path(),
    help="The file to write, or the directory (for a directory always); with --to jsonl or csv - is standard output.",
)
@tier_options
@log_format_option
@option(
    OptionGroup.WRITE,
    "--offset-map",
    is_flag=True,
    help=f"Of logs of {log_titles()}, and with --renumber: also write DST.offsets.csv, what each old offset has "
    "become.",
)
@option(
    OptionGroup.WRITE,
    "--to",
    "form",
    type=click.Choice(["jsonl", "csv", "parquet"]),
    help="Write records for other tools.",
)
@option(OptionGroup.READ, "--from", "input_form", type=click.Choice(["jsonl"]), help="SRC is JSON lines of records.")
@option(
    OptionGroup.WRITE, "--csv-safe", is_flag=True, help="With --to csv: no cell begins as a spreadsheet's formula does."
)
@option(OptionGroup.DAMAGE, "--skip-damaged", is_flag=True, help="Leave out what is damaged, and say so.")
@option(
    OptionGroup.OUTPUT,
    "--output",
    type=OutputFormat(["text", "jsonl"]),
    default="text",
    help="How to say what was done.",
)
@option(
    OptionGroup.CHOICE,
    "--open-transactions",
    type=click.Choice(["refuse", "keep"]),
    show_default="refuse",
    help="Transactions of a part of a log without an end marker: write nothing, or write it anyway.",
)
@engine_options
@limit_option()
@reading_options
@common_options
def convert(source: str | None, destination: str | None, **others: Any) -> int:
    """Write a segment, a partition or a log directory in another form; the source is never touched.

    Anything the target format cannot represent is counted by kind. Files appear whole, all together, or not at all.
    """
    if source is None:
        raise click.UsageError("no SRC given (kdump convert --help)")
    source = strip_credentials(source)
    given = ConvertArguments({"source": source, "destination": destination or "", **others})
    options = GivenOptions(
        {
            "no DST": not destination,
            "DST is a URI": destination if is_uri(destination or "") else None,
            "a stream": reads_once(source),
            "a bucket": world_of_store(source) is not None,
        }
    )
    options.check(CONVERT)
    check_level(given)
    if given.form == "parquet" and not has_pyarrow("--to parquet"):
        return exit_status.UNREADABLE
    console = Console(show_traceback=given.traceback)
    begin(given, console)
    status = RunStatus(console.show_error)
    given.input = input_of(source, given.world)
    conversion = replace(conversion_of(given, [given.input], console.note), skip_damaged=given.skip_damaged)
    if world_of_store(source) is not None and options.first(CONVERSIONS) is None:
        with unwound():
            _extract(given, console, status)
    elif given.destination == _STDOUT:
        _engine(given, 1, options, console)
        _to_stdout(conversion, given, console, status)
    else:
        try:
            jobs = _plan(conversion, given)
            engine = _engine(given, len(jobs), options, console)
            with unwound():
                _run(jobs, console, given, engine, status)
        except DestinationError as error:
            raise click.UsageError(str(error)) from None
        except KdumpError as error:
            status.fail(error, is_damage=error.code not in INPUT_CODES)
    console.close()
    return status.code


def _extract(given: ConvertArguments, console: Console, status: RunStatus) -> None:
    """Write the files of a bucket as they are."""
    from kdump.tiered.extract import extract  # no other source has any

    def tell(error: KdumpError) -> bool:
        status.fail(error, is_damage=error.code not in INPUT_CODES)
        return given.skip_damaged

    try:
        for one in extract(given.source, given.destination, tell, overwrites=given.overwrite):
            console.out.write(f"{one.directory}: {one.files:,} files, {one.bytes:,} bytes\n".encode())
    except KdumpError as error:
        status.fail(error, is_damage=error.code not in INPUT_CODES)
    except OSError as error:
        status.fail(KdumpError(Codes.UNWRITABLE, error.strerror or str(error), path=error.filename))


def _plan(conversion: Conversion, given: ConvertArguments) -> Sequence[Job]:
    found, destination = given.input, given.destination
    if given.form is not None:
        return plan_export(found, destination, given.form, conversion, is_safe=given.csv_safe)
    if given.input_form is not None:
        return plan_import(found, destination, conversion)
    return plan_conversion(found, destination, conversion, maps_offsets=given.offset_map)


def _engine(given: ConvertArguments, count: int, options: GivenOptions, console: Console) -> Engine:
    """What does ``count`` jobs. Raises as ``choose_engine``."""
    only_here = options.first(CONVERT_LOCAL_ONLY)
    if only_here is None and count == 1 and given.engine != "spark" and not given.master:
        only_here = "one segment"
    return choose_engine(given, [given.input], console, only_here=only_here)


def _run(jobs: Sequence[Job], console: Console, given: ConvertArguments, engine: Engine, status: RunStatus) -> None:
    """All jobs, then their files together; nothing when one fails, or with ``--strict`` anything is lost."""
    is_text = given.output == "text"
    results: list[SegmentResult] = []
    with (
        Outputs(jobs, overwrites=given.overwrite) as outputs,
        closing(_results(given.source, jobs, console.reporter(verbose=given.verbose), engine)) as found,
    ):
        for result in map(outputs.add, found):
            results.append(result)
            if given.verbose:
                console.note(f"{result.source}: read, {len(result.losses)} kinds of losses")
            if result.error is not None:
                _refuse(result, result.error, console, status, is_text=is_text, is_left_out=given.skip_damaged)
                return
            for text in loss_lines(result) if is_text else loss_rows(result):
                console.out.write(text.encode("utf-8", "surrogateescape"))
        if given.strict and any(result.losses for result in results):
            console.note("nothing was written: something would be lost (--strict)")
            status.add(damaged=True)
            return
        # A reader that has gone does not decide the exit status.
        with suppress(BrokenPipeError):
            console.out.flush()
        outputs.publish()
    for result in results:
        _say_done(result, console, is_text=is_text)
        status.add(damaged=bool(result.findings))


def _results(
    source: str, jobs: Sequence[Job], reporter: Reporter, engine: Engine
) -> Generator[SegmentResult, None, None]:
    """Of all jobs, in their order as they come."""
    if engine.spark is None and engine.pool is None:
        return run_in_order(jobs, reporter.progress)
    from kdump.convert.tasks import run_jobs

    return run_jobs(jobs, engine.run, source)


def _say_done(result: SegmentResult, console: Console, *, is_text: bool) -> None:
    for finding in result.findings:
        _show_finding(finding, result, "left out", console, is_text=is_text)
    for note in result.notes:
        console.note(f"{result.source}: {note}")
    for text in converted_lines(result) if is_text else (*marker_rows(result), converted_row(result)):
        console.out.write(text.encode("utf-8", "surrogateescape"))


def _refuse(
    result: SegmentResult, error: KdumpError, console: Console, status: RunStatus, *, is_text: bool, is_left_out: bool
) -> None:
    """Nothing is written: report why, and what helps. ``is_left_out``: damage is no reason to refuse."""
    damage = [] if is_left_out else result.findings
    for finding in damage:
        _show_finding(finding, result, "damaged", console, is_text=is_text)
    is_input = error.code in INPUT_CODES
    if not damage:
        status.fail(error, is_damage=not is_input)
    else:
        console.note(f"{result.source}: nothing was written; {_WHAT_HELPS}")
        status.add(damaged=not is_input, unreadable=is_input)


def _show_finding(finding: Finding, result: SegmentResult, what: str, console: Console, *, is_text: bool) -> None:
    code = finding.code.value
    console.note(f"{result.source}: {what}: {code.code} {code.name} {finding}")
    if not is_text:
        console.out.write(finding_json(replace(finding, path=result.source)).encode("utf-8", "surrogateescape"))


def _to_stdout(conversion: Conversion, given: ConvertArguments, console: Console, status: RunStatus) -> None:
    """Records as text on standard output, messages on standard error."""
    assert given.form is not None
    try:
        jobs = plan_export(given.input, "", given.form, conversion, is_safe=given.csv_safe)
    except KdumpError as error:
        status.fail(error)
        return
    for number, job in enumerate(jobs):
        result = export_text(job, console.out.write, has_title=number == 0)
        console.out.flush()
        for finding in result.findings:
            _show_finding(finding, result, "left out" if given.skip_damaged else "damaged", console, is_text=True)
            status.add(damaged=True)
        if result.error is not None and result.findings and not given.skip_damaged:
            console.note(f"{result.source}: the output ends there; {_WHAT_HELPS}")
        elif result.error is not None:
            status.fail(result.error, is_damage=result.error.code not in INPUT_CODES)
        for note in result.notes:
            console.note(f"{result.source}: {note}")
