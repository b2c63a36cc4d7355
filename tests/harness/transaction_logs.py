"""Random partitions of transactional producers, with every file that a broker keeps, and what its readers get of them.

Written from docs/spec/formats.md#32-control-records and docs/spec/recovery.md rules 7 to 9; the code under test is not
used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.harness.batches import (
    ABORT,
    COMMIT,
    CONTROL,
    NOW,
    TRANSACTIONAL,
    marker,
    plain_rows,
    producer_snapshot,
    v2_batch,
)

_HEADER = struct.Struct(">qiibIHiqqqhii")

View = dict[int, tuple[int, str]]
"""Producer id, and what a reader makes of it, of records by offset."""


@dataclass
class Producer:
    """``raises_epochs``: it writes as KIP-890 has it. ``open_from``: the first offset of its transaction."""

    producer_id: int
    raises_epochs: bool = False
    epoch: int = 0
    sequence: int = 0
    open_from: int | None = None
    last_offset: int = -1
    last_delta: int = 0
    has_marker: bool = False
    has_batch: bool = False


@dataclass
class Batch:
    """Where a batch lies. ``marker``: the type of the marker in it."""

    segment: int
    position: int
    size: int
    offset: int
    producer_id: int
    marker: int | None


@dataclass
class Partition:
    """Writes segments; ``batches`` are all of them."""

    logs: dict[int, bytearray] = field(default_factory=lambda: {0: bytearray()})
    aborted: dict[int, bytes] = field(default_factory=dict)
    snapshots: dict[int, bytes] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    producers: dict[int, Producer] = field(default_factory=dict)
    offset: int = 0
    base: int = 0
    time: int = NOW

    def data(self, producer_id: int, count: int, *, transactional: bool = True) -> None:
        """A batch; of no producer for -1."""
        producer = self.producers.get(producer_id)
        header = {}
        if producer is not None:
            attributes = TRANSACTIONAL if transactional else 0
            if transactional and producer.open_from is None:
                producer.open_from = self.offset
            header = {
                "producer_id": producer_id,
                "producer_epoch": producer.epoch,
                "base_sequence": producer.sequence,
                "attributes": attributes,
            }
            producer.sequence += count
            producer.last_offset, producer.last_delta = self.offset + count - 1, count - 1
            producer.has_batch = True
        self._add(v2_batch(plain_rows(count), base_offset=self.offset, base_timestamp=self.time, **header), producer_id)
        self.offset += count

    def end(self, producer_id: int, kind: int, *, fences: bool = False) -> None:
        """A marker; ``fences``: the coordinator takes the next epoch for it."""
        producer = self.producers[producer_id]
        if producer.raises_epochs or fences:
            producer.epoch += 1
            producer.sequence, producer.last_offset, producer.last_delta, producer.has_batch = 0, -1, 0, False
        batch = marker(
            self.offset, producer_id, kind, epoch=producer.epoch, coordinator_epoch=3, base_timestamp=self.time
        )
        self._add(batch, producer_id, kind)
        first, producer.open_from = producer.open_from, None
        producer.has_marker = True
        if kind == ABORT and first is not None:
            still_open = [one.open_from for one in self.producers.values() if one.open_from is not None]
            stable = min(still_open, default=self.offset + 1)
            entry = struct.pack(">hqqqq", 0, producer_id, first, self.offset, stable)
            self.aborted[self.base] = self.aborted.get(self.base, b"") + entry
        self.offset += 1

    def roll(self) -> None:
        """The next segment."""
        if not self.logs[self.base]:
            return
        self.take_snapshot()
        self.base = self.offset
        self.logs[self.base] = bytearray()

    def take_snapshot(self) -> None:
        """As a broker does when it makes a segment, and when it stops."""
        known = [one for one in self.producers.values() if one.has_batch or one.has_marker]
        self.snapshots[self.offset] = producer_snapshot(
            *(
                (
                    one.producer_id,
                    one.epoch,
                    one.sequence - 1 if one.has_batch else -1,
                    one.last_offset,
                    one.last_delta,
                    self.time,
                    3 if one.has_marker else -1,
                    -1 if one.open_from is None else one.open_from,
                )
                for one in known
            )
        )

    def write(self, directory: Path) -> None:
        """The files of a partition directory; of the index files only the .txnindex, others say nothing here."""
        directory.mkdir(parents=True)
        for base, log in self.logs.items():
            (directory / f"{base:020}.log").write_bytes(log)
        for base, index in self.aborted.items():
            (directory / f"{base:020}.txnindex").write_bytes(index)
        for offset, snapshot in self.snapshots.items():
            (directory / f"{offset:020}.snapshot").write_bytes(snapshot)

    def _add(self, batch: bytes, producer_id: int, marker: int | None = None) -> None:
        log = self.logs[self.base]
        self.batches.append(Batch(self.base, len(log), len(batch), self.offset, producer_id, marker))
        log += batch
        self.time += 7


def random_partition(random: Random, steps: int) -> Partition:
    """Transactions of up to four producers among the batches of others, over some segments."""
    partition = Partition()
    for producer_id in range(1, random.randint(2, 5)):
        partition.producers[producer_id] = Producer(producer_id, raises_epochs=random.random() < 0.4)
    partition.producers[9] = Producer(9)
    transactional = [number for number in partition.producers if number != 9]
    commits = random.choice((0.2, 0.5, 0.9))
    for _ in range(steps):
        choice = random.random()
        producer_id = random.choice(transactional)
        if choice < 0.45:
            partition.data(producer_id, random.randint(1, 4))
        elif choice < 0.8:
            if partition.producers[producer_id].open_from is not None:
                kind = COMMIT if random.random() < commits else ABORT
                partition.end(producer_id, kind, fences=kind == ABORT and random.random() < 0.2)
            elif random.random() < 0.1:
                partition.end(producer_id, ABORT)
        elif choice < 0.97:
            partition.data(random.choice((-1, 9)), random.randint(1, 4), transactional=False)
        else:
            partition.roll()
    if random.random() < 0.5:
        partition.take_snapshot()
    return partition


def reader_view(directory: Path) -> View:
    """(producer id, what a consumer with read_committed makes of it) of each record in a transaction, by offset.

    That is committed, aborted or open.

    As FetchedRecords does it: aborted transactions come from the .txnindex files, and end at their ABORT marker. An
    open one is told by the markers.
    """
    entries = []
    for path in directory.glob("*.txnindex"):
        entries += [entry[1:] for entry in struct.iter_unpack(">hqqqq", path.read_bytes())]
    entries.sort(key=lambda entry: entry[1])
    view: dict[int, tuple[int, str]] = {}
    aborting: set[int] = set()
    still_open: dict[int, list[int]] = {}
    for offset, last, producer_id, attributes, kind in _batches(directory):
        while entries and entries[0][1] <= last:
            aborting.add(entries.pop(0)[0])
        if attributes & CONTROL:
            if kind == ABORT:
                aborting.discard(producer_id)
            still_open.pop(producer_id, None)
        elif attributes & TRANSACTIONAL:
            offsets = list(range(offset, last + 1))
            state = "aborted" if producer_id in aborting else "committed"
            view |= dict.fromkeys(offsets, (producer_id, state))
            still_open.setdefault(producer_id, []).extend(offsets)
    for producer_id, offsets in still_open.items():
        view |= dict.fromkeys(offsets, (producer_id, "open"))
    return view


def _batches(directory: Path) -> Iterator[tuple[int, int, int, int, int | None]]:
    """(first offset, last offset, producer id, attributes, type of the marker)."""
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        position = 0
        while position < len(data):
            offset, length, _, _, _, attributes, delta, _, _, producer_id, _, _, count = _HEADER.unpack_from(
                data, position
            )
            kind = None
            if attributes & CONTROL:
                (kind,) = struct.unpack_from(">h", data, position + 68)
            if count:
                yield offset, offset + delta, producer_id, attributes, kind
            position += 12 + length
