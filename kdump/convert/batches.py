"""Records as batches of magic 2.

Source: docs/spec/formats.md#3-record-batches-v2. A batch keeps other fields of the batch it was in the header.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

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
    for number, (values, (start, end)) in enumerate(
        zip(
            zip(*(column.tolist() for column in columns), strict=True),
            pairwise(bounds[groups.bounds].tolist()),
            strict=True,
        )
    ):
        header = _Determined(*values).put_into(NEW_BATCH if headers is None else headers[number])
        pieces.append(encode_batch(header, data[start:end].data, level))
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
    determined = _Determined(base, last, earliest, newest, codec | attribute, count)
    changed = determined.put_into(header or NEW_BATCH)
    piece = encode_batch(changed, body, level)
    return EncodedEntries.join(MAGIC, [piece], *(np.array([value]) for value in (base, last, newest)))


class _Determined(NamedTuple):
    """The header fields that the records of a batch determine."""

    base: int
    last: int
    earliest: int
    newest: int
    attributes: int
    """The codec and the timestamp type."""
    records: int

    def put_into(self, header: BatchHeader) -> BatchHeader:
        """``header`` with these fields."""
        return header._replace(
            base_offset=self.base,
            attributes=header.attributes & ~(CODEC_MASK | LOG_APPEND_TIME) | self.attributes,
            last_offset_delta=self.last - self.base,
            base_timestamp=self.earliest,
            max_timestamp=self.newest,
            base_sequence=_moved(header, self.base),
            record_count=self.records,
        )


def encode_batch(header: BatchHeader, records: Buffer, level: int | None) -> bytes:
    """A batch of these uncompressed records, compressed with the codec in the header."""
    if header.codec != compression.NONE:
        records = compression.compress(header.codec, records, magic=MAGIC, level=level)
    return write_batch(header, records)


def _moved(header: BatchHeader, base_offset: int) -> int:
    if header.base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    return increment_sequence(header.base_sequence, base_offset - header.base_offset)
