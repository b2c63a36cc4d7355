"""The three index files beside a segment: fixed-size entries, no header, no checksum.

Source: docs/spec/formats.md#6-indexes (KIP-33 for the time index, KIP-98 for the transaction index).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeVar

from kdump.codes import Codes, DamageError

OFFSET_ENTRY: Final = struct.Struct(">ii")
"""Relative offset, position."""
TIME_ENTRY: Final = struct.Struct(">qi")
"""Timestamp (ms), relative offset."""
TXN_ENTRY: Final = struct.Struct(">hqqqq")
"""The fields of AbortedTxn."""

OFFSET_ENTRY_SIZE: Final = OFFSET_ENTRY.size
TIME_ENTRY_SIZE: Final = TIME_ENTRY.size
TXN_ENTRY_SIZE: Final = TXN_ENTRY.size


class OffsetEntry(NamedTuple):
    """A batch's last offset (its first, for brokers up to 1.1) and the batch's position in the log."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """The largest timestamp (ms) so far and an offset of its batch."""

    timestamp: int
    offset: int


_Entry = TypeVar("_Entry", OffsetEntry, TimeEntry)


class AbortedTxn(NamedTuple):
    """One aborted transaction."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def parse_offset_index(data: bytes, base_offset: int) -> list[OffsetEntry]:
    """All whole 8-byte entries, zero padding too; a partial one at the end is left out."""
    used, padding = _used_and_padding(data, OFFSET_ENTRY_SIZE)
    entries = [OffsetEntry(base_offset + relative, position) for relative, position in OFFSET_ENTRY.iter_unpack(used)]
    return entries + [OffsetEntry(base_offset, 0)] * padding


def parse_time_index(data: bytes, base_offset: int) -> list[TimeEntry]:
    """All whole 12-byte entries, zero padding too; a partial one at the end is left out."""
    used, padding = _used_and_padding(data, TIME_ENTRY_SIZE)
    entries = [TimeEntry(timestamp, base_offset + relative) for timestamp, relative in TIME_ENTRY.iter_unpack(used)]
    return entries + [TimeEntry(0, base_offset)] * padding


def _used_and_padding(data: bytes, entry_size: int) -> tuple[memoryview, int]:
    """The whole entries up to the last one that is not all zeros, and the number of zero entries after them.

    Brokers preallocate the file, so most of it is zeros: one object stands for all of these.
    """
    used = -(-len(data.rstrip(b"\0")) // entry_size)
    whole = len(data) // entry_size
    used = min(used, whole)
    return memoryview(data)[: used * entry_size], whole - used


def used_entries(entries: list[_Entry], base_offset: int) -> Iterator[tuple[int, _Entry]]:
    """(number, entry) up to the zero padding.

    An offset equal to the base ends the entries, unless it is the very first.
    """
    for number, entry in enumerate(entries):
        if number and entry.offset == base_offset:
            return
        yield number, entry


def parse_txn_index(data: bytes) -> list[AbortedTxn]:
    """All whole 34-byte entries; a partial one at the end is left out. Raises as ``txn_entries``."""
    return list(txn_entries(data))


def txn_entries(data: bytes) -> Iterator[AbortedTxn]:
    """The entries one by one, as far as they can be read.

    Raises:
        DamageError: TXN_INDEX_VERSION, with the entry's position. As in Kafka (AbortedTxn, TransactionIndex), only the
            first byte of the version is checked, and a negative one passes.
    """
    whole = len(data) - len(data) % TXN_ENTRY_SIZE
    for number, entry in enumerate(TXN_ENTRY.iter_unpack(memoryview(data)[:whole])):
        version = entry[0] >> 8
        if version > 0:
            raise DamageError(
                Codes.TXN_INDEX_VERSION,
                f"unexpected aborted transaction version {version}, 0 is the only one known",
                position=number * TXN_ENTRY_SIZE,
            )
        yield AbortedTxn(version, *entry[1:])
