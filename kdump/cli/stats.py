"""``kdump stats``: what is in a log, where the bytes go, what stands out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from kdump.cli import whatif_options
from kdump.cli.arguments import StatsArguments
from kdump.cli.common import (
    begin,
    color_option,
    common_options,
    limit_option,
    log_format_option,
    reading_options,
    topic_option,
)
from kdump.cli.conflicts import STATS, GivenOptions, world_facts
from kdump.cli.console import Console
from kdump.cli.engine_options import choose_engine, engine_options, tell_brokers
from kdump.cli.exit_status import RunStatus
from kdump.cli.html_page import HtmlPage
from kdump.cli.options import Command, OptionGroup, option
from kdump.cli.params import ByParam, OutputFormat
from kdump.cli.tier_options import tier_options
from kdump.codes import Codes, Finding, KdumpError
from kdump.inputs import inputs_of
from kdump.log.files import strip_credentials
from kdump.system.units import counted

if TYPE_CHECKING:
    from kdump.stats.groupfigures import FiguresReport
    from kdump.stats.run import StatsOptions, StatsRun
    from kdump.verify.run import Judge


@click.command(
    cls=Command,
    most_used=("--topic", "--by", "--quick", "--what-if", "--offsets-for", "--output", "--html", "-j"),
    epilog="""\b
Examples:
  kdump stats orders-0                          a page about a partition
  kdump stats --by topic /var/lib/kafka         the topics of a log directory
  kdump stats --quick --by hour orders-0        bytes and records by hour, headers only
  kdump stats --output jsonl . | jq .tombstones a JSON line a segment
  kdump stats --what-if retention=7d orders-0   which segments would be deleted
  kdump stats --offsets-for -1h orders-0        the first offset of the last hour""",
)
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path())
@tier_options
@topic_option
@log_format_option
@option(
    OptionGroup.COUNT,
    "--by",
    type=ByParam(),
    metavar="WHAT",
    default="segment",
    help="What a group is: segment, partition, topic, producer, codec, magic, leader-epoch, minute, hour, day, key, or "
    "header:NAME.",
)
@option(
    OptionGroup.COUNT,
    "--quick",
    is_flag=True,
    help="Headers only: nothing is decompressed, no key or value is looked at.",
)
@option(
    OptionGroup.OUTPUT,
    "--output",
    type=OutputFormat(["table", "jsonl", "reset-csv"]),
    default="table",
    help="A human-readable page, or JSON lines. With --offsets-for also reset-csv: offsets for "
    "kafka-consumer-groups.sh --from-file.",
)
@option(
    OptionGroup.OUTPUT,
    "--html",
    type=click.Path(),
    metavar="FILE",
    help="Write a report with charts too: one file, which a browser shows without a network.",
)
@whatif_options.whatif_options
@color_option("the page")
@engine_options
@limit_option()
@reading_options
@common_options
def stats(paths: tuple[str, ...], **others: Any) -> int:
    """Count what is in segments, partition directories, log directories, URIs of them and pipes; continue after damage.

    Exit status 1 when there is damage.
    """
    if not paths:
        raise click.UsageError("no PATH given (kdump stats --help)")
    given = StatsArguments({"paths": tuple(map(strip_credentials, paths)), **others})
    by_contents = given.by if given.by.startswith(("key", "header:")) else None
    GivenOptions({"contents": by_contents, **world_facts(given.paths)}).check(STATS)
    console = Console(color=given.color, output=given.output, show_traceback=given.traceback)
    begin(given, console)
    status = RunStatus(console.show_error)
    # A question takes patterns.
    asks = bool(given.what_if) or given.offsets_for is not None
    given.inputs = inputs_of(given.paths, status.fail, topics=given.topics, world=given.world, with_patterns=asks)
    given.paths = tuple(found.path for found in given.inputs)
    tell_brokers(given.paths, console)
    if asks:
        _answer(given, console, status)
    else:
        _count(given, console, status)
    console.close()
    return status.code


def _count(given: StatsArguments, console: Console, status: RunStatus) -> None:
    """Show the figures."""
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
    run = StatsRun(options)
    try:
        page = None if given.html is None else HtmlPage(given.html, given.paths)
        judge = _judge(options, run, given, console)
    except KdumpError as error:
        status.fail(error)
        return
    verification = Verification(judge, on_error=status.fail, options=options.checks, see=run.see_entries)
    said = FindingDeduplicator()
    for found in dict.fromkeys(given.inputs):
        try:
            items = verification.items(found)
            for item in items if len(given.inputs) == 1 else said.of(items):
                if page is not None:
                    page.see(item)
                if isinstance(item, Finding):
                    _see_finding(item, run, console)
                elif item.batches is None:
                    status.fail(
                        KdumpError(Codes.NOT_A_SEGMENT_FILE, "no log is beside it to be counted", path=item.path)
                    )
                elif reporter.verbose:
                    depth = "headers" if given.quick else "every record"
                    reporter.note(f"{item.path}: {counted(item.batches, 'batch', 'batches')}, {depth}")
        except KdumpError as error:
            status.fail(error.located(found.path))
    report = _report(run, console)
    _write(report, options, given, console)
    if page is not None:
        # The report may go to the same place.
        console.out.flush()
        try:
            page.write(report, options.by, run.curves())
        except KdumpError as error:
            status.fail(error)
    status.add(damaged=run.is_damaged)


def _answer(given: StatsArguments, console: Console, status: RunStatus) -> None:
    """Answer what is asked in place of the figures."""
    choose_engine(given, given.inputs, console, only_here="--what-if" if given.what_if else "--offsets-for")
    if given.offsets_for is not None:
        _offsets_for(given, given.offsets_for, console, status)
        return
    from kdump.cli.whatif import answer

    answer(given, console, status)


def _offsets_for(given: StatsArguments, timestamp: int, console: Console, status: RunStatus) -> None:
    """Show the first offset at or after a time in each partition."""
    from kdump.cli.state import show_rows
    from kdump.stats.reach import offset_rows
    from kdump.verify.partitionentries import PartitionEntries

    def skip(path: str, finding: Finding) -> None:
        status.add(damaged=True)
        console.note(f"{path}: skipped {finding.skipped}")

    logs = PartitionEntries(given.inputs, on_error=status.fail, on_damage=skip, limit=given.max_decompressed_size)
    rows = offset_rows(logs, timestamp, status.fail)
    if not (rows or status.unreadable):
        what = "no partition, by the names of the directories"
        status.fail(KdumpError(Codes.NO_SEGMENTS, what, path=given.paths[0]))
    show_rows("offsetForTime", rows, given, console, status)


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


def _write(report: FiguresReport, options: StatsOptions, given: StatsArguments, console: Console) -> None:
    """Write a line per group, or the page."""
    texts: Iterable[str]
    if given.output == "jsonl":
        from kdump.stats.report import stats_json

        texts = (stats_json(figures, options.by, options.header) for figures in report.groups)
    else:
        from kdump.stats.page import stats_page

        texts = (stats_page(report, options.by, width=console.width, color=console.color),)
    for text in texts:
        console.out.write(text.encode("utf-8", "surrogateescape"))


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
