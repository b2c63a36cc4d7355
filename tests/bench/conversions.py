"""``kdump convert`` against its peers, each pair one after the other in every round.

v2 to v1: RecordsUtil.downConvert of Kafka 3.9.1 alone, in a warm JVM without writing, and a loop over aiokafka's record
classes (skipped where that is not installed). zstd: bare decompressing and compressing of the same payloads. Parquet:
kdump's JSON lines and pyarrow's JSON reader.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median

from tests.bench.cases import BIG, CACHE, COMPRESSED, FIVE, Segment
from tests.bench.measure import COMPILED, ROOT
from tests.bench.pairs import kdump
from tests.oracle.toolchain import WRITER_RELEASE, java_command

_OUT = CACHE / "convert"

_AIOKAFKA = """
import sys
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
with open(sys.argv[2], "wb") as out:
    records = MemoryRecords(open(sys.argv[1], "rb").read())
    while records.has_next():
        builder = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=1 << 30)
        for record in records.next_batch():
            builder.append(record.offset, timestamp=record.timestamp, key=record.key, value=record.value)
        out.write(builder.build())
"""
_BARE_ZSTD = """
import sys
from kdump.log.opening import open_source
from kdump.log.walk import Walk
from kdump.wire import compression
with open(sys.argv[2], "wb") as out, open_source(sys.argv[1]) as source:
    for chunk in Walk(source).chunks():
        for start, end in chunk.entries():
            records = compression.decompress(compression.ZSTD, chunk.data[start + 61 : end], magic=2)
            out.write(compression.compress(compression.ZSTD, records, magic=2))
"""
_JSON_READER = """
import subprocess, sys
import pyarrow.json
command = [sys.executable, "-m", "kdump", "convert", sys.argv[1], "--to", "jsonl", "-o", sys.argv[2]]
subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
pyarrow.json.read_json(sys.argv[2])
"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """kdump over a segment and a peer; ``goal`` is the most that kdump may take, in times of the peer's."""

    name: str
    segment: Segment
    words: tuple[str, ...]
    peer: Callable[[str], float]
    goal: float


def _seconds(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=COMPILED, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def _script(code: str) -> Callable[[str], float]:
    return lambda path: _seconds([sys.executable, "-c", code, path, str(_OUT / "peer")])


def _down_convert(path: str) -> float:
    """Seconds of the second conversion of one JVM."""
    command = java_command(WRITER_RELEASE, "org.apache.kafka.common.record.DownConversion", options=("-Xmx8g",))
    line = f"{path}\t1\t{_OUT / 'peer'}\ttimed\n"
    answers = subprocess.run(command, input=2 * line, capture_output=True, text=True, check=True).stdout.split()
    return float(answers[-1])


TO_V1 = ("--to-magic", "1")
COMPARISONS = (
    Comparison("v2 to v1, downConvert", BIG, TO_V1, _down_convert, 2),
    *([Comparison("v2 to v1, aiokafka", BIG, TO_V1, _script(_AIOKAFKA), 1 / 3)] if find_spec("aiokafka") else []),
    Comparison("zstd, bare", COMPRESSED[0], ("--codec", "zstd", "--level", "3"), _script(_BARE_ZSTD), 1.3),
    Comparison("parquet, JSON lines", FIVE, ("--to", "parquet"), _script(_JSON_READER), 1 / 3),
)


def conversion_lines(comparisons: tuple[Comparison, ...] = COMPARISONS, rounds: int = 3) -> Iterator[str]:
    """Medians of wall clock times, and of the ratios of the pairs.

    Raises:
        ToolchainMissingError: the real code cannot be run.
    """
    _OUT.mkdir(parents=True, exist_ok=True)
    yield f"{'convert':24}{'kdump s':>9}{'peer s':>9}{'ratio':>7}{'goal':>6}"
    for comparison in comparisons:
        path = str(comparison.segment.path())
        own = kdump("convert", path, *comparison.words, "-o", _OUT / "kdump")
        pairs = [(_seconds(own), comparison.peer(path)) for _ in range(rounds)]
        walls = [median(side) for side in zip(*pairs, strict=True)]
        ratio = median(ours / theirs for ours, theirs in pairs)
        yield f"{comparison.name:24}{walls[0]:9.2f}{walls[1]:9.2f}{ratio:7.2f}{comparison.goal:6.2f}"
    for file in _OUT.iterdir():
        file.unlink()
