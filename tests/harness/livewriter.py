"""A writer that does to a partition what a broker does, in the broker's order: appends, rolls, deletes, compacts.

As a program it holds the lock of the log directory, as a broker does, and writes until its standard input is closed:
``python -m tests.harness.livewriter LOG_DIRECTORY [rounds a second]``.
"""

from __future__ import annotations

import fcntl
import os
import random
import select
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from kdump.wire.checksum import crc32c
from tests.harness.batches import plain_rows, v2_batch

BATCHES_A_SEGMENT = 40
KEPT_SEGMENTS = 8
PREALLOCATED = 4096
_KINDS = (".log", ".index", ".timeindex", ".txnindex")


class LivePartition:
    """A partition directory that is written to.

    Args:
        directory: of the partition; it is made.
        compacts: old segments are compacted instead of deleted.
    """

    def __init__(self, directory: Path, *, compacts: bool = False) -> None:
        self.directory = directory
        self.compacts = compacts
        self.offset = 0
        self.bases: list[int] = []
        self.timestamp = 1_700_000_000_000
        self._entries = 0
        self._batches = 0
        self._begins: dict[int, list[tuple[int, bytes]]] = {}
        directory.mkdir(parents=True)
        self.roll()

    def path(self, base: int, suffix: str) -> Path:
        """A file of a segment."""
        return self.directory / f"{base:020}{suffix}"

    def append(self) -> None:
        """A batch: to the log first, then to the indexes."""
        base = self.bases[-1]
        rows = plain_rows(5, size=300)
        self.timestamp += 10
        batch = v2_batch(rows, base_offset=self.offset, base_timestamp=self.timestamp, max_timestamp=self.timestamp + 4)
        log = self.path(base, ".log")
        position = log.stat().st_size
        with log.open("ab", buffering=0) as file:
            # Not at once: others may see a part of it.
            half = len(batch) // 2
            file.write(batch[:half])
            file.write(batch[half:])
        self._begins[base].append((self.offset, batch))
        last, self.offset = self.offset + 4, self.offset + 5
        self._batches += 1
        if position:
            self._index(base, last - base, position)

    def _index(self, base: int, last: int, position: int) -> None:
        for suffix, entry in (
            (".index", struct.pack(">ii", last, position)),
            (".timeindex", struct.pack(">qi", self.timestamp + 4, last)),
        ):
            with self.path(base, suffix).open("r+b", buffering=0) as file:
                file.seek(self._entries * len(entry))
                file.write(entry)
        self._entries += 1

    def roll(self) -> None:
        """A new segment: the old indexes are cut to their entries, then come the log, its indexes, the snapshot."""
        if self.bases:
            base = self.bases[-1]
            os.truncate(self.path(base, ".index"), self._entries * 8)
            os.truncate(self.path(base, ".timeindex"), self._entries * 12)
        self.bases.append(self.offset)
        self._begins[self.offset] = []
        self._entries = self._batches = 0
        self.path(self.offset, ".log").touch()
        self.path(self.offset, ".index").write_bytes(bytes(PREALLOCATED))
        self.path(self.offset, ".timeindex").write_bytes(bytes(PREALLOCATED - PREALLOCATED % 12))
        if self.offset:
            data = struct.pack(">i", 0)
            snapshot = struct.pack(">hI", 1, crc32c(data)) + data
            self.path(self.offset, ".snapshot").write_bytes(snapshot)

    def delete(self, base: int) -> None:
        """Rename the files of a segment, the log first, and remove them."""
        self._put_aside(base)
        snapshot = self.path(base, ".snapshot")
        if snapshot.exists():
            snapshot.rename(f"{snapshot}.deleted")
        for path in self.directory.glob(f"{base:020}.*.deleted"):
            path.unlink()
        self.bases.remove(base)
        del self._begins[base]

    def _put_aside(self, base: int) -> None:
        for suffix in _KINDS:
            path = self.path(base, suffix)
            if path.exists():
                path.rename(f"{path}.deleted")

    def compact(self, bases: Sequence[int]) -> None:
        """Put one segment, with every third batch, in the place of some: .cleaned, .swap, and the old ones go."""
        target = bases[0]
        left = [one for base in bases for one in self._begins[base]][::3]
        log, index, times, position = b"", b"", b"", 0
        for offset, batch in left:
            if position:
                index += struct.pack(">ii", offset + 4 - target, position)
            timestamp = struct.unpack_from(">q", batch, 35)[0]
            times += struct.pack(">qi", timestamp, offset + 4 - target)
            log += batch
            position += len(batch)
        made = {".log": log, ".index": index, ".timeindex": times}
        for suffix, data in made.items():
            self.path(target, f"{suffix}.cleaned").write_bytes(data)
        for suffix in made:
            self.path(target, f"{suffix}.cleaned").rename(self.path(target, f"{suffix}.swap"))
        for base in bases:
            self._put_aside(base)
        for suffix in made:
            self.path(target, f"{suffix}.swap").rename(self.path(target, suffix))
        for base in bases:
            for path in self.directory.glob(f"{base:020}.*.deleted"):
                path.unlink()
            if base != target:
                self.path(base, ".snapshot").unlink(missing_ok=True)
                self.bases.remove(base)
                del self._begins[base]
        self._begins[target] = left

    def step(self) -> None:
        """What comes next."""
        self.append()
        if self._batches >= BATCHES_A_SEGMENT:
            self.roll()
        if len(self.bases) > KEPT_SEGMENTS:
            if self.compacts:
                first = random.randrange(3)
                self.compact(self.bases[first : first + 3])
            else:
                self.delete(self.bases[0])


def fill(log_directory: Path) -> list[LivePartition]:
    """A log directory with two partitions of some segments each."""
    partitions = [
        LivePartition(log_directory / "plain-0"),
        LivePartition(log_directory / "comp-0", compacts=True),
    ]
    for partition in partitions:
        for _ in range(BATCHES_A_SEGMENT * KEPT_SEGMENTS):
            partition.step()
    (log_directory / "meta.properties").write_text("version=1\ncluster.id=live\nnode.id=1\n")
    checkpoint(log_directory, partitions)
    return partitions


def checkpoint(log_directory: Path, partitions: Sequence[LivePartition]) -> None:
    """Write the offset checkpoints anew."""
    offsets = {
        "recovery-point-offset-checkpoint": [one.offset for one in partitions],
        "replication-offset-checkpoint": [one.offset for one in partitions],
        "log-start-offset-checkpoint": [one.bases[0] for one in partitions],
        "cleaner-offset-checkpoint": [one.bases[-1] if one.compacts else 0 for one in partitions],
    }
    for name, values in offsets.items():
        lines = [f"{one.directory.name[:-2]} 0 {value}" for one, value in zip(partitions, values, strict=True)]
        path = log_directory / name
        Path(f"{path}.tmp").write_text("\n".join(["0", str(len(lines)), *lines, ""]))
        Path(f"{path}.tmp").replace(path)


def main() -> None:
    """See above."""
    log_directory = Path(sys.argv[1])
    with (log_directory / ".lock").open("w+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        partitions = fill(log_directory)
        print("ready", flush=True)
        number = 0
        while not select.select([sys.stdin], [], [], 0)[0]:
            number += 1
            for partition in partitions:
                partition.step()
            if number % 50 == 0:
                checkpoint(log_directory, partitions)
            time.sleep(0.002)


if __name__ == "__main__":
    main()
