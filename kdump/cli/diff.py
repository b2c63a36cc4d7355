"""``kdump diff``: copies of partitions compared, and what each would lose if another one led."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click

from kdump.cli.arguments import DiffArguments
from kdump.cli.common import begin, color_option, common_options, limit_option, reading_options, topic_option
from kdump.cli.conflicts import DIFF, GivenOptions
from kdump.cli.console import Console
from kdump.cli.engine_options import choose_engine, engine_options
from kdump.cli.exit_status import RunStatus
from kdump.cli.options import Command, OptionGroup, option
from kdump.cli.params import OutputFormat
from kdump.cli.tier_options import tier_options
from kdump.codes import Finding, KdumpError, Severity
from kdump.diff.against import FileDifference
from kdump.diff.contents import ContentOptions
from kdump.diff.report import (
    Totals,
    file_finding,
    file_json,
    file_text,
    findings_of,
    record_json,
    record_text,
    report_json,
    report_text,
)
from kdump.diff.run import DiffOptions, PartitionReport
from kdump.diff.run import diff as compare
from kdump.inputs import inputs_of
from kdump.log.files import strip_credentials
from kdump.verify.report import JUnitReport

_FEWEST_PATHS: Final = 2


@click.command(
    cls=Command,
    most_used=("--topic", "--content", "--records", "--strict", "--output", "-j"),
    epilog="""\b
Examples:
  kdump diff orders-0 backup/orders-0              two copies of a partition
  kdump diff /data/kafka /backup/kafka             all partitions of two log directories
  kdump diff --records orders-0 backup/orders-0    with the records that differ
  kdump diff --content orders-0 backup/orders-0    by record, for copies that were written again
  kdump diff orders.manifest orders-0              what changed since kdump verify --manifest""",
)
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path())
@tier_options
@topic_option
@option(OptionGroup.OUTPUT, "--records", is_flag=True, help="Show the records that differ, key and value of each copy.")
@option(
    OptionGroup.COMPARE,
    "--content",
    is_flag=True,
    help="Compare records by offset, timestamp, key, value and headers only, for copies that are no replicas.",
)
@option(OptionGroup.OUTPUT, "--strict", is_flag=True, help="End with 1 for warnings too.")
@option(
    OptionGroup.OUTPUT,
    "--output",
    type=OutputFormat(["table", "jsonl", "junit"]),
    default="table",
    help="Table: a page per partition; JSON lines, or JUnit XML.",
)
@color_option("the page")
@engine_options
@limit_option()
@reading_options
@common_options
def diff(paths: tuple[str, ...], **others: Any) -> int:
    """Compare copies of partitions: segments, partition directories, log directories, URIs of them, one manifest.

    Exit status 1 when there is a finding (with --strict: or a warning), 0 when all differences are explained.
    """
    if len(paths) < _FEWEST_PATHS:
        raise click.UsageError("two PATHs or more are needed (kdump diff --help)")
    given = DiffArguments({"paths": tuple(map(strip_credentials, paths)), **others})
    GivenOptions().check(DIFF)
    return _DiffRun(given).run()


class _DiffRun:
    """One run of the command."""

    def __init__(self, given: DiffArguments) -> None:
        self._given = given
        self._failing = frozenset({Severity.ERROR, Severity.WARNING} if given.strict else {Severity.ERROR})
        self._console = Console(color=given.color, output=given.output, show_traceback=given.traceback)
        begin(given, self._console)
        self._status = RunStatus(self._console.show_error)
        self._junit = JUnitReport(self._failing, "kdump diff")
        self._totals = Totals()

    def run(self) -> int:
        """Gives the exit status."""
        given, console = self._given, self._console
        contents = ContentOptions(given.max_decompressed_size, given.content)
        inputs = inputs_of(given.paths, self._fail, with_patterns=True)
        try:
            run = choose_engine(given, inputs, console).run
        except KdumpError as error:
            self._status.fail(error)
            return self._status.code
        for item in compare(inputs, DiffOptions(contents, given.records, given.topics), self._fail, run):
            if isinstance(item, PartitionReport):
                self._add(item)
                pieces = self._page(item)
            elif isinstance(item, FileDifference):
                self._add_finding(file_finding(item))
                pieces = self._file(item)
            else:
                pieces = iter([record_json(item) if given.output == "jsonl" else record_text(item)])
            for piece in pieces:
                console.out.write(piece.encode("utf-8", "surrogateescape"))
        if given.output == "junit":
            console.out.write(self._junit.document())
        elif given.output == "table":
            console.out.write(self._totals.text().encode())
        console.close()
        return self._status.code

    def _page(self, report: PartitionReport) -> Iterator[str]:
        given = self._given
        if given.output == "jsonl":
            yield from report_json(report)
        elif given.output == "table":
            yield report_text(report, color=self._console.color, is_brief=not given.verbose)

    def _add(self, report: PartitionReport) -> None:
        self._totals.add(report)
        for copy in report.copies:
            self._junit.add_case(copy.directory)
        for finding in findings_of(report):
            self._add_finding(finding)

    def _add_finding(self, finding: Finding) -> None:
        self._status.add(damaged=finding.severity in self._failing)
        self._junit.add_finding(finding)

    def _file(self, found: FileDifference) -> Iterator[str]:
        if self._given.output == "jsonl":
            yield file_json(found)
        elif self._given.output == "table":
            yield file_text(found, color=self._console.color)

    def _fail(self, error: KdumpError) -> None:
        self._junit.add_error(error)
        self._status.fail(error)
