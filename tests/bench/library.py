"""The library against the parsers of Python's Kafka clients: ``python -m tests.bench.library [ROUNDS]``.

Each run is a process of its own that reads the same file, as the library does: the peers read it whole first, which is
part of their time, and check the CRC of each batch. A round runs every pass once, one after the other, so that a busy
machine slows all of them. aiokafka and kafka-python must be importable by the interpreter
that ``KDUMP_BENCH_PEERS`` names (by default this one).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.cases import BIG, Segment
from tests.bench.measure import COMPILED
from tests.harness import ROOT

PEERS: Final = "KDUMP_BENCH_PEERS"

_RUN: Final = """
import sys
from time import perf_counter, process_time
def run(path):
    count = 0
    {run}
    return count
{imports}
wall, cpu = perf_counter(), process_time()
count = run(sys.argv[1])
print(count, perf_counter() - wall, process_time() - cpu)
"""
_OWN_IMPORTS: Final = "import kdump, kdump.library.scans, kdump.reading.columnar, kdump.rows.arrowparts"
_READER: Final = """
    for batch in kdump.scan(path{columns}).to_reader():
        count += batch.num_rows
"""
_RECORDS: Final = """
    for record in kdump.scan(path):
        count += 1
"""
_PEER_IMPORTS: Final = "from {package}.record.memory_records import MemoryRecords"
_PEER: Final = """
    with open(path, "rb") as file:
        records = MemoryRecords(file.read(int(sys.argv[2])))
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        for record in batch:
            count += 1
"""


def _own(run: str) -> str:
    return _RUN.format(run=run, imports=_OWN_IMPORTS)


def _peer(package: str) -> str:
    return _RUN.format(run=_PEER, imports=_PEER_IMPORTS.format(package=package))


@dataclass(frozen=True, slots=True)
class Pass:
    """One way to read a log. ``goals``: at least so many times as fast as other passes, by their names."""

    name: str
    code: str
    goals: tuple[tuple[str, float], ...] = ()
    most: int = -1
    """Bytes that are read, where a pass is slow; -1: all."""

    @property
    def is_peer(self) -> bool:
        """It is no pass of kdump."""
        return _PEER in self.code


PASSES: Final = (
    Pass("aiokafka", _peer("aiokafka")),
    Pass("kafka-python", _peer("kafka"), most=64 << 20),
    Pass("all columns", _own(_READER.format(columns="")), (("aiokafka", 1),)),
    *(
        Pass(
            f"{first}, {second}", _own(_READER.format(columns=f", columns=[{first!r}, {second!r}]")), (("aiokafka", 4),)
        )
        for first, second in (("offset", "timestamp"), ("offset", "key"), ("offset", "value"))
    ),
    Pass("records", _own(_RECORDS), (("aiokafka", 0.5), ("kafka-python", 3))),
)


@dataclass(frozen=True, slots=True)
class Rate:
    """Records a second of wall clock and of processor time, and the largest resident set (bytes)."""

    wall: float
    cpu: float
    resident: int


def measure(one: Pass, path: Path) -> Rate:
    """Run a pass in a process. Raises CalledProcessError, where a peer is not installed too."""
    interpreter = os.environ.get(PEERS, sys.executable) if one.is_peer else sys.executable
    command = [interpreter, "-c", one.code, str(path), str(one.most)]
    process = subprocess.Popen(command, cwd=ROOT, env=COMPILED, stdout=subprocess.PIPE)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command[:1])
    count, wall, cpu = map(float, output.split())
    return Rate(count / wall, count / cpu, usage.ru_maxrss * 1024)


def library_lines(rounds: int = 3, segment: Segment = BIG) -> Iterator[str]:
    """Medians of each pass, and its rate as a multiple of its peers' in the same round."""
    path = segment.path()
    found: dict[str, list[Rate]] = {one.name: [] for one in PASSES}
    for _ in range(rounds):
        for one in PASSES:
            found[one.name].append(measure(one, path))
    yield f"{'pass':<18}{'records/s':>14}{'by CPU':>14}{'MiB':>7}  times as fast (CPU) as"
    for one in PASSES:
        rates = found[one.name]
        against = []
        for peer, goal in one.goals:
            pairs = list(zip(rates, found[peer], strict=True))
            wall = median(own.wall / other.wall for own, other in pairs)
            cpu = median(own.cpu / other.cpu for own, other in pairs)
            against.append(f"{peer}: {wall:.2f} ({cpu:.2f}), goal {goal:g}")
        yield (
            f"{one.name:<18}{median(rate.wall for rate in rates):>14,.0f}{median(rate.cpu for rate in rates):>14,.0f}"
            f"{max(rate.resident for rate in rates) >> 20:>7}  {'; '.join(against)}"
        )


if __name__ == "__main__":
    for line in library_lines(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        print(line, flush=True)
