"""``kdump convert`` and the library against other code, each in a process of its own.

zstd: bare decompressing and compressing of the same payloads. Parquet: kdump's JSON lines and pyarrow's JSON reader.
v2 to v1: RecordsUtil.downConvert of Kafka 3.9.1 alone, in a warm JVM, without writing; a loop over aiokafka's record
classes. Library: the parsers of Python's Kafka clients, which read the file whole first and check the CRC of each
batch. The clients must be importable by the interpreter that ``KDUMP_BENCH_PEERS`` names (by default this one).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.cases import BIG, CACHE, COMPRESSED, FIVE, Segment
from tests.bench.measure import COMPILED, ROOT
from tests.bench.pairs import Pair, kdump, pair_lines
from tests.oracle.toolchain import WRITER_RELEASE, java_command

_OUT = CACHE / "convert"
_PEERS: Final = os.environ.get("KDUMP_BENCH_PEERS", sys.executable)

_TO_V1: Final = """
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
_BARE_ZSTD: Final = """
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
_JSON_READER: Final = """
import subprocess, sys
import pyarrow.json
command = [sys.executable, "-m", "kdump", "convert", sys.argv[1], "--overwrite", "--to", "jsonl", "-o", sys.argv[2]]
subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
pyarrow.json.read_json(sys.argv[2])
"""
_PARSED: Final = """
import sys
from {package}.record.memory_records import MemoryRecords
records = MemoryRecords(open(sys.argv[1], "rb").read())
while records.has_next():
    batch = records.next_batch()
    assert batch.validate_crc()
    for record in batch:
        pass
"""
_READER: Final = "import kdump, sys\nfor batch in kdump.scan(sys.argv[1], columns={columns}).to_reader(): pass"
_RECORDS: Final = "import kdump, sys\nfor record in kdump.scan(sys.argv[1]): pass"


def _script(code: str, path: Path, *, interpreter: str = sys.executable) -> list[str]:
    return [interpreter, "-c", code, str(path), str(_OUT / "peer")]


def _convert(path: Path, *words: str) -> list[str]:
    return kdump("convert", path, *words, "--overwrite", "-o", _OUT / "kdump")


def down_convert_lines(segment: Segment = BIG, rounds: int = 3) -> Iterator[str]:
    """Medians of kdump's seconds, and of the second conversion of one JVM; the goal is twice that.

    Raises:
        ToolchainMissingError: the real code cannot be run.
    """
    _OUT.mkdir(parents=True, exist_ok=True)
    path, own, peer = segment.path(), [], []
    java = java_command(WRITER_RELEASE, "org.apache.kafka.common.record.DownConversion", options=("-Xmx8g",))
    for _ in range(rounds):
        begin = time.perf_counter()
        command = _convert(path, "--to-magic", "1")
        subprocess.run(command, cwd=ROOT, env=COMPILED, check=True, stdout=subprocess.DEVNULL)
        own.append(time.perf_counter() - begin)
        line = f"{path}\t1\t{_OUT / 'peer'}\ttimed\n"
        told = subprocess.run(java, input=2 * line, capture_output=True, text=True, check=True).stdout
        peer.append(float(told.split()[-1]))
    yield f"v2 to v1: kdump {median(own):.2f} s, downConvert {median(peer):.2f} s"


def conversion_lines(segments: tuple[Segment, Segment] = (COMPRESSED[0], FIVE), rounds: int = 3) -> Iterator[str]:
    """Conversions by other code."""
    _OUT.mkdir(parents=True, exist_ok=True)
    packed, plain = (segment.path() for segment in segments)
    zstd, parquet = ("--codec", "zstd", "--level", "3"), ("--to", "parquet")
    pairs = (
        Pair("zstd, bare", _convert(packed, *zstd), _script(_BARE_ZSTD, packed), 1.3),
        Pair("parquet, JSON lines", _convert(plain, *parquet), _script(_JSON_READER, plain), 1 / 3),
    )
    return pair_lines("convert", pairs, rounds)


def client_lines(segments: tuple[Segment, Segment] = (FIVE, BIG), rounds: int = 3) -> Iterator[str]:
    """Python's Kafka clients. Raises CalledProcessError where they are not installed.

    The second segment is read. It should be large: the start of a reader, most of it numpy and pyarrow, takes 0.3 s.
    """
    _OUT.mkdir(parents=True, exist_ok=True)
    converted, path = (segment.path() for segment in segments)
    parsed = {
        package: _script(_PARSED.format(package=package), path, interpreter=_PEERS) for package in ("aiokafka", "kafka")
    }
    subprocess.run([_PEERS, "-c", "import aiokafka, kafka"], check=True, stderr=subprocess.DEVNULL)
    reads = ((None, 1 / 1.1), *((["offset", other], 1 / 1.8) for other in ("timestamp", "key", "value")))
    pairs = (
        Pair("v2 to v1", _convert(converted, "--to-magic", "1"), _script(_TO_V1, converted, interpreter=_PEERS), 1 / 3),
        *(
            Pair(
                f"{columns or 'all columns'}", _script(_READER.format(columns=columns), path), parsed["aiokafka"], goal
            )
            for columns, goal in reads
        ),
        *(
            Pair(f"records, {package}", _script(_RECORDS, path), parsed[package], goal)
            for package, goal in (("aiokafka", 2), ("kafka", 1 / 3))
        ),
    )
    return pair_lines("clients", pairs, rounds)
