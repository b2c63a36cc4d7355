"""Counts the records of an export whose transactions are not committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic

from kdump.format.batch import CONTROL, TRANSACTIONAL, BatchHeader
from kdump.format.legacy import LegacyRecord, Message
from kdump.format.record import Record
from kdump.reading.outcomes import ABORTED, OPEN, STATES, Outcomes
from kdump.reading.printing import AnyRecord, BatchRun, BlockPrinter, Printer, RowsT, RowT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kdump.fast.blocks import BatchBlock

_UNDECIDED = None
"""The outcome of a transaction that cannot be followed, in a stream."""


class OutcomeCounts:
    """Counts records by the outcome of their transaction.

    Args:
        outcomes: of the log's transactions; None: they cannot be followed.
    """

    def __init__(self, outcomes: Outcomes | None) -> None:
        self._outcomes = outcomes
        self._records: Counter[str | None] = Counter()

    def see(self, header: BatchHeader) -> None:
        """Count a record of a batch."""
        if header.is_transactional and not header.is_control:
            self._records[self._outcomes.state(header) if self._outcomes else _UNDECIDED] += 1

    def see_block(self, block: BatchBlock, is_shown: NDArray[np.bool_]) -> None:
        """Count all records of some batches of a block; ``is_shown``: shape (batches,)."""
        import numpy as np

        assert block.records is not None
        is_data = is_shown & (block.headers["attributes"] & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL)
        if not is_data.any():
            return
        headers, counts = block.headers[is_data], block.records.row_count[is_data]
        if self._outcomes is None:
            self._records[_UNDECIDED] += int(counts.sum())
            return
        by_state = np.bincount(self._outcomes.column(headers), counts, len(STATES))
        for state, count in zip(STATES, by_state.astype(int).tolist(), strict=True):
            self._records[state] += count

    def notes(self) -> Iterator[str]:
        """A line about records that readers of committed records do not get, if there are some."""
        found = [
            f"{count:,} {'record' if count == 1 else 'records'} of {what}"
            for state, what in (
                (ABORTED, "aborted transactions"),
                (OPEN, "transactions without an end"),
                (_UNDECIDED, "transactions that cannot be followed in a stream"),
            )
            if (count := self._records[state])
        ]
        if found:
            hint = "" if self._outcomes is None else "; --isolation read_committed leaves them out"
            yield f"{' and '.join(found)} in the export (see txnState){hint}"


class CountedPrinter(Generic[RowT, RowsT]):
    """A printer whose records are counted by outcome."""

    def __init__(self, printer: Printer[RowT, RowsT], counts: OutcomeCounts) -> None:
        self._printer = printer
        self._counts = counts

    def batch(self, header: BatchHeader, position: int, is_valid: bool) -> RowT:
        """See Printer."""
        return self._printer.batch(header, position, is_valid)

    def record(self, header: BatchHeader, position: int, is_valid: bool, record: Record) -> RowT:
        """See Printer."""
        row = self._printer.record(header, position, is_valid, record)
        self._counts.see(header)
        return row

    def entry(self, entry: Message, position: int, is_valid: bool) -> RowT:
        """See Printer."""
        return self._printer.entry(entry, position, is_valid)

    def legacy_record(self, entry: Message, position: int, is_valid: bool, record: LegacyRecord) -> RowT:
        """See Printer."""
        return self._printer.legacy_record(entry, position, is_valid, record)

    def skip(self, record: AnyRecord, row: Callable[[], RowT]) -> None:
        """See Printer."""
        self._printer.skip(record, row)

    def joined(self, rows: list[RowT]) -> Iterator[RowsT]:
        """See Printer."""
        return self._printer.joined(rows)

    def columns(self) -> BlockPrinter[RowsT] | None:
        """See Printer."""
        columns = self._printer.columns()
        return None if columns is None else _CountedColumns(columns, self._counts)


class _CountedColumns(Generic[RowsT]):
    def __init__(self, columns: BlockPrinter[RowsT], counts: OutcomeCounts) -> None:
        self._columns = columns
        self._counts = counts

    def batches(self, block: BatchBlock) -> RowsT:
        """See BlockPrinter."""
        return self._columns.batches(block)

    def leaves(self, block: BatchBlock) -> NDArray[np.bool_] | None:
        """See BlockPrinter."""
        return self._columns.leaves(block)

    def records(self, block: BatchBlock) -> Iterator[BatchRun[RowsT]]:
        """See BlockPrinter."""
        import numpy as np

        # Records that are printed one by one are counted there. A large batch comes in several runs.
        is_shown = np.zeros(block.headers.size, np.bool_)
        for run in self._columns.records(block):
            is_shown[run.first : run.last] = run.rows is not None
            yield run
        self._counts.see_block(block, is_shown)
