"""One entry that is to become part of a repaired log, and what was changed in it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Final

from kdump.format.batch import LENGTH_OFFSET, LOG_OVERHEAD, MAGIC_OFFSET
from kdump.repair.salvage.pieces import PieceOrigin, Restored
from kdump.verify.table import UNKNOWN_OFFSET, BatchRow

EPOCH_OFFSET: Final = LENGTH_OFFSET + 4
"""Index of the leader epoch in a v2 batch."""
_INT64: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_INT8: Final = struct.Struct(">B")


@dataclass(frozen=True, slots=True)
class ByteChange:
    """``data`` takes the place of the bytes at index ``at`` of an entry; the other fields are for the report."""

    at: int
    data: bytes
    field: str
    old: int
    new: int
    why: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A whole entry.

    ``row`` has the values after the changes. ``path`` is the file it comes from, where ``row.position`` lies; None: its
    bytes are ``data``.
    """

    row: BatchRow
    origin: PieceOrigin
    path: str | None
    changes: tuple[ByteChange, ...] = ()
    data: bytes = b""

    @property
    def first_offset(self) -> int:
        """Its first offset, as far as it is known."""
        return self.row.base_offset if self._is_first_known else self.row.last_offset

    @property
    def _is_first_known(self) -> bool:
        return self.row.base_offset != UNKNOWN_OFFSET or self.row.magic >= 2

    @property
    def span(self) -> int:
        """How many offsets it covers."""
        return self.row.last_offset - self.first_offset + 1

    @property
    def can_move(self) -> bool:
        """Whether it is a good entry with another offset, too.

        That does not hold for a wrapper of magic 0, which has absolute offsets, or for one that does not decode.
        """
        return self._is_first_known and (self.row.magic > 0 or self.span == 1)

    def moved(self, first_offset: int, why: str) -> Entry:
        """The entry with another first offset."""
        row = self.row
        shift = first_offset - self.first_offset
        base = row.base_offset + shift if self._is_first_known else row.base_offset
        stored = row.base_offset if row.magic >= 2 else row.last_offset
        name = "baseOffset" if row.magic >= 2 else "offset"
        change = ByteChange(0, _INT64.pack(stored + shift), name, stored, stored + shift, why)
        return self._changed(row._replace(base_offset=base, last_offset=row.last_offset + shift), change)

    def with_epoch(self, epoch: int, why: str) -> Entry:
        """The batch (v2) with another leader epoch."""
        change = ByteChange(EPOCH_OFFSET, _INT32.pack(epoch), "partitionLeaderEpoch", self.row.leader_epoch, epoch, why)
        return self._changed(self.row._replace(leader_epoch=epoch), change)

    def with_magic(self, magic: int, why: str) -> Entry:
        """The entry with another magic byte."""
        return self._changed(self.row._replace(magic=magic), magic_change(self.row.magic, magic, why))

    def _changed(self, row: BatchRow, change: ByteChange) -> Entry:
        # The old value of a field that is changed twice is the one in the file.
        earlier = next((one for one in self.changes if one.field == change.field), None)
        if earlier is not None:
            change = replace(change, old=earlier.old)
        kept = tuple(one for one in self.changes if one is not earlier)
        origin = self.origin if self.origin in (PieceOrigin.CORRECTED, PieceOrigin.REPLICA) else PieceOrigin.RESTORED
        return replace(self, row=row, origin=origin, changes=(*kept, change))

    @property
    def restored(self) -> tuple[Restored, ...]:
        """The changes for the report; positions are those in the file."""
        return tuple(Restored(one.field, self.row.position + one.at, one.old, one.new, one.why) for one in self.changes)


def identity(row: BatchRow) -> tuple[int, ...]:
    """Offsets, size and CRC: only copies of one batch share them."""
    return row.base_offset, row.last_offset, row.size, row.crc


def magic_change(old: int, new: int, why: str) -> ByteChange:
    """The change to another magic byte."""
    return ByteChange(MAGIC_OFFSET, _INT8.pack(new), "magic", old, new, why)


def length_change(old: int, size: int, why: str) -> ByteChange:
    """The change to another length field, for an entry of ``size`` bytes."""
    length = size - LOG_OVERHEAD
    return ByteChange(LENGTH_OFFSET, _INT32.pack(length), "length", old, length, why)


def patched(data: bytes | memoryview, changes: tuple[ByteChange, ...]) -> bytes:
    """The bytes of an entry with its changes."""
    result = bytearray(data)
    for change in changes:
        result[change.at : change.at + len(change.data)] = change.data
    return bytes(result)
