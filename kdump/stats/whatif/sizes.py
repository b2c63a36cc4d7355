"""Bytes that records take in batches and messages."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.messageruns import message_runs
from kdump.fast.recordtable import RecordGroups
from kdump.fast.writerecords import write_records
from kdump.format.batch import MAGIC
from kdump.kafka.downconvert import convert_down
from kdump.wire import compression

_MESSAGE_OVERHEAD: Final = {0: 26, 1: 34}
"""Bytes of a message without key and value."""


def batch_bodies(
    groups: RecordGroups, base_offset: NDArray[np.int64], base_timestamp: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The records of each group as the records of a batch, uncompressed.

    Args:
        groups: the records.
        base_offset: of each batch, shape (groups,).
        base_timestamp: of each batch (ms), shape (groups,).

    Returns:
        The bytes, and where those of each batch begin; the last item is where the last one ends. Shape (groups + 1,).
    """
    table, rows = groups.table, groups.rows
    data, bounds = write_records(
        table, table.offset - np.repeat(base_offset, rows), table.timestamp - np.repeat(base_timestamp, rows)
    )
    return data, bounds[groups.bounds]


def compressed_sizes(data: NDArray[np.uint8], bounds: NDArray[np.int64], codec: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of each piece of ``data`` in its codec, at Kafka's default level; shape as ``codec``."""
    sizes: NDArray[np.int64] = np.diff(bounds)
    pieces = list(pairwise(bounds.tolist()))
    for number in np.flatnonzero(codec != compression.NONE).tolist():
        start, end = pieces[number]
        sizes[number] = len(compression.compress(int(codec[number]), data[start:end].data, magic=MAGIC))
    return sizes


def body_sizes(
    groups: RecordGroups, base_offset: NDArray[np.int64], base_timestamp: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Bytes of each group as records of a batch in its own codec; shape (groups,). Arguments as ``batch_bodies``."""
    data, bounds = batch_bodies(groups, base_offset, base_timestamp)
    return compressed_sizes(data, bounds, groups.codec)


def as_batches(groups: RecordGroups) -> RecordGroups:
    """Messages batched as a producer would have batched them; each wrapper becomes a batch of its own."""
    groups = groups.select(groups.rows > 0)
    return groups.regrouped(message_runs(groups)) if groups.count else groups


def first_of_each(groups: RecordGroups) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Offset and timestamp of the first record of each group, none of which is empty; shapes (groups,)."""
    first = groups.bounds[:-1]
    return groups.table.offset[first], groups.table.timestamp[first]


def message_bytes(groups: RecordGroups, magic: int) -> int:
    """Bytes of the records as messages of magic 0 or 1, in wrappers where they are compressed.

    These formats have no zstd: gzip takes its place.
    """
    groups = groups.select(groups.rows > 0)
    is_plain = groups.codec == compression.NONE
    plain, wrapped = groups.select(is_plain), groups.select(~is_plain)
    table = plain.table
    size = table.rows * _MESSAGE_OVERHEAD[magic]
    size += int(np.maximum(table.key_size, 0).sum(dtype=np.int64) + np.maximum(table.value_size, 0).sum(dtype=np.int64))
    codec = np.where(wrapped.codec == compression.ZSTD, compression.GZIP, wrapped.codec)
    return size + sum(len(memoryview(encoded.data)) for encoded in convert_down(wrapped, magic, codec))
