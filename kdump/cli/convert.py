"""``kdump convert``: other message formats and codecs, parts of a log, files for other tools, and back."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Final

import click

from kdump.cli.command import Run, command
from kdump.cli.conversion import check_level, conversion_of, unwound
from kdump.cli.engine import Engine, choose_engine
from kdump.cli.options.convert import CONVERSIONS, TO_STDOUT, ConvertArguments
from kdump.codes import INPUT_CODES, Codes, Finding, KdumpError
from kdump.convert.conversion import Conversion
from kdump.convert.export import ExportJob, export_text
from kdump.convert.run import (
    DestinationError,
    Job,
    Outputs,
    plan_conversion,
    plan_export,
    plan_import,
    run_in_order,
    run_jobs,
)
from kdump.convert.segment import SegmentResult
from kdump.inputs import input_of
from kdump.log.context import FileContext
from kdump.payloads.choice import DecoderChoice
from kdump.rows.columns import Table
from kdump.rows.filetables import CONVERTED, LOSS, MARKER
from kdump.rows.scalarlines import json_line
from kdump.system.blocks import escaped
from kdump.verify.report import finding_json
from kdump.worlds import world_of_store

_WHAT_HELPS: Final = (
    "kdump verify says what is damaged, kdump repair saves what is valid, --skip-damaged leaves the damage out"
)


@command(
    ConvertArguments,
    most_used="-o --to-magic --codec --to --from --offset --time --overwrite --skip-damaged -j",
    examples="""\
  kdump convert X.log -o old/ --to-magic 1           as an old consumer would get it
  kdump convert orders-0 -o archive --codec zstd     recompress a partition
  kdump convert X.log -o part.log --offset 100:200   a slice as a segment
  kdump convert X.log -o X.parquet --to parquet      for Spark, pandas, DuckDB
  kdump convert rows.jsonl -o new/ --from jsonl      a segment out of JSON lines""",
)
def convert(run: Run[ConvertArguments]) -> None:
    """Write a segment, a partition or a log directory in another form; the source is never touched.

    Anything the target format cannot represent is counted by kind. Files appear whole, all together, or not at all.
    """
    given, status = run.given, run.status
    check_level(given)
    if given.form == "parquet" and not run.has_pyarrow("--to parquet"):
        return
    source = input_of(given.source, given.world)
    given.inputs = [source]
    if world_of_store(source.path) is not None and given.given().first(CONVERSIONS) is None:
        with unwound():
            _extract(run, source.path)
        return
    conversion = conversion_of(given, given.inputs, run.console)
    conversion = replace(conversion, skip_damaged=given.skip_damaged)
    if given.destination == TO_STDOUT:
        _engine(run, 1)
        _to_stdout(run, conversion)
        return
    try:
        jobs = _plan(run, conversion)
        engine = _engine(run, len(jobs))
        with unwound():
            _run(run, jobs, engine)
    except DestinationError as error:
        raise click.UsageError(str(error)) from None
    except KdumpError as error:
        status.fail(error, is_damage=error.code not in INPUT_CODES)


def _extract(run: Run[ConvertArguments], source: str) -> None:
    """Write the files of a bucket as they are."""
    from kdump.tiered.extract import extract  # no other source has any

    given, status = run.given, run.status

    def tell(error: KdumpError) -> bool:
        status.fail(error, is_damage=error.code not in INPUT_CODES)
        return given.skip_damaged

    try:
        for one in extract(source, given.destination, tell, overwrites=given.overwrite):
            run.write(f"{one.directory}: {one.files:,} files, {one.bytes:,} bytes\n")
    except KdumpError as error:
        status.fail(error, is_damage=error.code not in INPUT_CODES)
    except OSError as error:
        status.fail(KdumpError(Codes.UNWRITABLE, error.strerror or str(error), path=error.filename))


def _plan(run: Run[ConvertArguments], conversion: Conversion) -> Sequence[Job]:
    given, destination = run.given, run.given.destination
    (found,) = given.inputs
    if given.form is not None:
        return _exports(run, destination, conversion)
    if given.input_form is not None:
        return plan_import(found, destination, conversion)
    return plan_conversion(found, destination, conversion, world=given.world, maps_offsets=given.offset_map)


def _exports(run: Run[ConvertArguments], destination: str, conversion: Conversion) -> list[ExportJob]:
    """The files for other tools. Raises as ``plan_export``, or KdumpError where schemas cannot be read."""
    from kdump.cli.schemas import flattened_topics, with_schemas

    given = run.given
    assert given.form is not None
    decoding = DecoderChoice()
    if given.schemas is not None:
        decoding = with_schemas(decoding, given, given.schemas)
    return plan_export(
        given.inputs[0],
        destination,
        given.form,
        conversion,
        is_safe=given.csv_safe,
        world=given.world,
        decoding=decoding,
        reshape=flattened_topics(run, decoding) if given.flatten else lambda topic: None,
    )


def _engine(run: Run[ConvertArguments], count: int) -> Engine:
    """What does ``count`` jobs. Raises as ``choose_engine``."""
    given = run.given
    only_here = given.given().first(given.local_only)
    if only_here is None and count == 1 and given.engine != "spark" and not given.master:
        only_here = "one segment"
    return choose_engine(given, given.inputs, run.console, only_here=only_here)


def _run(run: Run[ConvertArguments], jobs: Sequence[Job], engine: Engine) -> None:
    """All jobs, then their files together; nothing when one fails, or with ``--strict`` anything is lost."""
    given, console, status = run.given, run.console, run.status
    is_text = given.output == "text"
    results: list[SegmentResult] = []
    with (
        Outputs(jobs, overwrites=given.overwrite) as outputs,
        closing(_results(given.source, jobs, engine)) as found,
    ):
        for result in map(outputs.add, found):
            results.append(result)
            if given.verbose:
                console.note(f"{result.source}: read, {len(result.losses)} kinds of losses")
            if result.error is not None:
                _refuse(run, result, result.error)
                return
            run.write_all(_loss_lines(result) if is_text else _loss_rows(result))
        if given.strict and any(result.losses for result in results):
            console.note("nothing was written: something would be lost (--strict)")
            status.add(damaged=True)
            return
        # A reader that has gone does not decide the exit status.
        with suppress(BrokenPipeError):
            console.out.flush()
        outputs.publish()
    for result in results:
        for finding in result.findings:
            _show_finding(run, finding, result, "left out")
        for note in result.notes:
            console.note(f"{result.source}: {note}")
        run.write_all(_converted_lines(result) if is_text else (*_marker_rows(result), _converted_row(result)))
        status.add(damaged=bool(result.findings))


def _results(source: str, jobs: Sequence[Job], engine: Engine) -> Generator[SegmentResult, None, None]:
    """Of all jobs, in their order as they come."""
    if engine.spark is None and engine.pool is None:
        return run_in_order(jobs)
    return run_jobs(jobs, engine.run, source)


def _refuse(run: Run[ConvertArguments], result: SegmentResult, error: KdumpError) -> None:
    """Nothing is written: report why, and what helps. Damage that is left out is no reason to refuse."""
    damage = [] if run.given.skip_damaged else result.findings
    for finding in damage:
        _show_finding(run, finding, result, "damaged")
    is_input = error.code in INPUT_CODES
    if not damage:
        run.status.fail(error, is_damage=not is_input)
    else:
        run.console.note(f"{result.source}: nothing was written; {_WHAT_HELPS}")
        run.status.add(damaged=not is_input, unreadable=is_input)


def _show_finding(run: Run[ConvertArguments], finding: Finding, result: SegmentResult, what: str) -> None:
    code = finding.code.value
    run.console.note(f"{result.source}: {what}: {code.code} {code.name} {finding}")
    if run.given.output != "text" and run.given.destination != TO_STDOUT:
        run.write(finding_json(replace(finding, path=result.source)))


def _to_stdout(run: Run[ConvertArguments], conversion: Conversion) -> None:
    """Records as text on standard output, messages on standard error."""
    given, console, status = run.given, run.console, run.status
    assert given.form is not None
    try:
        jobs = _exports(run, "", conversion)
    except KdumpError as error:
        status.fail(error)
        return
    for number, job in enumerate(jobs):
        result = export_text(job, console.out.write, has_title=number == 0)
        console.out.flush()
        for finding in result.findings:
            _show_finding(run, finding, result, "left out" if given.skip_damaged else "damaged")
            status.add(damaged=True)
        if result.error is not None and result.findings and not given.skip_damaged:
            console.note(f"{result.source}: the output ends there; {_WHAT_HELPS}")
        elif result.error is not None:
            status.fail(result.error, is_damage=result.error.code not in INPUT_CODES)
        for note in result.notes:
            console.note(f"{result.source}: {note}")


def _loss_lines(result: SegmentResult) -> Iterator[str]:
    """What a segment loses: a line per kind."""
    for loss, count in sorted(result.losses.items(), key=lambda item: item[0].label):
        yield f"{escaped(result.source)}: {count:,} {loss.unit} {loss.sentence}\n"


def _loss_rows(result: SegmentResult) -> Iterator[str]:
    """What a segment loses, as rows of LOSS."""
    for loss, count in sorted(result.losses.items(), key=lambda item: item[0].label):
        yield _row(LOSS, result.source, loss.label, count, loss.unit)


def _marker_rows(result: SegmentResult) -> Iterator[str]:
    """The transaction markers that were added to the requested part, as rows of MARKER."""
    for marker in result.markers:
        yield _row(MARKER, result.source, marker.offset, marker.producer_id, marker.producer_epoch, marker.control_type)


def _converted_lines(result: SegmentResult) -> Iterator[str]:
    """The files that a segment became."""
    records = "" if result.records is None else f"{result.records:,} records, "
    if result.left_out:
        records += f"{result.left_out:,} of aborted transactions left out, "
    for segment in result.segments:
        yield f"{escaped(result.source)} -> {escaped(segment.path)}: {records}{segment.size:,} bytes\n"
        records = ""


def _converted_row(result: SegmentResult) -> str:
    """The files that a segment became, as a row of CONVERTED."""
    target = FileContext.of(result.segments[0].path).file if result.segments else None
    size = sum(segment.size for segment in result.segments)
    return _row(CONVERTED, result.source, target, len(result.segments), size, result.records)


def _row(table: Table, path: str, *values: object) -> str:
    file = FileContext.of(path).columns().values()
    return json_line(dict(zip(table.names, (table.type, *file, *values), strict=True)))
