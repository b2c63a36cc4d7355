"""The columnar path of a view: blocks of batches, selected by masks, printed as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from kdump.codes import DamageError
from kdump.fast.blocks import BatchBlock, BlockReader, EntryRange
from kdump.fast.headers import native_column
from kdump.fast.legacymessages import message_blocks
from kdump.fast.records import RecordColumns, SlicedRecords
from kdump.fast.recordvalues import record_offsets
from kdump.format.batch import CONTROL, parse_header
from kdump.format.record import batch_body, most_headers
from kdump.log.resync import CheckedChunk
from kdump.log.walk import Chunk
from kdump.reading import masks
from kdump.reading.printing import BlockPrinter, OffsetObserver, RowsT
from kdump.reading.selection import RowBudget, Selection


@dataclass(frozen=True, slots=True)
class ColumnarView(Generic[RowsT]):
    """Shows chunks. What ``fast`` refuses goes to ``scalar``, in its place.

    ``scalar`` shows entries first to last (exclusive) of a chunk one by one. ``on_damage`` is called for a batch with a
    wrong CRC. ``limit``, ``only_valid``: as of BlockReader.
    """

    printer: BlockPrinter[RowsT]
    selection: Selection
    budget: RowBudget
    emit: Callable[[RowsT], None]
    observer: OffsetObserver | None
    with_records: bool
    scalar: Callable[[Chunk, int, int], Iterator[None]]
    on_damage: Callable[[], None]
    reader: BlockReader
    limit: int
    only_valid: bool

    def show(self, chunk: Chunk) -> Iterator[None]:
        """Show all entries of a chunk, in a step for each piece; DamageError as the scalar path raises it."""
        bounds = [*chunk.starts, chunk.end]
        wanted = None if self.selection.is_everything else self._wanted
        damaged = chunk.damaged if isinstance(chunk, CheckedChunk) else None
        for part in self._parts(chunk, self.reader.read(chunk.data, bounds, chunk.position, wanted, damaged)):
            if isinstance(part, EntryRange):
                yield from self.scalar(chunk, part.first, part.last)
            elif part.records is None:
                self._show_batches(part)
            elif self.budget.is_unlimited:
                yield from self._show_records(chunk, self._selected(part, part.records))
            else:
                yield from self._show_within_budget(chunk, part, part.records)
            if self.budget.is_spent:
                return

    def _parts(self, chunk: Chunk, parts: Iterator[BatchBlock | EntryRange]) -> Iterator[BatchBlock | EntryRange]:
        """The parts with messages of magic 0 and 1 as blocks."""
        for part in parts:
            # Which messages overlap a range depends on the entry before each.
            if isinstance(part, EntryRange) and (self.with_records or self.selection.is_everything):
                bounds = np.array(chunk.bounds(part.first, part.last), np.int64)
                yield from message_blocks(
                    chunk.data,
                    bounds,
                    part.first,
                    chunk.position,
                    self.limit,
                    with_records=self.with_records,
                    only_valid=self.only_valid,
                )
            elif isinstance(part, BatchBlock) and part.records is not None and not part.records.accepted.all():
                yield from self._with_slices(chunk, part, part.records)
            else:
                yield part

    def _with_slices(self, chunk: Chunk, block: BatchBlock, records: RecordColumns) -> Iterator[BatchBlock]:
        """A block in which batches too large for it come in blocks of their own, some thousand records at a time."""
        numbers = np.arange(block.headers.size)
        first = 0
        for number in np.flatnonzero(~records.accepted).tolist():
            one = block.select(numbers == number)
            # Damage is told after all that comes before it: a batch with damage goes the scalar path from its start.
            slices = self._slices(chunk, one)
            if slices is None or not all(map(self._is_shown, slices)):
                continue
            if first < number:
                yield block.select((first <= numbers) & (numbers < number))
            yield from slices
            first = number + 1
        if first < numbers.size:
            yield block.select(first <= numbers) if first else block

    def _slices(self, chunk: Chunk, block: BatchBlock) -> _Slices | None:
        """The one batch of a block in slices; None: it must be read record by record."""
        start, end = chunk.entry(int(block.numbers[0]))
        header = parse_header(chunk.data, start)
        try:
            body = np.frombuffer(batch_body(header, chunk.data[start:end], self.limit), np.uint8)
        except DamageError:
            return None
        if header.record_count <= 0 or (self.only_valid and not block.is_valid[0]):
            return None
        records = SlicedRecords(body, 0, body.size, header.record_count, most_headers(self.limit))
        return _Slices(replace(block, arena=body), records)

    def _is_shown(self, block: BatchBlock) -> bool:
        """Nothing of the block goes the scalar path."""
        left = self.printer.leaves(block)
        is_accepted = block.records is not None and not _left_to_scalar(block, block.records).any()
        return is_accepted and (left is None or not left.any())

    def _wanted(self, headers: NDArray[np.void]) -> NDArray[np.bool_]:
        if self.with_records:
            return masks.may_hold_records(headers, self.selection)
        return masks.accepts_batches(headers, self.selection)

    def _show_batches(self, block: BatchBlock) -> None:
        first, end = self.budget.admit(block.headers.size)
        self._note_passed(block)
        if end - first < block.headers.size:
            shown = np.zeros(block.headers.size, np.bool_)
            shown[first:end] = True
            block = block.select(shown)
        if block.headers.size:
            self._note(block.is_valid)
            self.emit(self.printer.batches(block))

    def _selected(self, block: BatchBlock, records: RecordColumns) -> BatchBlock:
        """The block without records that are not selected, and without batches that have none left."""
        if self.selection.is_everything:
            return block
        self._note_passed(block)
        rows = masks.accepts_records(block, records, self.selection)
        has_rows = np.bincount(records.batch[rows], minlength=block.headers.size) > 0
        return block.select(has_rows | _left_to_scalar(block, records), rows)

    def _show_records(self, chunk: Chunk, block: BatchBlock) -> Iterator[None]:
        records = block.records
        if records is None or not block.headers.size:
            return
        offsets = record_offsets(block.headers, records) if self.observer else None
        observed = 0
        for run in self.printer.records(block):
            # A large batch is in several runs.
            first, observed = max(run.first, observed), run.last
            if run.rows is None:
                for number in block.numbers[run.first : run.last].tolist():
                    yield from self.scalar(chunk, number, number + 1)
                continue
            self._note(block.is_valid[run.first : run.last])
            self.emit(run.rows)
            yield
            if self.observer is not None and offsets is not None and first < run.last:
                first_row = records.first_row[first]
                self.observer.see_column(offsets[first_row : first_row + records.row_count[first : run.last].sum()])

    def _show_within_budget(self, chunk: Chunk, block: BatchBlock, records: RecordColumns) -> Iterator[None]:
        """Show a block where rows are counted, also those that the scalar path shows in between."""
        is_scalar = _left_to_scalar(block, records)
        left = self.printer.leaves(block)
        if left is not None:
            is_scalar |= left
        cuts = np.flatnonzero(np.diff(is_scalar, prepend=not is_scalar[0], append=not is_scalar[-1])).tolist()
        for first, last in pairwise(cuts):
            if is_scalar[first]:
                for number in block.numbers[first:last].tolist():
                    yield from self.scalar(chunk, number, number + 1)
            else:
                part = np.zeros(is_scalar.size, np.bool_)
                part[first:last] = True
                yield from self._show_counted(chunk, block.select(part))
            if self.budget.is_spent:
                return

    def _show_counted(self, chunk: Chunk, block: BatchBlock) -> Iterator[None]:
        records = block.records
        if records is None:
            return
        chosen = np.flatnonzero(masks.accepts_records(block, records, self.selection))
        first, end = self.budget.admit(chosen.size)
        self._note_passed(block)
        rows = np.zeros(records.batch.size, np.bool_)
        rows[chosen[first:end]] = True
        has_rows = np.bincount(records.batch[rows], minlength=block.headers.size) > 0
        yield from self._show_records(chunk, block.select(has_rows, rows))

    def _note_passed(self, block: BatchBlock) -> None:
        """Count what was looked at as the scalar path does, whether it is shown or not."""
        if not self.budget.is_spent:
            self._note(block.is_valid)

    def _note(self, is_valid: NDArray[np.bool_]) -> None:
        if not is_valid.all():
            self.on_damage()


@dataclass(frozen=True, slots=True)
class _Slices:
    """A block of one large batch as blocks of some of its records. Where the batch is damaged, one is refused."""

    block: BatchBlock
    records: SlicedRecords

    def __iter__(self) -> Iterator[BatchBlock]:
        return (replace(self.block, records=columns) for _, columns in self.records)


def _left_to_scalar(block: BatchBlock, records: RecordColumns) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = ~records.accepted
    mask |= native_column(block.headers, "attributes") & CONTROL != 0
    return mask
