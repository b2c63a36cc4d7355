"""What a view gives its rows to: an output format, and an observer of the offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from kdump.format.batch import BatchHeader
from kdump.format.legacy import LegacyRecord, Message
from kdump.format.record import Headers, Record
from kdump.wire.utf8 import decode_utf8

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kdump.fast.blocks import BatchBlock

RowT = TypeVar("RowT")
"""What a printer makes of one batch or record: text, or values by column."""
RowsT = TypeVar("RowsT")
"""What a printer makes of many batches or records."""

TextBytes: TypeAlias = "bytes | memoryview"
"""Whole rows of text, ready to be written."""
Emit = Callable[[TextBytes], None]
AnyRecord: TypeAlias = Record | LegacyRecord

WRONG_CRC: Final = "the CRC of the batch is wrong"
"""``problem`` of records that are shown although the CRC of their batch is wrong."""
WRONG_MESSAGE_CRC: Final = "the CRC of the message is wrong"
"""The same of a message of magic 0 or 1."""
MOST_ROWS: Final = 256
"""Rows made one by one that are emitted together."""
LONG: Final = 1 << 16
"""Bytes of a record from which on its row is emitted at once."""


def header_keys(headers: Headers) -> str:
    """The keys of headers, with commas between them."""
    return ",".join([decode_utf8(key) for key, _ in headers])


class BatchRun(NamedTuple, Generic[RowsT]):
    """Batches ``first`` to ``last`` (exclusive) of a block, and their rows. None: they must be printed one by one."""

    first: int
    last: int
    rows: RowsT | None


class BlockPrinter(Protocol[RowsT]):
    """Prints batches as columns."""

    def batches(self, block: BatchBlock) -> RowsT:
        """A row a batch."""

    def leaves(self, block: BatchBlock) -> NDArray[np.bool_] | None:
        """Batches whose records must be printed one by one, besides control batches and what ``fast`` refuses.

        Shape (batches,); None: there are none.
        """

    def records(self, block: BatchBlock) -> Iterator[BatchRun[RowsT]]:
        """The records of all batches, with whatever comes before a batch's records, in order.

        Every batch is in a run; a large one may be in several, one after the other.
        """


class Printer(Protocol[RowT, RowsT]):
    """An output format. Every method gives whole rows. DamageError where the format cannot go on.

    A false value (an empty text) is no row.
    """

    def batch(self, header: BatchHeader, position: int, is_valid: bool) -> RowT:
        """A v2 batch. In a view of records: what comes before its records."""

    def record(self, header: BatchHeader, position: int, is_valid: bool, record: Record) -> RowT:
        """A record of a v2 batch."""

    def entry(self, entry: Message, position: int, is_valid: bool) -> RowT:
        """A legacy entry. In a view of records: what comes before its records."""

    def legacy_record(self, entry: Message, position: int, is_valid: bool, record: LegacyRecord) -> RowT:
        """A record of a legacy entry. ``is_valid``: its own CRC is right."""

    def skip(self, record: AnyRecord, row: Callable[[], RowT]) -> None:
        """A record that is left out, and a function that would make its row. DamageError as that raises it."""

    def joined(self, rows: list[RowT]) -> Iterator[RowsT]:
        """Rows made one by one, in order, joined for output."""

    def columns(self) -> BlockPrinter[RowsT] | None:
        """The columnar form of the format; None where it has none for what is asked."""


class TextRows:
    """The rows of a printer are text. Bytes that are no UTF-8 pass as surrogates (``surrogateescape``)."""

    def joined(self, rows: list[str]) -> Iterator[TextBytes]:
        """See Printer."""
        yield "".join(rows).encode("utf-8", "surrogateescape")


class OffsetObserver(Protocol):
    """Gets the offset of every record that is printed."""

    def see(self, offset: int) -> None:
        """The next offset."""

    def see_column(self, offsets: NDArray[np.int64]) -> None:
        """The next offsets; shape (rows,)."""
