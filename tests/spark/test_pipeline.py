"""The pipeline: each offset of each partition is landed or accounted for, once, whatever happens in between."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kdump.codes import KdumpError
from kdump.spark.sessions import why_not
from kdump.testing import flip_bit, marker, write_segment
from tests.harness import ROOT
from tests.harness.arrowrows import dumped, mapped
from tests.harness.batches import message, plain_rows, v2_batch
from tests.harness.captures import FIXTURES, Captures
from tests.harness.growing import append, batches
from tests.harness.s3server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.harness.schemas import schema_cases

if (_missing := why_not()) is not None:
    pytest.skip(_missing, allow_module_level=True)

import pyarrow.dataset as ds

from kdump import __version__
from kdump.spark import landrun
from kdump.spark.lake import Lake
from kdump.spark.landing import COUNTS, OPEN_BATCH
from kdump.spark.pipeline import PipelineOptions, PipelineRun, main, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEGMENTS = FIXTURES / "segments"
LONG_AGO = 1_000_000_000
Land = Callable[..., PipelineRun]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def land(spark: SparkSession, logs: Path, lake: Path) -> Land:
    """A run over logs that nobody writes to. Every account of it adds up to its length and to the rows in the files."""

    clock = count()

    def landed(source: Path = logs, *, settled: bool = True, **options: Any) -> PipelineRun:
        if settled:
            for path in logs.rglob("*.log"):
                if path.stat().st_mtime > LONG_AGO + 1000:
                    os.utime(path, (LONG_AGO, LONG_AGO + next(clock)))
        done = run(spark, str(source), lake, options=PipelineOptions(**{"partition_by": (), **options}))
        for row in done.rows:
            for each in row["partitions"]:
                if not each["held"]:
                    assert each["to"] - each["from"] == sum(each[name] for name in COUNTS), each
            if row["landed"]:
                found = ds.dataset(lake / "records").to_table(columns=["batch"])["batch"].to_pylist()
                assert found.count(row["batch"]) == row["landed"]
        return done

    return landed


def table(lake: Path, name: str) -> list[dict[str, Any]]:
    """All rows of a table, as any reader finds them; timestamps in microseconds."""
    if not (lake / name).exists():
        return []
    found = ds.dataset(lake / name, partitioning="hive").to_table()
    if name == "records":
        place = found.schema.get_field_index("timestamp")
        found = found.set_column(place, "timestamp", found["timestamp"].cast("int64"))
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def offsets(lake: Path) -> list[tuple[str, int]]:
    return sorted((row["topic"], row["offset"]) for row in table(lake, "records"))


def account(done: PipelineRun) -> dict[str, int]:
    """The figures of the only partition of a run, without zeros."""
    (only,) = (each for row in done.rows for each in row["partitions"])
    return {name: only[name] for name in ("from", "to", *COUNTS, "again", "repeated") if only[name]}


def expected(*paths: Path) -> list[dict[str, Any]]:
    """What dump says of data records."""
    rows = map(mapped, dumped("records", *paths))
    return [row for row in rows if row["isValid"] and not row["isControl"]]


def check_rows(lake: Path, wanted: list[dict[str, Any]]) -> None:
    def place(row: dict[str, Any]) -> tuple[str, int]:
        return row["file"], row["offset"]

    found = sorted(table(lake, "records"), key=place)
    columns = [name for name in found[0] if name != "batch"]
    assert found
    assert [{name: row[name] for name in columns} for row in found] == [
        {name: row[name] for name in columns} for row in sorted(wanted, key=place)
    ]


def test_captures_of_all_versions(land: Land, logs: Path, lake: Path, captures: Captures) -> None:
    paths = {path.parent for path in captures.files(".log", 12_000) if path.stat().st_size}
    names = sorted(paths)[::4]
    for number, path in enumerate(names):
        shutil.copytree(path, logs / f"topic{number}-0", ignore=shutil.ignore_patterns("golden", "sub"))
    done = land()
    assert done.status == 0
    assert not done.errors
    check_rows(lake, expected(logs))
    assert done.landed == len(table(lake, "records"))
    assert land().landed == 0


def test_fixtures_by_topic_and_date(land: Land, lake: Path, spark: SparkSession) -> None:
    done = land(SEGMENTS, partition_by=("topic", "date"), decode="auto")
    assert (lake / "records" / "topic=v0-snappy" / "date=none").is_dir()
    found = spark.read.parquet(str(lake / "records"))
    by_topic = {row["topic"]: row["count"] for row in found.groupBy("topic").count().collect()}
    wanted = expected(SEGMENTS)
    assert by_topic == {topic: sum(row["topic"] == topic for row in wanted) for topic in by_topic}
    assert found.where("decodedKey is not null").count() == by_topic["__consumer_offsets"]
    (row,) = spark.read.parquet(str(lake / "runs")).collect()
    assert (row["landed"], row["batch"], row["kdump"]) == (done.landed, 1, __version__)
    assert len(row["partitions"]) == len(list(SEGMENTS.glob("*-0")))


def test_dates_are_utc_days(land: Land, logs: Path, lake: Path) -> None:
    day = 86_400_000
    times = [-1, 0, day - 1, day, 20_000 * day]
    write_segment(logs / "t-0" / f"{0:020}.log", [{"key": None, "value": b"v", "timestamp": time} for time in times])
    append(logs / "old-0", 0, message(0, 0, None, b"v"))
    land(partition_by=("date",))
    found = {(row["topic"], row["offset"]): row["date"] for row in table(lake, "records")}
    assert found == {
        ("t", 0): "none",
        ("t", 1): "1970-01-01",
        ("t", 2): "1970-01-01",
        ("t", 3): "1970-01-02",
        ("t", 4): "2024-10-04",
        ("old", 0): "none",
    }


def test_damage_goes_to_quarantine(land: Land, logs: Path, lake: Path) -> None:
    append(logs / "t-0", 0, batches(0, 10))
    log = logs / "t-0" / f"{0:020}.log"
    whole = log.read_bytes()
    size = len(whole) // 5
    flip_bit(log, 2 * size + 70)
    append(logs / "good-0", 0, batches(0, 4))
    done = land()
    assert done.status == 0
    assert offsets(lake) == [("good", number) for number in range(4)] + [("t", n) for n in range(10) if n not in {4, 5}]
    (place,) = table(lake, "quarantine")
    assert place["bytes"] == log.read_bytes()[2 * size : 3 * size]
    assert (place["position"], place["length"], place["firstOffset"], place["lastOffset"]) == (2 * size, size, 4, 5)
    assert place["name"] == "batch-crc"
    assert {"batch-crc"} == {row["name"] for row in table(lake, "findings") if row["severity"] == "error"}
    figures = {each["topic"]: each for each in done.rows[0]["partitions"]}
    assert (figures["t"]["quarantined"], figures["t"]["errors"], figures["good"]["errors"]) == (2, 1, 0)


def test_long_damage_has_a_row_for_each_mebibyte(land: Land, logs: Path, lake: Path) -> None:
    noise = bytes(range(1, 256)) * 9000
    append(logs / "t-0", 0, batches(0, 2) + noise + batches(2, 4))
    land()
    found = sorted(table(lake, "quarantine"), key=lambda row: row["piece"])
    assert [row["length"] for row in found] == [1 << 20, 1 << 20, len(noise) - (2 << 20)]
    assert b"".join(row["bytes"] for row in found) == noise
    assert offsets(lake) == [("t", number) for number in range(4)]


def test_the_gate(land: Land, logs: Path, lake: Path) -> None:
    append(logs / "bad-0", 0, batches(0, 10))
    append(logs / "good-0", 0, batches(0, 4))
    flip_bit(logs / "bad-0" / f"{0:020}.log", 70)
    done = land(fail_on="error")
    assert done.status == 1
    assert done.held == [str(logs / "bad-0")]
    assert {topic for topic, _ in offsets(lake)} == {"good"}
    assert not table(lake, "quarantine")
    flip_bit(logs / "bad-0" / f"{0:020}.log", 70)
    again = land(fail_on="error")
    assert (again.status, again.landed) == (0, 10)
    assert land(fail_on="error").landed == 0


def test_segments_grow_and_roll(land: Land, logs: Path, lake: Path) -> None:
    append(logs / "t-0", 0, batches(0, 10))
    assert account(land()) == {"to": 10, "landed": 10}
    append(logs / "t-0", 0, batches(10, 14))
    append(logs / "t-0", 14, batches(14, 20))
    append(logs / "t-1", 0, batches(0, 6))
    done = land()
    assert done.landed == 16
    assert done.rows[0]["segmentsRead"] == 3
    assert offsets(lake) == sorted([("t", number) for number in range(20)] + [("t", number) for number in range(6)])
    assert land().landed == 0


def test_a_torn_batch_waits_until_it_is_whole(land: Land, logs: Path, lake: Path) -> None:
    torn = batches(4, 6)
    append(logs / "t-0", 0, batches(0, 4) + torn[:30])
    done = land(settled=False)
    assert account(done) == {"to": 4, "landed": 4}
    assert done.rows[0]["partitions"][0]["pendingBytes"] == 30
    assert not table(lake, "quarantine")
    append(logs / "t-0", 0, torn[30:])
    assert account(land(settled=False)) == {"from": 4, "to": 6, "landed": 2}


def test_a_torn_tail_that_a_broker_cuts_off(land: Land, logs: Path, lake: Path) -> None:
    append(logs / "t-0", 0, batches(0, 4) + batches(4, 6)[:30])
    assert account(land()) == {"to": 4, "landed": 4}
    assert [row["name"] for row in table(lake, "quarantine")] == ["header-cut"]
    assert not land().rows[0]["partitions"]
    log = logs / "t-0" / f"{0:020}.log"
    os.truncate(log, log.stat().st_size - 30)
    append(logs / "t-0", 0, batches(4, 8))
    assert account(land()) == {"from": 4, "to": 8, "landed": 4}
    assert len(table(lake, "quarantine")) == 1


def test_a_preallocated_tail_is_no_damage(land: Land, logs: Path, lake: Path) -> None:
    append(logs / "t-0", 0, batches(0, 4) + bytes(5000))
    assert account(land()) == {"to": 4, "landed": 4}
    assert not table(lake, "quarantine")
    with (logs / "t-0" / f"{0:020}.log").open("r+b") as file:
        file.seek(len(batches(0, 4)))
        file.write(batches(4, 6))
    assert account(land()) == {"from": 4, "to": 6, "landed": 2}


def test_a_log_that_was_cut_and_written_anew(land: Land, logs: Path, lake: Path) -> None:
    append(logs / "t-0", 0, batches(0, 10))
    land()
    (logs / "t-0" / f"{0:020}.log").write_bytes(batches(0, 6) + batches(6, 12, epoch=1))
    done = land()
    assert account(done) == {"from": 6, "to": 12, "landed": 6, "again": 4}
    assert "the log was cut to offset 6, it was read up to offset 10" in done.rows[0]["partitions"][0]["notes"][0]
    newest = {row["offset"]: row["partitionLeaderEpoch"] for row in sorted(table(lake, "records"), key=_batch)}
    assert newest == {number: int(number >= 6) for number in range(12)}


def _batch(row: dict[str, Any]) -> int:
    number: int = row["batch"]
    return number


def test_retention_and_compaction(land: Land, logs: Path, lake: Path) -> None:
    directory = logs / "t-0"
    for base in (0, 10, 20):
        append(directory, base, batches(base, base + 10))
    land()
    (directory / f"{0:020}.log").unlink()
    rows = plain_rows(1)
    (directory / f"{10:020}.log").write_bytes(v2_batch(rows, base_offset=10, last_offset_delta=1))
    assert land().landed == 0
    append(directory, 30, batches(30, 40))
    append(directory, 40, batches(40, 50))
    append(directory, 60, batches(60, 70))
    (directory / f"{30:020}.log").unlink()
    done = land()
    assert account(done) == {"from": 30, "to": 70, "landed": 20, "missing": 20}
    assert "offsets 30 to 39 were deleted before they were read" in done.rows[0]["partitions"][0]["notes"][0]
    assert len(offsets(lake)) == 50


def test_compaction_before_it_was_read(land: Land, logs: Path) -> None:
    append(logs / "t-0", 0, v2_batch(plain_rows(2)[1:], base_offset=0, last_offset_delta=9))
    append(logs / "t-0", 10, batches(10, 12))
    assert account(land()) == {"to": 12, "landed": 3, "missing": 9}


def test_partitions_that_go_and_come_back(land: Land, logs: Path, lake: Path) -> None:
    append(logs / "t-0", 0, batches(0, 4))
    append(logs / "other-0", 0, batches(0, 2))
    land()
    (logs / "t-0").rename(logs / "t-0-delete")
    done = land()
    assert done.rows[0]["partitions"][0]["notes"] == ["the partition is not there any more"]
    assert not land().rows[0]["partitions"]
    (logs / "t-0-delete").rename(logs / "t-0")
    append(logs / "t-0", 0, batches(4, 6))
    assert account(land()) == {"from": 4, "to": 6, "landed": 2}
    assert len(offsets(lake)) == 8


def test_a_topic_that_was_made_anew(land: Land, logs: Path) -> None:
    append(logs / "t-0", 0, batches(0, 4))
    (logs / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    land()
    (logs / "t-0" / f"{0:020}.log").write_bytes(batches(0, 6, epoch=3))
    (logs / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg\n")
    done = land()
    assert account(done) == {"to": 6, "landed": 6, "again": 4}
    assert "made anew" in done.rows[0]["partitions"][0]["notes"][0]


@pytest.mark.parametrize(
    ("order", "figures"),
    [
        pytest.param((0, 2, 2, 4), {"to": 6, "landed": 6, "repeated": 2}, id="twice"),
        pytest.param((0, 4, 2, 6), {"to": 8, "landed": 8}, id="swapped"),
        pytest.param(
            (0, 2, 1 << 20, 6, 8), {"to": 10, "landed": 8, "quarantined": 2, "repeated": 2}, id="one is too high"
        ),
        pytest.param(
            (4, 6, 0, 8), {"from": 4, "to": 10, "landed": 6, "repeated": 2}, id="one is below the name of the file"
        ),
    ],
)
def test_offsets_that_do_not_rise(
    land: Land, logs: Path, lake: Path, order: tuple[int, ...], figures: dict[str, int]
) -> None:
    append(logs / "t-0", order[0], b"".join(batches(first, first + 2) for first in order))
    assert account(land()) == figures
    found = [offset for _, offset in offsets(lake)]
    assert len(set(found)) == len(found) == figures["landed"]
    assert len(table(lake, "quarantine")) == ("repeated" in figures)


def test_aborted_and_open_transactions(land: Land, logs: Path, lake: Path) -> None:
    shutil.copytree(SEGMENTS / "v2-txn-0", logs / "v2-txn-0")
    wanted = expected(logs)
    done = account(land(isolation="read_committed"))
    held = min(row["offset"] for row in wanted if row["txnState"] == "open")
    before = [row for row in wanted if row["offset"] < held]
    assert done["to"] == held
    assert done["aborted"] == sum(row["txnState"] == "aborted" for row in before) > 0
    check_rows(lake, [row for row in before if row["txnState"] in ("committed", None)])


def test_a_transaction_that_ends_later(land: Land, logs: Path, lake: Path) -> None:
    producer = (7, 0)
    own = {"producerId": 7, "producerEpoch": 0, "isTransactional": True, "timestamp": 1}
    records = [{"key": b"k", "value": b"v", **own} for _ in range(3)]
    log = logs / "t-0" / f"{0:020}.log"
    write_segment(log, records, index=False)
    assert land(isolation="read_committed").landed == 0
    write_segment(logs / "end" / f"{3:020}.log", [marker("commit", producer)], base_offset=3, index=False)
    with log.open("ab") as file:
        file.write((logs / "end" / f"{3:020}.log").read_bytes())
    shutil.rmtree(logs / "end")
    assert account(land(isolation="read_committed")) == {"to": 4, "landed": 3, "control": 1}
    assert len(offsets(lake)) == 3


def test_batches_of_a_run(land: Land, logs: Path, lake: Path) -> None:
    for base in range(0, 50, 10):
        append(logs / "t-0", base, batches(base, base + 10))
        append(logs / "t-1", base, batches(base, base + 10))
    done = land(batch_bytes=1000)
    assert len(done.rows) > 3
    assert len({row["run"] for row in done.rows}) == 1
    assert len(offsets(lake)) == 100
    assert land().landed == 0


def test_what_a_killed_run_left_is_replaced(
    land: Land, logs: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(logs / "t-0", 0, batches(0, 10))
    land()
    append(logs / "t-0", 0, batches(10, 20))

    class KilledError(Exception):
        pass

    def killed(*_: object) -> None:
        raise KilledError

    for name in ("_finish", "_write_run"):
        with monkeypatch.context() as patch:
            patch.setattr(landrun.Pipeline, name, killed)
            with pytest.raises(KilledError):
                land()
        # What it wrote is there, and is not known.
        assert len(offsets(lake)) == 20
    hidden = lake / "records" / ".b00000002-11111111-500000-0000.parquet.x.kdump-part"
    hidden.write_bytes(b"left on its way")
    assert account(land()) == {"from": 10, "to": 20, "landed": 10}
    assert offsets(lake) == [("t", number) for number in range(20)]
    assert len(table(lake, "runs")) == 2
    assert not hidden.exists()


def test_a_task_of_a_run_that_was_replaced_writes_nothing(
    land: Land, logs: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(logs / "t-0", 0, batches(0, 10))
    write = Lake.write

    def replaced(self: Lake, name: str, data: bytes) -> None:
        write(self, name, b"another" if name == OPEN_BATCH else data)

    monkeypatch.setattr(Lake, "write", replaced)
    with pytest.raises(KdumpError, match="another run has taken over"):
        land()
    assert not table(lake, "records")
    monkeypatch.undo()
    assert land().landed == 10


def test_a_file_that_changes_while_it_is_read(
    land: Land, logs: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(logs / "t-0", 0, batches(0, 10))
    append(logs / "t-0", 10, batches(10, 20))
    planned = landrun.Pipeline._planned
    changes = iter([v2_batch(plain_rows(2)[1:], base_offset=0, last_offset_delta=9)])

    def changed(self: Any, unreadable: Any) -> Any:
        found = planned(self, unreadable)
        for data in changes:
            (logs / "t-0" / f"{0:020}.log").write_bytes(data)
        return found

    monkeypatch.setattr(landrun.Pipeline, "_planned", changed)
    assert account(land()) == {"to": 20, "landed": 11, "missing": 9}
    assert len(offsets(lake)) == 11


def test_a_store(spark: SparkSession, s3_server: S3Server, tmp_path: Path) -> None:
    shutil.copytree(SEGMENTS, s3_server.root / tmp_path.name / "logs")
    keys = f"{ACCESS_KEY}:{SECRET_KEY}"
    source, target = (s3_server.uri(f"{tmp_path.name}/{name}", keys=keys) for name in ("logs", "lake"))
    lake = s3_server.root / tmp_path.name / "lake"
    assert run(spark, source, target).landed == len(table(lake, "records")) == len(expected(SEGMENTS))
    assert run(spark, source, target).landed == 0
    # Another attempt was killed, and its task was not at its end.
    (lake / OPEN_BATCH).write_bytes(b"another")
    left = lake / "records" / "b00000003-another-500000-0000.parquet"
    left.write_bytes(b"left")
    assert run(spark, source, target).landed == 0
    assert not left.exists()
    for path in lake.rglob("*"):
        assert path.is_dir() or SECRET_KEY.encode() not in path.read_bytes()


def test_what_cannot_be_read_keeps_nothing_else_back(land: Land, logs: Path, lake: Path, tmp_path: Path) -> None:
    append(logs / "t-0", 0, batches(0, 10))
    append(logs / "t-0", 10, batches(10, 20))
    append(logs / "good-0", 0, batches(0, 4))
    outside = tmp_path / "outside"
    (logs / "t-0" / f"{0:020}.log").rename(outside)
    (logs / "t-0" / f"{0:020}.log").symlink_to(outside)
    done = land()
    assert done.status == 3
    assert str(logs / "t-0" / f"{0:020}.log") in done.errors[0]
    assert offsets(lake) == [("good", number) for number in range(4)]
    (logs / "t-0" / f"{0:020}.log").unlink()
    outside.rename(logs / "t-0" / f"{0:020}.log")
    assert (land().landed, land().landed) == (20, 0)


def test_names_that_are_no_utf8(land: Land, logs: Path, lake: Path) -> None:
    append(logs / os.fsdecode(b"caf\xe9-0"), 0, batches(0, 4))
    flip_bit(logs / os.fsdecode(b"caf\xe9-0") / f"{0:020}.log", 70)
    done = land(partition_by=("topic",), fail_on="error")
    assert done.status == 1
    assert done.held == [f"{logs}/caf\ufffd-0"]
    assert not table(lake, "records")


def test_logs_outside_of_a_partition_directory(land: Land, logs: Path, lake: Path) -> None:
    append(logs / "plain", 0, batches(0, 4))
    assert land(logs / "plain", partition_by=("topic", "partition")).landed == 4
    nowhere = lake / "records" / "topic=__HIVE_DEFAULT_PARTITION__" / "partition=__HIVE_DEFAULT_PARTITION__"
    assert ds.dataset(nowhere).count_rows() == 4
    assert land(logs / "plain" / f"{0:020}.log", partition_by=("topic", "partition")).landed == 0


def test_only_one_run_at_a_time(land: Land, logs: Path, lake: Path) -> None:
    append(logs / "t-0", 0, batches(0, 2))
    with Lake(str(lake)).locked("_checkpoint/lock"), pytest.raises(KdumpError, match="another run is at work"):
        land()
    assert land().landed == 2


def test_options_that_must_stay(land: Land, logs: Path) -> None:
    append(logs / "t-0", 0, batches(0, 2))
    land()
    with pytest.raises(ValueError, match="begun with other options"):
        land(partition_by=("date",))
    assert land(fail_on="error", batch_bytes=5).status == 0


def test_a_damaged_checkpoint(land: Land, logs: Path, lake: Path) -> None:
    append(logs / "t-0", 0, batches(0, 2))
    land()
    checkpoint = lake / "_checkpoint" / "state.json"
    for text in ("junk", "[]", "{}", '{"partitions": 1}'):
        checkpoint.write_text(text)
        with pytest.raises(KdumpError, match="is no checkpoint of a pipeline") as told:
            land()
        assert told.value.path == str(checkpoint)


def test_the_command(spark: SparkSession, logs: Path, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    append(logs / "t-0", 0, batches(0, 10))
    assert main([str(logs), str(lake), "--partition-by", "none"]) == 0
    assert capsys.readouterr().out.startswith("batch 1: 10 records landed of 1 partition with news, 0 unchanged;")
    append(logs / "t-0", 0, batches(10, 12))
    flip_bit(logs / "t-0" / f"{0:020}.log", -1)
    os.utime(logs / "t-0" / f"{0:020}.log", (1e9, 1e9))
    assert main([str(logs), str(lake), "--partition-by", "none", "--fail-on", "error"]) == 1
    assert "held back" in capsys.readouterr().out
    assert main([str(logs / "nothing"), str(lake), "--partition-by", "none"]) == 3
    assert "no such file or directory" in capsys.readouterr().err
    assert main([str(logs / "nothing"), str(logs), str(lake), "--partition-by", "none"]) == 3
    told = capsys.readouterr()
    assert told.out.startswith("batch 3: 0 records landed of 1 partition with news")
    assert "no such file or directory" in told.err
    file = lake.parent / "file"
    file.write_bytes(b"")
    assert main([str(logs), str(file)]) == 3
    assert str(file) in capsys.readouterr().err


def test_tables_are_not_written_among_logs(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    append(logs / "t-0", 0, batches(0, 1))
    other = tmp_path / "other"
    other.mkdir()
    (other / "meta.properties").touch()
    for target in (logs, logs / "t-0" / "lake", other / "lake"):
        with pytest.raises(KdumpError, match="holds logs; give a directory outside of it"):
            run(spark, logs / "t-0" if target != logs else logs, target)
    assert [one.name for one in (*logs.iterdir(), *other.iterdir())] == ["t-0", "meta.properties"]


def test_the_example(
    spark: SparkSession, lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pipeline.py", str(SEGMENTS), str(lake)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "examples" / "pipeline.py"), run_name="__main__")
    assert ended.value.code == 0
    told = capsys.readouterr().out
    committed = [row for row in expected(SEGMENTS) if row["txnState"] in ("committed", None)]
    assert f"batch 1: {len(table(lake, 'records'))} records landed, 19 offsets in quarantine" in told
    assert 0 < len(table(lake, "records")) <= len(committed)
    assert "damaged-crc" in told


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["only-one"],
        ["a", "b", "--format", "csv"],
        ["a", "b", "--partition-by", "key"],
        ["a", "b", "--partition-by", "date,date"],
        ["a", "b", "--every", "5"],
        ["a", "b", "--once", "--every", "5m"],
        ["a", "b", "--batch-bytes", "0"],
        ["a", "b", "--key-decoder", "nothing"],
        ["a", "b", "--conf", "x"],
        ["a", "b", "--conf", "=x"],
    ],
)
def test_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "usage:" in told
    assert ("NAME=VALUE was expected" in told) == ("--conf" in words)


def test_values_by_a_schema(logs: Path, lake: Path, land: Land, capsys: pytest.CaptureFixture[str]) -> None:
    logdir = schema_cases() / "logdir"
    shutil.copytree(logdir / "orders-0", logs / "orders-0")
    land(schemas=str(logdir / "_schemas-0"))
    shown = {row["offset"]: json.loads(row["decodedValue"]) for row in table(lake, "records") if row["value"]}
    assert shown[0]["data"]["customer"] == "Zo\u00eb"
    assert len(shown) > 5
    # A later run lands by the same schemas, or not at all.
    with pytest.raises(ValueError, match="schemas"):
        land()
    assert main(["--schemas", "nowhere", str(logs), str(lake)]) == 3
    assert "nowhere: no such file or directory" in capsys.readouterr().err
