"""``kdump diff``: copies of partitions compared, and what each would lose if another one led."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from kdump.cli.command import Run, command
from kdump.cli.engine import choose_engine
from kdump.cli.options.diff import DiffArguments
from kdump.codes import Finding, KdumpError, Severity
from kdump.diff.against import FileDifference
from kdump.diff.contents import DiffOptions
from kdump.diff.report import (
    Totals,
    file_row,
    file_text,
    findings_of,
    record_row,
    record_text,
    report_rows,
    report_text,
)
from kdump.diff.run import PartitionReport
from kdump.diff.run import diff as compare
from kdump.inputs import inputs_of
from kdump.log.files import strip_credentials
from kdump.rows.scalarlines import json_line
from kdump.verify.report import JUnitReport

_FEWEST_PATHS: Final = 2


@command(
    DiffArguments,
    most_used="--topic --content --records --strict --output -j",
    examples="""\
  kdump diff orders-0 backup/orders-0              two copies of a partition
  kdump diff /data/kafka /backup/kafka             all partitions of two log directories
  kdump diff --records orders-0 backup/orders-0    with the records that differ
  kdump diff --content orders-0 backup/orders-0    by record, for copies that were written again
  kdump diff orders.manifest orders-0              what changed since kdump verify --manifest""",
)
def diff(run: Run[DiffArguments]) -> None:
    """Compare copies of partitions: segments, partition directories, log directories, URIs of them, one manifest.

    Exit status 1 when there is a finding (with --strict: or a warning), 0 when all differences are explained.
    """
    if len(run.given.paths) < _FEWEST_PATHS:
        raise click.UsageError("two PATHs or more are needed (kdump diff --help)")
    run.given.paths = tuple(map(strip_credentials, run.given.paths))
    _DiffRun(run).run()


class _DiffRun:
    """One run of the command."""

    def __init__(self, run: Run[DiffArguments]) -> None:
        given = self._given = run.given
        self._run = run
        self._failing = frozenset({Severity.ERROR, Severity.WARNING} if given.strict else {Severity.ERROR})
        self._console = run.console
        self._status = run.status
        self._junit = JUnitReport(self._failing, "kdump diff")
        self._totals = Totals()

    def run(self) -> None:
        """Compare, and show what differs."""
        given, console = self._given, self._console
        options = DiffOptions(given.max_decompressed_size, given.content, given.records, given.choice)
        inputs = given.inputs = inputs_of(given.paths, self._fail, with_patterns=True)
        try:
            run = choose_engine(given, inputs, console).run
        except KdumpError as error:
            self._status.fail(error)
            return
        for item in compare(inputs, options, self._fail, run):
            if isinstance(item, PartitionReport):
                self._add(item)
                pieces = self._page(item)
            elif isinstance(item, FileDifference):
                self._add_finding(item.finding)
                pieces = self._file(item)
            else:
                pieces = iter([json_line(record_row(item)) if given.output == "jsonl" else record_text(item)])
            for piece in pieces:
                self._run.write(piece)
        if given.output == "junit":
            console.out.write(self._junit.document())
        elif given.output == "table":
            self._run.write(self._totals.text())

    def _page(self, report: PartitionReport) -> Iterator[str]:
        given = self._given
        if given.output == "jsonl":
            yield from map(json_line, report_rows(report))
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
            yield json_line(file_row(found))
        elif self._given.output == "table":
            yield file_text(found.finding, color=self._console.color)

    def _fail(self, error: KdumpError) -> None:
        self._junit.add_error(error)
        self._status.fail(error)
