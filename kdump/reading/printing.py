"""What a view gives its rows to: an output format, and an observer of the offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar

from kdump.format.batch import BatchHeader
from kdump.format.legacy import LegacyRecord, Message
from kdump.format.record import Headers, ManyHeaders, Record
from kdump.wire.utf8 import decode_utf8, pieces

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

LONG: Final = 1 << 15
"""Bytes of a key or value from which on a row is made in pieces."""
MOST_ROWS: Final = 256
"""Rows made one by one that are emitted together: some megabytes. Long rows are emitted at once."""
_PIECE: Final = 1 << 18
_MOST_PIECES: Final = 1 << 14
"""Characters, and pieces of a long row, that are emitted together."""


@dataclass(frozen=True, slots=True)
class LongRow:
    """A row, or a part of one, that is too long to be made at once: its text in pieces, which can be read once."""

    pieces: Iterable[str]


TextRow: TypeAlias = str | LongRow
"""What a printer of text makes of one batch or record, or of a part of it."""


def whole_row(*parts: TextRow) -> TextRow:
    """The row of these parts. It is a long one where one of them is."""
    try:
        return "".join(parts)  # type: ignore[arg-type]  # a question for each part would take longer
    except TypeError:
        return LongRow(chain.from_iterable(map(row_pieces, parts)))


def row_pieces(row: TextRow) -> Iterable[str]:
    """The text of a row in pieces."""
    return (row,) if isinstance(row, str) else row.pieces


def utf8_part(data: bytes, decode: Callable[[bytes], str] = decode_utf8) -> TextRow:
    """UTF-8 as the part of a row. ``decode``: of each piece."""
    return decode(data) if len(data) < LONG else LongRow(map(decode, pieces(data)))


def header_keys(headers: Headers) -> TextRow:
    """The keys of headers, with commas between them."""
    if isinstance(headers, ManyHeaders):
        return LongRow(f"{',' if number else ''}{decode_utf8(key)}" for number, (key, _) in enumerate(headers))
    return ",".join([decode_utf8(key) for key, _ in headers])


def is_long(record: AnyRecord) -> bool:
    """Whether the row of a record is made in pieces."""
    if isinstance(record, LegacyRecord):
        return len(record.message.data) >= LONG
    key, value = record.key, record.value
    return (
        (value is not None and len(value) >= LONG)
        or (key is not None and len(key) >= LONG)
        or isinstance(record.headers, ManyHeaders)
    )


@dataclass(frozen=True, slots=True)
class BatchRun(Generic[RowsT]):
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

    def joined(self, rows: list[TextRow]) -> Iterator[TextBytes]:
        """See Printer."""
        short: list[str] = []
        for row in rows:
            if isinstance(row, str):
                short.append(row)
                continue
            yield _encoded(short)
            short.clear()
            yield from map(_encoded, _gathered(row.pieces))
        if short:
            yield _encoded(short)


def _encoded(texts: list[str]) -> bytes:
    return "".join(texts).encode("utf-8", "surrogateescape")


def _gathered(pieces: Iterable[str]) -> Iterator[list[str]]:
    """Small pieces, joined."""
    found: list[str] = []
    size = 0
    for piece in pieces:
        found.append(piece)
        size += len(piece)
        if size >= _PIECE or len(found) >= _MOST_PIECES:
            yield found
            found, size = [], 0
    if found:
        yield found


class OffsetObserver(Protocol):
    """Gets the offset of every record that is printed."""

    def see(self, offset: int) -> None:
        """The next offset."""

    def see_column(self, offsets: NDArray[np.int64]) -> None:
        """The next offsets; shape (rows,)."""
