"""How the processor time of every command grows with hostile input: sizes that double, and the slope between them.

``python -m tests.bench.slopes [KIND ...]``. A slope of 1 is linear, of 2 quadratic; the time of an empty run is
taken off first. Work is to be proportional to the bytes of the input and the output, whatever they hold.
"""

from __future__ import annotations

import math
import os
import resource
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from tests.bench.measure import COMPILED, ROOT
from tests.oracle.crafting import Fields, Header, batch_of, control_record

LIMIT: Final = 1.25
"""The largest slope that counts as linear: times of a second on a busy machine are not exact."""
_LEAST_SECONDS: Final = 0.5
"""Below this a slope says nothing."""
_MOST_SECONDS: Final = 60
_LOG: Final = f"{0:020d}.log"
_RECORD: Final = Fields(key=None, value=b"v")
_ABORT: Final = control_record(0, struct.pack(">hi", 0, 1))


@dataclass(frozen=True, slots=True)
class Kind:
    """A partition of ``count`` small things; ``write`` makes it in a directory that is there."""

    name: str
    count: int
    write: Callable[[Path, int], None]


def _batches(of: Callable[[int, int], bytes], folder: Path, count: int) -> None:
    with (folder / _LOG).open("wb") as log:
        for number in range(count):
            log.write(of(number, count))


def _batch(offset: int, record: Fields = _RECORD, **fields: int) -> bytes:
    return batch_of([record], Header(offset, **fields))


def _transaction(offset: int, producer: int) -> bytes:
    return _batch(offset, producer_id=producer, producer_epoch=0, base_sequence=0, attributes=0x10)


def _aborted(number: int, count: int) -> bytes:
    marker = _batch(2 * number + 1, _ABORT, producer_id=number, producer_epoch=0, attributes=0x30)
    return _transaction(2 * number, number) + marker


def _ended_after_damage(number: int, count: int) -> bytes:
    """Transactions that end one after the other, each over damage and over the beginnings of the others."""
    if number < count // 2:
        return _transaction(3 * number, number) + b"\0" * 20
    producer = number - count // 2
    return _batch(3 * number, _ABORT, producer_id=producer, producer_epoch=0, attributes=0x30) + b"\0" * 20


def _bad_crc(number: int, count: int) -> bytes:
    data = _batch(number)
    return data[:-1] + bytes([data[-1] ^ 1])


def _segments(folder: Path, count: int) -> None:
    """An open transaction before damage in every segment: what became of it is looked for in all that follow."""
    for number in range(count):
        data = _transaction(3 * number, 7) + b"\0" * 20 + _transaction(3 * number + 2, 7)
        (folder / f"{3 * number:020d}.log").write_bytes(data)


def _sound_segments(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"{number:020d}.log").write_bytes(_batch(number))


def _open_producers(folder: Path, count: int) -> None:
    """Many transactions that stay open, and after them a segment with an aborted one for every 20 of them."""
    _batches(_transaction_of_all, folder, count)
    for number in range(count // 20):
        offset = count + 2 * number
        abort = _batch(offset + 1, _ABORT, producer_id=offset, producer_epoch=0, attributes=0x30)
        (folder / f"{offset:020d}.log").write_bytes(_transaction(offset, offset) + abort)


def _open_over_segments(folder: Path, count: int) -> None:
    """Many transactions that stay open over damage in the first segment, and over more in those after it."""
    _batches(_transaction_of_all, folder, count)
    with (folder / _LOG).open("ab") as log:
        log.write(b"\0" * 20 + _batch(count + 2))
    for number in range(count // 20):
        offset = count + 3 + 4 * number
        data = _transaction(offset, offset) + b"\0" * 20 + _batch(offset + 3)
        (folder / f"{offset:020d}.log").write_bytes(data)


def _transaction_of_all(number: int, count: int) -> bytes:
    return _transaction(number, number)


def _sparse(folder: Path, count: int) -> None:
    """A few batches before and after ``count`` MiB that are not stored."""
    with (folder / _LOG).open("wb") as log:
        log.write(_batch(0))
        log.seek(count << 20)
        log.write(_batch(1))
        log.truncate((2 * count) << 20)


_LOGS: Final = tuple(
    Kind(name, count, partial(_batches, of))
    for name, count, of in (
        ("batches", 40_000, lambda number, count: _batch(number)),
        ("gaps", 20_000, lambda number, count: _batch(2 * number)),
        ("producers", 10_000, lambda number, count: _batch(number, producer_id=number, producer_epoch=0)),
        ("open", 10_000, _transaction_of_all),
        ("aborted", 10_000, _aborted),
        ("epochs", 20_000, lambda number, count: _batch(number, partition_leader_epoch=number)),
        ("badcrc", 4_000, _bad_crc),
        ("damage", 3_000, lambda number, count: _batch(number) + b"\0" * 5),
        ("openlost", 1_000, lambda number, count: _transaction(3 * number, number) + b"\0" * 20),
        ("endlost", 1_000, _ended_after_damage),
        ("split", 2_000, lambda number, count: _batch(number << 31)),
        ("dup", 20_000, lambda number, count: _batch(0)),
        ("down", 20_000, lambda number, count: _batch(count - number)),
        ("junk", 100_000, lambda number, count: Random(number).randbytes(61)),
        ("fakelen", 100_000, lambda number, count: struct.pack(">qiib44x", number, 1 << 20, 0, 2)),
        ("nested", 100_000, lambda number, count: struct.pack(">qiib44x", number, (count - number) * 61 - 12, 0, 2)),
    )
)
KINDS: Final = (
    *_LOGS,
    Kind("segments", 100, _segments),
    Kind("sound", 1_000, _sound_segments),
    Kind("openbefore", 2_000, _open_producers),
    Kind("openacross", 2_000, _open_over_segments),
    Kind("sparse", 250, _sparse),
)

_OUTPUT: Final = "OUTPUT"
COMMANDS: Final = {
    "dump": ("dump",),
    "dump records": ("dump", "--print-data-log", "--resync"),
    "dump jsonl": ("dump", "--output", "jsonl", "--resync"),
    "verify": ("verify", "--engine", "local"),
    "verify startup": ("verify", "--engine", "local", "--startup", "--unclean"),
    "stats": ("stats", "--engine", "local"),
    "repair plan": ("repair",),
    "repair salvage": ("repair", "--salvage", "--correct"),
    "convert jsonl": ("convert", "--engine", "local", "--skip-damaged", "--to", "jsonl", "-o", _OUTPUT),
    "convert magic 1": ("convert", "--engine", "local", "--skip-damaged", "--to-magic", "1", "-o", _OUTPUT),
}


def cpu_seconds(words: tuple[str, ...], partition: Path, output: Path) -> float:
    """Of one run, its own processes among it; at most a minute. Whatever it thinks of the input is right."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    target = str(output / "made")
    command = [sys.executable, "-m", "kdump", *(target if word is _OUTPUT else word for word in words), str(partition)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=COMPILED,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    resource.prlimit(process.pid, resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS))
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


@dataclass(frozen=True, slots=True)
class Growth:
    """Seconds for one, two and four times as much, without those of an empty run."""

    kind: str
    command: str
    seconds: tuple[float, ...]

    @property
    def slope(self) -> float | None:
        """Of the last two; None where they are too short to tell."""
        before, last = self.seconds[-2:]
        return None if last < _LEAST_SECONDS else math.log2(last / max(before, 0.01))

    def __str__(self) -> str:
        seconds = "".join(f"{one:8.2f}" for one in self.seconds)
        return f"{self.kind:11}{self.command:17}{seconds}" + (
            "       -" if self.slope is None else f"{self.slope:8.2f}"
        )


def growths(kind: Kind, scratch: Path, commands: dict[str, tuple[str, ...]] = COMMANDS) -> Iterator[Growth]:
    """One for each command. ``scratch``: a directory for the inputs, which are deleted in the end."""
    partitions = []
    for factor in (0, 1, 2, 4):
        folder = scratch / f"{kind.name}-{factor}" / "orders-0"
        folder.mkdir(parents=True)
        if factor:
            kind.write(folder, factor * kind.count)
        else:
            (folder / _LOG).write_bytes(_batch(0))
        partitions.append(folder)
    for name, words in commands.items():
        empty, *seconds = (cpu_seconds(words, partition, scratch / "output") for partition in partitions)
        yield Growth(kind.name, name, tuple(max(one - empty, 0.0) for one in seconds))
    for partition in partitions:
        shutil.rmtree(partition.parent)


def main(names: list[str]) -> None:
    """Print a line for each kind and command."""
    scratch = ROOT / "build" / "bench" / "slopes"
    shutil.rmtree(scratch, ignore_errors=True)
    print(f"{'input':11}{'command':17}{'N s':>8}{'2N s':>8}{'4N s':>8}{'slope':>8}")
    for kind in KINDS:
        if not names or kind.name in names:
            for growth in growths(kind, scratch):
                print(growth, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
