"""``kdump verify``: what is wrong, what is lost, where a consumer can go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kdump.cli.command import Run, command
from kdump.cli.console import Console
from kdump.cli.engine import Engine, choose_engine, tell_brokers
from kdump.cli.options.verify import VerifyArguments
from kdump.cli.report_files import HtmlPage, check_report_place
from kdump.codes import Codes, Finding, KdumpError, OnError, Severity
from kdump.inputs import Input
from kdump.log.files import strip_credentials
from kdump.system.files import whole_file
from kdump.verify.partition import Item, PartitionCheck
from kdump.verify.report import JUnitReport, finding_json, github_error, github_line
from kdump.verify.run import Judge, Verification
from kdump.verify.segment import CheckOptions
from kdump.verify.textlines import TerminalSummary, TextLines

if TYPE_CHECKING:
    from kdump.verify.sarif import SarifReport


@command(
    VerifyArguments,
    most_used="--topic --quick --startup --strict --output --manifest -j",
    examples="""\
  kdump verify /var/lib/kafka                   every partition of a log directory
  kdump verify --quick orders-0                 framing and checksums only
  kdump verify --output junit . > report.xml    for a CI system
  kdump verify --startup /var/lib/kafka         what will be gone if the broker is started now
  zstdcat X.log.zst | kdump verify -            a segment from a pipe""",
)
def verify(run: Run[VerifyArguments]) -> None:
    """Check segments, partition directories, whole log directories, URIs of them and pipes; continue after damage.

    Exit status 1 when there is an error (with --strict: or a warning).
    """
    run.given.paths = tuple(map(strip_credentials, run.given.paths))
    tell_brokers(run.given.paths, run.console)
    if run.given.startup:
        from kdump.cli.startup import run_startup

        run_startup(run)
    else:
        _verify(run)


def _verify(run: Run[VerifyArguments]) -> None:
    """Check segments and the files beside them."""
    given, console, status = run.given, run.console, run.status
    failing = frozenset({Severity.ERROR, Severity.WARNING} if given.strict else {Severity.ERROR})
    report = _report(given.output, failing)
    reporter = console.reporter(verbose=given.verbose)
    options = CheckOptions(deep=given.depth == "deep", limit=given.max_decompressed_size, lists_gaps=given.gaps)

    def fail(error: KdumpError) -> None:
        if report is not None:
            report.add_error(error)
        elif given.output == "github":
            run.write(github_error(error))
        status.fail(error)

    inputs = run.find_inputs(fail, apart=True)
    try:
        page = None if given.html is None else HtmlPage(given.html)
        judge = _judge(options, given, inputs, _engine(given, inputs, console))
    except KdumpError as error:
        status.fail(error)
        return
    verification = Verification(judge, on_error=fail, beside=given.paths, options=options)
    overview = TerminalSummary(width=console.width, color=console.color)
    takers = [taker for taker in (report, page, overview) if taker is not None]
    lines = TextLines(color=console.color)

    def show(item: Item) -> None:
        console.progress.findings += isinstance(item, Finding) and item.severity is not Severity.INFO
        if isinstance(item, Finding) or not given.quiet:
            for line in lines.of(item) if given.output == "text" else (_line(item, given.output),):
                run.write(line)
        was_damaged = status.damaged
        status.add(damaged=isinstance(item, Finding) and item.severity in failing)
        if status.damaged and not was_damaged:
            # Into a pipe the other lines go in large blocks, which may take hours to fill.
            console.out.flush()

    for found in inputs:
        try:
            for item in verification.items(found):
                for taker in takers:
                    taker.add_finding(item) if isinstance(item, Finding) else taker.add_segment(item)
                if reporter.verbose and not isinstance(item, Finding):
                    read = "" if item.size is None else f"{item.size:,} bytes, "
                    reporter.note(f"{item.path}: {read}{given.depth}")
                show(item)
        except KdumpError as error:
            fail(error.located(found.path))
    run.write("".join(lines.rest()))
    if given.manifest is not None:
        _write_manifest(given.manifest, inputs, fail)
    if page is not None:
        _write_page(run, page)
    if report is not None:
        console.out.write(report.document())
    elif given.output == "text" and (given.quiet or console.is_terminal):
        run.write(overview.last_line() if given.quiet else overview.text())


def _write_page(run: Run[VerifyArguments], page: HtmlPage) -> None:
    from kdump.verify.htmlpage import verify_page

    # The report may go to the same place.
    run.console.out.flush()
    try:
        page.write(verify_page(run.given.paths, page.segments, page.findings, page.left_out))
    except KdumpError as error:
        run.status.fail(error)


def _write_manifest(path: str, inputs: Sequence[Input], fail: OnError) -> None:
    """Write what the PATHs hold to a file, which appears whole or not at all."""
    from kdump.diff.manifest import manifest_lines

    try:
        with whole_file(path) as file:
            for line in manifest_lines(inputs, fail, (path, file.temporary)):
                file.write(line.encode("utf-8", "surrogateescape"))
    except OSError as error:
        fail(KdumpError(Codes.UNWRITABLE, error.strerror or str(error), path=path))


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


def _line(item: Item, output: str) -> str:
    """What an output other than text prints of an item at once."""
    lines = {"jsonl": finding_json, "github": github_line}
    return lines[output](item) if output in lines and isinstance(item, Finding) else ""


def _report(output: str, failing: frozenset[Severity]) -> JUnitReport | SarifReport | None:
    """What gathers the findings of a run; None: they are printed as they come."""
    if output == "sarif":
        from kdump.verify.sarif import SarifReport

        return SarifReport()
    return JUnitReport(failing) if output == "junit" else None
