"""The batches that salvage makes: empty ones, so that lost offsets are not given out again, and transaction markers.

Source: docs/spec/repair.md#3-lost-offsets-are-not-given-out-again, docs/spec/repair.md#4-transactions-with-a-lost-end;
docs/spec/formats.md#3-record-batches-v2; MemoryRecords.writeEmptyHeader (what the log cleaner leaves of a batch whose
records are gone) and MemoryRecords.writeEndTransactionalMarker of Kafka 4.3.1.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import Final

import numpy as np

from kdump.format.batch import CONTROL, HEADER_SIZE, LOG_OVERHEAD, TRANSACTIONAL
from kdump.format.control import ABORT, COMMIT
from kdump.log.resync import CheckedChunk
from kdump.repair.salvage.draft import DraftTable
from kdump.repair.salvage.entry import Entry
from kdump.repair.salvage.pieces import Lost, PieceOrigin
from kdump.repair.salvage.siblingcontext import SiblingContext
from kdump.repair.salvage.transactions import Touched
from kdump.verify.table import read_rows, row_at
from kdump.wire.checksum import crc32c

MOST_EPOCHS: Final = 10_000
"""How many epochs, the newest ones, get batches of their own; no partition has so many, unless somebody wrote them."""
_NO_EPOCH: Final = -1
_START_OFFSET: Final = attrgetter("start_offset")


def held(loss: Lost, table: DraftTable, around: SiblingContext) -> Iterator[Entry]:
    """Empty batches over lost offsets, one for each leader epoch of leader-epoch-checkpoint there.

    Older epochs than the newest MOST_EPOCHS of the partition get none.

    Args:
        loss: the offsets.
        table: the batches of the result.
        around: the files around the log.
    """
    first, last = loss.first_offset, loss.last_offset
    epoch, next_epoch = _epochs(first, table, around)
    starts, epochs = [first], [epoch]
    newest = max(0, len(around.epochs) - MOST_EPOCHS)
    begin, end = (bisect_right(around.epochs, offset, newest, key=_START_OFFSET) for offset in (first, last))
    for entry in around.epochs[begin:end]:
        if entry.epoch > epochs[-1] and (next_epoch is None or entry.epoch <= next_epoch):
            starts.append(entry.start_offset)
            epochs.append(entry.epoch)
    ends = [*(start - 1 for start in starts[1:]), last]
    for start, end, leader_epoch in zip(starts, ends, epochs, strict=True):
        yield _made(empty_batch(start, end, leader_epoch), PieceOrigin.HELD)


def marker(touched: Touched, offset: int, table: DraftTable, around: SiblingContext, *, is_abort: bool) -> Entry:
    """The marker of a transaction, ABORT or COMMIT, at an ``offset`` that ``table`` does not have."""
    transaction = touched.transaction
    leader_epoch, _ = _epochs(offset, table, around)
    data = end_marker(
        offset,
        leader_epoch,
        is_abort=is_abort,
        producer_id=transaction.producer_id,
        producer_epoch=touched.marker_epoch,
        coordinator_epoch=touched.coordinator_epoch,
        timestamp=touched.timestamp,
    )
    return _made(data, PieceOrigin.MARKER)


def _epochs(offset: int, table: DraftTable, around: SiblingContext) -> tuple[int, int | None]:
    """(leader epoch for a new batch at ``offset``, that of the next batch, None if that has none)."""
    place = int(np.searchsorted(table.first, offset))
    epoch = int(table.leader_epoch[place - 1]) if place else _NO_EPOCH
    after = int(table.rows["leader_epoch"][place]) if place < len(table) else _NO_EPOCH
    next_epoch = after if after >= 0 else None
    known = around.epoch_of(offset)
    if known is not None and epoch <= known and (next_epoch is None or known <= next_epoch):
        epoch = known
    elif epoch == _NO_EPOCH and next_epoch is not None:
        epoch = next_epoch
    return epoch, next_epoch


def _made(data: bytes, origin: PieceOrigin) -> Entry:
    rows = read_rows(CheckedChunk(memoryview(data), 0, [0], len(data), []), is_after_gap=False)
    return Entry(row_at(rows, 0), origin, None, data=data)


_HEAD: Final = struct.Struct(">qiibI")
_COVERED: Final = struct.Struct(">HiqqqhiI")
"""What the CRC covers of a header: attributes to record count."""
_MAGIC: Final = 2
_NONE: Final = -1
_MARKER: Final = struct.Struct(">bbbb b hh b hi b")
"""An end-of-transaction record: length, attributes, timestamp and offset delta, key, value, no headers."""
_MARKER_LENGTH: Final = 16
_KEY_SIZE: Final = 4
_VALUE_SIZE: Final = 6


def empty_batch(first_offset: int, last_offset: int, leader_epoch: int) -> bytes:
    """A batch without records (61 bytes) over offsets that are at most 2^31 - 1 apart; of no producer."""
    covered = _COVERED.pack(0, last_offset - first_offset, _NONE, _NONE, _NONE, _NONE, _NONE, 0)
    return _batch(first_offset, leader_epoch, covered)


def end_marker(
    offset: int,
    leader_epoch: int,
    *,
    is_abort: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
) -> bytes:
    """A batch with one marker, ABORT or COMMIT; ``timestamp`` in ms."""
    covered = _COVERED.pack(
        TRANSACTIONAL | CONTROL, 0, timestamp, timestamp, producer_id, producer_epoch, _NONE, 1
    ) + _MARKER.pack(
        *(_zigzag(_MARKER_LENGTH), 0, 0, 0),
        *(_zigzag(_KEY_SIZE), 0, ABORT if is_abort else COMMIT),
        *(_zigzag(_VALUE_SIZE), 0, coordinator_epoch),
        0,
    )
    return _batch(offset, leader_epoch, covered)


def _batch(base_offset: int, leader_epoch: int, covered: bytes) -> bytes:
    size = HEADER_SIZE - _COVERED.size + len(covered)
    return _HEAD.pack(base_offset, size - LOG_OVERHEAD, leader_epoch, _MAGIC, crc32c(covered)) + covered


def _zigzag(value: int) -> int:
    return value << 1
