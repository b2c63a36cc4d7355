"""Exports one segment as a file for other tools: JSON lines, CSV or Parquet. Plain functions, as in ``segment``."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.convert.conversion import Conversion
from kdump.convert.losses import LossKind
from kdump.convert.offsetorder import OffsetOrder
from kdump.convert.outcomecounts import CountedPrinter, OutcomeCounts
from kdump.convert.output import WrittenSegment
from kdump.convert.segment import SegmentResult
from kdump.log.context import FileContext
from kdump.log.gaps import Gap
from kdump.log.names import parse_file_name
from kdump.log.opening import open_source
from kdump.log.source import Source
from kdump.payloads.choice import DecoderChoice
from kdump.payloads.decoded import PayloadError, RecordDecoder
from kdump.reading.outcomes import LateOutcomes, Outcomes
from kdump.reading.printing import Emit
from kdump.reading.selection import Selection
from kdump.reading.transactionreader import TransactionReader
from kdump.reading.view import ViewOptions
from kdump.rows.columns import Table
from kdump.rows.logs import table_of, view_of
from kdump.rows.printers import Decoding, RowLines, RowPrinter
from kdump.rows.scalarlines import Output
from kdump.rows.tables import RECORD, RECORD_DECODED
from kdump.system.blocks import BlockWriter
from kdump.system.files import NewFile, status_of
from kdump.verify.gaps import GapChecks, NextSegment
from kdump.worlds import World

if TYPE_CHECKING:
    from kdump.rows.arrowparts import Reshape

TextForm = Literal["jsonl", "csv"]
Form = Literal["jsonl", "csv", "parquet"]
"""The format of a file for other tools; its name ends so."""


@dataclass(frozen=True, slots=True)
class ExportJob:
    """One segment and the file to make of it. Ranges, isolation and damage of the conversion are used."""

    source: str
    target: str
    form: Form
    conversion: Conversion
    is_safe: bool = False
    """Neutralize cells of CSV that a spreadsheet would read as a formula."""
    world: World | None = None
    """Whose log the source is; None: a log of today."""
    base_offset: int | None = None
    """By the name of the source."""
    decoding: DecoderChoice = field(default_factory=DecoderChoice)
    reshape: Reshape | None = None
    """Of Parquet: makes other columns; see ``rows.tablefiles``."""

    @property
    def table(self) -> Table:
        """What the file shows of it."""
        return table_of(self.world, RECORD_DECODED if self.decoding.is_made else RECORD)

    @property
    def decoder(self) -> RecordDecoder | None:
        """Of keys and values. Raises as ``DecoderChoice.decoder``."""
        return self.decoding.decoder(FileContext.of(self.source).topic)


def export_segment(job: ExportJob, followed: TransactionReader | None = None) -> SegmentResult:
    """Export one segment; errors are in the result. See ``convert_segment``."""
    result = SegmentResult(job.source)
    followed = followed or TransactionReader()
    with result.noting_errors(job.target):
        file = NewFile(job.target, status_of(job.source))
        try:
            if job.form == "parquet":
                _to_parquet(job, file.temporary, result, followed)
            else:
                writer = BlockWriter(file.descriptor, at_once=False, escapes=False)
                lines = _lines(job, job.form)
                title = lines.title(job.table).encode()
                writer.write(title)
                _to_text(job, lines, writer.write, result, followed)
                writer.flush()
                result.records = None if os.fstat(file.descriptor).st_size > len(title) else 0
            size = os.fstat(file.descriptor).st_size
            result.staged = [file.finish()]
        except BaseException:
            file.discard()
            raise
        result.segments = [WrittenSegment(job.target, None, size, None)]
    return result


def export_text(job: ExportJob, emit: Emit, *, has_title: bool) -> SegmentResult:
    """Export one segment as JSON lines or CSV to ``emit``; there is no target."""
    result = SegmentResult(job.source)
    if job.form == "parquet":
        raise ValueError("Parquet is no text")
    with result.noting_errors(job.target):
        lines = _lines(job, job.form)
        if has_title:
            emit(lines.title(job.table).encode())
        _to_text(job, lines, emit, result, TransactionReader())
    return result


class _ExportedLines(RowLines):
    """Lines of records only."""

    def finding(self, finding: Finding) -> str:
        """None: the column ``problem`` says what does not decode."""
        return ""


class _Undecoded:
    """Counts records of which something does not decode."""

    def __init__(self) -> None:
        self._count = 0
        self._first = ""

    def see(self, offset: int, error: PayloadError) -> None:
        """One more."""
        self._count += 1
        self._first = self._first or f"offset {offset}: {error.message}"

    def notes(self) -> list[str]:
        """What a user should know."""
        more = f" (and {self._count - 1:,} more)" if self._count > 1 else ""
        return [f"{self._first}{more}"] if self._count else []


def _lines(job: ExportJob, form: TextForm) -> RowLines:
    syntax: Output = "csv-safe" if job.is_safe else form
    return _ExportedLines(syntax, None, FileContext.of(job.source))


def _to_text(
    job: ExportJob,
    lines: RowLines,
    emit: Emit,
    result: SegmentResult,
    followed: TransactionReader,
) -> None:
    order, undecoded = _order(job), _Undecoded()
    decoding = Decoding(job.decoder, undecoded.see) if job.table.is_decoded else None
    with open_source(job.source) as source:
        outcomes = _outcomes(job, source, followed)
        counts = OutcomeCounts(outcomes)
        view = view_of(job.world, job.base_offset)(
            source,
            CountedPrinter(RowPrinter(lines, job.table, outcomes, decoding), counts),
            emit,
            _view_options(job, result, followed),
            # In a log of another world several messages may have one offset.
            observer=order if job.world is None else None,
            on_finding=_Damage(job, source, result).see,
        )
        for _ in view.steps():
            pass
    _note_order(order, result)
    result.notes += [*counts.notes(), *undecoded.notes()]


def _to_parquet(job: ExportJob, path: str, result: SegmentResult, followed: TransactionReader) -> None:
    from kdump.rows.arrow import ArrowPrinter
    from kdump.rows.tablefiles import ParquetRecords, export_schema

    order, undecoded = _order(job), _Undecoded()
    schema = export_schema(job.table)
    with open_source(job.source) as source, ParquetRecords(path, schema, job.reshape) as records:
        outcomes = _outcomes(job, source, followed)
        counts = OutcomeCounts(outcomes)
        printer = ArrowPrinter(
            job.table,
            schema,
            FileContext.of(job.source),
            outcomes=outcomes,
            decoder=job.decoder,
            on_undecoded=lambda row, error: undecoded.see(row["offset"], error),
        )
        view = view_of(job.world, job.base_offset)(
            source,
            CountedPrinter(printer, counts),
            records.add,
            _view_options(job, result, followed),
            # In a log of another world several messages may have one offset.
            observer=order if job.world is None else None,
            on_finding=_Damage(job, source, result).see,
        )
        for _ in view.steps():
            records.write()
    _note_order(order, result)
    result.notes += [*counts.notes(), *undecoded.notes()]
    result.records = records.written
    if records.control:
        result.losses[LossKind.CONTROL_RECORDS] = records.control


def _outcomes(job: ExportJob, source: Source, followed: TransactionReader) -> Outcomes | None:
    return None if source.size is None or job.world is not None else LateOutcomes(partial(followed.of, job.source))


def _order(job: ExportJob) -> OffsetOrder:
    name = parse_file_name(job.source)
    return OffsetOrder(max(0, (name and name.base_offset) or 0))


def _note_order(order: OffsetOrder, result: SegmentResult) -> None:
    """Note offsets that are there twice: a log cannot hold them, but the reader of the file counts them twice."""
    if order.first is not None:
        offset, highest = order.first
        what = (
            "1 record has an offset that does not rise, it is"
            if order.count == 1
            else f"{order.count:,} records have offsets that do not rise, first"
        )
        result.notes.append(f"{what} {offset} after {highest}: they may be there twice (see kdump verify)")


def _view_options(job: ExportJob, result: SegmentResult, followed: TransactionReader) -> ViewOptions:
    conversion = result.up_to_open(job.conversion, followed)
    committed = followed.of(job.source) if conversion.read_committed else None
    selection = Selection(offsets=conversion.offsets, times=conversion.times, committed=committed)
    return ViewOptions(
        with_records=True,
        selection=selection,
        max_decompressed_size=conversion.limit,
        resync=True,
        only_valid=True,
    )


@dataclass(frozen=True, slots=True)
class _Damage:
    """Takes the findings of a view. The bytes of a gap at the end of the file tell what it is."""

    job: ExportJob
    source: Source
    result: SegmentResult

    def see(self, finding: Finding) -> None:
        """Raise DamageError for damage that must not be left out."""
        if finding.code is Codes.FOREIGN_FILE:
            # A finding that is no damage cannot be left out.
            raise KdumpError(finding.code, finding.message, path=self.job.source)
        found = [finding]
        if finding.length is not None:
            gap = Gap(finding.position, finding.length, finding.code, finding.first_offset, finding.last_offset)
            found = list(GapChecks(self.source, NextSegment()).see_gap(gap))
        self.result.findings += (finding for finding in found if finding.severity is Severity.ERROR)
        self.result.check(self.result.findings, self.job.conversion)
