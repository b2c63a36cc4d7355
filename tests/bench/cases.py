"""What is measured: segments, flags, and the promise of each pair as a ratio to the Java tool's time."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.oracle.toolchain import WRITER_RELEASE, java_command

CACHE = Path(__file__).parents[2] / "build" / "bench"
"""Segments and outputs; the segments are made once."""

SHALLOW: tuple[str, ...] = ()
DEEP = ("--deep-iteration",)
PRINT = ("--print-data-log",)


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

    segment: Segment
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
    Case(BIG, PRINT, 3, JSONL),
    Case(BIG, PRINT, 6, (*JSONL, "--fields", "offset,timestamp,key")),
)
