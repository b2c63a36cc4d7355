"""examples/questions.py: its answers are those of plain counts over the rows of one process."""

from __future__ import annotations

import runpy
import sys
from collections import Counter, defaultdict
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest

import kdump
from tests.harness import ROOT
from tests.harness.arrowrows import Row, dumped, mapped
from tests.harness.captures import FIXTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXAMPLE = ROOT / "examples" / "questions.py"
SEGMENTS = FIXTURES / "segments"
FIRST, LAST = 20, 140


@pytest.fixture(scope="module")
def answers(spark: SparkSession) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of the example's frames by name."""
    given, zone = sys.argv, spark.conf.get("spark.sql.session.timeZone")
    sys.argv = [str(EXAMPLE), str(SEGMENTS), str(FIRST), str(LAST)]
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        cells = runpy.run_path(str(EXAMPLE))
        names = ("hot_keys", "writers", "damage", "bytes_a_day", "aborted")
        return {name: list(map(tuple, cells[name].collect())) for name in names}
    finally:
        sys.argv = given
        spark.conf.set("spark.sql.session.timeZone", str(zone))


@pytest.fixture(scope="module")
def records() -> list[Row]:
    return list(map(mapped, dumped("records", SEGMENTS)))


@pytest.fixture(scope="module")
def batches() -> list[Row]:
    return dumped("batches", SEGMENTS)


def test_hot_keys(answers: dict[str, list[tuple[Any, ...]]], records: list[Row]) -> None:
    counts: Counter[tuple[str, bytes | None]] = Counter()
    sizes: Counter[tuple[str, bytes | None]] = Counter()
    for row in records:
        if not row["isControl"]:
            counts[row["topic"], row["key"]] += 1
            sizes[row["topic"], row["key"]] += len(row["key"] or b"") + len(row["value"] or b"")
    expected = {(*key, count, sizes[key]) for key, count in counts.items()}
    found = [(topic, key if key is None else bytes(key), *rest) for topic, key, *rest in answers["hot_keys"]]
    assert len(found) == len(expected) > 100
    assert set(found) == expected
    assert [row[2] for row in found] == sorted((row[2] for row in found), reverse=True)


def test_writers(answers: dict[str, list[tuple[Any, ...]]], batches: list[Row]) -> None:
    groups = defaultdict(list)
    for row in batches:
        # Entries of magic 0 and 1 have no base offset, and no producer.
        if row["baseOffset"] is not None and row["lastOffset"] >= FIRST and row["baseOffset"] <= LAST:
            if row["isControl"]:
                continue
            groups[row["topic"], row["partition"], row["producerId"], row["producerEpoch"]].append(row)
    expected = {
        (*key, min(row["baseOffset"] for row in rows), max(row["lastOffset"] for row in rows), len(rows))
        for key, rows in groups.items()
    }
    assert len(answers["writers"]) == len(expected) > 20
    assert set(answers["writers"]) == expected


def test_damage(answers: dict[str, list[tuple[Any, ...]]]) -> None:
    expected = [
        (item.path, item.position, item.code, item.name, *_offsets(item), item.message)
        for item in kdump.findings(str(SEGMENTS))
        if item.severity == "error"
    ]
    assert answers["damage"] == expected
    assert [row[1:4] for row in expected] == [(7628, "KD108", "batch-crc")]


def _offsets(item: kdump.Finding) -> tuple[int | None, int | None, int | None]:
    return item.first_offset, item.last_offset, item.continue_at


def test_bytes_a_day(answers: dict[str, list[tuple[Any, ...]]], batches: list[Row]) -> None:
    expected: Counter[tuple[str, date | None]] = Counter()
    for row in batches:
        time = row["maxTimestamp"]
        day = None if time is None or time < 0 else datetime.fromtimestamp(time / 1000, UTC).date()
        expected[row["topic"], day] += row["size"]
    assert {(topic, day): size for topic, day, size in answers["bytes_a_day"]} == expected
    assert len(expected) >= 4


def test_aborted(answers: dict[str, list[tuple[Any, ...]]], records: list[Row]) -> None:
    expected = []
    running: dict[tuple[str, int, int], list[Row]] = defaultdict(list)
    for row in sorted(records, key=lambda row: (row["topic"], row["partition"], row["offset"])):
        if row["isTransactional"]:
            producer = row["topic"], row["partition"], row["producerId"]
            if not row["isControl"]:
                running[producer].append(row)
            elif row["controlType"] == "ABORT" and (own := running.pop(producer, [])):
                offsets = [each["offset"] for each in own]
                epoch = max(each["producerEpoch"] for each in own)
                expected.append((*producer, row["offset"], epoch, offsets[0], offsets[-1], len(own)))
            else:
                running.pop(producer, None)
    assert answers["aborted"] == sorted(expected, key=lambda row: (row[0], row[1], row[5]))
    assert sum(row[-1] for row in expected) == sum(row["txnState"] == "aborted" for row in records) == 174
