"""SQL: tables of a catalog, names without backticks, options that belong to Kafka's clients, and no writing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdump.spark.options import ignored_options, parse_options
from tests.harness.captures import FIXTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LOG = FIXTURES / "segments" / "v2-txn-0"
RECORDS = 448


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    """The name of a table that is dropped afterwards."""
    yield "orders_0"
    spark.sql("DROP TABLE IF EXISTS orders_0")


@pytest.mark.parametrize(
    "clauses",
    [
        "USING kafkasegment OPTIONS (path '{path}')",
        "USING kafkasegment LOCATION '{path}'",
        "USING `kafka-segment` OPTIONS (path '{path}') COMMENT 'orders' TBLPROPERTIES ('team' = 'billing')",
        "USING kafkasegment OPTIONS (path '{path}', startingOffsets 'earliest', kafka.bootstrap.servers 'h:1')",
    ],
)
def test_create_table(spark: SparkSession, table: str, clauses: str) -> None:
    spark.sql(f"CREATE TABLE {table} {clauses.format(path=LOG)}")
    assert spark.sql(f"SELECT count(*) FROM {table}").first()[0] == RECORDS  # type: ignore[index]
    assert spark.table(table).where("isControl").count() > 0


def test_options_of_a_table_hold(spark: SparkSession, table: str) -> None:
    spark.sql(
        f"CREATE TABLE {table} USING kafkasegment OPTIONS (path '{LOG}', includeHeaders 'false', "
        "startingTimestamp '9999999999999')"
    )
    assert "headers" not in spark.table(table).columns
    assert spark.table(table).count() == 0


def test_an_unknown_option_of_a_table(spark: SparkSession, table: str) -> None:
    with pytest.raises(Exception, match=r"unknown option 'mod'; did you mean mode\?"):
        spark.sql(f"CREATE TABLE {table} USING kafkasegment OPTIONS (path '{LOG}', mod 'FAILFAST')")


@pytest.mark.parametrize("name", ["kafkasegment", "kafkasegmentbatches", "kafkasegmentfindings"])
def test_names_without_hyphens(spark: SparkSession, name: str) -> None:
    hyphens = name.replace("segment", "-segment").replace("batches", "-batches").replace("findings", "-findings")
    path = str(FIXTURES / "segments" / "damaged-crc-0")
    assert spark.read.format(name).load(path).count() == spark.read.format(hyphens).load(path).count() > 0


def test_a_view_without_backticks(spark: SparkSession) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING kafkasegmentbatches OPTIONS (path '{LOG}')")
    assert spark.sql("SELECT sum(count) FROM v").first()[0] == RECORDS  # type: ignore[index]


def test_options_of_kafka_clients_are_ignored(spark: SparkSession) -> None:
    reader = spark.read.format("kafka-segment").option("kafka.bootstrap.servers", "h:9092").option("KAFKA.group.id", "")
    assert reader.load(str(LOG)).count() == RECORDS
    given = {"kafka.bootstrap.servers": "h", "path": "p", "KAFKA.group.id": "g"}
    assert ignored_options(given) == ["KAFKA.group.id", "kafka.bootstrap.servers"]
    assert parse_options(given).paths == ("p",)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("startingofsets", r"unknown option 'startingofsets'; did you mean startingOffsets\?"),
        ("splitbyte", r"unknown option 'splitbyte'; did you mean splitBytes\?"),
        ("zzz", "unknown option 'zzz'; known are startingOffsets, endingOffsets"),
        ("kafkagroup", "unknown option 'kafkagroup'"),
    ],
)
def test_unknown_options(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_options({"path": "p", name: "1"})


@pytest.mark.parametrize(
    ("given", "path"), [("file:/data/t-0", "/data/t-0"), ("file:///data/t-0", "/data/t-0"), ("file:t-0", "file:t-0")]
)
def test_paths_of_a_catalog(given: str, path: str) -> None:
    assert parse_options({"path": given}).paths == (path,)


def test_writing_says_what_writes(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="kafka-segment is read only: `kdump convert --from jsonl` writes segments"):
        spark.range(3).write.format("kafka-segment").mode("append").save(str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
