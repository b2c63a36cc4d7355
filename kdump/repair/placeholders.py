"""What is put where offsets are lost: empty batches, so that they are not given out again, and markers.

Source: docs/spec/repair.md#3-lost-offsets-are-not-given-out-again, docs/spec/repair.md#4-transactions-with-a-lost-end.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kdump.repair.draft import DraftTable
from kdump.repair.entry import Entry
from kdump.repair.inventory import examine
from kdump.repair.pieces import Lost, PieceOrigin
from kdump.repair.siblingcontext import SiblingContext
from kdump.repair.syntheticbatches import empty_batch, end_marker
from kdump.repair.transactions import Touched

_NO_EPOCH = -1


def held(loss: Lost, table: DraftTable, around: SiblingContext) -> Iterator[Entry]:
    """Empty batches over lost offsets.

    Each leader epoch that leader-epoch-checkpoint lets begin in between has its own.

    Args:
        loss: the offsets.
        table: the batches that there are.
        around: the files around the log.
    """
    first, last = loss.first_offset, loss.last_offset
    epoch, next_epoch = _epochs(first, table, around)
    starts, epochs = [first], [epoch]
    for entry in around.epochs:
        is_between = entry.epoch > epochs[-1] and (next_epoch is None or entry.epoch <= next_epoch)
        if first < entry.start_offset <= last and is_between:
            starts.append(entry.start_offset)
            epochs.append(entry.epoch)
    ends = [*(start - 1 for start in starts[1:]), last]
    for start, end, leader_epoch in zip(starts, ends, epochs, strict=True):
        yield _made(empty_batch(start, end, leader_epoch), PieceOrigin.HELD)


def marker(touched: Touched, offset: int, table: DraftTable, around: SiblingContext, *, is_abort: bool) -> Entry:
    """The marker of a transaction, ABORT or COMMIT, at ``offset``, which ``table`` has not."""
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
    """(leader epoch of a batch that is put at ``offset``, that of the batch behind, None where it has none)."""
    place = int(np.searchsorted(table.first, offset))
    epoch = int(table.leader_epoch[place - 1]) if place else _NO_EPOCH
    behind = int(table.rows["leader_epoch"][place]) if place < len(table) else _NO_EPOCH
    next_epoch = behind if behind >= 0 else None
    known = around.epoch_of(offset)
    if known is not None and epoch <= known and (next_epoch is None or known <= next_epoch):
        epoch = known
    elif epoch == _NO_EPOCH and next_epoch is not None:
        epoch = next_epoch
    return epoch, next_epoch


def _made(data: bytes, origin: PieceOrigin) -> Entry:
    row, _ = examine(memoryview(data), 0)
    return Entry(row, origin, None, data=data)
