"""``kdump convert``: other message formats and codecs, parts of a log, files for other tools, and back."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from kdump.cli.command import Run, command
from kdump.cli.common import has_pyarrow
from kdump.cli.console import Console
from kdump.cli.conversion import check_level, conversion_of
from kdump.cli.engine import Engine, choose_engine
from kdump.cli.exit_status import RunStatus
from kdump.cli.options.convert import CONVERSIONS, TO_STDOUT, ConvertArguments
from kdump.cli.signals import unwound
from kdump.codes import INPUT_CODES, Codes, Finding, KdumpError
from kdump.convert.conversion import Conversion
from kdump.convert.export import ExportJob, export_text
from kdump.convert.report import converted_lines, converted_row, loss_lines, loss_rows, marker_rows
from kdump.convert.run import DestinationError, Job, Outputs, plan_conversion, plan_export, plan_import, run_in_order
from kdump.convert.segment import SegmentResult
from kdump.inputs import input_of
from kdump.payloads.choice import DecoderChoice
from kdump.verify.report import finding_json
from kdump.worlds import World, world_of_store

if TYPE_CHECKING:
    from kdump.rows.arrowparts import Reshape

_WHAT_HELPS: Final = (
    "kdump verify says what is damaged, kdump repair saves what is valid, --skip-damaged leaves the damage out"
)


@command(
    ConvertArguments,
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
    if given.form == "parquet" and not has_pyarrow("--to parquet"):
        status.add(unreadable=True)
        return
    source = input_of(given.source, given.world)
    given.inputs = [source]
    world = world_of_store(source.path)
    if world is not None and given.given().first(CONVERSIONS) is None:
        with unwound():
            _extract(run, world, source.path)
        return
    conversion = conversion_of(given, given.inputs, run.console.note)
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


def _extract(run: Run[ConvertArguments], world: World, source: str) -> None:
    """Write the files of a store as they are."""
    given, status = run.given, run.status

    def tell(error: KdumpError) -> bool:
        status.fail(error, is_damage=error.code not in INPUT_CODES)
        return given.skip_damaged

    try:
        for one in world.answer("extract").extract(source, given.destination, tell, overwrites=given.overwrite):
            run.write(f"{one.directory}: {one.files:,} files, {one.bytes:,} bytes\n")
    except KdumpError as error:
        status.fail(error, is_damage=error.code not in INPUT_CODES)
    except OSError as error:
        status.fail(KdumpError(Codes.UNWRITABLE, error.strerror or str(error), path=error.filename))


def _plan(run: Run[ConvertArguments], conversion: Conversion) -> Sequence[Job]:
    given, destination = run.given, run.given.destination
    (found,) = given.inputs
    if given.form is not None:
        return _exports(given, destination, conversion, run.console.note)
    if given.input_form is not None:
        return plan_import(found, destination, conversion)
    return plan_conversion(found, destination, conversion, world=given.world, maps_offsets=given.offset_map)


def _exports(
    given: ConvertArguments, destination: str, conversion: Conversion, note: Callable[[str], None]
) -> list[ExportJob]:
    """The files for other tools. Raises as ``plan_export``, or KdumpError where schemas cannot be read."""
    assert given.form is not None
    decoding = DecoderChoice()
    if given.schemas is not None:
        from kdump.schemas.choice import with_schemas

        decoding = with_schemas(decoding, given.schemas, lambda: given.inputs)
    if given.flatten and decoding.schemas is None:
        raise click.UsageError("--flatten goes with --schemas")
    return plan_export(
        given.inputs[0],
        destination,
        given.form,
        conversion,
        is_safe=given.csv_safe,
        world=given.world,
        decoding=decoding,
        reshape=_reshape(given, decoding, note),
    )


def _reshape(
    given: ConvertArguments, decoding: DecoderChoice, note: Callable[[str], None]
) -> Callable[[str | None], Reshape | None]:
    """By its topic, what makes columns of the decoded contents of a log."""
    if not given.flatten or decoding.schemas is None:
        return lambda topic: None
    from kdump.schemas.flatten import flattened_topics, flattening

    found = flattening(decoding.schemas, given.inputs, lambda error: None)
    by_topic = dict(flattened_topics(found))
    for topic, one in by_topic.items():
        for text in one.notes():
            note(f"{topic}: {text}")
    return lambda topic: by_topic.get(topic or "", found._replace(used=()))


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
                _refuse(result, result.error, console, status, is_text=is_text, is_left_out=given.skip_damaged)
                return
            for text in loss_lines(result) if is_text else loss_rows(result):
                run.write(text)
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


def _results(source: str, jobs: Sequence[Job], engine: Engine) -> Generator[SegmentResult, None, None]:
    """Of all jobs, in their order as they come."""
    if engine.spark is None and engine.pool is None:
        return run_in_order(jobs)
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


def _to_stdout(run: Run[ConvertArguments], conversion: Conversion) -> None:
    """Records as text on standard output, messages on standard error."""
    given, console, status = run.given, run.console, run.status
    assert given.form is not None
    try:
        jobs = _exports(given, "", conversion, console.note)
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
