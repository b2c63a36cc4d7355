"""Exports one segment as a file for other tools: JSON lines, CSV or Parquet. Plain functions, as in ``segment``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.convert.conversion import Conversion, LossKind
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
from kdump.reading.printing import Emit, Printer, RowsT, RowT
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
    import numpy as np
    from numpy.typing import NDArray

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
    """Of Parquet: makes other columns; see ``rows.arrowfiles``."""

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


class OffsetOrder:
    """Counts offsets that are not above all previous ones; an OffsetObserver (``kdump.reading.printing``).

    At the end: ``count``, and ``first``, an offset and the highest one before it (None: all rise).

    Args:
        base_offset: no offset is below it.
    """

    def __init__(self, base_offset: int = 0) -> None:
        self._highest = base_offset - 1
        self.count = 0
        self.first: tuple[int, int] | None = None

    def see(self, offset: int) -> None:
        """Note one offset; see OffsetObserver."""
        if offset <= self._highest:
            self._note(1, offset, self._highest)
        else:
            self._highest = offset

    def see_column(self, offsets: NDArray[np.int64]) -> None:
        """Note a column of offsets; see OffsetObserver."""
        import numpy as np

        if not len(offsets):
            return
        before = np.maximum.accumulate(np.concatenate(([self._highest], offsets)))
        (misfits,) = (offsets <= before[:-1]).nonzero()
        if len(misfits):
            self._note(len(misfits), int(offsets[misfits[0]]), int(before[misfits[0]]))
        self._highest = int(before[-1])

    def _note(self, count: int, offset: int, highest: int) -> None:
        self.count += count
        self.first = self.first or (offset, highest)


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
    undecoded = _Undecoded()
    decoding = Decoding(job.decoder, undecoded.see) if job.table.is_decoded else None
    with open_source(job.source) as source:
        outcomes = _outcomes(job, source, followed)
        printer = RowPrinter(lines, job.table, outcomes, decoding)
        for _ in _steps(job, source, printer, outcomes=outcomes, emit=emit, result=result, followed=followed):
            pass
    result.notes += undecoded.notes()


def _to_parquet(job: ExportJob, path: str, result: SegmentResult, followed: TransactionReader) -> None:
    from kdump.rows.arrow import ArrowPrinter
    from kdump.rows.arrowfiles import ParquetRecords, export_schema

    undecoded = _Undecoded()
    schema = export_schema(job.table)
    with open_source(job.source) as source, ParquetRecords(path, schema, job.reshape) as records:
        outcomes = _outcomes(job, source, followed)
        printer = ArrowPrinter(
            job.table,
            schema,
            FileContext.of(job.source),
            outcomes=outcomes,
            decoder=job.decoder,
            on_undecoded=lambda row, error: undecoded.see(row["offset"], error),
        )
        for _ in _steps(job, source, printer, outcomes=outcomes, emit=records.add, result=result, followed=followed):
            records.write()
    result.notes += undecoded.notes()
    result.records = records.written
    if records.control:
        result.losses[LossKind.CONTROL_RECORDS] = records.control


def _steps(
    job: ExportJob,
    source: Source,
    printer: Printer[RowT, RowsT],
    *,
    outcomes: Outcomes | None,
    emit: Callable[[RowsT], object],
    result: SegmentResult,
    followed: TransactionReader,
) -> Iterator[None]:
    """Print the records of a log, step by step; the result gets its damage, and what a user should know."""
    order, counts = _order(job), OutcomeCounts(outcomes)
    view = view_of(job.world, job.base_offset)(
        source,
        CountedPrinter(printer, counts),
        emit,
        _view_options(job, result, followed),
        # In a log of another world several messages may have one offset.
        observer=order if job.world is None else None,
        on_finding=partial(_see_damage, job, source, result),
    )
    for _ in view.steps():
        yield
    _note_order(order, result)
    result.notes += counts.notes()


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


def _see_damage(job: ExportJob, source: Source, result: SegmentResult, finding: Finding) -> None:
    """Note a finding of a view. The bytes of a gap at the end of the file tell what it is.

    Raises DamageError for damage that must not be left out.
    """
    if finding.code is Codes.FOREIGN_FILE:
        # A finding that is no damage cannot be left out.
        raise KdumpError(finding.code, finding.message, path=job.source)
    found = [finding]
    if finding.length is not None:
        gap = Gap(finding.position, finding.length, finding.code, finding.first_offset, finding.last_offset)
        found = list(GapChecks(source, NextSegment()).see_gap(gap))
    result.findings += (finding for finding in found if finding.severity is Severity.ERROR)
    result.check(result.findings, job.conversion)
