"""The three index files beside a segment: fixed-size entries, no header, no checksum.

Offsets near the largest one wrap, as in Kafka.

Source: docs/spec/formats.md#6-indexes (KIP-33 for the time index, KIP-98 for the transaction index).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from kdump.codes import Codes, DamageError
from kdump.format.batch import wrap_int64
from kdump.releases import NEWEST, Release

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


_Timed = TypeVar("_Timed", OffsetEntry, TimeEntry)


class AbortedTxn(NamedTuple):
    """One aborted transaction."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def parse_offset_index(data: bytes, base_offset: int) -> list[OffsetEntry]:
    """All entries, zero padding too."""
    return [
        OffsetEntry(wrap_int64(base_offset + relative), position) for relative, position in _fields(data, OFFSET_ENTRY)
    ]


def parse_time_index(data: bytes, base_offset: int) -> list[TimeEntry]:
    """All entries, zero padding too."""
    return [
        TimeEntry(timestamp, wrap_int64(base_offset + relative)) for timestamp, relative in _fields(data, TIME_ENTRY)
    ]


def used_entries(entries: Iterable[_Timed], base_offset: int) -> Iterator[tuple[int, _Timed]]:
    """(number, entry) up to the zero padding.

    An offset equal to the base ends the entries, unless it is the very first.
    """
    for number, entry in enumerate(entries):
        if number and entry.offset == base_offset:
            return
        yield number, entry


def rising_part(entries: Sequence[_Timed], key: Callable[[_Timed], int], base_offset: int) -> Sequence[_Timed]:
    """The used entries up to the first whose key is not above the one before."""
    count, last = 0, None
    for _, entry in used_entries(entries, base_offset):
        this = key(entry)
        if last is not None and this <= last:
            break
        count, last = count + 1, this
    return entries[:count]


def parse_txn_index(data: bytes, release: Release = NEWEST) -> list[AbortedTxn]:
    """All entries. Raises as ``txn_entries``."""
    return list(txn_entries(data, release))


def txn_entries(data: bytes, release: Release = NEWEST) -> Iterator[AbortedTxn]:
    """The entries one by one, as far as a release of Kafka reads them (TransactionIndex, AbortedTxn).

    Raises:
        DamageError: TXN_INDEX_VERSION, with the entry's position. See ``Release.has_txn_schema``.
    """
    for number, (version, *others) in enumerate(_fields(data, TXN_ENTRY)):
        shown = version if release.has_txn_schema else version >> 8
        if shown > 0 or (shown < 0 and release.has_txn_schema):
            message = f"unexpected aborted transaction version {shown}, 0 is the only one known"
            raise DamageError(Codes.TXN_INDEX_VERSION, message, position=number * TXN_ENTRY_SIZE)
        yield AbortedTxn(shown, *others)


def _fields(data: bytes, layout: struct.Struct) -> Iterator[tuple[Any, ...]]:
    """The fields of each whole entry; a partial one at the end is left out."""
    return layout.iter_unpack(memoryview(data)[: len(data) - len(data) % layout.size])
