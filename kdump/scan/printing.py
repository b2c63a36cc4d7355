"""What a view hands its rows to: an output format, and who watches the offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

from kdump.format.batch import BatchHeader
from kdump.format.legacy import LegacyRecord, Message
from kdump.format.record import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kdump.fast.blocks import BatchBlock

RowT = TypeVar("RowT")
"""What a printer makes of one batch or record: text, or values by column."""
RowsT = TypeVar("RowsT")
"""What it makes of many."""

TextBytes: TypeAlias = "bytes | memoryview"
"""Whole rows of text, ready to be written."""
Emit = Callable[[TextBytes], None]
AnyRecord: TypeAlias = Record | LegacyRecord


@dataclass(frozen=True, slots=True)
class Run(Generic[RowsT]):
    """Batches ``first`` to ``last`` (exclusive) of a block and what they print; None: print them one by one."""

    first: int
    last: int
    rows: RowsT | None


class BlockPrinter(Protocol[RowsT]):
    """Prints batches as columns."""

    def batches(self, block: BatchBlock) -> RowsT:
        """A row a batch."""

    def leaves(self, block: BatchBlock) -> NDArray[np.bool_] | None:
        """Batches whose records it leaves to be printed one by one, besides control batches and what ``fast`` refuses.

        Shape (batches,); None: there are none.
        """

    def records(self, block: BatchBlock) -> Iterator[Run[RowsT]]:
        """The records of all batches, with whatever comes before a batch's records, in order.

        Every batch is in a run; a large one may be in several, one after the other.
        """


class Printer(Protocol[RowT, RowsT]):
    """An output format; every method gives whole rows. DamageError where the format cannot go on.

    What is false (an empty text) is no row.
    """

    def batch(self, header: BatchHeader, position: int, is_valid: bool) -> RowT:
        """A v2 batch; in a view of records what comes before its records."""

    def record(self, header: BatchHeader, position: int, is_valid: bool, record: Record) -> RowT:
        """A record of a v2 batch."""

    def entry(self, entry: Message, position: int, is_valid: bool) -> RowT:
        """A legacy entry; in a view of records what comes before its records."""

    def legacy_record(self, entry: Message, position: int, is_valid: bool, record: LegacyRecord) -> RowT:
        """A record of a legacy entry; ``is_valid`` is its own CRC's."""

    def skip(self, record: AnyRecord, row: Callable[[], RowT]) -> None:
        """A record that is passed over, and what would make its row. DamageError as that raises it."""

    def join(self, rows: list[RowT]) -> RowsT:
        """Rows made one by one, in order, as they are emitted."""

    def columns(self) -> BlockPrinter[RowsT] | None:
        """The same format for columns; None when it has none for what is asked."""


class TextRows:
    """A printer's rows are text; bytes that are no UTF-8 go through it as surrogates (``surrogateescape``)."""

    def join(self, rows: list[str]) -> TextBytes:
        """See Printer."""
        return "".join(rows).encode("utf-8", "surrogateescape")


class OffsetObserver(Protocol):
    """Is shown the offset of every record that is printed."""

    def see(self, offset: int) -> None:
        """The next one."""

    def see_column(self, offsets: NDArray[np.int64]) -> None:
        """The next ones; shape (rows,)."""
