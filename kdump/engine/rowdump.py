"""``kdump dump`` with structured output: the files of a run as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kdump.codes import Codes, DamageError, KdumpError
from kdump.format.index import parse_offset_index, parse_time_index, parse_txn_index, used_entries
from kdump.format.snapshot import parse_snapshot
from kdump.kafka import rows
from kdump.kafka.dumplog.targets import Target
from kdump.log.names import Kind
from kdump.log.source import open_source, read_whole
from kdump.scan.run import FileRun
from kdump.scan.selection import RowBudget
from kdump.scan.view import Emit, LogView, ViewOptions
from kdump.tables import BATCH, INDEX, PRODUCER, TIME_INDEX, TXN_INDEX, Table
from kdump.writers.context import FileContext
from kdump.writers.printers import RowLines, RowPrinter, Syntax


@dataclass(frozen=True, slots=True)
class RowOptions:
    """What is shown and how it is written."""

    syntax: Syntax = "jsonl"
    table: Table = BATCH
    """Of logs: BATCH, RECORD or RECORD_METADATA."""
    fields: tuple[str, ...] | None = None
    view: ViewOptions = field(default_factory=ViewOptions)


class RowDump(FileRun):
    """A run over several files.

    Args:
        options: what is shown.
        emit: takes whole lines.
        show_error: takes what is wrong with a file.
        budget: how many rows are shown.
        note: takes what was read of each log.
    """

    def __init__(
        self,
        options: RowOptions,
        emit: Emit,
        show_error: Callable[[KdumpError], None],
        *,
        budget: RowBudget | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(show_error)
        self._options = options
        self._emit = emit
        self._budget = budget or RowBudget()
        self._note = note
        self._titled: Table | None = None

    def dump(self, target: Target) -> None:
        """Dump one file; whatever is wrong with it is one error and the run goes on."""
        if self._budget.is_spent:
            return
        lines = RowLines(self._options.syntax, self._options.fields, FileContext.of(target.path))
        with self.file(target.path):
            if target.kind in (Kind.LOG, Kind.CHECKPOINT):
                self._log(target, lines)
            else:
                table, found = _entries(target)
                self._title(table, lines)
                self._rows(table, found, lines)

    def _log(self, target: Target, lines: RowLines) -> None:
        options = self._options
        self._title(options.table, lines)
        with open_source(target.path) as source:
            view = LogView(
                source, RowPrinter(lines, options.table, None), self._emit, options.view, budget=self._budget
            )
            try:
                view.run()
            finally:
                self.damaged |= view.damaged
                if self._note is not None:
                    decoder = "columnar" if view.is_columnar else "scalar"
                    self._note(f"{target.path}: {view.bytes_read:,} bytes, {decoder} decoder")
            if view.trailing and options.view.max_bytes is None:
                raise DamageError(Codes.TRAILING_BYTES, f"{view.trailing} invalid bytes at the end", position=view.end)

    def _rows(self, table: Table, found: Iterable[rows.Row], lines: RowLines) -> None:
        for row in found:
            first, end = self._budget.admit(1)
            if end > first:
                self._emit(lines.line(table, row).encode())

    def _title(self, table: Table, lines: RowLines) -> None:
        """CSV begins with the column names, and again where another table begins."""
        if lines.syntax == "csv" and table is not self._titled:
            self._titled = table
            self._emit(lines.title(table).encode())


def _entries(target: Target) -> tuple[Table, Iterator[rows.Row]]:
    data = read_whole(target.path)
    if target.kind is Kind.SNAPSHOT:
        return PRODUCER, map(rows.producer_row, parse_snapshot(data))
    if target.kind is Kind.TXN_INDEX:
        return TXN_INDEX, map(rows.txn_index_row, parse_txn_index(data))
    if target.base_offset is None:
        raise KdumpError(Codes.NAME, "the file name holds no offset (text before its first dot)")
    base_offset = target.base_offset
    if target.kind is Kind.INDEX:
        offsets = used_entries(parse_offset_index(data, base_offset), base_offset)
        return INDEX, (rows.index_row(entry) for _, entry in offsets)
    times = used_entries(parse_time_index(data, base_offset), base_offset)
    return TIME_INDEX, (rows.time_index_row(entry) for _, entry in times)
