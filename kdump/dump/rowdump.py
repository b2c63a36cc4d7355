"""``kdump dump`` with structured output: the files of a run as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from kdump.codes import Codes, DamageError, Finding, KdumpError
from kdump.dump.redacted import RedactingPrinter
from kdump.dump.run import FileRun, Target
from kdump.format.index import parse_offset_index, parse_time_index, parse_txn_index, used_entries
from kdump.format.snapshot import parse_snapshot
from kdump.log.context import FileContext
from kdump.log.names import Kind
from kdump.log.opening import read_whole
from kdump.payloads.choice import DecoderChoice
from kdump.reading.printing import Emit, Printer, TextBytes, TextRow
from kdump.reading.reporter import Reporter
from kdump.reading.selection import RowBudget
from kdump.reading.view import LogView, ViewOptions
from kdump.rows.printers import Decoding, Lines, RowPrinter
from kdump.rows.tables import BATCH, INDEX, PRODUCER, RECORD_DECODED, TIME_INDEX, TXN_INDEX, Row, Table


@dataclass(frozen=True, slots=True)
class RowOptions:
    """What is shown and how it is written."""

    lines: Callable[[FileContext], Lines]
    """Makes the writer of a file's rows."""
    table: Table = BATCH
    """Of logs: BATCH, RECORD, RECORD_DECODED or RECORD_METADATA."""
    fields: tuple[str, ...] | None = None
    """Columns that are shown; None: all."""
    view: ViewOptions = field(default_factory=ViewOptions)
    read_committed: bool = False
    secret: bytes | None = None
    """Given: keys and values are replaced by hashes keyed with it."""
    decoding: DecoderChoice = field(default_factory=DecoderChoice)
    """How keys and values are decoded, for the table RECORD_DECODED."""

    @property
    def shows_txn_state(self) -> bool:
        """The outcome of transactions is among the columns."""
        return "txnState" in (self.table.names if self.fields is None else self.fields)


class RowDump(FileRun):
    """A run over several files.

    Args:
        options: what is shown.
        emit: takes whole lines.
        reporter: takes what goes to stderr.
        budget: how many rows are shown.
        titled: the table whose title was written before.
    """

    def __init__(
        self,
        options: RowOptions,
        emit: Emit,
        reporter: Reporter,
        *,
        budget: RowBudget | None = None,
        titled: Table | None = None,
    ) -> None:
        super().__init__(reporter)
        self._options = options
        self._emit = emit
        self._budget = budget or RowBudget()
        self._titled = titled

    def dump(self, target: Target) -> None:
        """See FileRun."""
        for _ in self.steps(target):
            pass

    def steps(self, target: Target) -> Iterator[None]:
        """The same, in steps of some megabytes."""
        if self._budget.is_spent:
            return
        lines = self._options.lines(FileContext.of(target.path))
        try:
            with self.file(target):
                if target.kind is None:
                    self._text_file(target, lines)
                elif target.kind in (Kind.LOG, Kind.CHECKPOINT):
                    yield from self._log(target, lines)
                else:
                    table, found = _entries(target)
                    self._title(table, lines)
                    self._rows(table, found, lines)
        finally:
            self._write(lines.finish())

    def ignore(self, name: str) -> None:
        """See FileRun."""
        self.reporter.note(f"{name}: ignored, not a segment file by its name")

    def finish(self) -> Iterator[str]:
        """See FileRun: nothing."""
        return iter(())

    def _log(self, target: Target, lines: Lines) -> Iterator[None]:
        options = self._options
        self._title(options.table, lines)
        with target.open() as source:
            view_options = options.view
            if options.read_committed:
                view_options = replace(view_options, selection=self.read_committed(view_options.selection, target.path))
            transactions = None
            if options.shows_txn_state and source.size is not None:
                transactions = self.transactions.of(target.path)
            printer: Printer[TextRow, TextBytes] = RowPrinter(
                lines, options.table, transactions, self._decoding(target)
            )
            if options.secret is not None:
                printer = RedactingPrinter(printer, options.secret)
            view = LogView(
                source,
                printer,
                self._emit,
                view_options,
                budget=self._budget,
                reporter=self.reporter,
                on_finding=lambda finding: self._found(target.path, finding, lines),
            )

            def show(finding: Finding) -> None:
                self._write(lines.finding(finding))

            try:
                yield from view.steps()
            except DamageError as error:
                self.stop(error, source, show)
            else:
                if view.trailing:
                    message = f"{view.trailing} invalid bytes at the end"
                    self.stop(DamageError(Codes.TRAILING_BYTES, message, position=view.end), source, show)
                elif view.damaged and not view_options.resync:
                    self.is_foreign(source, show)
            finally:
                self.damaged |= view.damaged
                self.note_read(target.path, view)
                self.sum_up_undecoded(target.path)

    def _text_file(self, target: Target, lines: Lines) -> None:
        from kdump.rows.textfiles import text_file_rows  # not needed by a dump of segments

        table, found = text_file_rows(target.file_name, read_whole(target.path))
        self._title(table, lines)
        try:
            self._rows(table, found, lines)
        except DamageError as error:
            self._write(lines.finding(Finding(error.code, error.message, error.position or 0)))
            raise

    def _decoding(self, target: Target) -> Decoding | None:
        # Not by identity: options reach the workers of Spark as copies.
        if self._options.table != RECORD_DECODED:
            return None
        return Decoding(self._options.decoding.decoder(target.topic), self.note_undecoded)

    def _found(self, path: str, finding: Finding, lines: Lines) -> None:
        self.skip(path, finding)
        self._write(lines.finding(finding))

    def _rows(self, table: Table, found: Iterable[Row], lines: Lines) -> None:
        for row in found:
            first, end = self._budget.admit(1)
            if end > first:
                row_text = lines.line(table, row)
                # Only rows of records are long.
                self._write(row_text if isinstance(row_text, str) else "".join(row_text.pieces))

    def _title(self, table: Table, lines: Lines) -> None:
        """A title comes once, and again where another table begins."""
        if table is not self._titled:
            self._titled = table
            self._write(lines.title(table))

    def _write(self, text: str) -> None:
        if text:
            self._emit(text.encode("utf-8", "surrogateescape"))


def _entries(target: Target) -> tuple[Table, Iterator[Row]]:
    data = read_whole(target.path)
    if target.kind is Kind.SNAPSHOT:
        return PRODUCER, PRODUCER.rows(iter(parse_snapshot(data)))
    if target.kind is Kind.TXN_INDEX:
        return TXN_INDEX, TXN_INDEX.rows(iter(parse_txn_index(data)))
    if target.base_offset is None:
        raise KdumpError(Codes.NAME, "the file name holds no offset (text before its first dot)")
    base_offset = target.base_offset
    if target.kind is Kind.INDEX:
        offsets = used_entries(parse_offset_index(data, base_offset), base_offset)
        return INDEX, INDEX.rows(entry for _, entry in offsets)
    times = used_entries(parse_time_index(data, base_offset), base_offset)
    return TIME_INDEX, TIME_INDEX.rows(entry for _, entry in times)
