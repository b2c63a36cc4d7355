"""Jobs on Spark against one process of the local engine, and against the floor: ``python -m tests.bench.sparkjobs``.

Eight segments of 128 MiB (links to one), ``local[2]``, pairs one after the other in every round. The session is warm
when a job has run some times: Java compiles what runs often, on the processors that the workers need. The rows go
nowhere (Spark's ``noop``). The local engine's side is a process, of rows with JSON lines to a pipe; and the same checks
and record batches in this process: that is the stricter one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pyarrow as pa

from kdump.inputs import inputs_of, resolve
from tests.bench.cases import CACHE, Segment
from tests.bench.measure import COMPILED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kdump.rows.schema import Table

SEGMENTS = 8
_WARMING_UP = 5
PLAIN = Segment("spark-none", "none", 128 * 1024, 80)
ZSTD = Segment("spark-zstd", "zstd", 128 * 1024, 80)


@dataclass(frozen=True)
class Job:
    """One comparison; ``goal``: how many times as fast Spark is to be."""

    name: str
    local: Callable[[], object]
    spark: Callable[[], object]
    goal: float | None


def job_lines(spark: SparkSession, segments: int = SEGMENTS, rounds: int = 3) -> Iterator[str]:
    """A line a job: medians of both sides, and of the ratios of the pairs. Raises ToolchainMissingError."""
    yield f"{'job':34}{'local s':>9}{'spark s':>9}{'ratio':>7}{'goal':>6}"
    for job in jobs(spark, segments):
        for _ in range(_WARMING_UP):
            job.spark()
        pairs = [(_seconds(job.local), _seconds(job.spark)) for _ in range(rounds)]
        local, on_spark = (median(side) for side in zip(*pairs, strict=True))
        ratio = median(here / there for here, there in pairs)
        yield f"{job.name:34}{local:9.2f}{on_spark:9.2f}{ratio:7.2f}" + (f"{job.goal:6.1f}" if job.goal else "")


def jobs(spark: SparkSession, segments: int) -> Iterator[Job]:
    """All of them."""
    from kdump.rows.tables import BATCH, RECORD
    from kdump.spark.verify import SparkJudge
    from kdump.verify.run import Verification
    from kdump.verify.segment import CheckOptions
    from tests.bench.readymade import ReadyMade

    spark.dataSource.register(ReadyMade)
    plain, zstd = str(_linked(PLAIN, segments)), str(_linked(ZSTD, segments))

    def rows(source: str, path: str, schema: str | None = None, **options: object) -> Callable[[], object]:
        def write() -> None:
            reader = spark.read.format(source).options(**options)
            (reader.schema(schema) if schema else reader).load(path).write.format("noop").mode("overwrite").save()

        return write

    every = rows("kafka-segment", plain)
    two = "offset bigint, timestamp timestamp"
    count = sum(batch.num_rows for batch in _batches(plain, RECORD, two))

    def verify() -> None:
        list(Verification(SparkJudge(spark, [resolve(plain)], CheckOptions())).items(resolve(plain)))

    yield Job("verify --deep", _process("verify", "--deep", plain), verify, 1.6)
    yield Job("verify --deep; in this process", lambda: list(Verification().items(resolve(plain))), verify, None)
    yield Job("offset, timestamp; JSON lines", _json(plain, "offset,timestamp"), rows("kafka-segment", plain, two), 1.5)
    yield Job("offset, timestamp; record batches", _arrow(plain, RECORD, two), rows("kafka-segment", plain, two), None)
    yield Job("all columns; JSON lines", _json(plain), every, 0.7)
    yield Job("all columns; record batches", _arrow(plain, RECORD), every, None)
    yield Job("all columns; the floor", _arrow(plain, RECORD), rows("ready-made", plain, rows=count // segments), None)
    yield Job("zstd, two columns; JSON lines", _json(zstd, "offset,timestamp"), rows("kafka-segment", zstd, two), 1.3)
    yield Job("zstd, all columns; JSON lines", _json(zstd), rows("kafka-segment", zstd), 1.3)
    yield Job("batches against all columns", every, rows("kafka-segment-batches", plain), 5)
    yield Job("batches; record batches", _arrow(plain, BATCH), rows("kafka-segment-batches", plain), None)


def _linked(segment: Segment, count: int) -> Path:
    """A log directory of so many partitions with the same segment."""
    root = CACHE / f"{segment.name}-{count}"
    for number in range(count):
        link = root / f"t-{number}" / f"{0:020d}.log"
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            os.link(segment.path(), link)
    return root


def _json(path: str, fields: str | None = None) -> Callable[[], object]:
    chosen = () if fields is None else ("--fields", fields)
    return _process("dump", "--output", "jsonl", "--records", path, *chosen)


def _process(command: str, *words: str) -> Callable[[], object]:
    """A process of the local engine, its start included."""
    line = [sys.executable, "-m", "kdump", command, "--engine", "local", *words]
    return lambda: subprocess.run(line, env=COMPILED, check=True, stdout=subprocess.DEVNULL)


def _arrow(path: str, table: Table, columns: str | None = None) -> Callable[[], object]:
    def read() -> None:
        for _ in _batches(path, table, columns):
            pass

    return read


def _batches(path: str, table: Table, columns: str | None = None) -> Iterator[pa.RecordBatch]:
    """``columns``: as Spark writes a schema; None: all."""
    from kdump.rows.arrow import arrow_schema
    from kdump.spark.readrecords import ArrowOptions, read_logs
    from kdump.tasks.logs import log_files, plan

    schema = arrow_schema(table)
    if columns is not None:
        schema = pa.schema([schema.field(column.split()[0]) for column in columns.split(", ")])
    for task in plan(log_files(inputs_of([path], print, with_patterns=True), print)):
        yield from read_logs(task, ArrowOptions(table, schema))


def _seconds(job: Callable[[], object]) -> float:
    begin = time.perf_counter()
    job()
    return time.perf_counter() - begin


def main(rounds: int) -> None:
    """Print the table as it grows."""
    from kdump.spark.sessions import session

    for line in job_lines(session("local[2]"), rounds=rounds):
        print(line, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
