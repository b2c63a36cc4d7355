"""Batches as messages of an older format: what ``RecordsUtil.downConvert`` of kafka-clients 3.9.1 makes of them.

Source: docs/spec/down-conversion.md#1-down-conversion; 3.9.1 is the last line that writes magic 0 and 1. Headers,
producer fields, leader epoch, transactional flag and delete horizon are lost; records of aborted transactions are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kdump.fast.encoded import EncodedEntries
from kdump.fast.recordtable import RecordGroups
from kdump.fast.writemessages import write_messages
from kdump.format.batch import LOG_APPEND_TIME
from kdump.format.legacy import NO_TIMESTAMP, write_message
from kdump.wire import compression
from kdump.wire.output import Output


def convert_down(
    groups: RecordGroups, to_magic: int, codec: NDArray[np.int64], level: int | None = None
) -> Iterator[EncodedEntries]:
    """The records of ``groups`` as messages, in order; groups without records give nothing.

    An uncompressed group becomes one message for each record, with absolute offsets; a compressed one a wrapper.

    Args:
        groups: batches, or messages of a newer format than asked for.
        to_magic: 0 or 1.
        codec: of each group's result, shape (groups,), 0 to 3; downConvert keeps that of the source.
        level: of the codec; None: Kafka's default, as downConvert has it.
    """
    filled = groups.rows > 0
    groups, is_wrapped = groups.select(filled), codec[filled] != compression.NONE
    codec = codec[filled]
    cuts = [0, *(np.flatnonzero(np.diff(is_wrapped)) + 1).tolist(), groups.count]
    for first, last in pairwise(cuts if groups.count else []):
        part = groups.between(first, last)
        if is_wrapped[first]:
            yield _wrappers(part, to_magic, codec[first:last], level)
        else:
            yield _messages(part, to_magic)


def convert_large(
    records: Iterator[RecordGroups], to_magic: int, codec: int, level: int | None, limit: int
) -> Iterator[EncodedEntries]:
    """The records of one batch or message as messages; the batch comes in pieces, each of one group.

    ``limit``: most bytes of messages in the wrapper, as its readers have such a bound too. Raises DamageError
    PAYLOAD_TOO_LARGE.
    """
    if codec == compression.NONE:
        for groups in records:
            yield _messages(groups, to_magic)
        return
    content = Output(limit)
    first = last = 0
    latest, attributes = NO_TIMESTAMP, codec
    for number, groups in enumerate(records):
        table = groups.table
        first = first if number else int(table.offset[0])
        last = int(table.offset[-1])
        inner_offset = table.offset - first if to_magic > 0 else table.offset
        data, _ = write_messages(table, to_magic, inner_offset, _attributes(groups, to_magic))
        content.add(bytearray(data.data))
        if to_magic > 0 and groups.is_log_append_time[0]:
            latest, attributes = int(groups.timestamp[0]), codec | LOG_APPEND_TIME
        elif to_magic > 0:
            latest = max(latest, int(table.timestamp.max()))
    value = compression.compress(codec, content.content(), magic=to_magic, level=level)
    piece = write_message(to_magic, offset=last, attributes=attributes, timestamp=latest, key=None, value=value)
    yield EncodedEntries.join(to_magic, [piece], *(np.array([value]) for value in (first, last, latest)))


def _messages(groups: RecordGroups, to_magic: int) -> EncodedEntries:
    table = groups.table
    data, bounds = write_messages(table, to_magic, table.offset, _attributes(groups, to_magic))
    max_timestamp = table.timestamp if to_magic > 0 else np.full(table.rows, NO_TIMESTAMP)
    return EncodedEntries(to_magic, data.data, bounds, table.offset, table.offset, max_timestamp)


def _wrappers(groups: RecordGroups, to_magic: int, codec: NDArray[np.int64], level: int | None) -> EncodedEntries:
    table = groups.table
    first_offset, last_offset = table.offset[groups.bounds[:-1]], table.offset[groups.bounds[1:] - 1]
    # From magic 1 on inner offsets are relative to the first record's.
    inner_offset = table.offset - np.repeat(first_offset, groups.rows) if to_magic > 0 else table.offset
    data, bounds = write_messages(table, to_magic, inner_offset, _attributes(groups, to_magic))
    if to_magic > 0:
        latest = np.maximum(np.maximum.reduceat(table.timestamp, groups.bounds[:-1]), NO_TIMESTAMP)
        timestamp = np.where(groups.is_log_append_time, groups.timestamp, latest)
    else:
        timestamp = np.full(groups.count, NO_TIMESTAMP)
    attributes = codec | (np.where(groups.is_log_append_time, LOG_APPEND_TIME, 0) if to_magic > 0 else 0)
    pieces = [
        write_message(
            to_magic,
            offset=offset,
            attributes=attribute,
            timestamp=time,
            key=None,
            value=compression.compress(kind, data[start:end].data, magic=to_magic, level=level),
        )
        for offset, attribute, time, kind, (start, end) in zip(
            last_offset.tolist(),
            attributes.tolist(),
            timestamp.tolist(),
            codec.tolist(),
            pairwise(bounds[groups.bounds].tolist()),
            strict=True,
        )
    ]
    return EncodedEntries.join(to_magic, pieces, first_offset, last_offset, timestamp)


def _attributes(groups: RecordGroups, to_magic: int) -> NDArray[np.uint8] | int:
    """The attributes of the messages: the timestamp type, which magic 0 does not have."""
    if to_magic == 0 or not groups.is_log_append_time.any():
        return 0
    return np.repeat(np.where(groups.is_log_append_time, LOG_APPEND_TIME, 0).astype(np.uint8), groups.rows)
