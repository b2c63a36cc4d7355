"""Rows of logs for a program: Arrow record batches, or objects. Other files have no such rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol

from kdump.codes import Codes, Finding, KdumpError
from kdump.dump.output import DumpOutput, OutputMaker
from kdump.dump.targets import Target
from kdump.log.context import FileContext
from kdump.payloads.decoded import PayloadError, RecordDecoder, Undecoded
from kdump.reading.printing import Printer, RowsT, RowT
from kdump.rows.columns import Row, Table
from kdump.rows.logs import table_of
from kdump.rows.scalar import OnUndecoded

if TYPE_CHECKING:
    import pyarrow as pa

    from kdump.reading.outcomes import Outcomes
    from kdump.rows.arrow import ArrowPrinter, ArrowRows


class PrinterMaker(Protocol[RowT, RowsT]):
    """Makes the printer of a log."""

    def __call__(
        self,
        target: Target,
        outcomes: Outcomes,
        decoder: RecordDecoder | None,
        on_undecoded: OnUndecoded,
    ) -> Printer[RowT, RowsT]:
        """Args: the log, the outcomes of its transactions, its decoder, and who takes what does not decode."""


class PrintedOutput(DumpOutput[RowT, RowsT], Generic[RowT, RowsT]):
    """Rows of logs as a printer makes them.

    Args:
        make_printer: makes the printer of a log.
        on_finding: takes damage that was skipped, and contents that do not decode, with their path.
        run: as of DumpOutput.
    """

    def __init__(
        self, make_printer: PrinterMaker[RowT, RowsT], on_finding: Callable[[Finding], None], *run: Any
    ) -> None:
        super().__init__(*run)
        self._make_printer = make_printer
        self._on_finding = on_finding
        self._path = ""

    def ignore(self, name: str) -> None:
        """See DumpOutput."""
        self.reporter.note(f"{name}: ignored, not a segment file by its name")

    def begin(self, target: Target) -> None:
        """See DumpOutput."""
        self._path = target.path

    def small_file(self, target: Target) -> None:
        """See DumpOutput; only logs have such rows."""
        raise KdumpError(Codes.NOT_A_SEGMENT_FILE, "not a log: only JSON lines, CSV and tables show its rows")

    def printer(self, target: Target, outcomes: Outcomes, undecoded: Undecoded) -> Printer[RowT, RowsT]:
        """See DumpOutput."""

        def report(row: Row, error: PayloadError) -> None:
            undecoded(row["offset"], error)
            self.skipped(Finding(error.code, f"offset {row['offset']}: {error.message}", row["position"]))

        return self._make_printer(target, outcomes, self.options.decoding.decoder(target.topic), report)

    def skipped(self, finding: Finding) -> None:
        """See DumpOutput."""
        self._on_finding(replace(finding, path=self._path))


def arrow_printer(
    table: Table, schema: pa.Schema, on_malformed: Callable[[str, int, Codes, str], bool] | None = None
) -> PrinterMaker[Row, ArrowRows]:
    """Makes printers of Arrow rows with the names of JSON lines.

    Args:
        table: BATCH or a table of records.
        schema: columns of ``row_schema(table)``.
        on_malformed: as of ArrowPrinter, with the path before; None: all rows are shown.
    """
    from kdump.rows.arrow import ArrowPrinter

    def make(
        target: Target,
        outcomes: Outcomes,
        decoder: RecordDecoder | None,
        on_undecoded: OnUndecoded,
    ) -> ArrowPrinter:
        printer = ArrowPrinter(
            table_of(target.world, table),
            schema,
            FileContext.of(target.path),
            outcomes=outcomes,
            decoder=decoder,
            on_undecoded=on_undecoded,
        )
        if on_malformed is not None:
            printer.on_malformed = partial(on_malformed, target.path)
        return printer

    return make


def arrow_output(table: Table, schema: pa.Schema) -> OutputMaker:
    """Makes Arrow rows for a dump; see ``arrow_printer``. Findings have no rows there."""
    return partial(PrintedOutput, arrow_printer(table, schema), lambda finding: None)
