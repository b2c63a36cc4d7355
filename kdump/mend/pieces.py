"""What a mended log consists of: the interface between whoever decides (salvage, the broker's way) and whoever writes.

A mended log is a list of pieces in file order; each says where its bytes come from. Nothing else is needed to write
it, to list what was lost, and to prove afterwards what came from where.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Origin(Enum):
    """Where the bytes of a piece come from."""

    KEPT = "kept"
    """The log itself, unchanged."""
    RESTORED = "restored"
    """The log itself; a header field that no CRC covers is set back."""
    CORRECTED = "corrected"
    """The log itself; a flipped bit is set back."""
    REPLICA = "replica"
    """Another copy of the partition."""
    HELD = "held"
    """Made: an empty batch that holds offsets."""


class TxnOutcome(Enum):
    """What is known of the end of a transaction that touches a hole."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    INFERRED_COMMITTED = "inferred-committed"
    INFERRED_ABORTED = "inferred-aborted"
    INFERRED_ENDED = "inferred-ended"
    """A later epoch or transaction of its producer shows that it ended, not how."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of whole batches of the mended log.

    Attributes:
        origin: where the bytes come from.
        path: the file that they are copied from; None: they are ``data``.
        position: in that file, bytes.
        length: bytes of the piece.
        patches: (offset within the piece, new bytes): restored fields, corrected bits.
        data: the bytes of a piece without a file, else empty.
        first_offset: the first offset that it covers.
        last_offset: the last one, inclusive.
        batches: how many it holds.
        records: how many they count, 0 for held offsets.
    """

    origin: Origin
    path: str | None
    position: int
    length: int
    patches: tuple[tuple[int, bytes], ...]
    data: bytes
    first_offset: int
    last_offset: int
    batches: int
    records: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """An extent of the original log that is not in the result.

    ``first_offset`` to ``last_offset`` (inclusive, None: not known), ``batches`` and ``records`` are the good data
    lost with it; 0 where it is only rubbish.
    """

    position: int
    length: int
    first_offset: int | None
    last_offset: int | None
    batches: int
    records: int
    reason: str


@dataclass(frozen=True, slots=True)
class Restored:
    """A header field set back, or a bit flipped back; ``position`` is the field's in the original log."""

    field: str
    position: int
    old: int
    new: int
    reason: str


@dataclass(frozen=True, slots=True)
class TouchedTransaction:
    """A transaction of which a part may lie in a hole."""

    producer_id: int
    first_offset: int
    outcome: TxnOutcome


@dataclass(frozen=True, slots=True)
class MendedLog:
    """What becomes of one log. ``base_offset`` names the file that it is written to."""

    base_offset: int
    pieces: tuple[Piece, ...]
    dropped: tuple[Dropped, ...] = ()
    restored: tuple[Restored, ...] = ()
    transactions: tuple[TouchedTransaction, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the mended log."""
        return sum(piece.length for piece in self.pieces)
