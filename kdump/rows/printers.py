"""JSON lines and CSV as printers of ``kdump.reading.view``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kdump.codes import Finding
from kdump.format.legacy import LegacyRecord
from kdump.log.context import FileContext
from kdump.reading.outcomes import Outcomes
from kdump.reading.printing import AnyRecord, BatchRun, BlockPrinter, TextBytes, TextRows
from kdump.rows.columns import Row, Table
from kdump.rows.filetables import finding_row
from kdump.rows.scalar import TablePrinter, add_decoded
from kdump.rows.scalarlines import Output, csv_line, json_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kdump.fast.blocks import BatchBlock
    from kdump.payloads.decoded import RecordDecoder, Undecoded


class Decoding(NamedTuple):
    """How the keys and values of a log are decoded, and who takes the reasons of what does not decode."""

    decoder: RecordDecoder | None
    report: Undecoded


class Lines(ABC):
    """Writes rows of any table, one by one unless there is a block printer."""

    def title(self, table: Table) -> str:
        """What comes before the first row of a table."""
        return ""

    @abstractmethod
    def line(self, table: Table, row: Row) -> str:
        """One row; empty while it is held back for a page."""

    def finding(self, finding: Finding) -> str:
        """Skipped damage, in a format that can show it among the rows. Others leave it to standard error."""
        return ""

    def finish(self) -> str:
        """The rows that were held back."""
        return ""

    def block_printer(
        self, table: Table, outcomes: Outcomes | None, decoding: Decoding | None
    ) -> BlockPrinter[TextBytes] | None:
        """The columnar form, None where there is none."""
        return None


LinesOf: TypeAlias = Callable[[FileContext], Lines]
"""Makes the writer of a file's rows."""


class RowLines(Lines):
    """Rows of any table as lines of text.

    Args:
        syntax: how a line is written.
        fields: the columns shown, in this order; a column that a table does not have is left out in JSON lines and
            empty in CSV. None: all of the row's table.
        context: the file the rows come from.
    """

    def __init__(self, syntax: Output, fields: Sequence[str] | None, context: FileContext) -> None:
        self.syntax = syntax
        self.fields = fields
        self.context = context
        self._is_csv = syntax != "jsonl"
        self._file = context.columns()

    def line(self, table: Table, row: Row) -> str:
        """One row, with its line end."""
        values: dict[str, Any] = {"type": table.type, **self._file, **row}
        names = table.names if self.fields is None else [name for name in self.fields if name in values]
        if not names:
            # A file of another kind, without any of the columns that were asked for.
            return ""
        if self._is_csv:
            cells = [values.get(name) for name in self.fields or table.names]
            return csv_line(cells, is_safe=self.syntax == "csv-safe")
        return json_line(values, names)

    def title(self, table: Table) -> str:
        """The line of column names that CSV begins with."""
        return csv_line(self.fields or table.names) if self._is_csv else ""

    def finding(self, finding: Finding) -> str:
        """The row of a finding. CSV has one table only, so nothing there."""
        return "" if self._is_csv else json_line(finding_row(finding, self.context))

    def block_printer(
        self, table: Table, outcomes: Outcomes | None, decoding: Decoding | None
    ) -> BlockPrinter[TextBytes]:
        """See Lines."""
        return _RowBlocks(self, table, outcomes, decoding)


class RowPrinter(TextRows, TablePrinter[str]):
    """Prints batches (table BATCH) or, with a table of records, records only.

    Args:
        lines: how a row is written.
        table: which rows.
        outcomes: of the log's transactions, where they are shown.
        decoding: for RECORD_DECODED.
    """

    def __init__(self, lines: Lines, table: Table, outcomes: Outcomes | None, decoding: Decoding | None = None) -> None:
        super().__init__(table, outcomes)
        self._lines = lines
        self._decoding = decoding

    def made(self, row: Row | None, *, is_entry_valid: bool) -> str:
        """See TablePrinter. After the row of a record comes a report of what does not decode."""
        if row is None:
            return ""
        if self._decoding is None or not self._with_records:
            return self._lines.line(self.table, row)
        errors = add_decoded(self.table, row, self._decoding.decoder)
        text = self._lines.line(self.table, row)
        found = []
        for error in errors:
            self._decoding.report(row["offset"], error)
            found.append(
                self._lines.finding(Finding(error.code, f"offset {row['offset']}: {error.message}", row["position"]))
            )
        return "".join((text, *found))

    def skip(self, record: AnyRecord, row: Callable[[], str]) -> None:
        """See Printer; the row is not made, as it would be counted and kept."""
        if isinstance(record, LegacyRecord):
            # Where the key does not fit, the value does not either.
            record.message.value()

    def columns(self) -> BlockPrinter[TextBytes] | None:
        """See Printer."""
        return self._lines.block_printer(self.table, self.outcomes, self._decoding)


class _RowBlocks:
    def __init__(self, lines: RowLines, table: Table, outcomes: Outcomes | None, decoding: Decoding | None) -> None:
        self._lines = lines
        self._table = table
        self._fields = table.names if lines.fields is None else lines.fields
        self._outcomes = outcomes
        self._decoder = None if decoding is None else decoding.decoder

    def batches(self, block: BatchBlock) -> TextBytes:
        """See BlockPrinter."""
        from kdump.rows.columnarlines import batch_rows

        return batch_rows(block, self._fields, self._lines.context, self._lines.syntax, table=self._table)

    def leaves(self, block: BatchBlock) -> NDArray[np.bool_] | None:
        """See BlockPrinter."""
        from kdump.rows.columnar import undecoded_batches

        return undecoded_batches(block, self._decoder)

    def records(self, block: BatchBlock) -> Iterator[BatchRun[TextBytes]]:
        """See BlockPrinter."""
        from kdump.rows.columnarlines import record_runs

        txn_state = None
        if self._outcomes is not None and "txnState" in self._fields:
            txn_state = self._outcomes.column(block.headers)
        return record_runs(
            block,
            self._fields,
            self._lines.context,
            self._lines.syntax,
            table=self._table,
            txn_state=txn_state,
            decoder=self._decoder,
        )
