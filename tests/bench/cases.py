"""What is measured: segments, flags, and the promise of each pair as a ratio to the Java tool's time."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from tests.harness import ROOT
from tests.oracle.toolchain import WRITER_RELEASE, java_command

CACHE = ROOT / "build" / "bench"
"""Segments and outputs; the segments are made once."""

SHALLOW: tuple[str, ...] = ()
DEEP = ("--deep-iteration",)
PRINT = ("--print-data-log",)
OFFSETS = ("--offsets-decoder",)


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment to measure with: codec, size (KiB) and records a batch."""

    name: str
    codec: str
    kibibytes: int
    records: int

    def path(self) -> Path:
        """The file, made now if it is not there. Raises ToolchainMissingError."""
        path = CACHE / self.name / f"{0:020d}.log"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            command = java_command(WRITER_RELEASE, "BenchSegment")
            unfinished = path.with_suffix(".part")
            arguments = [str(unfinished), self.codec, str(self.kibibytes), str(self.records)]
            subprocess.run([*command, *arguments], check=True)
            unfinished.rename(path)
        return path


@dataclass(frozen=True, slots=True)
class CommitLog:
    """A segment of ``__consumer_offsets``: committed offsets, one in a hundred a tombstone, ``records`` a batch."""

    name: str
    commits: int
    records: int
    version: int = 3

    def path(self) -> Path:
        """The file, made now if it is not there."""
        path = CACHE / self.name / f"{0:020d}.log"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            random = Random(self.commits)
            batches = (self._batch(first, random) for first in range(0, self.commits, self.records))
            path.write_bytes(b"".join(batches))
        return path

    def _batch(self, base_offset: int, random: Random) -> bytes:
        # Not needed once the file is there, and what is imported counts as memory of the runs (see measure).
        from kdump.format.message import ZERO_UUID, schemas
        from tests.harness.messages import write_message
        from tests.oracle.crafting import Fields, Header, batch_of

        group, topic = f"group-{random.randrange(300)}", f"topic-orders-{random.randrange(100)}"
        values = {"metadata": "", "leaderEpoch": random.randrange(9), "expireTimestamp": -1, "topicId": ZERO_UUID}
        records = []
        for delta in range(self.records):
            key = {"group": group, "topic": topic, "partition": random.randrange(64)}
            values |= {"offset": random.randrange(10**9), "commitTimestamp": _COMMITTED + base_offset}
            value = struct.pack(">h", self.version)
            value += write_message(schemas()["OffsetCommitValue"], self.version, values)
            stored_key = struct.pack(">h", 1) + write_message(schemas()["OffsetCommitKey"], 0, key)
            records.append(Fields(delta, key=stored_key, value=None if random.random() < 0.01 else value))
        return batch_of(records, Header(base_offset, base_timestamp=_COMMITTED, max_timestamp=_COMMITTED))


_COMMITTED: Final = 1_717_200_000_000
COMMITS = tuple(CommitLog(f"commits-{records}", 100_000, records) for records in (1, 5, 100))
BIG = Segment("big", "none", 1024 * 1024, 80)
ONE = Segment("one", "none", 64 * 1024, 1)
FIVE = Segment("five", "none", 128 * 1024, 5)
SMALL = Segment("small", "none", 100, 80)
COMPRESSED = tuple(Segment(codec, codec, 64 * 1024, 400) for codec in ("zstd", "lz4", "snappy", "gzip"))


JSONL = ("--output", "jsonl")


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison; ``goal`` is how many times as fast as the Java tool kdump is to be.

    ``own_flags`` are options of kdump's own, which the Java tool does not get.
    """

    segment: Segment | CommitLog
    flags: tuple[str, ...]
    goal: float
    own_flags: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.segment.name} {' '.join((*self.flags, *self.own_flags)) or 'shallow'}"


CASES = (
    *(Case(SMALL, flags, 1 / 0.6) for flags in (SHALLOW, DEEP, PRINT)),
    Case(BIG, SHALLOW, 3),
    Case(BIG, DEEP, 5),
    Case(BIG, PRINT, 4),
    Case(ONE, SHALLOW, 2),
    Case(ONE, DEEP, 2),
    Case(FIVE, SHALLOW, 2),
    Case(FIVE, DEEP, 2),
    *(Case(segment, DEEP, 2) for segment in COMPRESSED),
    *(Case(log, OFFSETS, 1) for log in COMMITS),
    Case(BIG, PRINT, 3, JSONL),
    Case(BIG, PRINT, 6, (*JSONL, "--fields", "offset,timestamp,key")),
)
