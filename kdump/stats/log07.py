"""The figures of a log of Kafka 0.7: its entries as rows of the batch table, and their messages as records."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from kdump.codes import DamageError
from kdump.fast.recordtable import RecordGroups, RecordTable
from kdump.format.batch import NO_SEQUENCE
from kdump.format.legacy import NO_TIMESTAMP
from kdump.format.message07 import HEAD_SIZES, Message07, read_records
from kdump.format.record import Record
from kdump.stats.fold import PartFold
from kdump.stats.records import EntryRecords
from kdump.verify.markers import NO_MARKER
from kdump.verify.table import NO_PRODUCER, BatchRow, row_dtype

_PIECE: Final = 16 << 20
"""Bytes of records that are held at a time, unless one entry has more."""
_OF_RECORD: Final = 200
"""Bytes that a record takes beside its value."""


def see_entries(part: PartFold, entries: Sequence[tuple[Message07, int]], *, with_records: bool, limit: int) -> None:
    """Add entries of a log, each with its position in the file.

    Args:
        part: takes them.
        entries: in file order.
        with_records: decode them too.
        limit: most bytes to which one entry may decompress.
    """
    if not with_records:
        part.see_batches(np.array([_row(message, position, 1) for message, position in entries], row_dtype()))
        return
    found: list[list[Record]] = []
    start = held = 0
    for number, (message, _) in enumerate(entries, 1):
        found.append(_records(message, limit))
        held += sum(len(record.value or b"") + _OF_RECORD for record in found[-1])
        if held >= _PIECE or number == len(entries):
            _see_decoded(part, entries[start:number], found)
            found, start, held = [], number, 0


def _see_decoded(part: PartFold, entries: Sequence[tuple[Message07, int]], found: Sequence[list[Record]]) -> None:
    rows = [_row(message, position, len(records)) for (message, position), records in zip(entries, found, strict=True)]
    part.see_batches(np.array(rows, row_dtype()))
    part.see_records(_entry_records(entries, found))


def _records(message: Message07, limit: int) -> list[Record]:
    """The messages in an entry, up to the damage in it."""
    records = []
    with suppress(DamageError):
        for record in read_records(message, limit):
            value = record.message.value()
            records.append(Record(record.offset, NO_TIMESTAMP, NO_SEQUENCE, None, value, ()))
    return records


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


def _entry_records(entries: Sequence[tuple[Message07, int]], found: Sequence[list[Record]]) -> EntryRecords:
    messages = [message for message, _ in entries]
    groups = RecordGroups(
        RecordTable.of([record for records in found for record in records]),
        np.append(0, np.cumsum([len(records) for records in found])),
        np.array([message.magic for message in messages]),
        np.array([message.codec for message in messages]),
        np.zeros(len(messages), np.bool_),
        np.full(len(messages), NO_TIMESTAMP),
    )
    sizes = [sum(len(record.value or b"") + HEAD_SIZES[1] for record in records) for records in found]
    return EntryRecords(
        groups,
        np.array([position for _, position in entries]),
        np.array([message.size for message in messages]),
        np.array(sizes),
    )
