"""The data sources through Spark: schemas, options, filters, modes; their rows are those of the local engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kdump.rows.tables import BATCH, RECORD, RECORD_DECODED
from kdump.spark.options import parse_options
from kdump.spark.sources import PUSHDOWN, register
from tests.harness.arrowrows import Row, collected, dumped, mapped
from tests.harness.captures import FIXTURES, Captures
from tests.harness.schemas import schema_cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEGMENTS = FIXTURES / "segments"
KAFKA_SCHEMA = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
    "headers:array<struct<key:string,value:binary>>>"
)


def logs(captures: Captures) -> list[Path]:
    """Small ones: a task for each is some work for Spark. tests/property/test_captures.py reads them all."""
    return [path for path in captures.files(".log", 12_000) if path.stat().st_size]


@pytest.mark.parametrize(("source", "kind"), [("kafka-segment", "records"), ("kafka-segment-batches", "batches")])
def test_rows_of_captures(spark: SparkSession, captures: Captures, source: str, kind: str) -> None:
    paths = logs(captures)[::4]
    expected = list(map(mapped, dumped(kind, *paths)))
    expected.sort(key=lambda row: (row["file"], row["position"]))
    for size in ("4k", "128m"):
        frame = spark.read.format(source).option("splitBytes", size).load(list(map(str, paths)))
        assert collected(frame) == expected, size


def test_schemas(spark: SparkSession) -> None:
    path = str(SEGMENTS / "v2-txn-0")
    frame = spark.read.format("kafka-segment").load(path)
    first = frame.select(*frame.columns[:8]).schema
    assert first.simpleString() == KAFKA_SCHEMA
    assert all(field.nullable for field in first)
    assert set(frame.columns) == set(RECORD.names)
    without = spark.read.format("kafka-segment").option("includeHeaders", "false").load(path)
    assert without.columns == [name for name in frame.columns if name != "headers"]
    assert without.count() == frame.count()
    batches = spark.read.format("kafka-segment-batches").load(path)
    assert tuple(batches.columns) == BATCH.names


def test_a_schema_that_is_asked_for(spark: SparkSession) -> None:
    path = str(SEGMENTS / "v2-txn-0")
    every = spark.read.format("kafka-segment").load(path)
    some = spark.read.format("kafka-segment").schema("offset bigint, value binary").load(path)
    assert some.columns == ["offset", "value"]
    assert sorted(some.collect()) == sorted(every.select("offset", "value").collect())
    for wrong, what in (
        ("offset int", "column offset is bigint, not int"),
        ("offsets bigint", "no column 'offsets'"),
        ("offset bigint, offset bigint", "column offset is asked for more than once"),
        ("offset bigint not null, control string not null", "column control is null in some rows, and NOT NULL"),
    ):
        with pytest.raises(Exception, match=what):
            spark.read.format("kafka-segment").schema(wrong).load(path).count()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"mode": "QUICK"}, "option mode"),
        ({"startingOffsets": "latest"}, "option startingOffsets"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "option endingOffsets"),
        ({"splitBytes": "0"}, "option splitBytes"),
        ({"minPartitions": "0"}, "option minPartitions"),
        ({"includeHeaders": "no"}, "option includeHeaders"),
        ({"subscribe": "a", "subscribePattern": "b"}, "exclude each other"),
        ({"subscribePattern": "("}, "option subscribePattern"),
    ],
)
def test_wrong_options(options: dict[str, str], what: str) -> None:
    """That Spark tells them: tests/spark/test_sql.py."""
    with pytest.raises(ValueError, match=what):
        parse_options({"path": str(SEGMENTS), **options})


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({}, "no path given"),
        ({"path": ""}, "no path given"),
        ({"paths": "[]"}, "no path given"),
        ({"paths": "a,b"}, "option paths: a JSON array of paths is expected, not 'a,b'"),
        ({"paths": '"a"'}, "option paths"),
        ({"paths": "[1]"}, "option paths"),
    ],
)
def test_wrong_paths(options: dict[str, str], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        parse_options(options)


def test_a_path_that_is_not_there(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="/no/such/place: no such file"):
        spark.read.format("kafka-segment").load("/no/such/place").count()


def offsets(spark: SparkSession, **options: Any) -> list[tuple[str, int]]:
    frame = spark.read.format("kafka-segment").options(**options).load(str(SEGMENTS))
    return sorted((row.topic, row.offset) for row in frame.select("topic", "offset").collect())


def test_options_that_select(spark: SparkSession) -> None:
    every = offsets(spark)
    assert {topic for topic, _ in every} == {"__consumer_offsets", "damaged-crc", "v0-snappy", "v1-gzip", "v2-txn"}
    of_txn = [row for row in every if row[0] == "v2-txn"]
    assert offsets(spark, subscribe="v2-txn") == of_txn
    assert offsets(spark, subscribePattern="v2-.*") == of_txn
    assert offsets(spark, startingOffsets="3", endingOffsets="6") == [row for row in every if 3 <= row[1] < 6]
    only = '{"v2-txn":{"0":4}}'
    assert offsets(spark, startingOffsets=only) == [row for row in every if row[0] != "v2-txn" or row[1] >= 4]
    frame = spark.read.format("kafka-segment").load(str(SEGMENTS))
    times = sorted(int(row.ms) for row in frame.selectExpr("unix_millis(timestamp) ms").dropna().collect())
    middle = times[len(times) // 2]
    counted = len(offsets(spark, startingTimestamp=middle)), len(offsets(spark, endingTimestamp=middle))
    assert counted == (sum(time >= middle for time in times), sum(time < middle for time in times))


def test_offsets_that_are_gone(spark: SparkSession, tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    log = partition / "00000000000000000000.log"
    log.write_bytes((SEGMENTS / "v2-txn-0" / log.name).read_bytes())
    log.rename(partition / "00000000000000000005.log")
    reader = spark.read.format("kafka-segment").option("startingOffsets", '{"t":{"0":2}}')
    with pytest.raises(Exception, match="begins at offset 5"):
        reader.load(str(tmp_path)).count()
    assert reader.option("failOnDataLoss", "false").load(str(tmp_path)).count() > 0


CONDITIONS = [
    "offset >= 3 and offset < 8",
    "offset = 4",
    "offset > 4 and 9 >= offset",
    "topic = 'v2-txn'",
    "topic in ('v2-txn', 'v1-gzip') and partition = 0",
    "partition in (1, 2)",
    "partition is null",
    "timestamp >= timestamp'1970-01-01 00:00:00.0005' and timestamp < timestamp'2100-01-01'",
    "timestamp is null",
    "timestamp = timestamp'2001-01-01'",
    "offset = 3 or topic = 'v1-gzip'",
    "key is not null and offset <= 5",
]


def test_filters_are_pushed_and_change_nothing(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    def rows(condition: str) -> list[Row]:
        return collected(spark.read.format("kafka-segment").load(str(SEGMENTS)).where(condition))

    expected = [rows(condition) for condition in CONDITIONS]
    spark.conf.set(PUSHDOWN, "true")
    with pytest.warns(UserWarning, match=r"load\(\) for each query"):
        register(spark)
    try:
        assert [rows(condition) for condition in CONDITIONS] == expected
        frame = spark.read.format("kafka-segment").load(str(SEGMENTS)).where("topic = 'v2-txn'")
        capsys.readouterr()
        frame.explain()
        plan = capsys.readouterr().out
        assert "isnotnull(topic" in plan
        assert "v2-txn" not in plan
    finally:
        spark.conf.set(PUSHDOWN, "false")
        register(spark)
    assert sum(map(bool, expected)) > 6


def test_decoded_contents(spark: SparkSession, captures: Captures) -> None:
    """What ``dump --decode auto`` shows, as JSON text; other topics have nulls."""
    paths = sorted(captures.root.glob("*/__consumer_offsets-*")) + sorted(captures.root.glob("*/__cluster_metadata-0"))
    paths.append(SEGMENTS / "v2-txn-0")
    expected = [mapped(row) for row in dumped("records", "--decode", "auto", *paths)]
    reader = spark.read.format("kafka-segment").option("decode", "auto")
    frame = reader.load(list(map(str, paths)))
    assert set(frame.columns) == set(RECORD_DECODED.names)
    rows = collected(frame)
    assert rows == sorted(expected, key=lambda row: (row["file"], row["position"]))
    assert sum(row["decodedKey"] is not None for row in rows) > 10
    numbers = spark.read.format("kafka-segment").option("valueDecoder", "hex").load(str(SEGMENTS / "v2-txn-0"))
    first = numbers.where("value is not null and not isControl").select("value", "decodedValue").first()
    assert first is not None
    assert first.decodedValue == f'"{bytes(first.value).hex()}"'
    for wrong in ({"decode": "yes"}, {"keyDecoder": "avro"}):
        with pytest.raises(Exception, match=f"option {next(iter(wrong))}"):
            spark.read.format("kafka-segment").options(**wrong).load(str(SEGMENTS)).count()


def test_values_by_a_schema(spark: SparkSession) -> None:
    """What ``dump --schemas`` shows, in workers too."""
    logdir = schema_cases() / "logdir"
    paths = [str(logdir / f"{topic}-0") for topic in ("orders", "invoices-guid", "bad")]
    expected = [mapped(row) for row in dumped("records", "--schemas", str(logdir), *paths)]
    given = spark.read.format("kafka-segment").option("schemas", str(logdir / "_schemas-0")).load(paths)
    rows = collected(given)
    assert rows == sorted(expected, key=lambda row: (row["file"], row["position"]))
    assert sum(row["decodedValue"] is not None for row in rows) > 10
    own = spark.read.format("kafka-segment").option("decode", "auto").load(str(logdir / "orders-0")).collect()
    assert all(row["decodedKey"] is not None for row in own)
    with pytest.raises(Exception, match="nowhere"):
        spark.read.format("kafka-segment").option("schemas", "nowhere").load(paths[0]).collect()


def test_modes(spark: SparkSession) -> None:
    path = str(SEGMENTS / "damaged-crc-0")
    frame = spark.read.format("kafka-segment").load(path)
    damaged = frame.where("not isValid").count()
    assert damaged
    sound = spark.read.format("kafka-segment").option("mode", "dropmalformed").load(path)
    assert sound.count() == frame.count() - damaged
    with pytest.raises(Exception, match=r"damaged-crc-0/0+\.log: at \d+: the CRC of the batch is wrong"):
        spark.read.format("kafka-segment").option("mode", "FAILFAST").load(path).count()
