"""Records as batches of magic 2.

Source: docs/spec/formats.md#3-record-batches-v2. A batch keeps other fields of the batch it was in the header.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.encoded import EncodedEntries
from kdump.fast.recordtable import RecordGroups
from kdump.fast.writerecords import write_records
from kdump.format.batch import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    MAGIC,
    NO_SEQUENCE,
    BatchHeader,
    increment_sequence,
    write_batch,
)
from kdump.format.legacy import NO_TIMESTAMP
from kdump.wire import compression
from kdump.wire.checksum import Buffer

NEW_BATCH: Final = BatchHeader(
    base_offset=0,
    batch_length=0,
    partition_leader_epoch=-1,
    magic=MAGIC,
    crc=0,
    attributes=0,
    last_offset_delta=0,
    base_timestamp=0,
    max_timestamp=NO_TIMESTAMP,
    producer_id=-1,
    producer_epoch=-1,
    base_sequence=NO_SEQUENCE,
    record_count=0,
)
"""The header of a batch without producer and leader epoch."""


def write_batches(
    groups: RecordGroups,
    codec: NDArray[np.int64],
    level: int | None,
    headers: Sequence[BatchHeader] | None = None,
    base_offset: NDArray[np.int64] | None = None,
) -> EncodedEntries:
    """Write one batch per group; each group has one record or more.

    Args:
        groups: the records; offsets rise within a group.
        codec: of each batch, shape (groups,).
        level: of the codec; None: Kafka's default.
        headers: of the batches that the records come from. They give the fields that the records do not determine; a
            sequence moves with the base offset. None: new batches.
        base_offset: of each batch, at most that of its first record; None: that of its first record.
    """
    table, first = groups.table, groups.bounds[:-1]
    last_offset = table.offset[groups.bounds[1:] - 1]
    if base_offset is None:
        base_offset = table.offset[first]
    if headers is None:
        base_timestamp = table.timestamp[first]
    else:
        # Some batches have the delete horizon there.
        base_timestamp = np.array([header.base_timestamp for header in headers], np.int64)
    latest = np.maximum.reduceat(table.timestamp, first) if first.size else first
    max_timestamp = np.where(groups.is_log_append_time, groups.timestamp, latest)
    data, bounds = write_records(
        table,
        table.offset - np.repeat(base_offset, groups.rows),
        table.timestamp - np.repeat(base_timestamp, groups.rows),
    )
    attributes = codec | np.where(groups.is_log_append_time, LOG_APPEND_TIME, 0)
    pieces = []
    columns = (base_offset, last_offset, base_timestamp, max_timestamp, attributes, groups.rows)
    ends = bounds[groups.bounds].tolist()
    values = zip(*(column.tolist() for column in columns), strict=True)
    for number, (base, last, earliest, newest, attribute, records) in enumerate(values):
        header = _with_records(
            NEW_BATCH if headers is None else headers[number],
            base=base,
            last=last,
            earliest=earliest,
            newest=newest,
            attributes=attribute,
            records=records,
        )
        pieces.append(encode_batch(header, data[ends[number] : ends[number + 1]].data, level))
    return EncodedEntries.join(MAGIC, pieces, base_offset, last_offset, max_timestamp)


def write_large_batch(
    records: Iterator[RecordGroups], codec: int, level: int | None, header: BatchHeader | None = None
) -> EncodedEntries:
    """Write one batch of records that come in pieces: groups of one record or more. Arguments as ``write_batches``."""
    body = bytearray()
    base = last = count = attribute = 0
    earliest = newest = NO_TIMESTAMP
    for number, groups in enumerate(records):
        table = groups.table
        if not number:
            base = int(table.offset[0])
            earliest = int(table.timestamp[0]) if header is None else header.base_timestamp
            newest = int(table.timestamp[0])
        data, _ = write_records(table, table.offset - base, table.timestamp - earliest)
        body += data.data
        last = int(table.offset[-1])
        count += table.rows
        if groups.is_log_append_time[0]:
            attribute, newest = LOG_APPEND_TIME, int(groups.timestamp[0])
        else:
            newest = max(newest, int(table.timestamp.max()))
    changed = _with_records(
        header or NEW_BATCH,
        base=base,
        last=last,
        earliest=earliest,
        newest=newest,
        attributes=codec | attribute,
        records=count,
    )
    piece = encode_batch(changed, body, level)
    return EncodedEntries.join(MAGIC, [piece], *(np.array([value]) for value in (base, last, newest)))


def _with_records(
    header: BatchHeader, *, base: int, last: int, earliest: int, newest: int, attributes: int, records: int
) -> BatchHeader:
    """``header`` with the fields that the records of a batch determine; ``attributes``: codec and timestamp type."""
    sequence = header.base_sequence
    if sequence != NO_SEQUENCE:
        sequence = increment_sequence(sequence, base - header.base_offset)
    return header._replace(
        base_offset=base,
        attributes=header.attributes & ~(CODEC_MASK | LOG_APPEND_TIME) | attributes,
        last_offset_delta=last - base,
        base_timestamp=earliest,
        max_timestamp=newest,
        base_sequence=sequence,
        record_count=records,
    )


def encode_batch(header: BatchHeader, records: Buffer, level: int | None) -> bytes:
    """A batch of these uncompressed records, compressed with the codec in the header."""
    if header.codec != compression.NONE:
        records = compression.compress(header.codec, records, magic=MAGIC, level=level)
    return write_batch(header, records)
