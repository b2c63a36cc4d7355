"""Random partitions as brokers and the log cleaner write them; the code under test is not used."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.harness.batches import CODECS, DELETE_HORIZON, LOG_APPEND_TIME, NOW, TRANSACTIONAL, marker, v2_batch
from tests.harness.fast_reference import Row


@dataclass
class Producer:
    number: int
    is_transactional: bool
    epoch: int = 0
    sequence: int = 0
    is_open: bool = False


@dataclass
class Partition:
    """Writes what brokers, and the log cleaner where ``is_compacted``, leave on disk."""

    choose: random.Random
    is_compacted: bool
    segments: list[bytes] = field(default_factory=list)
    bases: list[int | None] = field(default_factory=list)

    def write(self, batch_count: int) -> None:
        choose = self.choose
        self.end = self.base = choose.choice((0, 17, 2**40))
        self.leader_epoch = 0
        producers = [Producer(number, choose.random() < 0.6) for number in range(choose.randint(0, 4))]
        for producer in producers:
            # A log may begin anywhere in the life of a producer.
            producer.sequence = choose.choice((0, 5, 2**31 - 3))
        parts: list[bytes] = []
        for _ in range(batch_count):
            if parts and choose.random() < 0.1:
                self._roll(parts)
            self.leader_epoch += choose.random() < 0.1
            producer = choose.choice(producers) if producers and choose.random() < 0.8 else None
            if producer and producer.is_transactional and producer.is_open and choose.random() < 0.4:
                batch = self._marker(producer)
            else:
                batch = self._data(producer)
            # The cleaner takes whole batches too, but never the newest segment's.
            if not (self.is_compacted and choose.random() < 0.3):
                parts.append(batch)
        if self.is_compacted:
            parts.append(self._cleaned(None))
        self._roll(parts)

    def _roll(self, parts: list[bytes]) -> None:
        self.segments.append(b"".join(parts))
        self.bases.append(self.base)
        self.base = self.end
        parts.clear()

    def _data(self, producer: Producer | None) -> bytes:
        if self.is_compacted and self.choose.random() < 0.5:
            return self._cleaned(producer)
        count = self.choose.randint(1, 6)
        return self._batch(count, list(range(count)), producer)

    def _cleaned(self, producer: Producer | None) -> bytes:
        count = self.choose.randint(2, 6)
        kept = sorted(self.choose.sample(range(count), self.choose.randint(0, count - 1)))
        return self._batch(count, kept, producer, attributes=DELETE_HORIZON if kept else 0)

    def _batch(self, count: int, kept: list[int], producer: Producer | None, attributes: int = 0) -> bytes:
        choose = self.choose
        rows = [
            Row(choose.randint(-50, 50), number, choose.choice((None, b"k")), choose.choice((None, b"v" * 40)),
                choose.choice(([], [("é".encode(), b"\xff")])))
            for number in kept
        ]  # fmt: skip
        fields = {"last_offset_delta": count - 1, "partition_leader_epoch": self.leader_epoch}
        if rows:
            fields["max_timestamp"] = NOW + max(row.timestamp_delta for row in rows)
            if choose.random() < 0.2:
                attributes |= LOG_APPEND_TIME
                fields["max_timestamp"] = NOW + 1000
        if producer is not None:
            if choose.random() < 0.05 and not producer.is_open:
                producer.epoch, producer.sequence = producer.epoch + 1, 0
            fields |= {
                "producer_id": producer.number,
                "producer_epoch": producer.epoch,
                "base_sequence": producer.sequence,
            }
            producer.sequence = (producer.sequence + count) % 2**31
            if producer.is_transactional:
                producer.is_open = True
                attributes |= TRANSACTIONAL
        codec = choose.choice((0, 0, *CODECS)) if rows else 0
        batch = v2_batch(rows, base_offset=self.end, codec=codec, attributes=attributes, **fields)
        self.end += count
        return batch

    def _marker(self, producer: Producer) -> bytes:
        kind = self.choose.randint(0, 1)
        producer.is_open = False
        if self.choose.random() < 0.3:
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        self.end += 1
        return marker(
            self.end - 1, producer.number, kind, epoch=producer.epoch, partition_leader_epoch=self.leader_epoch
        )


def partition(seed: int, *, is_compacted: bool, batch_count: int = 20) -> Partition:
    made = Partition(random.Random(seed), is_compacted)
    made.write(batch_count)
    return made
