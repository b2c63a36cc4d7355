"""Partitions of small segments as brokers leave them after a clean stop; the code under test is not used."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from random import Random

from tests.harness.batches import NOW, plain_rows, producer_snapshot, v2_batch

_NO_PRODUCER = -1


class SmallPartition:
    """Writes one partition: producers with and without idempotence, new leaders, late timestamps, an empty segment.

    Args:
        folder: the directory; it is made.
        random: makes the choices.
    """

    def __init__(self, folder: Path, random: Random) -> None:
        self.folder = folder
        self.random = random
        self.first = self.end = random.choice((0, 0, 700, 2**40))
        self.epochs = [(random.choice((0, 3)), self.first)]
        self.sequences = {producer: random.choice((0, 9)) for producer in range(random.randint(0, 3))}
        self.last_batches: dict[int, tuple[int, int, int]] = {}
        self.time = NOW
        folder.mkdir(parents=True)
        if self.first and self.sequences:
            self._see_producers()
        for _ in range(random.randint(1, 4)):
            self._segment(random.randint(1, 6))
        if random.random() < 0.3:
            self._segment(0)
        lines = "".join(f"{epoch} {start}\n" for epoch, start in self.epochs)
        (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(self.epochs)}\n{lines}")
        if random.random() < 0.7:
            (folder / "partition.metadata").write_text("version: 0\ntopic_id: 3Db5QLSqSZieL3rJBUUegA")

    def _see_producers(self) -> None:
        """Producers have written to segments that are gone by now."""
        for producer in self.sequences:
            self.sequences[producer] += 5
            self.last_batches[producer] = (self.sequences[producer] - 1, self.first - 1, 4)

    def _segment(self, batches: int) -> None:
        random, base = self.random, self.end
        path = self.folder / f"{base:020}"
        log, index, times = b"", b"", b""
        largest, at, indexed = -1, base, -1
        if self.last_batches or random.random() < 0.5:
            path.with_suffix(".snapshot").write_bytes(self._snapshot())
        for _ in range(batches):
            if random.random() < 0.1 and self.end > self.epochs[-1][1]:
                self.epochs.append((self.epochs[-1][0] + random.randint(1, 2), self.end))
            self.time += random.choice((-20, 0, 10, 10))
            position, batch = len(log), self._batch()
            log += batch
            if self.time > largest:
                largest, at = self.time, self.end - 1
            if position and random.random() < 0.6:
                index += struct.pack(">ii", self.end - 1 - base, position)
                if largest > indexed:
                    times += struct.pack(">qi", largest, at - base)
                    indexed = largest
        if largest > indexed:
            times += struct.pack(">qi", largest, at - base)
        path.with_suffix(".log").write_bytes(log)
        path.with_suffix(".index").write_bytes(index)
        path.with_suffix(".timeindex").write_bytes(times)

    def _batch(self) -> bytes:
        producer = self.random.choice((_NO_PRODUCER, *self.sequences))
        rows = plain_rows(self.random.randint(1, 5), size=20)
        fields = {"partition_leader_epoch": self.epochs[-1][0], "base_timestamp": self.time, "max_timestamp": self.time}
        if producer != _NO_PRODUCER:
            sequence = self.sequences[producer]
            self.sequences[producer] += len(rows)
            last = self.end + len(rows) - 1
            self.last_batches[producer] = self.sequences[producer] - 1, last, len(rows) - 1
            fields |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
        batch = v2_batch(
            [replace(row, timestamp_delta=0) for row in rows],
            base_offset=self.end,
            codec=self.random.choice((0, 0, 4)),
            **fields,
        )
        self.end += len(rows)
        return batch

    def _snapshot(self) -> bytes:
        return producer_snapshot(
            *(
                (producer, 0, sequence, last, delta, self.time, -1, -1)
                for producer, (sequence, last, delta) in self.last_batches.items()
            )
        )


def write_small_partitions(directory: Path, random: Random, count: int) -> list[SmallPartition]:
    """A new log directory of a stopped broker."""
    made = [SmallPartition(directory / f"small-{number}", random) for number in range(count)]
    (directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=3Db5QLSqSZieL3rJBUUegA\n")
    (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    for name in ("recovery-point", "replication", "log-start"):
        offsets = [one.first if name == "log-start" else one.end for one in made]
        known = [f"small {number} {offset}\n" for number, offset in enumerate(offsets) if offset]
        (directory / f"{name}-offset-checkpoint").write_text(f"0\n{len(known)}\n{''.join(known)}")
    return made
