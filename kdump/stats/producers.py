"""Producers with their epochs, and the last sequence of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import CONTROL, MAX_INT32
from kdump.stats.grouping import Assigned
from kdump.stats.tally import LEAST
from kdump.verify.table import NO_PRODUCER

NO_SEQUENCE = -1


@dataclass(slots=True)
class ProducerStats:
    """One producer in one group."""

    producer_id: int
    epochs: set[int] = field(default_factory=set)
    batches: int = 0
    records: int = 0
    size: int = 0
    """Bytes of its batches, markers included."""
    last_offset: int = LEAST
    last_sequence: int = NO_SEQUENCE
    """Last sequence of its last batch with a sequence."""
    last_sequenced: int = LEAST
    """Last offset of that batch."""
    last_timestamp: int = -1
    """Milliseconds."""

    def add(self, other: ProducerStats) -> None:
        """Add the figures of another part; the order of parts does not matter."""
        self.epochs |= other.epochs
        self.batches += other.batches
        self.records += other.records
        self.size += other.size
        self.last_offset = max(self.last_offset, other.last_offset)
        self.last_timestamp = max(self.last_timestamp, other.last_timestamp)
        mine, theirs = (self.last_sequenced, self.last_sequence), (other.last_sequenced, other.last_sequence)
        self.last_sequenced, self.last_sequence = max(mine, theirs)


class Producers:
    """The producers that wrote to each group."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], ProducerStats] = {}

    def add(self, rows: NDArray[np.void], assigned: Assigned) -> None:
        """Add valid rows of the batch table."""
        chosen = np.flatnonzero(rows["producer_id"] != NO_PRODUCER)
        if not chosen.size:
            return
        group, rows = assigned.of_rows(rows.size)[chosen], rows[chosen]
        order = np.lexsort((rows["last_offset"], rows["producer_epoch"], rows["producer_id"], group))
        group, rows = group[order], rows[order]
        producer, epoch = rows["producer_id"], rows["producer_epoch"]
        is_first = np.ones(rows.size, np.bool_)
        is_first[1:] = (np.diff(group) != 0) | (np.diff(producer) != 0) | (np.diff(epoch) != 0)
        first = np.flatnonzero(is_first)
        last = np.append(first[1:], rows.size) - 1
        has_sequence = (rows["base_sequence"] >= 0) & (rows["attributes"] & CONTROL == 0)
        # The newest row with a sequence in each part; rows rise by offset.
        newest = np.maximum.reduceat(np.where(has_sequence, np.arange(rows.size), -1), first)
        sequence = _last_sequence(rows[newest])
        columns: list[NDArray[Any]] = [
            group[first],
            producer[first],
            epoch[first],
            np.diff(first, append=rows.size),
            np.add.reduceat(np.maximum(rows["record_count"], 0).astype(np.int64), first),
            np.add.reduceat(rows["size"], first),
            rows["last_offset"][last],
            np.where(newest < 0, NO_SEQUENCE, sequence),
            np.where(newest < 0, LEAST, rows["last_offset"][newest]),
            np.maximum.reduceat(rows["max_timestamp"], first),
        ]
        for of_group, producer_id, own_epoch, *figures in zip(*(column.tolist() for column in columns), strict=True):
            self._take(of_group, ProducerStats(producer_id, {own_epoch}, *figures))

    def merge(self, other: Producers, ids: NDArray[np.int64]) -> None:
        """Merge producers of other groups, whose ids here are ``ids``."""
        for (group, _), stats in other._found.items():
            self._take(int(ids[group]), stats)

    def by_group(self) -> dict[int, list[ProducerStats]]:
        """The producers of each group that has some, those with the most bytes first."""
        found: dict[int, list[ProducerStats]] = {}
        for (group, _), stats in self._found.items():
            found.setdefault(group, []).append(stats)
        for producers in found.values():
            producers.sort(key=lambda stats: (-stats.size, stats.producer_id))
        return found

    def _take(self, group: int, stats: ProducerStats) -> None:
        own = self._found.get((group, stats.producer_id))
        if own is None:
            own = self._found[group, stats.producer_id] = ProducerStats(stats.producer_id)
        own.add(stats)


def _last_sequence(rows: NDArray[np.void]) -> NDArray[np.int64]:
    """As ``BatchRow.last_sequence``: 0 follows the largest sequence."""
    last = rows["base_sequence"].astype(np.int64) + rows["last_offset"] - rows["base_offset"]
    wrapped: NDArray[np.int64] = np.where(last > MAX_INT32, last - MAX_INT32 - 1, last)
    return wrapped
