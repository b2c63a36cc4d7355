"""What one run of the log cleaner leaves of a partition: the Cleaner of Kafka, from the log's first offset on.

Source: KIP-58, KIP-98, KIP-534 (delete horizons); what these leave open was measured on the real code.
tests/oracle/test_maintenance.py compares both. The rules:

- The active segment and those from the one on in which the first open transaction begins are not cleaned.
- Of each key the newest record in the cleaned segments stays; records of aborted transactions do not count.
- A batch with a tombstone gets a delete horizon (now + delete.retention.ms) where it has none; once that has passed the
  tombstones go. A transaction marker goes the same way once no batch of its transaction is left.
- Records without key go.
- An empty batch stays for the last sequence of a producer that is still known, and where the high watermark follows
  it (in older releases: at the end of what is cleaned). It is assumed that the high watermark is at the end of the log.
- Changed batches are rewritten as magic 2, and messages of magic 0 and 1 always are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.fast.hashing import digest_ranges
from kdump.fast.headers import native_column
from kdump.fast.recordtable import RecordGroups
from kdump.format import control
from kdump.format.batch import CONTROL, DELETE_HORIZON, MAGIC, TRANSACTIONAL
from kdump.format.legacy import NO_TIMESTAMP

DELETE_RETENTION_MS: Final = 86_400_000
"""Default of delete.retention.ms."""
PRODUCER_EXPIRATION_MS: Final = 86_400_000
"""Default of producer.id.expiration.ms: a producer that is silent for so long is forgotten."""
_FEWEST_PENDING: Final = 1 << 20


class NewestOffsets:
    """The offset of the newest record of each key, by digests of the keys as in Kafka's own offset map.

    It needs 24 bytes for each key, and four times as much while new keys are merged into it.
    """

    def __init__(self) -> None:
        self._high = np.empty(0, np.int64)
        self._low = np.empty(0, np.int64)
        self._offset = np.empty(0, np.int64)
        self._pending: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
        self._pending_rows = 0

    def see(self, groups: RecordGroups, is_aborted: NDArray[np.bool_]) -> None:
        """Add the next entries that are cleaned. ``is_aborted``: of aborted transactions, shape (groups,)."""
        table = groups.table
        counts = np.repeat(~(is_aborted | groups.is_control), groups.rows) & (table.key_size >= 0)
        self.add(*digest_ranges(table.arena, table.key_start[counts], table.key_size[counts]), table.offset[counts])

    def add(self, high: NDArray[np.int64], low: NDArray[np.int64], offset: NDArray[np.int64]) -> None:
        """Add the digests of the next keys, in two halves, and the offsets of their records; shapes (rows,)."""
        self._pending.append((high, low, offset))
        self._pending_rows += high.size
        if self._pending_rows > max(_FEWEST_PENDING, self._offset.size):
            self._merge()

    @property
    def distinct(self) -> int:
        """How many keys there are."""
        self._merge()
        return self._offset.size

    def offsets(self) -> NDArray[np.int64]:
        """The offsets, rising; shape (keys,)."""
        self._merge()
        return np.sort(self._offset)

    def _merge(self) -> None:
        if not self._pending:
            return
        high, low, offset = (
            np.concatenate([kept, *new])
            for kept, new in zip((self._high, self._low, self._offset), zip(*self._pending, strict=True), strict=True)
        )
        self._pending, self._pending_rows = [], 0
        # Stable: the records of a key stay in the order in which they came.
        order = np.argsort(high, kind="stable")
        high, low = high[order], low[order]
        is_same = high[1:] == high[:-1]
        if (low[1:][is_same] != low[:-1][is_same]).any():
            # Two keys share a half.
            by_both = np.lexsort((low, high))
            order, high, low = order[by_both], high[by_both], low[by_both]
            is_same = high[1:] == high[:-1]
        is_newest = np.ones(high.size, np.bool_)
        is_newest[:-1] = ~(is_same & (low[1:] == low[:-1]))
        self._high, self._low = high[is_newest], low[is_newest]
        self._offset = offset[order][is_newest]


class _LastBatch(NamedTuple):
    """The end of a producer's newest data batch or marker, its epoch, and its time (ms)."""

    last_offset: int
    epoch: int
    timestamp: int


@dataclass
class ActiveProducers:
    """What a broker knows of the producers of a log, because of which the cleaner keeps some batches."""

    _data: dict[int, _LastBatch] = field(default_factory=dict)
    _markers: dict[int, _LastBatch] = field(default_factory=dict)

    def see(self, headers: NDArray[np.void]) -> None:
        """Add the next batches, of any segment; shape (batches,) of ``format.batch.header_dtype``."""
        producer = native_column(headers, "producer_id")
        is_control = headers["attributes"] & CONTROL != 0
        for found, is_of_kind in ((self._data, ~is_control), (self._markers, is_control)):
            reverse = np.flatnonzero((producer >= 0) & is_of_kind)[::-1]
            rows = reverse[np.unique(producer[reverse], return_index=True)[1]]
            last = native_column(headers, "base_offset")[rows] + native_column(headers, "last_offset_delta")[rows]
            epoch, timestamp = headers["producer_epoch"][rows], headers["max_timestamp"][rows]
            for number, *values in zip(
                producer[rows].tolist(), last.tolist(), epoch.tolist(), timestamp.tolist(), strict=True
            ):
                found[number] = _LastBatch(*values)

    def kept(self, now: int, open_producers: frozenset[int]) -> tuple[dict[int, int], dict[int, int]]:
        """(the last offset of the data batch, the epoch of the markers) that are kept, by producer id.

        Args:
            now: ms since 1970; producers that are silent for PRODUCER_EXPIRATION_MS are forgotten.
            open_producers: those with an open transaction are not.
        """
        offsets, epochs = {}, {}
        for producer in self._data.keys() | self._markers.keys():
            data, marker = self._data.get(producer), self._markers.get(producer)
            newest = max(filter(None, (data, marker)))
            if now - newest.timestamp >= PRODUCER_EXPIRATION_MS and producer not in open_producers:
                continue
            # A marker of another epoch makes a broker forget the last data batch.
            if data is not None and (marker is None or newest is data or marker.epoch == data.epoch):
                offsets[producer] = data.last_offset
            else:
                epochs[producer] = newest.epoch
        return offsets, epochs


@dataclass(frozen=True, slots=True)
class Retained:
    """What a run keeps of some batches or messages."""

    rows: NDArray[np.bool_]
    """Shape (rows,): the records that stay."""
    left: NDArray[np.int64]
    """Shape (groups,): how many of each stay."""
    is_rewritten: NDArray[np.bool_]
    """Shape (groups,): some records stay, and the batch is not copied as it is."""
    is_emptied: NDArray[np.bool_]
    """Shape (groups,): no record stays, the batch does."""
    base_timestamp: NDArray[np.int64]
    """Base timestamps of the rewritten batches (ms), shape (groups,); the delete horizon if there is one."""
    is_gone: NDArray[np.bool_]
    """Shape (groups,)."""


class _KeptRecords(NamedTuple):
    """The records that stay of some entries, or of a piece of one; the arrays but ``rows`` have the shape (groups,)."""

    rows: NDArray[np.bool_]
    """Shape (rows,)."""
    left: NDArray[np.int64]
    loses_rows: NDArray[np.bool_]
    has_tombstones: NDArray[np.bool_]
    first_timestamp: NDArray[np.int64]
    """Of the first record that stays (ms), -1 without one."""

    def with_more(self, other: _KeptRecords) -> _KeptRecords:
        """With those of the next piece of the same entry."""
        return _KeptRecords(
            np.append(self.rows, other.rows),
            self.left + other.left,
            self.loses_rows | other.loses_rows,
            self.has_tombstones | other.has_tombstones,
            np.where(self.left > 0, self.first_timestamp, other.first_timestamp),
        )


class Cleaning:
    """One run over the cleaned segments of a partition.

    Args:
        newest: of the keys in them.
        kept_before: a batch that ends before this offset stays, even empty; see Release.keeps_batch_at_high_watermark.
        now: ms since 1970.
        delete_retention_ms: how long tombstones and markers stay.
        producers: of the whole log, cleaned or not.
        open_producers: ids of those with an open transaction.
    """

    def __init__(
        self,
        newest: NewestOffsets,
        *,
        kept_before: int,
        now: int,
        delete_retention_ms: int,
        producers: ActiveProducers,
        open_producers: frozenset[int],
    ) -> None:
        self._offsets = newest.offsets()
        self._kept_before = kept_before
        self._now = now
        self._delete_retention_ms = delete_retention_ms
        self._last_data, self._last_epochs = producers.kept(now, open_producers)
        self._in_transaction: set[int] = set()
        self.without_key = 0
        """How many records without a key go."""
        self.tombstones = 0
        """How many tombstones stay until their delete horizon."""

    def filter(self, pieces: Iterable[RecordGroups], is_aborted: NDArray[np.bool_]) -> Retained:
        """What stays of the next entries.

        Args:
            pieces: the records of the entries; those of one large entry may come in several pieces.
            is_aborted: the entries are of aborted transactions, shape (groups,).
        """
        pieces = iter(pieces)
        groups = next(pieces)
        is_control, horizon = groups.is_control, _horizons(groups)
        is_passed = (horizon != NO_TIMESTAMP) & (horizon <= self._now)
        is_spent = self._spent_markers(groups, is_control)
        is_discarded = np.where(is_control, is_spent & is_passed, is_aborted)
        kept = self._kept(groups, is_discarded, is_passed)
        for piece in pieces:
            kept = kept.with_more(self._kept(piece, is_discarded, is_passed))

        left, is_there = kept.left, kept.left > 0
        needs_horizon = (kept.has_tombstones | is_spent) & (horizon == NO_TIMESTAMP)
        is_rewritten = is_there & (kept.loses_rows | needs_horizon | (groups.magic < MAGIC))
        base = np.where(needs_horizon, self._now + self._delete_retention_ms, horizon)
        is_emptied = ~is_there & self._keeps_empty(groups, is_control)
        return Retained(
            kept.rows,
            left,
            is_rewritten,
            is_emptied,
            np.where(base == NO_TIMESTAMP, kept.first_timestamp, base),
            ~is_there & ~is_emptied,
        )

    def _kept(
        self, groups: RecordGroups, is_discarded: NDArray[np.bool_], is_passed: NDArray[np.bool_]
    ) -> _KeptRecords:
        """The records that stay.

        Args:
            groups: the records.
            is_discarded: no record stays, shape (groups,).
            is_passed: the delete horizon is over, shape (groups,).
        """
        table, rows, is_control = groups.table, groups.rows, groups.is_control
        is_newest = np.zeros(table.rows, np.bool_)
        if self._offsets.size:
            at = np.minimum(np.searchsorted(self._offsets, table.offset), self._offsets.size - 1)
            is_newest = self._offsets[at] == table.offset
        has_key, is_tombstone = table.key_size >= 0, table.value_size < 0
        is_data = np.repeat(~is_control & ~is_discarded, rows)
        self.without_key += int(np.count_nonzero(is_data & ~has_key))
        stays = has_key & is_newest & ~(is_tombstone & np.repeat(is_passed, rows))
        kept = np.where(np.repeat(is_control, rows), True, stays) & ~np.repeat(is_discarded, rows)

        left = _per_group(groups, kept)
        self.tombstones += int(np.count_nonzero(kept & is_tombstone & is_data))
        first_kept = np.full(groups.count, NO_TIMESTAMP)
        kept_rows = np.flatnonzero(kept)
        first_kept[left > 0] = table.timestamp[kept_rows[(np.cumsum(left) - left)[left > 0]]]
        return _KeptRecords(kept, left, left < rows, _per_group(groups, kept & is_tombstone) > 0, first_kept)

    def _spent_markers(self, groups: RecordGroups, is_control: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which batches are markers of transactions that have no batch left; shape (groups,)."""
        is_spent = np.zeros(groups.count, np.bool_)
        headers = groups.headers
        if headers is None:
            return is_spent
        producer = native_column(headers, "producer_id")
        is_transactional = headers["attributes"] & TRANSACTIONAL != 0
        if not is_control.any():
            self._in_transaction.update(np.unique(producer[is_transactional]).tolist())
            return is_spent
        types = groups.control_types
        for number in np.flatnonzero(is_transactional | is_control).tolist():
            if not is_control[number]:
                self._in_transaction.add(int(producer[number]))
            elif groups.rows[number] == 0:
                is_spent[number] = True
            elif types[number] in (control.ABORT, control.COMMIT):
                is_spent[number] = int(producer[number]) not in self._in_transaction
                self._in_transaction.discard(int(producer[number]))
        return is_spent

    def _keeps_empty(self, groups: RecordGroups, is_control: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which batches stay even without records; shape (groups,)."""
        headers = groups.headers
        if headers is None:
            return np.zeros(groups.count, np.bool_)
        last_offset = native_column(headers, "base_offset") + native_column(headers, "last_offset_delta")
        keeps: NDArray[np.bool_] = last_offset + 1 == self._kept_before
        producer, epoch = native_column(headers, "producer_id"), native_column(headers, "producer_epoch")
        # Only few batches can stay: those that end where the last one of some producer does, and markers.
        may_be_last = ~is_control & np.isin(last_offset, list(self._last_data.values()))
        may_be_last |= is_control & np.isin(producer, list(self._last_epochs)) if self._last_epochs else False
        for number in np.flatnonzero(may_be_last).tolist():
            own = int(producer[number])
            if is_control[number]:
                keeps[number] |= self._last_epochs[own] == epoch[number]
            else:
                keeps[number] |= self._last_data.get(own) == last_offset[number]
        return keeps


def _horizons(groups: RecordGroups) -> NDArray[np.int64]:
    """The delete horizon of each batch (ms), -1 where there is none."""
    if groups.headers is None:
        return np.full(groups.count, NO_TIMESTAMP, np.int64)
    has_horizon = groups.headers["attributes"] & DELETE_HORIZON != 0
    horizon: NDArray[np.int64] = np.where(has_horizon, native_column(groups.headers, "base_timestamp"), NO_TIMESTAMP)
    return horizon


def _per_group(groups: RecordGroups, rows: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many of the ``rows`` (a mask) each group has; shape (groups,)."""
    counted = np.append(0, np.cumsum(rows, dtype=np.int64))
    count: NDArray[np.int64] = np.diff(counted[groups.bounds])
    return count
