"""What a view hands its rows to: an output format, and who watches the offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kdump.format.batch import BatchHeader
from kdump.format.legacy import LegacyRecord, Message
from kdump.format.record import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kdump.fast.blocks import BatchBlock

Emit = Callable[[bytes | memoryview], None]
"""Takes whole rows, ready to be written."""


@dataclass(frozen=True, slots=True)
class Run:
    """Batches ``first`` to ``last`` (exclusive) of a block and what they print; None: print them one by one."""

    first: int
    last: int
    text: memoryview | None


class BlockPrinter(Protocol):
    """Prints batches as columns."""

    def batches(self, block: BatchBlock) -> memoryview:
        """A row a batch."""

    def records(self, block: BatchBlock) -> Iterator[Run]:
        """The records of all batches, with whatever comes before a batch's records, in order.

        Every batch is in a run. Where offsets are observed it is in one only; else a large one may be in several.
        """


class Printer(Protocol):
    """An output format; every method gives whole rows. DamageError where the format cannot go on.

    Bytes that are no UTF-8 go through text as surrogates (``surrogateescape``).
    """

    def batch(self, header: BatchHeader, position: int, is_valid: bool) -> str:
        """A v2 batch; in a view of records what comes before its records."""

    def record(self, header: BatchHeader, position: int, is_valid: bool, record: Record) -> str:
        """A record of a v2 batch."""

    def entry(self, entry: Message, position: int, is_valid: bool) -> str:
        """A legacy entry; in a view of records what comes before its records."""

    def legacy_record(self, entry: Message, position: int, is_valid: bool, record: LegacyRecord) -> str:
        """A record of a legacy entry; ``is_valid`` is its own CRC's."""

    def columns(self) -> BlockPrinter | None:
        """The same format for columns; None when it has none for what is asked."""


class OffsetObserver(Protocol):
    """Is shown the offset of every record that is printed."""

    def see(self, offset: int) -> None:
        """The next one."""

    def see_column(self, offsets: NDArray[np.int64]) -> None:
        """The next ones; shape (rows,)."""
