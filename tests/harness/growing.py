"""Logs as a broker writes them while they are read: torn writes, rolled segments, new partitions."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

from tests.harness.batches import plain_rows, v2_batch


def batch(first: int, count: int = 2, epoch: int = 0, size: int = 10) -> bytes:
    """``count`` records from offset ``first`` on, with values of ``size`` bytes."""
    return v2_batch(plain_rows(count, size), base_offset=first, partition_leader_epoch=epoch)


def batches(first: int, end: int, epoch: int = 0, count: int = 2) -> bytes:
    """Batches of ``count`` records with the offsets ``first`` to ``end`` (exclusive)."""
    return b"".join(batch(offset, min(count, end - offset), epoch) for offset in range(first, end, count))


def append(directory: Path, base: int, data: bytes) -> None:
    """To the segment with a base offset; directory and file are made."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / f"{base:020}.log").open("ab") as file:
        file.write(data)


def write_slowly(logs: Path, seconds: float, seed: int) -> None:
    """Partitions ``t-0`` to ``t-2``, the last one new after a while; their counts of records go to written.json."""
    choices = random.Random(seed)
    bases, offsets = [0, 0, 0], [0, 0, 0]
    begin = time.monotonic()
    while (passed := time.monotonic() - begin) < seconds:
        for number in range(3 if passed > seconds / 2 else 2):
            directory = logs / f"t-{number}"
            if choices.random() < 0.2:
                bases[number] = offsets[number]
            count = choices.randint(1, 20)
            data = batch(offsets[number], count)
            offsets[number] += count
            cut = choices.randrange(len(data))
            append(directory, bases[number], data[:cut])
            time.sleep(0.01)
            append(directory, bases[number], data[cut:])
    (logs / "written.json").write_text(json.dumps(offsets))
