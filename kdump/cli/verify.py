"""``kdump verify``: what is wrong, what is lost, where a consumer can go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.arguments import VerifyArguments
from kdump.cli.common import (
    begin,
    color_option,
    common_options,
    limit_option,
    log_format_option,
    reading_options,
    topic_option,
)
from kdump.cli.conflicts import VERIFY, GivenOptions
from kdump.cli.console import Console
from kdump.cli.engine_options import Engine, choose_engine, engine_options, tell_brokers
from kdump.cli.exit_status import RunStatus
from kdump.cli.options import Command, OptionGroup, option
from kdump.cli.params import OutputFormat
from kdump.cli.report_place import check_report_place
from kdump.cli.startup_options import startup_options
from kdump.cli.tier_options import tier_options
from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.inputs import Input, inputs_of
from kdump.log.files import strip_credentials
from kdump.system.files import NewFile, publish
from kdump.verify.partition import Item, PartitionCheck
from kdump.verify.report import JUnitReport, finding_json, finding_line, github_error, github_line, summary_line
from kdump.verify.run import Judge, Verification
from kdump.verify.segment import CheckOptions
from kdump.verify.summaries import TerminalSummary

if TYPE_CHECKING:
    from kdump.verify.sarif import SarifReport


@click.command(
    cls=Command,
    most_used=("--topic", "--quick", "--startup", "--strict", "--output", "--manifest", "-j"),
    epilog="""\b
Examples:
  kdump verify /var/lib/kafka                   every partition of a log directory
  kdump verify --quick orders-0                 framing and checksums only
  kdump verify --output junit . > report.xml    for a CI system
  kdump verify --startup /var/lib/kafka         what will be gone if the broker is started now
  zstdcat X.log.zst | kdump verify -            a segment from a pipe""",
)
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path())
@tier_options
@topic_option
@log_format_option
@option(
    OptionGroup.CHECK,
    "--quick",
    "depth",
    flag_value="quick",
    help="Framing and checksums only, nothing is decompressed.",
)
@option(
    OptionGroup.CHECK, "--deep", "depth", flag_value="deep", default=True, help="Decode every record too (default)."
)
@option(
    OptionGroup.CHECK,
    "--gaps",
    is_flag=True,
    help="List each range of missing offsets, also where compaction left it.",
)
@option(OptionGroup.OUTPUT, "--strict", is_flag=True, help="End with 1 for warnings too.")
@option(
    OptionGroup.OUTPUT,
    "--output",
    type=OutputFormat(["text", "jsonl", "junit", "sarif", "github"]),
    default="text",
    help="Text: one line per finding and per segment; JSON lines of findings; JUnit XML; SARIF "
    "2.1.0; annotations of GitHub Actions.",
)
@color_option("the text")
@startup_options
@engine_options
@option(
    OptionGroup.OUTPUT,
    "--manifest",
    type=click.Path(),
    metavar="FILE",
    help="Also write what is there to FILE: a SHA-256 per file, offsets and digests per partition.",
)
@limit_option()
@reading_options
@common_options
def verify(paths: tuple[str, ...], **others: Any) -> int:
    """Check segments, partition directories, whole log directories, URIs of them and pipes; continue after damage.

    Exit status 1 when there is an error (with --strict: or a warning).
    """
    if not paths:
        raise click.UsageError("no PATH given (kdump verify --help)")
    given = VerifyArguments({"paths": tuple(map(strip_credentials, paths)), **others})
    GivenOptions().check(VERIFY)
    if given.startup:
        from kdump.cli.startup import run_startup

        return run_startup(given)
    return _verify(given)


def _verify(given: VerifyArguments) -> int:
    """Check segments and the files beside them; gives the exit status."""
    console = Console(color=given.color, output=given.output, show_traceback=given.traceback)
    begin(given, console)
    tell_brokers(given.paths, console)
    failing = frozenset({Severity.ERROR, Severity.WARNING} if given.strict else {Severity.ERROR})
    report = _report(given.output, failing)
    reporter = console.reporter(verbose=given.verbose)
    options = CheckOptions(deep=given.depth == "deep", limit=given.max_decompressed_size, lists_gaps=given.gaps)
    status = RunStatus(console.show_error)

    def fail(error: KdumpError) -> None:
        if report is not None:
            report.add_error(error)
        elif given.output == "github":
            console.out.write(github_error(error).encode("utf-8", "surrogateescape"))
        status.fail(error)

    inputs = inputs_of(given.paths, fail, topics=given.topics, world=given.world, apart=True)
    try:
        judge = _judge(options, given, inputs, _engine(given, inputs, console))
    except KdumpError as error:
        status.fail(error)
        return status.code
    verification = Verification(judge, on_error=fail, beside=[found.path for found in inputs], options=options)
    overview = TerminalSummary(width=console.width, color=console.color)

    def show(item: Item) -> None:
        console.out.write(_line(item, given.output, color=console.color).encode("utf-8", "surrogateescape"))
        was_damaged = status.damaged
        status.add(damaged=isinstance(item, Finding) and item.severity in failing)
        if status.damaged and not was_damaged:
            # Into a pipe the other lines go in large blocks, which may take hours to fill.
            console.out.flush()

    for found in inputs:
        try:
            for item in verification.items(found):
                if isinstance(item, Finding):
                    if report is not None:
                        report.add_finding(item)
                    overview.add_finding(item)
                else:
                    if report is not None:
                        report.add_segment(item)
                    overview.add_segment(item)
                    if reporter.verbose:
                        read = "" if item.size is None else f"{item.size:,} bytes, "
                        reporter.note(f"{item.path}: {read}{given.depth}")
                show(item)
        except KdumpError as error:
            fail(error.located(found.path))
    if given.manifest is not None:
        _write_manifest(given.manifest, inputs, fail)
    if report is not None:
        console.out.write(report.document())
    elif given.output == "text" and console.is_terminal:
        console.out.write(overview.text().encode("utf-8", "surrogateescape"))
    console.close()
    return status.code


def _write_manifest(path: str, inputs: Sequence[Input], fail: Callable[[KdumpError], None]) -> None:
    """Write what the PATHs hold to a file, which appears whole or not at all."""
    from kdump.diff.manifest import manifest_lines

    try:
        file = NewFile(path)
    except OSError as error:
        fail(KdumpError(Codes.UNWRITABLE, error.strerror or str(error), path=path))
        return
    try:
        for line in manifest_lines(inputs, fail, own=(path, file.temporary)):
            file.write(line.encode("utf-8", "surrogateescape"))
        publish([file.finish()])
    except OSError as error:
        fail(KdumpError(Codes.UNWRITABLE, error.strerror or str(error), path=path))
    finally:
        file.discard()


def _engine(given: VerifyArguments, inputs: Sequence[Input], console: Console) -> Engine:
    """Where the checks run. Raises KdumpError if it cannot be had, or if the manifest has no place."""
    if given.manifest is not None:
        from kdump.diff.manifest import MARK

        check_report_place(given.manifest, MARK)
    return choose_engine(given, inputs, console)


def _judge(options: CheckOptions, given: VerifyArguments, inputs: Sequence[Input], engine: Engine) -> Judge:
    """What checks the partitions. Raises KdumpError where a job on Spark fails."""
    if given.world is not None:
        return PartitionCheck(options)
    if engine.spark is not None:
        from kdump.spark.verify import SparkJudge

        return SparkJudge(engine.spark, inputs, options)

    if engine.pool is None:
        return PartitionCheck(options)
    from kdump.verify.judging import pooled_judge

    # Only the pool keeps to a rate together with its processes.
    takes_small = given.rate is not None
    return pooled_judge(inputs, options, engine.run, min_tasks=engine.min_tasks, takes_small=takes_small)


def _line(item: Item, output: str, *, color: bool) -> str:
    """What is printed of an item at once."""
    if output == "text":
        return finding_line(item, color=color) if isinstance(item, Finding) else summary_line(item)
    lines = {"jsonl": finding_json, "github": github_line}
    return lines[output](item) if output in lines and isinstance(item, Finding) else ""


def _report(output: str, failing: frozenset[Severity]) -> JUnitReport | SarifReport | None:
    """What gathers the findings of a run; None: they are printed as they come."""
    if output == "sarif":
        from kdump.verify.sarif import SarifReport

        return SarifReport()
    return JUnitReport(failing) if output == "junit" else None
