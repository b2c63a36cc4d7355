"""The data sources over logs of Kafka 0.7."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.harness.archives import unpack_cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_rows(spark: SparkSession, tmp_path: Path) -> None:
    root = unpack_cases("kafka07", tmp_path)
    path = str(root / "multi-0")
    plain = spark.read.format("kafka-segment").load(path)
    assert "nextOffset" not in plain.columns
    assert plain.count() == 240
    records = spark.read.format("kafka-segment").option("logFormat", "0.7").load(path)
    rows = records.orderBy("offset", "nextOffset").collect()
    assert len(rows) == 240
    assert rows[0].offset == 0
    assert max(row.nextOffset for row in rows) == sum(file.stat().st_size for file in Path(path).glob("*.kafka"))
    assert {row.timestamp for row in rows} == {None}
    batches = spark.read.format("kafka-segment-batches").option("logFormat", "0.7").load(path)
    assert batches.count() == 96
    damaged = str(root / "crc-last-0")
    assert [row.code for row in spark.read.format("kafka-segment-findings").load(damaged).collect()] == ["KD108"]
    with pytest.raises(Exception, match="logFormat"):
        spark.read.format("kafka-segment").option("logFormat", "0.8").load(path).count()
