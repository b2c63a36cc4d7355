"""The entries that can be restored in a gap: the bytes between two batches of the chain.

A gap holds batches with an impossible offset, batches with a wrong CRC or wrong contents, and bytes without framing.
At each start of an entry, real or possible, an entry is searched for that its own CRC proves. The CRC covers neither
the length nor, in magic 2, the magic: so other values of these are tried. Else one flipped bit, which a CRC locates
(``wire.syndrome``), may explain the damage. In each case the result must decode to its last record. The cost of the
search stays in proportion to the size of the log.

Source: docs/spec/formats.md#3-record-batches-v2 and docs/spec/formats.md#2-messages-v0-and-v1 for what the CRCs cover.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes, KdumpError
from kdump.explain.trueend import end_candidates
from kdump.format.batch import CRC_START, HEADER_SIZE, LENGTH_OFFSET, LOG_OVERHEAD, MAGIC_OFFSET, parse_header
from kdump.log.candidates import find_candidates
from kdump.log.heads import LARGEST_ENTRY, SMALLEST_ENTRY
from kdump.log.source import Source
from kdump.repair.salvage.entry import ByteChange, Entry, length_change, magic_change, patched
from kdump.repair.salvage.inventory import Inventory, examine
from kdump.repair.salvage.pieces import PieceOrigin
from kdump.repair.salvage.restore import Room
from kdump.repair.salvage.wrappers import rewrapped
from kdump.verify.table import BatchRow, row_at
from kdump.wire.checksum import crc32, crc32c
from kdump.wire.syndrome import CRC32_POLYNOMIAL, CRC32C_POLYNOMIAL, flipped_bit

_BUDGET: Final = 1 << 28
_BUDGET_PER_BYTE: Final = 4
_MOST_ENTRIES: Final = 1 << 16
_BYTES_PER_ENTRY: Final = 1024
"""Of entries by their lengths, so many are examined, and one more for so many bytes of the log."""
_HOPELESS: Final = frozenset({Codes.ZERO_FILL, Codes.UNREADABLE})
"""Gaps in which no entry begins at the start."""


class GapReader:
    """Reads the gaps of one log.

    Args:
        source: the log.
        found: what it holds.
        correct: flip one bit back where that explains a wrong CRC.

    Attributes:
        correctable: records of the batches that ``correct`` would restore, by position.
    """

    def __init__(self, source: Source, found: Inventory, *, correct: bool) -> None:
        self._source = source
        self._inventory = found
        self._correct = correct
        self.correctable: dict[int, int] = {}
        self._budget = _BUDGET + _BUDGET_PER_BYTE * (source.size or 0)
        self._entries_left = _MOST_ENTRIES + (source.size or 0) // _BYTES_PER_ENTRY

    def entries(self, room: Room, ignored: NDArray[np.bool_]) -> Iterator[Entry]:
        """Entries that begin in the gap, in file order.

        ``ignored``: which batches of the inventory are not wanted.
        """
        at = room.position
        items = self._items(room, ignored)
        entry_starts = {position for position, number in items if number is not None} | {room.stop}
        starts = sorted({*(position for position, _ in items), room.stop})
        for position, number in items:
            if position < at:
                continue
            at = position
            if number is not None and self._inventory.is_good[number]:
                yield Entry(row_at(self._inventory.table.rows, number), PieceOrigin.KEPT, self._source.path)
                at = int(self._inventory.table.end[number])
                continue
            if number is not None and self._inventory.table.rows["is_valid"][number]:
                found = list(self._inside(number, room))
                yield from found
                at = max(
                    [int(self._inventory.table.end[number]), *(entry.row.position + entry.row.size for entry in found)]
                )
                continue
            end = int(self._inventory.table.end[number]) if number is not None else None
            # After an entry with a wrong length another one may follow that the inventory does not have.
            is_framed = end in entry_starts
            begin = at
            while at < room.stop and (entry := self._made_whole(at, end, room, is_framed=is_framed)) is not None:
                yield entry
                at, end, is_framed = entry.row.position + entry.row.size, None, False
            if at == begin and not is_framed:
                # Its length may be wrong, too. The room tells swallowed batches from payload that resembles them.
                stop = starts[bisect_right(starts, position)]
                found = list(self._valid_within(position, min(stop, position + LARGEST_ENTRY), room.first, room))
                yield from found
                at = max([at, *(entry.row.position + entry.row.size for entry in found)])
            at = max(at, position + 1)

    def _items(self, room: Room, ignored: NDArray[np.bool_]) -> list[tuple[int, int | None]]:
        """(position, number of the entry, None for a gap) of what begins in the gap."""
        position = self._inventory.table.position
        first, last = np.searchsorted(position, (room.position, room.stop))
        numbers = np.flatnonzero(~ignored[first:last]) + first
        items: list[tuple[int, int | None]] = list(zip(position[numbers].tolist(), numbers.tolist(), strict=True))
        items += [
            (gap.position, None)
            for gap in self._inventory.gaps_in(room.position, room.stop)
            if gap.reason not in _HOPELESS and gap.position >= room.position
        ]
        return sorted(items, key=lambda item: item[0])

    def _made_whole(self, position: int, end: int | None, room: Room, *, is_framed: bool) -> Entry | None:
        """The entry at ``position``.

        ``end``: where it ends by its length, None if it cannot; ``is_framed``: something begins there.
        """
        path = self._source.path
        if end is not None and end <= room.stop:
            data = self._read(position, end) if self._may_examine() else None
            entry = data and proved(data, position, path, is_whole=True)
            if data and not entry and (flipped := corrected(data, position, path)) is not None:
                if self._correct:
                    entry = flipped
                else:
                    self.correctable[position] = flipped.row.record_count
            if entry or is_framed:
                return entry or None
        stop = min(room.stop, position + LARGEST_ENTRY)
        data = self._read(position, stop) if self._spend(stop - position) else None
        return None if data is None else proved(data, position, path, is_whole=stop == room.stop)

    def _inside(self, number: int, room: Room) -> Iterator[Entry]:
        """What can be restored of a batch with a right CRC and wrong contents.

        It is a wrapper with a wrong offset, or it holds batches that a wrong length swallowed. Those have offsets after
        the batch's own, which payload that resembles a batch hardly has.
        """
        row = row_at(self._inventory.table.rows, number)
        path = self._source.path
        data = self._read(row.position, row.position + row.size)
        if data is None:
            return
        entry = rewrapped(data, row.position, path)
        if entry is not None:
            yield entry
            return
        own = row.last_offset if row.last_offset < room.limit else room.first - 1
        yield from self._valid_within(row.position, row.position + row.size, max(own + 1, room.first), room)

    def _valid_within(self, position: int, stop: int, first: int, room: Room) -> Iterator[Entry]:
        """Good entries that begin after ``position`` and have offsets of the room from ``first`` on, rising."""
        # Entries may reach beyond the stop: that something else begins there is only an assumption.
        end = min(room.stop, stop + LARGEST_ENTRY)
        data = self._read(position, end) if self._spend(end - position) else None
        if data is None:
            return
        found = find_candidates(data, 1, len(data))
        is_sound = found.valid(data) & (found.start < stop - position)
        for start, end in zip(found.start[is_sound].tolist(), found.end[is_sound].tolist(), strict=True):
            row, fault = examine(data[start:end], position + start)
            entry = Entry(row, PieceOrigin.KEPT, self._source.path)
            if fault is None and first <= entry.first_offset and row.last_offset < room.limit:
                yield entry
                first = row.last_offset + 1

    def _read(self, position: int, stop: int) -> memoryview | None:
        try:
            return memoryview(self._source.read(position, stop - position))
        except KdumpError:
            return None

    def _may_examine(self) -> bool:
        self._entries_left -= 1
        return self._entries_left >= 0

    def _spend(self, cost: int) -> bool:
        if cost > self._budget:
            return False
        self._budget -= cost
        return True


_MAGICS: Final = (2, 1, 0)
_V2_CRC_OFFSET: Final = MAGIC_OFFSET + 1
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_KEY_OFFSETS: Final = {0: 18, 1: 26}
"""Where the key size of a legacy message lies, by magic."""


def proved(window: memoryview, position: int, path: str, *, is_whole: bool) -> Entry | None:
    """The entry that begins with ``window``, with another length or magic for which its CRC is right.

    Args:
        window: the bytes from its start to where it ends at the latest.
        position: of the window in the file ``path``.
        path: the file.
        is_whole: what follows the window is known: an entry, or the end of the file.
    """
    if len(window) < SMALLEST_ENTRY:
        return None
    length = _INT32.unpack_from(window, LENGTH_OFFSET)[0]
    for magic in _MAGICS:
        for end in _ends(window, magic, LOG_OVERHEAD + length, is_whole=is_whole):
            if not _is_right(window, magic, end):
                continue
            changes: tuple[ByteChange, ...] = ()
            if magic != window[MAGIC_OFFSET]:
                why = f"the CRC is right for magic {magic} only"
                changes += (magic_change(window[MAGIC_OFFSET], magic, why),)
            if end != LOG_OVERHEAD + length:
                changes += (length_change(length, end, "the CRC is right for this length"),)
            row = _examined(window[:end], position, changes)
            if row is not None:
                return Entry(row, PieceOrigin.RESTORED, path, changes)
    return None


def corrected(data: memoryview, position: int, path: str) -> Entry | None:
    """The whole entry ``data`` with one bit flipped, when that makes its CRC right and its records decode."""
    magic = data[MAGIC_OFFSET]
    if magic not in _MAGICS or len(data) < (HEADER_SIZE if magic == 2 else SMALLEST_ENTRY):
        return None
    start, field, polynomial = _coverage(magic)
    stored = _UINT32.unpack_from(data, field)[0]
    computed = (crc32c if magic == 2 else crc32)(data[start:])
    change = flipped_bit(stored, computed, len(data) - start, polynomial)
    if change is None:
        return None
    if change.place is None:
        byte = 3 - (change.mask.bit_length() - 1) // 8
        at, mask = field + byte, change.mask >> 8 * (3 - byte)
    else:
        at, mask = start + change.place, change.mask
    why = "the CRC is right with this bit flipped"
    flip = ByteChange(at, bytes([data[at] ^ mask]), f"bit {mask.bit_length() - 1}", data[at], data[at] ^ mask, why)
    row = _examined(data, position, (flip,))
    return None if row is None else Entry(row, PieceOrigin.CORRECTED, path, (flip,))


def _examined(data: memoryview, position: int, changes: tuple[ByteChange, ...]) -> BatchRow | None:
    """The row of an entry with its changes; None if it is not good."""
    row, fault = examine(memoryview(patched(data, changes)), position)
    return row if fault is None else None


def _coverage(magic: int) -> tuple[int, int, int]:
    """First byte under the CRC, where the CRC is stored, its polynomial."""
    if magic == 2:
        return CRC_START, _V2_CRC_OFFSET, CRC32C_POLYNOMIAL
    return MAGIC_OFFSET, LOG_OVERHEAD, CRC32_POLYNOMIAL


def _is_right(window: memoryview, magic: int, end: int) -> bool:
    start, field, _ = _coverage(magic)
    stored = _UINT32.unpack_from(window, field)[0]
    if magic == 2:
        return bool(crc32c(window[start:end]) == stored)
    return bool(crc32(window[start + 1 : end], crc32(bytes([magic]))) == stored)


def _ends(window: memoryview, magic: int, by_length: int, *, is_whole: bool) -> Iterator[int]:
    """Where an entry of this magic may end: each place once."""
    smallest = HEADER_SIZE if magic == 2 else _KEY_OFFSETS[magic] + 8
    seen = set()
    for end in _likely_ends(window, magic, by_length, is_whole=is_whole):
        if smallest <= end <= len(window) and end not in seen:
            seen.add(end)
            yield end


def _likely_ends(window: memoryview, magic: int, by_length: int, *, is_whole: bool) -> Iterator[int]:
    yield by_length
    if is_whole:
        yield len(window)
    if magic == 2:
        if len(window) >= HEADER_SIZE:
            yield from end_candidates(parse_header(window), window, is_whole=False)
        return
    at = _KEY_OFFSETS[magic]
    for _ in range(2):
        if at + 4 > len(window):
            return
        at += 4 + max(0, _INT32.unpack_from(window, at)[0])
    yield at
