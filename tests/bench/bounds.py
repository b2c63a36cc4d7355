"""``python -m tests.bench.bounds [SIZE]``: how time and memory of every command grow with its input.

The input is a partition of ``size`` bytes: ordinary batches for the peak of memory, hostile entries for the slope of
time. A slope of 1 is linear, of 2 quadratic; the time of a run over one batch is taken off first.
"""

from __future__ import annotations

import math
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from tests.bench.measure import ROOT, Usage, run
from tests.oracle.crafting import Fields, Header, batch_of, control_record

MOST_SLOPE: Final = 1.25
"""The largest slope that counts as linear: times of a second on a busy machine are not exact."""
LEAST_SECONDS: Final = 0.5
"""Below this a slope says nothing."""
MOST_RESIDENT: Final = 300 << 20
"""Bytes, whatever the size of a log of ordinary batches."""
_MIB: Final = 1 << 20
_SEGMENT: Final = 2048
_LOG: Final = f"{0:020d}.log"
_RECORD: Final = Fields(key=None, value=b"v")
_ABORT: Final = control_record(0, struct.pack(">hi", 0, 1))
_OUTPUT: Final = "OUTPUT"
COMMANDS: Final = {
    "dump": ("dump",),
    "dump records": ("dump", "--print-data-log", "--resync"),
    "dump jsonl": ("dump", "--print-data-log", "--output", "jsonl", "--resync"),
    "dump arrow": ("dump", "--records", "--output", "arrow", "--resync"),
    "verify": ("verify", "--engine", "local"),
    "verify startup": ("verify", "--engine", "local", "--startup", "--unclean"),
    "stats": ("stats", "--engine", "local"),
    "repair plan": ("repair",),
    "repair salvage": ("repair", "--salvage", "--correct"),
    "convert jsonl": ("convert", "--engine", "local", "--skip-damaged", "--to", "jsonl", "-o", _OUTPUT),
    "convert magic 1": ("convert", "--engine", "local", "--skip-damaged", "--to-magic", "1", "-o", _OUTPUT),
    "diff": ("diff", "--records"),
}
"""Words after ``kdump``; ``diff`` compares the partition with itself."""


def ordinary(folder: Path, size: int) -> None:
    """A log of batches of about 16 KiB, with a few distinct ones over and over."""
    batches = [
        batch_of([Fields(delta, key=b"k%d" % delta, value=bytes(170)) for delta in range(80)], Header(80 * number))
        for number in range(64)
    ]
    with (folder / _LOG).open("wb") as log:
        number = 0
        while log.tell() < size:
            # No CRC covers the base offset.
            log.write(struct.pack(">q", 80 * number) + batches[number % 64][8:])
            number += 1


def _batch(offset: int, record: Fields = _RECORD, **fields: int) -> bytes:
    return batch_of([record], Header(offset, **fields))


def _entries(offset: int, chance: Random) -> bytes:
    """Ten offsets: producers of their own, epochs, an aborted and an open transaction, and every kind of damage."""
    transactional = {"producer_id": offset, "producer_epoch": 0, "attributes": 0x10}
    marker = {**transactional, "attributes": 0x30}
    bad_crc = _batch(offset + 4)
    return b"".join(
        (
            _batch(offset, partition_leader_epoch=offset),
            _batch(offset + 1, base_sequence=0, **transactional),
            _batch(offset + 2, _ABORT, **marker),
            _batch(offset + 3, **(transactional | {"producer_id": offset + 1, "base_sequence": 0})),
            bad_crc[:-1] + bytes([bad_crc[-1] ^ 1]),
            bytes(20),
            _batch(offset + 6) * 2,
            chance.randbytes(61),
            # Headers that lie: one of an entry of a MiB, one that holds all that follows.
            struct.pack(">qiib44x", offset + 8, _MIB, 0, 2),
            struct.pack(">qiib44x", offset + 9, 1 << 30, 0, 2),
        )
    )


def hostile(folder: Path, size: int) -> None:
    """Half of it one log, half of it small segments."""
    chance = Random(size)
    offset = 0
    for most in (size // 2, *[_SEGMENT] * (size // 2 // _SEGMENT)):
        data = bytearray()
        name = offset
        while len(data) < most:
            data += _entries(offset, chance)
            offset += 10
        (folder / f"{name:020d}.log").write_bytes(data)


def words_of(command: str, partition: Path, scratch: Path) -> list[str]:
    """The words of a command of COMMANDS, with what it reads and where it writes."""
    output = scratch / "output"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    words = [str(output / "made") if word is _OUTPUT else word for word in COMMANDS[command]]
    return words + [str(partition)] * (2 if command == "diff" else 1)


def measured(command: str, partition: Path, scratch: Path) -> Usage:
    """One run of a command of COMMANDS. Whatever it thinks of the input is right."""
    program = 'exec "$@" 2>/dev/null'
    kdump = [sys.executable, "-m", "kdump", *words_of(command, partition, scratch)]
    return run(["timeout", "300", "sh", "-c", program, "sh", *kdump], Path("/dev/null"), statuses=(0, 1))


def slopes(scratch: Path, size: int) -> Iterator[tuple[str, list[float], float | None]]:
    """For each command its seconds over one, two and four times ``size``, and the slope of the last two.

    The slope is None where they are too short to tell.
    """
    partitions = []
    for factor in (0, 1, 2, 4):
        partitions.append(scratch / str(factor) / "orders-0")
        partitions[-1].mkdir(parents=True)
        if factor:
            hostile(partitions[-1], factor * size)
        else:
            (partitions[-1] / _LOG).write_bytes(_batch(0))
    for command in COMMANDS:
        least, *seconds = (measured(command, partition, scratch).cpu for partition in partitions)
        seconds = [max(one - least, 0.01) for one in seconds]
        yield command, seconds, None if seconds[-1] < LEAST_SECONDS else math.log2(seconds[-1] / seconds[-2])


def peaks(scratch: Path, size: int) -> Iterator[tuple[str, int]]:
    """For each command the largest resident set (bytes) over ordinary batches."""
    partition = scratch / "ordinary" / "orders-0"
    partition.mkdir(parents=True)
    ordinary(partition, size)
    for command in COMMANDS:
        yield command, measured(command, partition, scratch).resident


if __name__ == "__main__":
    folder = ROOT / "build" / "bench" / "bounds"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    mebibytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    for name, seconds, slope in slopes(folder, mebibytes << 10):
        print(
            f"{name:17}" + "".join(f"{one:8.2f}" for one in seconds), "s, slope", slope and round(slope, 2), flush=True
        )
    for name, resident in peaks(folder, mebibytes * _MIB):
        print(f"{name:17}{resident >> 20:8} MiB", flush=True)
