"""What a repaired log consists of. Salvage decides it, and the writers need nothing else.

A repaired log is a list of pieces in file order. Each says where its bytes come from. So the log can be written, what
was lost can be listed, and what came from where can be proved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import groupby, pairwise
from typing import NamedTuple

from kdump.kafka.transactionends import EndingOf, not_at_hand
from kdump.log.content import Content, ContentPiece


class PieceOrigin(Enum):
    """Where the bytes of a piece come from."""

    KEPT = "kept"
    """The log itself, unchanged."""
    MOVED = "moved"
    """The log itself, at another position: batches that were out of order."""
    RESTORED = "restored"
    """The log itself; a header field that no CRC covers is set back."""
    CORRECTED = "corrected"
    """The log itself; a flipped bit is set back."""
    REPLICA = "replica"
    """Another copy of the partition."""
    HELD = "held"
    """Made: empty batches that hold offsets."""
    MARKER = "marker"
    """Made: a marker that ends a transaction."""


class TxnOutcome(Enum):
    """What is known of the end of a transaction that touches a gap."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    """The transaction goes on after the gap, and no marker has ended it yet."""
    INFERRED_COMMITTED = "inferred-committed"
    """The next marker that is left commits; its own may be lost, and the next one that of a later transaction."""
    INFERRED_ABORTED = "inferred-aborted"
    """The next marker that is left aborts; its own may be lost, and the next one that of a later transaction."""
    INFERRED_ENDED = "inferred-ended"
    """Its own marker is lost: a later epoch or transaction of its producer shows that it ended, not how."""
    INFERRED_OPEN = "inferred-open"
    """Its producer goes on after the gap in the same epoch, perhaps in a later transaction; no marker is left."""
    UNKNOWN = "unknown"

    @property
    def is_undecided(self) -> bool:
        """Nothing proves what became of its records: a TxnPolicy decides."""
        return self not in (TxnOutcome.COMMITTED, TxnOutcome.ABORTED, TxnOutcome.OPEN)


class TxnPolicy(Enum):
    """What is done about transactions whose end is undecided."""

    ABORT = "abort"
    """An ABORT marker ends them: one made in the gap, or the next one of the producer."""
    COMMIT = "commit"
    """A COMMIT marker ends them: one made in the gap, or the next one of the producer."""
    DROP = "drop"
    """Their batches are dropped."""
    LEAVE = "leave"
    """They stay as they are: readers with read_committed take the next marker of the producer for theirs, or wait."""


@dataclass(frozen=True, slots=True)
class SalvageOptions:
    """How a log is salvaged.

    ``deep``: drop batches whose CRC holds and whose records do not decode, too. ``hold_offsets``: put empty batches
    over what is lost. ``correct``: flip single bits back. ``transactions``: what is done about those whose end is
    undecided. ``ending``: what their coordinators would do, who are asked first; None: they are not. ``replicas``:
    directories or logs of other copies of the partition, which fill gaps.
    """

    deep: bool = True
    hold_offsets: bool = True
    correct: bool = False
    transactions: TxnPolicy = TxnPolicy.LEAVE
    ending: EndingOf | None = not_at_hand
    replicas: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Whole batches of the repaired log that come from one place.

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

    origin: PieceOrigin
    path: str | None
    position: int
    length: int
    patches: tuple[tuple[int, bytes], ...]
    data: bytes
    first_offset: int
    last_offset: int
    batches: int
    records: int

    def contents(self) -> Iterator[ContentPiece]:
        """Its bytes: parts of the file, and between them the patches. Of patches of one byte the last one counts."""
        if self.path is None:
            yield ContentPiece(None, 0, self.length, self.data)
            return
        whole = ContentPiece(self.path, self.position, self.length)
        patched = {start + number: byte for start, data in self.patches for number, byte in enumerate(data)}
        end = 0
        for _, run in groupby(enumerate(sorted(patched)), lambda place: place[1] - place[0]):
            places = [place for _, place in run]
            if places[0] > end:
                yield whole.part(end, places[0])
            yield ContentPiece(None, 0, len(places), bytes(patched[place] for place in places))
            end = places[-1] + 1
        if end < self.length:
            yield whole.part(end, self.length)


@dataclass(frozen=True, slots=True)
class Dropped:
    """Bytes of the original log that are not in the result.

    ``first_offset`` to ``last_offset`` (inclusive, None: not known), ``batches`` and ``records`` are the good data
    lost with it; 0 where it holds no good batch.
    """

    position: int
    length: int
    first_offset: int | None
    last_offset: int | None
    batches: int
    records: int
    reason: str


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets (inclusive) that the log had and of which nothing is left; ``is_held``: empty batches cover them."""

    first_offset: int
    last_offset: int
    is_held: bool


@dataclass(frozen=True, slots=True)
class Restored:
    """A header field set back, or a bit flipped back; ``position`` is the field's in the original log.

    ``field`` is ``baseOffset`` (legacy: ``offset``), ``length``, ``partitionLeaderEpoch``, ``magic`` or ``crc``, or
    ``bit 0`` to ``bit 7`` of the byte ``old``.
    """

    field: str
    position: int
    old: int
    new: int
    reason: str

    @property
    def is_proved_by_crc(self) -> bool:
        """The CRC is right for no other value; neighbours tell the other fields, which no CRC covers."""
        return self.field in ("length", "magic") or self.field.startswith("bit ")


@dataclass(frozen=True, slots=True)
class TouchedTransaction:
    """A transaction that was open where a gap begins, so that its end may lie in the gap.

    Attributes:
        producer_id: its producer.
        producer_epoch: of its batches.
        first_offset: its first one that is left.
        gap_offset: the first offset of the gap that holds its marker, or may do so.
        outcome: what is known of its end.
        ends_at: where its marker is lost, or may be, the offset of the next one that is left, which readers take for
            its end as long as no marker is made; None: they wait.
        done: what was done about it, None if nothing was to be decided.
        coordinator: what its coordinator would do, where the log does not tell its end; None: that was not asked.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    gap_offset: int
    outcome: TxnOutcome
    ends_at: int | None = None
    done: TxnPolicy | None = None
    coordinator: str | None = None

    @property
    def is_guessed(self) -> bool:
        """It is left as it is, and readers of the result take another marker for its end."""
        return self.done is TxnPolicy.LEAVE and self.ends_at is not None


class JudgedBefore(NamedTuple):
    """What is known of a transaction that a gap touched, for the segments after it.

    Attributes:
        is_left: it may have ended in the gap, and was left as it is.
        until: no gap before this offset holds its marker, or it was asked to leave the transaction as it is. All
            segments and the files around them were looked at for the first gap, so others tell nothing new.
    """

    is_left: bool
    until: int


@dataclass(frozen=True, order=True, slots=True)
class NotTaken:
    """Offsets (inclusive) of another copy of the partition, at ``path``, that were not believed, and why."""

    path: str
    first_offset: int
    last_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class RepairedLog:
    """What becomes of one log.

    ``base_offset`` names the file that it is written to. ``rolls``: offsets, rising, with which further segments begin
    that have no file yet; pieces begin there (see ``segments``). ``end_from``: the copy of the partition whose end was
    taken for the end of the log, because nothing else told it. ``correctable``: records that are lost, and that
    ``SalvageOptions.correct`` restores. ``judged``: see SiblingContext.
    """

    base_offset: int
    pieces: Sequence[LogPiece]
    dropped: Sequence[Dropped] = ()
    lost: Sequence[Lost] = ()
    restored: Sequence[Restored] = ()
    transactions: tuple[TouchedTransaction, ...] = ()
    not_taken: tuple[NotTaken, ...] = ()
    end_from: str | None = None
    rolls: tuple[int, ...] = ()
    correctable: int = 0
    judged: Mapping[tuple[int, int], JudgedBefore] = field(default_factory=dict)

    @property
    def corrected(self) -> int:
        """Records of batches in which a bit is flipped back."""
        return sum(piece.records for piece in self.pieces if piece.origin is PieceOrigin.CORRECTED)

    def segments(self) -> Iterator[RepairedLog]:
        """The log up to the first roll, then each further segment."""
        bounds = (self.base_offset, *self.rolls, None)
        for base, end in pairwise(bounds):
            if base is None:
                return
            part = RepairedLog(
                base,
                tuple(piece for piece in self.pieces if _is_in(piece.first_offset, base, end)),
                lost=tuple(lost for lost in self.lost if _is_in(lost.first_offset, base, end)),
            )
            is_first = base == self.base_offset
            yield replace(self, pieces=part.pieces, lost=part.lost, rolls=()) if is_first else part

    @property
    def content(self) -> Content:
        """Its bytes."""
        return Content(tuple(part for piece in self.pieces for part in piece.contents()), self.size)

    @property
    def size(self) -> int:
        """Bytes of the repaired log."""
        return sum(piece.length for piece in self.pieces)

    @property
    def records(self) -> int:
        """Records of the repaired log, control records too."""
        return sum(piece.records for piece in self.pieces)

    @property
    def end_offset(self) -> int:
        """The offset after the last one; the base offset of an empty log."""
        return self.pieces[-1].last_offset + 1 if self.pieces else self.base_offset

    @property
    def good_end(self) -> int:
        """The offset after the last one that was not lost; 0 where all are lost."""
        return max((piece.last_offset + 1 for piece in self.pieces if piece.origin is not PieceOrigin.HELD), default=0)

    @property
    def is_as_it_was(self) -> bool:
        """It holds only its own batches and those of a replica, and nothing is gone."""
        own = (PieceOrigin.KEPT, PieceOrigin.REPLICA)
        is_gone = self.lost or any(extent.batches for extent in self.dropped)
        return not is_gone and all(piece.origin in own for piece in self.pieces)

    @property
    def takes_from_replica(self) -> bool:
        """Something in it comes from another copy of the partition."""
        return any(piece.origin is PieceOrigin.REPLICA for piece in self.pieces)

    def is_copy_of(self, path: str, size: int, base_offset: int) -> bool:
        """It is the log ``path`` of ``size`` bytes, whole and unchanged."""
        if self.base_offset != base_offset or self.size != size or len(self.pieces) > 1:
            return False
        return all(
            piece.path == path and piece.origin is PieceOrigin.KEPT and not piece.position for piece in self.pieces
        )

    def is_correction_of(self, path: str, size: int, base_offset: int) -> bool:
        """It is the log ``path`` of ``size`` bytes, with nothing dropped, moved or made, as its CRCs prove that it was.

        Source: docs/spec/repair.md#9-metadata-logs.
        """
        end = 0
        for piece in self.pieces:
            if (piece.path, piece.position) != (path, end):
                return False
            end += piece.length
        return (self.base_offset, end) == (base_offset, size) and all(one.is_proved_by_crc for one in self.restored)


def _is_in(offset: int, first: int, end: int | None) -> bool:
    return first <= offset and (end is None or offset < end)
