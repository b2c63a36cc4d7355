"""Rows as the output of a dump: JSON lines, CSV, tables for people, and ``--format``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kdump.codes import Codes, DamageError, Finding, KdumpError
from kdump.dump.output import DumpOutput, OutputMaker
from kdump.dump.targets import Target
from kdump.format.checkpoint import PARTITION_METADATA
from kdump.format.index import parse_offset_index, parse_time_index, parse_txn_index, used_entries
from kdump.format.snapshot import parse_snapshot
from kdump.log.context import FileContext
from kdump.log.names import Kind
from kdump.log.opening import read_whole
from kdump.reading.printing import TextBytes
from kdump.rows.columns import Row, Table
from kdump.rows.filetables import INDEX, PRODUCER, TIME_INDEX, TXN_INDEX, text_file_rows
from kdump.rows.logs import table_of
from kdump.rows.printers import Decoding, Lines, LinesOf, RowPrinter
from kdump.rows.tables import BATCH

if TYPE_CHECKING:
    from kdump.kafka.image.names import TopicNames
    from kdump.payloads.decoded import RecordDecoder, Undecoded
    from kdump.reading.outcomes import Outcomes


@dataclass(frozen=True, slots=True)
class RowOptions:
    """Which rows are shown, and how they are written."""

    lines: LinesOf
    table: Table = BATCH
    """Of logs: BATCH, RECORD, RECORD_DECODED or RECORD_METADATA."""
    fields: tuple[str, ...] | None = None
    """Columns that are shown; None: all."""
    names: TopicNames | None = None
    """For people: topics are shown with their names beside their ids."""

    @property
    def shows_txn_state(self) -> bool:
        """A column shows the outcome of transactions."""
        return "txnState" in (self.table.names if self.fields is None else self.fields)


def row_output(options: RowOptions) -> OutputMaker:
    """Makes rows."""
    return partial(RowOutput, options)


class RowOutput(DumpOutput[str, TextBytes]):
    """The rows of a run.

    Args:
        row_options: which rows are shown, and how they are written.
        run: as of DumpOutput.
    """

    def __init__(self, row_options: RowOptions, *run: Any) -> None:
        super().__init__(*run)
        self._row_options = row_options
        self._titled = None if self.is_first else row_options.table
        self._lines: Lines

    @property
    def shows_transactions(self) -> bool:
        """See DumpOutput."""
        return self._row_options.shows_txn_state

    def ignore(self, name: str) -> None:
        """See DumpOutput."""
        self.reporter.note(f"{name}: ignored, not a segment file by its name")

    def begin(self, target: Target) -> None:
        """See DumpOutput."""
        self._lines = self._row_options.lines(FileContext.of(target.path))

    def small_file(self, target: Target) -> None:
        """See DumpOutput."""
        table, found = _text_file(target) if target.kind is None else _entries(target)
        if self._row_options.names is not None and target.file_name == PARTITION_METADATA:
            found = _named(found, self._row_options.names, target.path)
        self._title(table)
        self._rows(table, found)

    def begin_log(self, target: Target) -> None:
        """See DumpOutput."""
        self._title(self._table(target))

    def printer(self, target: Target, outcomes: Outcomes, undecoded: Undecoded) -> RowPrinter:
        """See DumpOutput."""
        options = self._row_options
        decoding = None
        table = self._table(target)
        if table.is_decoded:
            decoding = Decoding(self._decoder(target), undecoded)
        shows_transactions = options.shows_txn_state and target.world is None
        return RowPrinter(self._lines, table, outcomes if shows_transactions else None, decoding)

    def _decoder(self, target: Target) -> RecordDecoder | None:
        choice, names = self.options.decoding, self._row_options.names
        decoder = choice.decoder(target.topic)
        if decoder is None or names is None or choice.internal_decoder(target.topic) is None:
            return decoder
        from kdump.kafka.image.names import NamingDecoder

        return NamingDecoder(decoder, names, target.path)

    def skipped(self, finding: Finding) -> None:
        """See DumpOutput."""
        self._write(self._lines.finding(finding))

    def shows_damage(self, target: Target, error: DamageError) -> bool:
        """See DumpOutput; the damage of a text file has a row too."""
        if target.kind is None:
            self.skipped(Finding(error.code, error.message, error.position or 0))
        return False

    def end(self, target: Target) -> None:
        """See DumpOutput."""
        self._write(self._lines.finish())

    def _table(self, target: Target) -> Table:
        """The table of a log."""
        return table_of(target.world, self._row_options.table)

    def _rows(self, table: Table, found: Iterable[Row]) -> None:
        for row in found:
            first, end = self.budget.admit(1)
            if end > first:
                row_text = self._lines.line(table, row)
                # Only rows of records are long.
                self._write(row_text if isinstance(row_text, str) else "".join(row_text.pieces))

    def _title(self, table: Table) -> None:
        """The title of a table, once, and again where another table begins."""
        if table is not self._titled:
            self._titled = table
            self._write(self._lines.title(table))

    def _write(self, text: str) -> None:
        if text:
            self.emit(text.encode("utf-8", "surrogateescape"))


def _text_file(target: Target) -> tuple[Table, Iterator[Row]]:
    return text_file_rows(target.file_name, read_whole(target.path))


def _named(properties: Iterable[Row], names: TopicNames, path: str) -> Iterator[Row]:
    """The properties of a partition.metadata, the id with the topic's name."""
    for row in properties:
        is_id = row["name"] == "topic_id"
        yield {**row, "value": names.text(row["value"], path)} if is_id else row


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
