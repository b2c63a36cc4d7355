"""``readStream``: each record once, whatever happens to the query and to the files in the meantime."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from kdump.rows.tables import BATCH, RECORD
from kdump.spark.sessions import why_not
from tests.harness.captures import FIXTURES
from tests.harness.growing import append, batch, batches, write_slowly

if (_missing := why_not()) is not None:
    pytest.skip(_missing, allow_module_level=True)

from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from kdump.spark.options import parse_stream_options
from kdump.spark.partitions import PartitionLog
from kdump.spark.sources import stream_reader_class
from kdump.spark.stream import LogStreamReader, UnlimitedStreamReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kdump.spark.limitedstream import LimitedStreamReader

pytestmark = pytest.mark.spark

SEGMENTS = FIXTURES / "segments"
SCHEMA = StructType().add("topic", StringType()).add("offset", LongType()).add("partition", IntegerType())


class ByHand:
    """A reader driven as Spark drives it, restarted whenever wanted; offsets go through JSON as they do there."""

    def __init__(self, kind: type[LogStreamReader], *paths: Path, **options: str) -> None:
        self.kind = kind
        self.given = {"paths": json.dumps(list(map(str, paths))), **options}
        self.restart()
        self.place = text(self.reader.initialOffset())
        self.rows: list[tuple[str, int]] = []

    def restart(self) -> None:
        self.reader = self.kind(RECORD, parse_stream_options(self.given), SCHEMA)

    def latest(self) -> str:
        if isinstance(self.reader, UnlimitedStreamReader):
            return text(self.reader.latestOffset())
        limit = self.limited.getDefaultReadLimit()
        return text(self.limited.latestOffset(json.loads(self.place), limit))

    @property
    def limited(self) -> LimitedStreamReader:
        """The reader, of the kind that has limits."""
        return cast("LimitedStreamReader", self.reader)

    def read(self, end: str) -> list[tuple[str, int]]:
        rows = []
        for partition in self.reader.partitions(json.loads(self.place), json.loads(end)):
            for part in self.reader.read(partition):
                names = zip(part.column("topic").to_pylist(), part.column("partition").to_pylist(), strict=True)
                at = [f"{topic}-{number}" for topic, number in names]
                rows += list(zip(at, part.column("offset").to_pylist(), strict=True))
        return rows

    def take(self) -> list[tuple[str, int]]:
        end = self.latest()
        rows = self.read(end)
        if end != self.place:
            self.reader.commit(json.loads(end))
        self.place = end
        self.rows += rows
        return sorted(rows)


def text(offset: dict[str, Any]) -> str:
    return json.dumps(offset)


def of(topic: str, offsets: Iterable[int]) -> list[tuple[str, int]]:
    return [(topic, offset) for offset in offsets]


OWN = stream_reader_class()
"""With limits, where PySpark has them (4.2 and later)."""
KINDS = list(dict.fromkeys([OWN, UnlimitedStreamReader]))


@pytest.mark.parametrize("kind", KINDS)
def test_growth_rolls_and_restarts(kind: type[LogStreamReader], tmp_path: Path) -> None:
    logs = tmp_path
    append(logs / "a-0", 0, batches(0, 4) + batch(4)[:-1])
    stream = ByHand(kind, logs)
    assert stream.take() == of("a-0", range(4))
    place = stream.place
    assert stream.take() == []
    assert stream.place == place
    stream.restart()
    assert stream.take() == []
    assert stream.place == place
    append(logs / "a-0", 0, batch(4)[-1:])
    append(logs / "a-0", 6, batches(6, 8))
    append(logs / "b-1", 0, batches(0, 2))
    planned = stream.latest()
    assert sorted(stream.read(planned)) == of("a-0", range(4, 8)) + of("b-1", range(2))
    # Killed between planning and commit, and more was written.
    append(logs / "a-0", 8, batches(8, 12))
    stream.restart()
    assert sorted(stream.read(planned)) == of("a-0", range(4, 8)) + of("b-1", range(2))
    stream.place = planned
    assert stream.take() == of("a-0", range(8, 12))


@pytest.mark.parametrize("kind", KINDS)
def test_losses(kind: type[LogStreamReader], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = tmp_path / "a-0"
    append(directory, 0, batches(0, 4))
    strict, tolerant = ByHand(kind, tmp_path), ByHand(kind, tmp_path, failOnDataLoss="false")
    strict.take(), tolerant.take()
    append(directory, 4, batches(4, 8))
    append(directory, 8, batches(8, 10))
    for base in (0, 4):
        (directory / f"{base:020}.log").unlink()
    for _ in range(2):
        with pytest.raises(Exception, match=r"a-0: offsets 4 to 7 were deleted .*failOnDataLoss"):
            strict.take()
        strict.restart()
    assert tolerant.take() == of("a-0", [8, 9])
    assert "kdump: " + str(directory) + ": offsets 4 to 7 were deleted" in caplog.text
    # Cut by a later leader.
    strict.place = tolerant.place
    os.truncate(directory / f"{8:020}.log", 0)
    append(directory, 8, batches(8, 12, epoch=1))
    strict.restart()
    with pytest.raises(Exception, match="cut to offset 8, it was read up to offset 10"):
        strict.take()
    assert tolerant.take() == of("a-0", range(8, 12))
    shutil.rmtree(directory)
    strict.place = tolerant.place
    with pytest.raises(Exception, match="a-0: the partition is not there any more"):
        strict.take()
    assert tolerant.take() == []


def test_a_partition_that_comes_back(tmp_path: Path) -> None:
    """A disk that was not mounted for a while."""
    append(tmp_path / "a-0", 0, batches(0, 4))
    stream = ByHand(OWN, tmp_path, failOnDataLoss="false")
    stream.take()
    (tmp_path / "a-0").rename(tmp_path / "away")
    assert stream.take() == []
    (tmp_path / "away").rename(tmp_path / "a-0")
    append(tmp_path / "a-0", 0, batches(4, 6))
    assert stream.take() == of("a-0", [4, 5])


def test_a_file_that_goes_between_plan_and_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = tmp_path / "a-0"
    for base in (0, 4):
        append(directory, base, batches(base, base + 4))
    strict, tolerant = (
        ByHand(OWN, tmp_path),
        ByHand(OWN, tmp_path, failOnDataLoss="false"),
    )
    for stream in (strict, tolerant):
        tasks = stream.reader.partitions({}, json.loads(stream.latest()))
        (directory / f"{0:020}.log").rename(directory / "gone")
        parts = (part for task in tasks for part in stream.reader.read(task))
        if stream is strict:
            with pytest.raises(Exception, match=r"0\.log was deleted before it was read \(failOnDataLoss\)"):
                list(parts)
        else:
            assert [offset for part in parts for offset in part.column("offset").to_pylist()] == [4, 5, 6, 7]
        (directory / "gone").rename(directory / f"{0:020}.log")
    assert "was deleted before it was read" in caplog.text


def test_where_it_starts(tmp_path: Path) -> None:
    for base in (4, 8):
        append(tmp_path / "a-0", base, batches(base, base + 4))
    append(tmp_path / "b-0", 0, batches(0, 4))

    def started(**options: str) -> list[tuple[str, int]]:
        stream = ByHand(OWN, tmp_path, **options)
        append(tmp_path / "a-0", 8, b"")
        return stream.take()

    a, b = of("a-0", range(4, 12)), of("b-0", range(4))
    assert started() == a + b
    assert started(startingOffsets="earliest", subscribe="b") == b
    assert started(startingOffsets="latest") == []
    assert started(startingOffsets="3") == a + b[3:]
    assert started(startingOffsets='{"a":{"0":7}}') == a[3:] + b
    assert started(startingOffsets='{"a":{"0":-1}, "b":{"0":-2}}') == b
    with pytest.raises(Exception, match="a-0: begins at offset 4, startingOffsets asks for 2"):
        started(startingOffsets='{"a":{"0":2}}')
    stream = ByHand(OWN, tmp_path, startingOffsets="14", subscribe="a")
    assert stream.take() == []
    append(tmp_path / "a-0", 8, batches(12, 14))
    stream.restart()
    assert stream.take() == []
    append(tmp_path / "a-0", 8, batches(14, 16))
    assert stream.take() == of("a-0", [14, 15])


def test_limits(tmp_path: Path) -> None:
    datasource = pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark has no limits before 4.2")
    for number in range(2):
        append(tmp_path / f"a-{number}", 0, batches(0, 40))
    size = str(8 * len(batch(0)))
    for options, taken in [
        ({"maxBytesPerTrigger": size}, 16),
        ({"maxOffsetsPerTrigger": "8"}, 8),
        ({"maxBytesPerTrigger": size, "maxOffsetsPerTrigger": "12"}, 12),
        ({}, 80),
    ]:
        stream = ByHand(OWN, tmp_path, **options)
        assert len(stream.take()) == taken
        while stream.take():
            pass
        assert sorted(stream.rows) == of("a-0", range(40)) + of("a-1", range(40))
        limit = stream.limited.getDefaultReadLimit()
        expected = datasource.ReadMaxBytes(int(size)) if "maxBytesPerTrigger" in options else datasource.ReadMaxRows(8)
        assert limit == (expected if options else datasource.ReadAllAvailable())
        every = stream.limited.latestOffset(json.loads(text({})), datasource.ReadAllAvailable())
        assert text(every) == stream.place


def test_available_now_ends_where_the_log_did(tmp_path: Path) -> None:
    pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark has no Trigger.AvailableNow before 4.2")
    append(tmp_path / "a-0", 0, batches(0, 10))
    stream = ByHand(OWN, tmp_path, maxOffsetsPerTrigger="4")
    stream.limited.prepareForTriggerAvailableNow()
    append(tmp_path / "a-0", 0, batches(10, 14))
    append(tmp_path / "a-0", 14, batches(14, 16))
    append(tmp_path / "b-0", 0, batches(0, 2))
    while stream.take():
        pass
    assert stream.rows == of("a-0", range(10))
    stream.restart()
    while stream.take():
        pass
    assert sorted(stream.rows) == of("a-0", range(16)) + of("b-0", range(2))


def test_a_task_for_each_log_or_for_small_ones(tmp_path: Path) -> None:
    for base in range(0, 4000, 1000):
        append(tmp_path / "a-0", base, batches(base, base + 1000))
    tasks = {}
    for name, options in {"small": {}, "each": {"splitBytes": "1k"}, "some": {"minPartitions": "2"}}.items():
        stream = ByHand(OWN, tmp_path, **options)
        end = json.loads(stream.latest())
        found = stream.reader.partitions({}, end)
        assert len(stream.reader.partitions(end, end)) == 0
        tasks[name] = len(found)
    assert tasks == {"small": 1, "each": 4, "some": 4}
    assert sorted(stream.take()) == of("a-0", range(4000))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"mod": "FAILFAST"}, "unknown option 'mod'"),
        ({"endingOffsets": "latest"}, "unknown option 'endingOffsets'"),
        ({"startingOffsets": "newest"}, "option startingOffsets: earliest, latest, an offset"),
        ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger"),
        ({"maxBytesPerTrigger": "many"}, "option maxBytesPerTrigger"),
    ],
)
def test_wrong_options(options: dict[str, str], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        parse_stream_options({"path": "/logs", **options})


@pytest.mark.parametrize("limits", [{}, {"maxBytesPerTrigger": "1m"}, {"maxOffsetsPerTrigger": "1000"}])
@pytest.mark.parametrize("at", ["latestOffset", "partitions"])
def test_a_segment_that_is_deleted_after_it_was_listed(tmp_path: Path, limits: dict[str, str], at: str) -> None:
    """By retention, or because the topic is. The next listing shows what is left."""
    directory = tmp_path / "a-0"
    for base in (0, 4, 8):
        append(directory, base, batches(base, base + 4))
    stream = ByHand(OWN, tmp_path, failOnDataLoss="false", **limits)
    listed = stream.reader.listed

    def listed_before() -> dict[str, PartitionLog]:
        found = listed()
        (directory / f"{4:020}.log").unlink(missing_ok=True)
        return found

    if at == "latestOffset":
        stream.reader.listed = listed_before  # type: ignore[method-assign]
        stream.take()
    else:
        end = stream.latest()
        stream.reader.listed = listed_before  # type: ignore[method-assign]
        stream.rows += stream.read(end)
        stream.place = end
    stream.take()
    assert stream.rows == of("a-0", [*range(4), *range(8, 12)])


def test_a_log_that_is_deleted_before_a_stream_ends_where_it_is(tmp_path: Path) -> None:
    append(tmp_path / "a-0", 0, batches(0, 4))
    append(tmp_path / "b-0", 0, batches(0, 4))
    stream = ByHand(OWN, tmp_path, failOnDataLoss="false")
    if isinstance(stream.reader, UnlimitedStreamReader):
        pytest.skip("pyspark 4.1 has no Trigger.AvailableNow")
    listed = stream.reader.listed

    def listed_before() -> dict[str, PartitionLog]:
        found = listed()
        (tmp_path / "a-0" / f"{0:020}.log").unlink(missing_ok=True)
        return found

    stream.reader.listed = listed_before  # type: ignore[method-assign]
    stream.limited.prepareForTriggerAvailableNow()
    assert stream.take() == of("b-0", range(4))


def test_old_spark_is_told_that_limits_are_not_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    append(tmp_path / "a-0", 0, batches(0, 10))
    assert len(ByHand(UnlimitedStreamReader, tmp_path, maxOffsetsPerTrigger="4").take()) == 10
    assert "need pyspark 4.2" in caplog.text


# Through Spark.


class Query:
    """Runs of one query with one checkpoint; what each micro-batch gave, by its number, the last time it was run."""

    def __init__(self, frame: DataFrame, checkpoint: Path) -> None:
        self.frame = frame
        self.checkpoint = checkpoint
        self.given: dict[int, list[tuple[str, int]]] = {}
        self.runs: list[int] = []

    def start(self, **trigger: Any) -> StreamingQuery:
        def keep(frame: DataFrame, number: int) -> None:
            self.runs.append(number)
            rows = frame.select("topic", "partition", "offset").collect()
            self.given[number] = [(f"{row.topic}-{row.partition}", row.offset) for row in rows]

        writer = self.frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(**trigger).start()

    def run(self) -> list[tuple[str, int]]:
        """All that is there; what it gave."""
        before = set(self.given)
        self.start(availableNow=True).awaitTermination()
        return sorted(row for number in self.given.keys() - before for row in self.given[number])

    @property
    def rows(self) -> list[tuple[str, int]]:
        return sorted(row for rows in self.given.values() for row in rows)

    def forget_commit(self) -> int:
        """As if Spark had been killed when the last micro-batch was done and not committed."""
        last = max(self.given)
        for name in (f"{last}", f".{last}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)
        return last


@pytest.fixture
def stopping(spark: SparkSession) -> Iterator[SparkSession]:
    yield spark
    for query in spark.streams.active:
        query.stop()


def test_a_writer_that_writes_and_a_query_that_is_killed(stopping: SparkSession, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    frame = stopping.readStream.format("kafka-segment").option("maxBytesPerTrigger", "40k").load(str(logs))
    query = Query(frame, tmp_path / "checkpoint")
    writer = multiprocessing.get_context("spawn").Process(target=write_slowly, args=(logs, 4, 1))
    writer.start()
    try:
        running = query.start(processingTime="100 milliseconds")
        until = time.monotonic() + 30
        while len(query.given) < 3 and time.monotonic() < until:
            assert running.exception() is None, str(running.exception())
            time.sleep(0.05)
        # In the middle of a micro-batch, most likely.
        running.stop()
    finally:
        writer.join()
    query.run()
    last = query.forget_commit()
    seen = query.given.pop(last)
    query.run()
    assert query.runs[-2:] == [last, last]
    assert sorted(query.given[last]) == sorted(seen)
    counts = json.loads((logs / "written.json").read_text())
    assert query.rows == [row for number, count in enumerate(counts) for row in of(f"t-{number}", range(count))]


def test_losses_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    directory = tmp_path / "logs" / "a-0"
    append(directory, 0, batches(0, 4))
    reader = spark.readStream.format("kafka-segment")
    query = Query(reader.load(str(tmp_path / "logs")), tmp_path / "checkpoint")
    assert query.run() == of("a-0", range(4))
    append(directory, 4, batches(4, 8))
    append(directory, 8, batches(8, 10))
    (directory / f"{4:020}.log").unlink()
    with pytest.raises(Exception, match="offsets 4 to 7 were deleted"):
        query.run()
    query.frame = reader.option("failOnDataLoss", "false").load(str(tmp_path / "logs"))
    assert query.run() == of("a-0", [8, 9])


def test_a_schema_that_is_asked_for_and_batches(spark: SparkSession, tmp_path: Path) -> None:
    path = str(SEGMENTS)
    frame = spark.readStream.format("kafka-segment").option("includeHeaders", "false").load(path)
    assert frame.isStreaming
    assert frame.columns == [
        name for name in spark.read.format("kafka-segment").load(path).columns if name != "headers"
    ]
    some = spark.readStream.format("kafka-segment").schema("topic string, offset bigint, partition int").load(path)
    query = Query(some, tmp_path / "some")
    every = spark.read.format("kafka-segment").load(path)
    expected = sorted((f"{row.topic}-{row.partition}", row.offset) for row in every.collect())
    assert query.run() == expected
    batch_rows = spark.readStream.format("kafka-segment-batches").load(path)
    assert tuple(batch_rows.columns) == BATCH.names
    written = batch_rows.writeStream.format("memory").queryName("batches")
    written.option("checkpointLocation", str(tmp_path / "batches")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert spark.table("batches").count() == spark.read.format("kafka-segment-batches").load(path).count()


def test_failfast_names_the_damage(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.readStream.format("kafka-segment").option("mode", "FAILFAST").load(str(SEGMENTS / "damaged-crc-0"))
    with pytest.raises(Exception, match=r"damaged-crc-0/0+\.log: at \d+: the CRC of the batch is wrong"):
        Query(frame, tmp_path / "checkpoint").run()
