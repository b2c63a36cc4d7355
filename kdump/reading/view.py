"""One log on its way to a reader: walked, decoded, selected, and handed to a printer in pieces.

The view knows no output format. The run decides (``fast.policy``) whether batches are decoded as columns (``fast``) or
one by one (``format``). Both give the printer the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cached_property, partial
from typing import TYPE_CHECKING, Generic

from kdump.codes import Codes, DamageError, Finding
from kdump.fast import policy
from kdump.format import legacy
from kdump.format import record as v2
from kdump.format.batch import (
    HEADER_SIZE,
    MAGIC_OFFSET,
    MIN_ENTRY_LENGTH,
    BatchHeader,
    batch_crc,
    is_read_as_batch,
    parse_header,
)
from kdump.format.legacy import Message
from kdump.log.gaps import Gap
from kdump.log.source import Source
from kdump.log.walk import Chunk, Stop, Walk
from kdump.reading.printing import LONG, MOST_ROWS, AnyRecord, OffsetObserver, Printer, RowsT, RowT
from kdump.reading.reporter import Reporter
from kdump.reading.selection import RowBudget, Selection
from kdump.wire.compression import DEFAULT_LIMIT

if TYPE_CHECKING:
    from kdump.reading.columnar import ColumnarView
    from kdump.reading.joint import JointLog, JointLogs

_BATCHES_CHUNK = 1 << 20
RECORDS_CHUNK = 4 << 20


class DecodePath(Enum):
    """Which decoder a view uses. Both give the same rows."""

    AUTO = auto()
    """As the run decides."""
    SCALAR = auto()
    COLUMNAR = auto()


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """What is read, and how."""

    with_records: bool = False
    selection: Selection = field(default_factory=Selection)
    max_bytes: int | None = None
    """Read only this many bytes from the start."""
    max_decompressed_size: int = DEFAULT_LIMIT
    path: DecodePath = DecodePath.AUTO
    resync: bool = False
    """Go on after damage."""
    only_valid: bool = False
    """A batch or message with a wrong CRC is damage like any other. Otherwise it is shown with ``isValid`` false."""
    seek: bool = True
    """Find ranges by the index files, as brokers do. False: read the whole log."""
    unpacks_nested: bool = False
    """A message that is compressed inside a wrapper is unpacked, as Kafka 0.8 does. To later versions it is damage."""
    start: int = 0
    """Read only what follows this file position, where an entry begins."""


class LogView(Generic[RowT, RowsT]):
    """A pass over one log, or over the part of it that can hold what is selected.

    Args:
        source: the log.
        printer: the output format.
        emit: takes its rows.
        options: what is read.
        budget: how many rows are shown; the files of a run share it.
        observer: gets the offsets of printed records.
        on_first: is called with the first chunk, before its rows.
        reporter: takes how far the log is read, and how, where that differs from what was asked.
        on_finding: with ``resync``, takes the damage that was skipped, in its place among the rows.
        shown_rows: decides for the run whether rows are made as columns.
        joint: the logs that the run shows next.

    After ``run``: ``damaged`` (an invalid CRC was met), ``end`` of the last entry, ``trailing`` (bytes
    after it), ``bytes_read``, ``is_columnar``.
    """

    _walk: type[Walk] = Walk
    _smallest = MIN_ENTRY_LENGTH
    """The least that the length field of an entry may say."""

    def __init__(
        self,
        source: Source,
        printer: Printer[RowT, RowsT],
        emit: Callable[[RowsT], None],
        options: ViewOptions,
        *,
        budget: RowBudget | None = None,
        observer: OffsetObserver | None = None,
        on_first: Callable[[Chunk], None] | None = None,
        reporter: Reporter | None = None,
        on_finding: Callable[[Finding], None] | None = None,
        shown_rows: policy.ShownRows | None = None,
        joint: JointLogs[RowsT] | None = None,
    ) -> None:
        if source.first_offset is not None:
            options = replace(options, selection=options.selection.starting_at(source.first_offset))
        self._source = source
        self._printer = printer
        self._emit = emit
        self._options = options
        self._selection = options.selection
        self._selects = not options.selection.is_everything
        self._with_records = options.with_records
        self._budget = budget or RowBudget()
        self._shows_all = not self._selects and self._budget.is_unlimited
        self._observer = observer
        self._on_first = on_first
        self._reporter = reporter
        self._on_finding = on_finding or (lambda finding: None)
        self._shown_rows = shown_rows or policy.ShownRows()
        is_all = self._shows_all and options.max_bytes is None and not options.start
        self._joint = joint if is_all and self._with_records else None
        self._previous_offset = -1
        self._has_begun = False
        self.damaged = False
        self.trailing = 0
        self.end = 0
        self.bytes_read = 0
        self.is_columnar = False

    def run(self) -> None:
        """Emit all rows.

        Raises:
            DamageError: a part cannot be read or printed. Everything before it was emitted.
            KdumpError: the file cannot be read.
        """
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[None]:
        """Emit all rows, in a step for each piece of them. Raises as ``run``."""
        if self._joint is not None and (made := self._joint.made(self._source)) is not None:
            yield from self._show_joint(made)
            self.end = made.chunk.end
            return
        chunk_size = RECORDS_CHUNK if self._with_records else _BATCHES_CHUNK
        range_start, range_end = self._span()
        range_start = max(range_start, self._options.start)
        ends = [end for end in (range_end, self._options.max_bytes) if end is not None]
        limit = min(ends, default=None)
        if self._options.resync:
            yield from self._past_damage(self._items_past_damage(limit, range_start, chunk_size))
            return
        walk = self._walk(self._source, limit=limit, start=range_start, chunk_size=chunk_size)
        for chunk in walk.chunks():
            yield from self._show(chunk)
            if self._budget.is_spent:
                return
        self._end_walk(walk)
        self.trailing = 0 if ends else walk.end - walk.position

    def _end_walk(self, walk: Walk) -> None:
        """Raises DamageError where a walk ended at a length that no entry has."""
        self.end = walk.position
        if walk.stop is Stop.LENGTH_TOO_SMALL:
            raise DamageError(
                Codes.LENGTH_TOO_SMALL,
                f"record size {walk.bad_length} is smaller than the smallest possible record ({self._smallest})",
                position=walk.position,
            )

    def _items_past_damage(self, limit: int | None, start: int, chunk_size: int) -> Iterator[Chunk | Gap]:
        from kdump.log.resync import ResyncWalk

        return ResyncWalk(self._source, limit=limit, start=start, chunk_size=chunk_size).items()

    def _past_damage(self, items: Iterable[Chunk | Gap]) -> Iterator[None]:
        for item in items:
            if isinstance(item, Gap):
                self._found(item.finding)
                yield
                continue
            yield from self._show(item)
            if self._budget.is_spent:
                return

    def _show(self, chunk: Chunk) -> Iterator[None]:
        """Show a chunk."""
        columns = self._columns if self._has_columns(chunk) else None
        is_whole = chunk.position == 0 and chunk.end == self._source.size
        if columns is not None and self._joint is not None and is_whole:
            made = self._joint.make(self._source, chunk, columns.reader, columns.printer)
            if made is not None:
                yield from self._show_joint(made)
                return
        self._begin(chunk, is_columnar=columns is not None)
        if columns is None:
            yield from self._scalar(chunk, 0, len(chunk.starts))
        else:
            yield from columns.show(chunk)
        yield

    def _show_joint(self, made: JointLog[RowsT]) -> Iterator[None]:
        """Show a log whose rows are made."""
        self._begin(made.chunk, is_columnar=True)
        for rows, offsets in made.shown:
            self._emit(rows)
            yield
            if self._observer is not None and offsets.size:
                self._observer.see_column(offsets)

    def _begin(self, chunk: Chunk, *, is_columnar: bool) -> None:
        """The rows of a chunk come next."""
        if not self._has_begun:
            self._has_begun = True
            if self._on_first is not None:
                self._on_first(chunk)
        self.bytes_read += chunk.end - chunk.starts[0]
        self.is_columnar |= is_columnar

    def _found(self, finding: Finding) -> None:
        self.damaged = True
        if finding.position == 0:
            from kdump.log.filetypes import identify

            foreign = identify(self._source, holds_entries=None if finding.continue_at is None else True)
            if foreign is not None:
                finding = foreign.finding(self._source.path, finding.length)
        self._on_finding(finding)

    def _span(self) -> tuple[int, int | None]:
        if not self._selects or not self._options.seek:
            return 0, None
        from kdump.reading.seek import span_of  # not needed without a range

        return span_of(self._source, self._selection, self._reporter.note if self._reporter else lambda line: None)

    def _has_columns(self, chunk: Chunk) -> bool:
        """The rows of a chunk are made as columns, as the run decides."""
        path = self._options.path
        if path is DecodePath.AUTO:
            shown = self._shown_rows
            is_joint = self._joint is not None and self._joint.are_coming
            rows = len(chunk.starts)
            if self._with_records:
                rows = chunk.declared_records(policy.SHOWN_IN_CHUNK) if shown.is_decided else chunk.declared_records()
            if not shown.are_columns(rows, chunk.end - chunk.starts[0], self._source.size, is_joint=is_joint):
                return False
        return path is not DecodePath.SCALAR and self._columns is not None

    @cached_property
    def _columns(self) -> ColumnarView[RowsT] | None:
        """None: the format has no columns for what is asked."""
        printer = self._printer.columns()
        if printer is None:
            return None
        from kdump.fast.blocks import BlockReader
        from kdump.reading.columnar import ColumnarView

        limit, only_valid = self._options.max_decompressed_size, self._options.only_valid
        return ColumnarView(
            printer,
            self._selection,
            self._budget,
            self._emit,
            self._observer,
            with_records=self._with_records,
            scalar=self._scalar,
            on_damage=self._mark_damaged,
            reader=BlockReader(limit, with_records=self._with_records, only_valid=only_valid),
            limit=limit,
            only_valid=only_valid,
        )

    def _mark_damaged(self) -> None:
        self.damaged = True

    def _scalar(self, chunk: Chunk, first: int, last: int) -> Iterator[None]:
        """Show entries ``first`` to ``last`` (exclusive) one by one."""
        rows: list[RowT] = []
        data = chunk.data
        try:
            for start, end in chunk.entries(first, last):
                position = chunk.position + start
                try:
                    yield from self._show_entry(data, start, end, position, rows)
                except DamageError as error:
                    if not self._options.resync:
                        error.located(position=position)
                        raise
                    # The batch's framing holds: the part that does not decode is left out, and the next batch follows.
                    self._write(rows)
                    self._found(Finding(error.code, error.message, position))
                if not self._shows_all and self._budget.is_spent:
                    return
        finally:
            self._write(rows)

    def _write(self, rows: list[RowT]) -> None:
        if rows:
            for part in self._printer.joined(rows):
                self._emit(part)
            rows.clear()

    def _show_entry(self, data: memoryview, start: int, end: int, position: int, rows: list[RowT]) -> Iterable[None]:
        """Append the rows of the entry at ``data[start:end]``. DamageError where it cannot be read on."""
        if is_read_as_batch(data[start + MAGIC_OFFSET]):
            return self._batch(data, start, end, position, rows)
        return self._entry(data[start:end], position, rows)

    def _batch(self, data: memoryview, start: int, end: int, position: int, rows: list[RowT]) -> Iterable[None]:
        """Append the rows of the v2 batch at ``data[start:end]``."""
        if len(data) - start < HEADER_SIZE:
            raise DamageError(Codes.HEADER_CUT, "the file ends inside the batch header")
        # A batch shorter than its header is shown with the bytes after it.
        header = parse_header(data, start)
        if self._selects and not self._wants(header):
            return ()
        is_valid = end - start >= HEADER_SIZE and batch_crc(data, start, end) == header.crc
        self._judge(is_valid)
        if not self._with_records:
            if self._shows_all:
                # The fast way of most dumps: many batches, all shown.
                rows.append(self._printer.batch(header, position, is_valid))
            else:
                self._admit(partial(self._printer.batch, header, position, is_valid), rows)
            return ()
        before = self._printer.batch(header, position, is_valid)
        records = v2.read_records(header, data[start:end], self._options.max_decompressed_size)
        return self._records(
            before,
            (
                (record, partial(self._printer.record, header, position, is_valid, record), True)
                for record in records
                if not self._selects or self._selection.accepts_record(record)
            ),
            rows,
        )

    def _judge(self, is_valid: bool) -> None:
        if not is_valid:
            self.damaged = True
            if self._options.only_valid:
                raise DamageError(Codes.BATCH_CRC, "the CRC is wrong")

    def _admit(self, row: Callable[[], RowT], rows: list[RowT]) -> None:
        """Append the row of a batch, if the budget admits it. Printers expect to make only rows that are shown."""
        first, end = self._budget.admit(1)
        if end > first:
            rows.append(row())

    def _wants(self, header: BatchHeader) -> bool:
        if self._options.with_records:
            return self._selection.may_hold_records(header)
        return self._selection.accepts_batch(header)

    def _entry(self, data: memoryview, position: int, rows: list[RowT]) -> Iterable[None]:
        """Append the rows of a message of magic 0 or 1."""
        entry = legacy.parse_message(data)
        options = self._options
        previous, self._previous_offset = self._previous_offset, entry.offset
        if self._selects and not options.with_records and not self._selection.accepts_entry(entry, previous):
            return ()
        is_valid = entry.is_valid
        self._judge(is_valid)
        if not options.with_records:
            self._admit(partial(self._printer.entry, entry, position, is_valid), rows)
            return ()
        before = self._printer.entry(entry, position, is_valid)
        return self._records(before, self._legacy_records(entry, position), rows)

    def _legacy_records(self, entry: Message, position: int) -> Iterator[tuple[AnyRecord, Callable[[], RowT], bool]]:
        options = self._options
        read = legacy.unpacked_records if options.unpacks_nested else legacy.read_records
        for record in read(entry, options.max_decompressed_size):
            if not options.unpacks_nested:
                legacy.check_inner(record, entry)
            if not self._selects or self._selection.accepts_legacy_record(record, entry):
                is_valid = record.message.is_valid
                row = partial(self._printer.legacy_record, entry, position, is_valid, record)
                yield record, row, is_valid

    def _records(
        self, before: RowT, records: Iterable[tuple[AnyRecord, Callable[[], RowT], bool]], rows: list[RowT]
    ) -> Iterator[None]:
        """Append the rows of an entry's records, given as (record, row, own CRC right), and ``before`` in front."""
        is_begun = False
        if self._shows_all:
            # Shown also for an entry without records, or whose records cannot be read.
            if before:
                rows.append(before)
            is_begun = True
        if self._budget.is_spent:
            return
        for record, row, is_valid in records:
            # A record that ends the output, or that is left out as damage, does not count.
            if self._budget.is_skipping:
                self._printer.skip(record, row)
            else:
                made = row()
                if before and not is_begun:
                    rows.append(before)
                is_begun = True
                rows.append(made)
                if not is_valid:
                    self.damaged = True
                if self._observer is not None:
                    self._observer.see(record.offset)
                if len(rows) >= MOST_ROWS or _size(record) >= LONG:
                    self._write(rows)
                    yield
            self._budget.admit(1)
            if self._budget.is_spent:
                return


def _size(record: AnyRecord) -> int:
    """Bytes of its key and value."""
    if isinstance(record, v2.Record):
        return len(record.key or b"") + len(record.value or b"")
    return len(record.message.data)
