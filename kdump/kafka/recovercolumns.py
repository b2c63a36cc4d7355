"""The entries of a chunk as columns, for a recovery that takes many of them at once (``kdump.kafka.recover``).

CRCs, offsets and index entries are checked for the whole chunk. Where one may fail, the chunk is left to the walk over
single entries. Most batches of a producer only replace what is known of its last batch. Those that may do more run one
by one: markers, and the first and the last batch between two markers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.headers import native_column, read_headers
from kdump.fast.ragged import windows
from kdump.format.batch import CONTROL, HEADER_SIZE, MAGIC_OFFSET, MAX_INT32, TRANSACTIONAL, batch_crc
from kdump.format.legacy import NO_TIMESTAMP, head_dtype, message_crc
from kdump.kafka.segmentindexes import BatchesPlan, IndexBuilder
from kdump.log.walk import Chunk

_LEGACY_HEAD: Final = head_dtype(1)
"""The smallest entry; in magic 0 other fields are at the place of the timestamp."""

_NO_PRODUCER: Final = -1
_NO_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class GoodEntries:
    """The entries of a chunk whose CRCs are right; every array has the shape (entries,)."""

    base_offset: NDArray[np.int64]
    last_offset: NDArray[np.int64]
    max_timestamp: NDArray[np.int64]
    leader_epoch: NDArray[np.int64]
    """-1 for legacy entries."""
    producer_id: NDArray[np.int64]
    """-1 for legacy entries."""
    attributes: NDArray[np.int64]
    is_v2: NDArray[np.bool_]

    def fit(self, base_offset: int) -> bool:
        """Whether a segment with this base offset can hold all offsets."""
        relative = self.last_offset - base_offset
        return not ((relative < 0) | (relative > MAX_INT32) | (self.base_offset < 0)).any()

    def plan_indexes(self, indexes: IndexBuilder, chunk: Chunk, count: int) -> BatchesPlan | None:
        """What the first ``count`` entries of the chunk add to the indexes; None if one may fail."""
        return indexes.plan_batches(
            chunk.position, chunk.starts[:count], self.last_offset[:count], self.max_timestamp[:count]
        )

    def producer_rows(self, count: int) -> list[int]:
        """Which of the first ``count`` entries must be applied one by one, see ``_producer_rows``."""
        rows: list[int] = _producer_rows(self.producer_id[:count], self.attributes[:count]).tolist()
        return rows

    def new_epochs(self, count: int, latest: int) -> list[tuple[int, int]]:
        """(leader epoch, base offset) where one of the first ``count`` entries is above ``latest`` and all before."""
        epochs = self.leader_epoch[:count]
        highest = np.maximum.accumulate(epochs)
        before = np.maximum(np.append(latest, highest[:-1]), latest)
        rows = np.flatnonzero(epochs > before)
        return list(zip(epochs[rows].tolist(), self.base_offset[rows].tolist(), strict=True))

    def end_of_v2(self, count: int) -> int | None:
        """The offset after the last batch of magic 2 among the first ``count`` entries; None if there is none."""
        rows = np.flatnonzero(self.is_v2[:count])
        return int(self.last_offset[rows[-1]]) + 1 if rows.size else None


def read_entries(chunk: Chunk) -> GoodEntries | None:
    """The chunk's entries as columns; None if the CRC or the length of one is wrong."""
    view = chunk.data
    data = np.frombuffer(view, np.uint8)
    starts = np.array(chunk.starts, np.int64)
    is_v2 = data[starts + MAGIC_OFFSET].view(np.int8) >= 2
    if is_v2.all():
        return _read_v2(view, data, starts, chunk)
    ends = np.append(starts[1:], chunk.end)
    v2_starts, v2_ends = starts[is_v2], ends[is_v2]
    if (v2_ends - v2_starts < HEADER_SIZE).any():
        return None
    legacy_starts = starts[~is_v2]
    heads = windows(data, _LEGACY_HEAD.itemsize)[legacy_starts].view(_LEGACY_HEAD)
    crcs = [
        message_crc(view, start, end) for start, end in zip(legacy_starts.tolist(), ends[~is_v2].tolist(), strict=True)
    ]
    headers = read_headers(data, v2_starts)
    if crcs != heads["crc"].tolist() or not _crcs_hold(view, v2_starts.tolist(), v2_ends.tolist(), headers):
        return None
    offset = heads["offset"].astype(np.int64)
    timestamp = heads["timestamp"].astype(np.int64)
    timestamp[heads["magic"] == 0] = NO_TIMESTAMP
    v2 = _v2_columns(headers)

    def merged(of_v2: NDArray[np.int64], of_legacy: NDArray[np.int64] | int) -> NDArray[np.int64]:
        column = np.empty(starts.size, np.int64)
        column[is_v2] = of_v2
        column[~is_v2] = of_legacy
        return column

    return GoodEntries(
        merged(v2.base_offset, offset),
        merged(v2.last_offset, offset),
        merged(v2.max_timestamp, timestamp),
        merged(v2.leader_epoch, _NO_EPOCH),
        merged(v2.producer_id, _NO_PRODUCER),
        merged(v2.attributes, 0),
        is_v2,
    )


def _read_v2(view: memoryview, data: NDArray[np.uint8], starts: NDArray[np.int64], chunk: Chunk) -> GoodEntries | None:
    if (np.diff(starts, append=chunk.end) < HEADER_SIZE).any():
        return None
    headers = read_headers(data, starts)
    if not _crcs_hold(view, chunk.starts, [*chunk.starts[1:], chunk.end], headers):
        return None
    return _v2_columns(headers)


def _crcs_hold(view: memoryview, starts: list[int], ends: list[int], headers: NDArray[np.void]) -> bool:
    computed = [batch_crc(view, start, end) for start, end in zip(starts, ends, strict=True)]
    crcs: list[int] = headers["crc"].tolist()
    return computed == crcs


def _v2_columns(headers: NDArray[np.void]) -> GoodEntries:
    base_offset = native_column(headers, "base_offset")
    return GoodEntries(
        base_offset,
        base_offset + native_column(headers, "last_offset_delta"),
        native_column(headers, "max_timestamp"),
        native_column(headers, "partition_leader_epoch"),
        native_column(headers, "producer_id"),
        native_column(headers, "attributes"),
        np.ones(headers.size, np.bool_),
    )


def producer_entries(chunk: Chunk) -> list[int] | None:
    """Numbers of the entries of a chunk that must be applied one by one (``_producer_rows``). CRCs are not checked.

    None if one is shorter than a header.
    """
    data = np.frombuffer(chunk.data, np.uint8)
    starts = np.array(chunk.starts, np.int64)
    v2_rows = np.flatnonzero(data[starts + MAGIC_OFFSET].view(np.int8) >= 2)
    if (np.diff(starts, append=chunk.end)[v2_rows] < HEADER_SIZE).any():
        return None
    columns = _v2_columns(read_headers(data, starts[v2_rows]))
    rows: list[int] = v2_rows[_producer_rows(columns.producer_id, columns.attributes)].tolist()
    return rows


def _producer_rows(producer_id: NDArray[np.int64], attributes: NDArray[np.int64]) -> NDArray[np.intp]:
    """Which entries must be applied one by one, in order, to give each producer's state.

    Take the batches of one producer between two markers that have the same transactional bit. The first may open a
    transaction, or break one. Each one after it only replaces what is known of the last batch.
    """
    rows = np.flatnonzero(producer_id >= 0)
    if not rows.size:
        return rows
    rows = rows[np.argsort(producer_id[rows], kind="stable")]
    producer_id = producer_id[rows]
    kind = attributes[rows] & (TRANSACTIONAL | CONTROL)
    is_control = kind & CONTROL > 0
    differs = (producer_id[1:] != producer_id[:-1]) | (kind[1:] != kind[:-1]) | is_control[1:]
    return np.sort(rows[np.append(True, differs) | np.append(differs, True)])
