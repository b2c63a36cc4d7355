"""``kdump stats``: what is in a log, where the bytes go, what stands out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.cli.command import Run, command
from kdump.cli.console import Console
from kdump.cli.engine import choose_engine, tell_brokers
from kdump.cli.options.stats import StatsArguments
from kdump.cli.report_files import HtmlPage
from kdump.codes import Codes, Finding, KdumpError
from kdump.system.units import counted

if TYPE_CHECKING:
    from kdump.stats.groupfigures import FiguresReport
    from kdump.stats.run import StatsOptions, StatsRun
    from kdump.verify.run import Judge


@command(
    StatsArguments,
    most_used="--topic --by --quick --what-if --offsets-for --output --html -j",
    examples="""\
  kdump stats orders-0                          a page about a partition
  kdump stats --by topic /var/lib/kafka         the topics of a log directory
  kdump stats --quick --by hour orders-0        bytes and records by hour, headers only
  kdump stats --output jsonl . | jq .tombstones a JSON line a segment
  kdump stats --what-if retention=7d orders-0   which segments would be deleted
  kdump stats --offsets-for -1h orders-0        the first offset of the last hour""",
)
def stats(run: Run[StatsArguments]) -> None:
    """Count what is in segments, partition directories, log directories, URIs of them and pipes; continue after damage.

    Exit status 1 when there is damage.
    """
    given = run.given
    # A question takes patterns.
    asks = bool(given.what_if) or given.offsets_for is not None
    run.find_inputs(with_patterns=asks)
    tell_brokers(given.paths, run.console)
    if asks:
        _answer(run)
    elif given.by == "schema":
        from kdump.cli.schemas import show_usage

        choose_engine(given, given.inputs, run.console, only_here="--by schema")
        try:
            show_usage(run)
        except KdumpError as error:
            run.status.fail(error)
    else:
        _count(run)


def _count(run: Run[StatsArguments]) -> None:
    """Show the figures."""
    given, console, status = run.given, run.console, run.status
    from kdump.stats.grouping import grouping_of
    from kdump.stats.run import FindingDeduplicator, StatsOptions, StatsRun
    from kdump.verify.run import Verification

    reporter = console.reporter(verbose=given.verbose)
    by, header = grouping_of(given.by)
    options = StatsOptions(
        by,
        with_records=not given.quick,
        limit=given.max_decompressed_size,
        with_curves=given.html is not None,
        header=header,
    )
    figures = StatsRun(options)
    try:
        page = None if given.html is None else _html_page(given.html)
        judge = _judge(options, figures, given, console)
    except KdumpError as error:
        status.fail(error)
        return
    verification = Verification(judge, on_error=status.fail, options=options.checks, see=figures.see_entries)
    said = FindingDeduplicator()
    for found in dict.fromkeys(given.inputs):
        try:
            items = verification.items(found)
            for item in items if len(given.inputs) == 1 else said.of(items):
                if page is not None:
                    page.add_finding(item) if isinstance(item, Finding) else page.add_segment(item)
                if isinstance(item, Finding):
                    _see_finding(item, figures, console)
                elif item.batches is None:
                    status.fail(
                        KdumpError(Codes.NOT_A_SEGMENT_FILE, "no log is beside it to be counted", path=item.path)
                    )
                elif reporter.verbose:
                    depth = "headers" if given.quick else "every record"
                    reporter.note(f"{item.path}: {counted(item.batches, 'batch', 'batches')}, {depth}")
        except KdumpError as error:
            status.fail(error.located(found.path))
    report = _report(figures, console)
    _write(report, options, run)
    if page is not None:
        # The report may go to the same place.
        console.out.flush()
        try:
            page.write(_html_report(run, report, options, figures, page))
        except KdumpError as error:
            status.fail(error)
    status.add(damaged=figures.is_damaged)


def _html_page(path: str) -> HtmlPage:
    """The report, if its charts can be drawn. Raises KdumpError."""
    from kdump.stats.htmlreport import why_no_html

    missing = why_no_html()
    if missing is not None:
        raise KdumpError(Codes.UNREADABLE, missing)
    return HtmlPage(path)


def _html_report(
    run: Run[StatsArguments], report: FiguresReport, options: StatsOptions, figures: StatsRun, page: HtmlPage
) -> str:
    from kdump.stats.charts import ReportData
    from kdump.stats.htmlreport import html_report

    data = ReportData(report.total, report.batch_sizes, figures.curves(), page.segments, page.findings, page.left_out)
    return html_report(report, options.by, data, run.given.paths)


def _answer(run: Run[StatsArguments]) -> None:
    """Answer what is asked in place of the figures."""
    given = run.given
    choose_engine(given, given.inputs, run.console, only_here=given.given().first(given.local_only))
    if given.offsets_for is not None:
        _offsets_for(run, given.offsets_for)
        return
    from kdump.cli.whatif import answer

    answer(run)


def _offsets_for(run: Run[StatsArguments], timestamp: int) -> None:
    """Show the first offset at or after a time in each partition."""
    from kdump.cli.staterows import show_rows
    from kdump.stats.reach import offset_rows

    given, status = run.given, run.status
    rows = offset_rows(run.partition_entries(with_worlds=True), timestamp, status.fail)
    if not (rows or status.unreadable):
        what = "no partition, by the names of the directories"
        status.fail(KdumpError(Codes.NO_SEGMENTS, what, path=given.paths[0]))
    show_rows(run, "offsetForTime", rows)


def _see_finding(finding: Finding, run: StatsRun, console: Console) -> None:
    run.see_finding(finding)
    if finding.code is Codes.FOREIGN_FILE:
        # The figures have nothing of the file, and the page only counts findings.
        console.note(f"{finding.path}: {finding.message}")


def _report(run: StatsRun, console: Console) -> FiguresReport:
    """The figures, after what kdump does not keep of them was told."""
    for finding in run.left_out():
        run.see_finding(finding)
        console.note(f"{finding.code.value.code} {finding.message}")
    return run.report()


def _write(report: FiguresReport, options: StatsOptions, run: Run[StatsArguments]) -> None:
    """Write a line per group, or the page."""
    console = run.console
    if run.given.output == "jsonl":
        from kdump.stats.report import stats_row

        run.write_rows(stats_row(figures, options.by, options.header) for figures in report.groups)
    else:
        from kdump.stats.page import stats_page

        run.write(stats_page(report, options.by, width=console.width, color=console.color))


def _judge(options: StatsOptions, run: StatsRun, given: StatsArguments, console: Console) -> Judge:
    """What checks the partitions, and has their logs folded into ``run``. Raises as ``choose_engine``."""
    inputs = given.inputs
    if given.world is not None:
        return run.judge()
    engine = choose_engine(given, inputs, console)
    if engine.spark is not None:
        from kdump.spark.verify import SparkJudge
        from kdump.stats.tasks import take_folds

        take_folds(inputs, options, run, engine.run)
        return SparkJudge(engine.spark, inputs, options.checks, here=run.judge())
    if engine.pool is None:
        return run.judge()
    from kdump.stats.tasks import folding_judge

    # Only the pool keeps to a rate together with its processes.
    takes_small = given.rate is not None
    return folding_judge(inputs, options, run, engine.run, min_tasks=engine.min_tasks, takes_small=takes_small)
