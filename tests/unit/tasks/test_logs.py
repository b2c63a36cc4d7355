"""The rows of logs as Spark reads them, damage included; what is planned; what a mode does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdump.codes import Codes, KdumpError
from kdump.inputs import inputs_of
from kdump.log.context import FileContext
from kdump.reading.selection import Range
from kdump.rows.arrow import arrow_schema
from kdump.rows.columns import Table
from kdump.rows.tables import BATCH, RECORD
from kdump.spark.readrecords import ArrowOptions, Mode, read_logs
from kdump.tasks.logs import LogFile, Wanted, log_files, plan
from tests.harness.arrowrows import Row, rows_of
from tests.harness.batches import message, v2_batch, wrapper
from tests.harness.fast_reference import Row as Record


def logs_of(*paths: Path | str) -> list[LogFile]:
    errors: list[KdumpError] = []
    logs = log_files(inputs_of(map(str, paths), errors.append, with_patterns=True), errors.append)
    assert not errors
    return logs


def read(path: Path | str, table: Table, mode: Mode = Mode.PERMISSIVE) -> list[Row]:
    options = ArrowOptions(table, arrow_schema(table), mode=mode)
    return rows_of(batch for task in plan(logs_of(path)) for batch in read_logs(task, options))


@pytest.mark.parametrize("milliseconds", [-(2**63), -(2**63 // 1000) - 1, 2**63 // 1000 + 1, 2**63 - 1])
def test_timestamps_out_of_range_are_null_and_named(tmp_path: Path, milliseconds: int) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(v2_batch([Record(0, 0, None, b"v")], base_timestamp=milliseconds))
    (row,) = read(path, RECORD)
    assert row["timestamp"] is None
    assert row["problem"] == f"the timestamp {milliseconds} ms is out of range"


@pytest.mark.parametrize("table", [RECORD, BATCH])
def test_names_of_directories_that_are_no_utf8(tmp_path: Path, table: Table) -> None:
    """Of a row made alone (the damaged one) and of those made together."""
    path = tmp_path / os.fsdecode(b"t\xff-3") / f"{0:020}.log"
    path.parent.mkdir()
    batch = v2_batch([Record(0, 0, None, b"v")])
    path.write_bytes(batch + v2_batch([Record(0, 0, None, b"v")], base_offset=1, count=2) + batch)
    rows = read(path, table)
    assert len(rows) == 3
    assert {(row["topic"], row["partition"], row["file"]) for row in rows} == {
        ("t\ufffd", 3, f"{tmp_path}/t\ufffd-3/{path.name}")
    }


def test_modes(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    good = [v2_batch([Record(0, 0, None, b"v")], base_offset=offset) for offset in range(3)]
    bad = bytearray(good[1])
    bad[-2] ^= 1
    path.write_bytes(good[0] + bad + good[2])
    assert [(row["offset"], row["isValid"]) for row in read(path, RECORD)] == [
        (0, True),
        (1, False),
        (2, True),
    ]
    assert [row["offset"] for row in read(path, RECORD, Mode.DROPMALFORMED)] == [0, 2]
    assert [row["baseOffset"] for row in read(path, BATCH, Mode.DROPMALFORMED)] == [0, 2]
    with pytest.raises(KdumpError) as caught:
        read(path, RECORD, Mode.FAILFAST)
    assert (caught.value.path, caught.value.position) == (str(path), len(good[0]))


@pytest.mark.parametrize("what", ["truncated", "vanished"])
def test_files_that_change_after_planning(tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture) -> None:
    paths = [tmp_path / f"{offset:020}.log" for offset in range(3)]
    for offset, path in enumerate(paths):
        path.write_bytes(v2_batch([Record(0, 0, None, b"v")], base_offset=offset))
    (task,) = plan(logs_of(tmp_path))
    if what == "vanished":
        paths[1].unlink()
    else:
        paths[1].write_bytes(paths[1].read_bytes()[:-1])
    rows = rows_of(read_logs(task, ArrowOptions(RECORD, RECORD_SCHEMA, mode=Mode.DROPMALFORMED)))
    assert [row["offset"] for row in rows] == [0, 2]
    assert str(paths[1]) in caplog.text
    (problem,) = [
        row
        for batch in read_logs(task, ArrowOptions(RECORD, RECORD_SCHEMA))
        for row in batch.to_pylist()
        if row["offset"] is None
    ]
    assert problem["file"] == str(paths[1])
    assert str(paths[1]) in problem["problem"]
    with pytest.raises(KdumpError) as caught:
        list(read_logs(task, ArrowOptions(RECORD, RECORD_SCHEMA, mode=Mode.FAILFAST)))
    assert caught.value.path == str(paths[1])


RECORD_SCHEMA = arrow_schema(RECORD)


def test_a_log_that_grows_ends_where_it_was_planned(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(v2_batch([Record(0, 0, None, b"v")]))
    (task,) = plan(logs_of(path))
    with path.open("ab") as file:
        file.write(v2_batch([Record(0, 0, None, b"w")], base_offset=1))
    assert [row["offset"] for row in rows_of(read_logs(task, ArrowOptions(RECORD, RECORD_SCHEMA)))] == [0]


def made_up(number: int, size: int) -> LogFile:
    return LogFile(f"/t-0/{number:020}.log", FileContext("", "t", 0), number, size)


def test_modes_where_only_the_crc_of_a_wrapper_is_wrong(tmp_path: Path) -> None:
    """Its records have right CRCs of their own, and rows that say so."""
    path = tmp_path / "00000000000000000000.log"
    entries = [
        bytearray(wrapper(1, offset + 1, [message(1, number, None, b"v") for number in range(2)]))
        for offset in (0, 2, 4)
    ]
    entries[1][12] ^= 1
    path.write_bytes(b"".join(entries))
    rows = read(path, RECORD)
    assert [(row["offset"], row["isValid"], row["problem"]) for row in rows] == [(n, True, None) for n in range(6)]
    sound = read(path, RECORD, Mode.DROPMALFORMED)
    assert [row["offset"] for row in sound] == [0, 1, 4, 5]
    with pytest.raises(KdumpError, match=f"at {len(entries[0])}: the CRC of the batch is wrong"):
        read(path, RECORD, Mode.FAILFAST)


def test_packing() -> None:
    tasks = plan([made_up(n, 1000) for n in range(100)])
    assert [len(task) for task in tasks] == [32, 32, 32, 4]
    assert [len(task) for task in plan([made_up(n, 1 << 30) for n in range(3)])] == [1, 1, 1]
    assert len(plan([made_up(n, 1 << 20) for n in range(8)], min_tasks=4)) >= 4
    assert len(plan([made_up(n, 1 << 20) for n in range(8)], min_tasks=99)) == 8
    assert len(plan([made_up(n, 1 << 20) for n in range(8)], task_bytes=1)) == 8
    assert plan([made_up(0, 0)]) == []


def test_partitions_and_offsets_that_are_wanted(tmp_path: Path) -> None:
    for directory in ("a-0", "a-1", "b-0"):
        (tmp_path / directory).mkdir()
        for base in (0, 10, 20):
            (tmp_path / directory / f"{base:020}.log").write_bytes(
                v2_batch([Record(0, 0, None, None)], base_offset=base)
            )
    logs = logs_of(tmp_path)

    def planned(wanted: Wanted) -> list[str]:
        found = [log.path for task in plan(logs, wanted) for log in task]
        return sorted(path.removeprefix(f"{tmp_path}/").replace("000000000000000000", "") for path in found)

    assert len(planned(Wanted())) == 9
    assert planned(Wanted(topics=frozenset({"b"}), offsets=Range(10, 20))) == ["b-0/10.log"]
    assert planned(Wanted(partitions=frozenset({1}), offsets=Range(5, None), starts={("a", 1): 15})) == [
        "a-1/10.log",
        "a-1/20.log",
    ]
    assert planned(Wanted(offsets=Range(None, 1))) == ["a-0/00.log", "a-1/00.log", "b-0/00.log"]
    assert planned(Wanted(offsets=Range(5, 5))) == []


def test_paths(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    log = partition / "00000000000000000000.log"
    log.write_bytes(b"")
    assert [one.path for one in logs_of(tmp_path, log, f"{tmp_path}/t-*", f"{partition}/*.log")] == [str(log)]
    (tmp_path / "t-empty").mkdir()
    (partition / "leader-epoch-checkpoint").write_text("0\n0\n")
    assert [one.path for one in logs_of(f"{tmp_path}/t-*", f"{partition}/*")] == [str(log)]
    errors: list[KdumpError] = []
    assert (
        log_files(
            inputs_of(
                [str(tmp_path / "t-empty"), str(partition / "leader-epoch-checkpoint")],
                errors.append,
                with_patterns=True,
            ),
            errors.append,
        )
        == []
    )
    assert [error.code for error in errors] == [Codes.NO_SEGMENTS, Codes.NOT_A_SEGMENT_FILE]
    errors.clear()
    assert (
        log_files(inputs_of([str(tmp_path / "no"), f"{tmp_path}/x*"], errors.append, with_patterns=True), errors.append)
        == []
    )
    assert [error.code for error in errors] == [Codes.MISSING, Codes.MISSING]
