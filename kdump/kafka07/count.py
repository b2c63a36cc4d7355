"""The figures of a log of Kafka 0.7: its entries as rows of the batch table, and their messages as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np

from kdump.codes import DamageError
from kdump.fast.recordtable import RecordGroups, RecordTable
from kdump.format.batch import NO_SEQUENCE
from kdump.format.legacy import NO_TIMESTAMP
from kdump.format.record import Record, in_pieces
from kdump.kafka07.message import HEAD_SIZES, Message07, read_records
from kdump.stats.partfold import PartFold
from kdump.stats.records import EntryRecords
from kdump.verify.table import NO_MARKER, NO_PRODUCER, BatchRow, row_dtype

_PIECE: Final = 16 << 20
"""Bytes of records that are held at a time, up to the end of a piece of one entry."""
_OF_RECORD: Final = 200
"""Bytes that a record takes beside its value."""


class _Read(NamedTuple):
    """An entry, its position in the file, and records of it; ``stored``: its bytes, 0 if they were counted before."""

    message: Message07
    position: int
    stored: int
    records: Sequence[Record]


def see_entries(part: PartFold, entries: Sequence[tuple[Message07, int]], *, with_records: bool, limit: int) -> None:
    """See WorldFigures; each entry comes with its position in the file."""
    if not with_records:
        part.see_batches(np.array([_row(message, position, 1) for message, position in entries], row_dtype()))
        return
    rows: list[BatchRow] = []
    read: list[_Read] = []
    held = 0
    for message, position in entries:
        count, stored = 0, message.size
        for records in _pieces(message, limit):
            # The stored bytes count once.
            read.append(_Read(message, position, stored, records))
            count, stored = count + len(records), 0
            held += _size(records, _OF_RECORD)
            if held >= _PIECE:
                part.see_records(_entry_records(read))
                read, held = [], 0
        rows.append(_row(message, position, count))
    if read:
        part.see_records(_entry_records(read))
    part.see_batches(np.array(rows, row_dtype()))


def _pieces(message: Message07, limit: int) -> Iterator[list[Record]]:
    """The messages in an entry, up to the damage in it; an empty piece if there are none."""
    is_empty = True
    with suppress(DamageError):
        for records in in_pieces(record.plain() for record in read_records(message, limit)):
            is_empty = False
            yield records
    if is_empty:
        yield []


def _size(records: Sequence[Record], of_each: int) -> int:
    """Bytes of the values, and so many more for each record."""
    return sum(len(record.value or b"") + of_each for record in records)


def _row(message: Message07, position: int, count: int) -> BatchRow:
    return BatchRow(
        position,
        message.size,
        message.offset,
        message.offset,
        -1,
        message.magic,
        message.crc,
        message.codec,
        count,
        NO_PRODUCER,
        -1,
        NO_SEQUENCE,
        NO_TIMESTAMP,
        NO_TIMESTAMP,
        *NO_MARKER,
        message.is_valid,
        False,
    )


def _entry_records(read: Sequence[_Read]) -> EntryRecords:
    messages = [piece.message for piece in read]
    groups = RecordGroups(
        RecordTable.of([record for piece in read for record in piece.records]),
        np.append(0, np.cumsum([len(piece.records) for piece in read])),
        np.array([message.magic for message in messages]),
        np.array([message.codec for message in messages]),
        np.zeros(len(messages), np.bool_),
        np.full(len(messages), NO_TIMESTAMP),
    )
    return EntryRecords(
        groups,
        np.array([piece.position for piece in read]),
        np.array([piece.stored for piece in read]),
        np.array([_size(piece.records, HEAD_SIZES[1]) for piece in read]),
    )
