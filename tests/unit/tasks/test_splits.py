"""Splits: the same rows wherever a log is cut, damage included; what is planned; what a mode does."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, KdumpError
from kdump.log.context import FileContext
from kdump.log.extents import FalseCutError
from kdump.reading.selection import Range
from kdump.rows.arrow import arrow_schema
from kdump.rows.schema import Table
from kdump.rows.tables import BATCH, RECORD
from kdump.spark.readrecords import ArrowOptions, Mode, read_splits
from kdump.tasks.splits import OPEN_COST, LogFile, Split, Wanted, find_logs, plan
from tests.harness.arrowrows import Row, dumped, mapped, rows_of
from tests.harness.batches import message, v2_batch, wrapper
from tests.harness.captures import FIXTURES, Captures, partition_cases
from tests.harness.fast_reference import Row as Record
from tests.harness.forgedlogs import FORGED, PART, forged_log, small_proof

SIZES = (1 << 10, 1 << 14, 128 << 20)
KINDS = [("records", RECORD), ("batches", BATCH)]


def logs_of(*paths: Path | str) -> list[LogFile]:
    errors: list[KdumpError] = []
    logs = find_logs(map(str, paths), errors.append)
    assert not errors
    return logs


def read(path: Path | str, table: Table, size: int, mode: Mode = Mode.PERMISSIVE) -> list[Row]:
    options = ArrowOptions(table, arrow_schema(table), mode=mode)
    return rows_of(batch for task in plan(logs_of(path), split_bytes=size) for batch in read_splits(task, options))


@pytest.mark.parametrize("partition", partition_cases(fast=32))
def test_rows_of_captures(captures: Captures, partition: str) -> None:
    for log in captures.segment_files(partition):
        if log.name.endswith(".log"):
            for kind, table in KINDS:
                expected = list(map(mapped, dumped(kind, log)))
                for size in SIZES:
                    assert read(log, table, size) == expected, f"{kind} of {log} at {size}"


def test_a_clean_log_is_cut_where_batches_begin(big_log: Path) -> None:
    size = big_log.stat().st_size
    tasks = plan(logs_of(big_log), split_bytes=size // 8)
    extents = []
    for (split,) in sorted(tasks, key=lambda task: task[0].first):
        with split.open() as source:
            extents.append(split.extent(source))
    assert len(extents) == 8
    starts = [row["position"] for row in read(big_log, BATCH, size)]
    for split, extent in zip(sorted((task[0] for task in tasks), key=lambda one: one.first), extents, strict=True):
        assert extent.start == min(start for start in [*starts, size] if start >= split.first)
    assert [extent.start for extent in extents[1:]] == [extent.end for extent in extents[:-1]]


@given(st.data())
@pytest.mark.slow
def test_no_row_twice_and_none_lost(big_log: Path, data: st.DataObject) -> None:
    damaged = bytearray(big_log.read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        start = data.draw(st.integers(0, len(damaged) - 1))
        end = min(len(damaged), start + data.draw(st.integers(1, 50_000)))
        damaged[start:end] = data.draw(st.sampled_from([bytes, lambda n: b"\xff" * n]))(end - start)
    path = big_log.with_name("00000000000000000000.log.deleted")
    path.write_bytes(damaged)
    expected = read(path, BATCH, len(damaged))
    assert read(path, BATCH, data.draw(st.integers(100_000, len(damaged)))) == expected


@pytest.fixture(scope="module", params=["indexed", "alone"])
def big_log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A MiB of batches of many sizes, with or without an .index; some are written into values of others."""
    directory = tmp_path_factory.mktemp("big")
    path = directory / "00000000000000000000.log"
    log, index, offset, since = bytearray(), bytearray(), 0, 0
    while len(log) < 1 << 20:
        size = (offset * 7919) % 40_000
        inner = bytes(log[-size:]) if offset % 3 else bytes(size)
        batch = v2_batch([Record(0, 0, None, inner), Record(0, 1, None, b"x")], base_offset=offset)
        if since > 4096:
            index += (offset + 1).to_bytes(4, "big") + len(log).to_bytes(4, "big")
            since = 0
        since += len(batch)
        log += batch
        offset += 2
    path.write_bytes(log)
    if request.param == "indexed":
        path.with_suffix(".index").write_bytes(index)
        path.with_name("00000000000000000000.index.deleted").write_bytes(index)
    return path


@pytest.mark.parametrize("milliseconds", [-(2**63), -(2**63 // 1000) - 1, 2**63 // 1000 + 1, 2**63 - 1])
def test_timestamps_out_of_range_are_null_and_named(tmp_path: Path, milliseconds: int) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(v2_batch([Record(0, 0, None, b"v")], base_timestamp=milliseconds))
    (row,) = read(path, RECORD, 1 << 20)
    assert row["timestamp"] is None
    assert row["problem"] == f"the timestamp {milliseconds} ms is out of range"


@pytest.mark.parametrize("table", [RECORD, BATCH])
def test_names_of_directories_that_are_no_utf8(tmp_path: Path, table: Table) -> None:
    """Of a row made alone (the damaged one) and of those made together."""
    path = tmp_path / os.fsdecode(b"t\xff-3") / f"{0:020}.log"
    path.parent.mkdir()
    batch = v2_batch([Record(0, 0, None, b"v")])
    path.write_bytes(batch + v2_batch([Record(0, 0, None, b"v")], base_offset=1, count=2) + batch)
    rows = read(path, table, 1 << 20)
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
    assert [(row["offset"], row["isValid"]) for row in read(path, RECORD, 1 << 20)] == [
        (0, True),
        (1, False),
        (2, True),
    ]
    assert [row["offset"] for row in read(path, RECORD, 1 << 20, Mode.DROPMALFORMED)] == [0, 2]
    assert [row["baseOffset"] for row in read(path, BATCH, 1 << 20, Mode.DROPMALFORMED)] == [0, 2]
    with pytest.raises(KdumpError) as caught:
        read(path, RECORD, 1 << 20, Mode.FAILFAST)
    assert (caught.value.path, caught.value.position) == (str(path), len(good[0]))


@pytest.mark.parametrize("mode", list(Mode))
def test_no_mode_shows_the_rows_of_a_false_cut(tmp_path: Path, mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next task would show payload as batches of the log. In one task there is none."""
    small_proof(monkeypatch)
    path = tmp_path / "00000000000000000000.log"
    for kind in FORGED if mode is Mode.PERMISSIVE else FORGED[:1]:
        forged_log(kind, path)
        with pytest.raises(FalseCutError, match="a splitBytes of its size reads it in one task") as caught:
            read(path, BATCH, PART, mode)
        assert caught.value.path == str(path)
        assert caught.value.position is not None
        assert read(path, BATCH, path.stat().st_size, mode)
        path.with_suffix(".index").unlink(missing_ok=True)


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
    rows = rows_of(read_splits(task, ArrowOptions(RECORD, RECORD_SCHEMA, mode=Mode.DROPMALFORMED)))
    assert [row["offset"] for row in rows] == [0, 2]
    assert str(paths[1]) in caplog.text
    (problem,) = [
        row
        for batch in read_splits(task, ArrowOptions(RECORD, RECORD_SCHEMA))
        for row in batch.to_pylist()
        if row["offset"] is None
    ]
    assert problem["file"] == str(paths[1])
    assert str(paths[1]) in problem["problem"]
    with pytest.raises(KdumpError) as caught:
        list(read_splits(task, ArrowOptions(RECORD, RECORD_SCHEMA, mode=Mode.FAILFAST)))
    assert caught.value.path == str(paths[1])


RECORD_SCHEMA = arrow_schema(RECORD)


def test_a_log_that_grows_ends_where_it_was_planned(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(v2_batch([Record(0, 0, None, b"v")]))
    (task,) = plan(logs_of(path))
    with path.open("ab") as file:
        file.write(v2_batch([Record(0, 0, None, b"w")], base_offset=1))
    assert [row["offset"] for row in rows_of(read_splits(task, ArrowOptions(RECORD, RECORD_SCHEMA)))] == [0]


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
    rows = read(path, RECORD, 1 << 20)
    assert [(row["offset"], row["isValid"], row["problem"]) for row in rows] == [(n, True, None) for n in range(6)]
    sound = read(path, RECORD, 1 << 20, Mode.DROPMALFORMED)
    assert [row["offset"] for row in sound] == [0, 1, 4, 5]
    with pytest.raises(KdumpError, match=f"at {len(entries[0])}: the CRC of the batch is wrong"):
        read(path, RECORD, 1 << 20, Mode.FAILFAST)


@pytest.mark.parametrize("partition", ["v0-snappy-0", "v1-gzip-0"])
def test_offsets_of_wrappers_wherever_a_log_is_cut(partition: str) -> None:
    """A wrapper's first offset is after the one of the entry before it, which another task may own."""
    logs = logs_of(FIXTURES / "segments" / partition)
    ends = sorted({log.base_offset + offset for log in logs for offset in (1, 5, 30) if log.base_offset is not None})
    for end in ends:
        wanted = Wanted(offsets=Range(None, end))
        options = ArrowOptions(BATCH, arrow_schema(BATCH), wanted)
        tasks = (plan(logs, wanted, split_bytes=size) for size in (1 << 27, 100, 1024))
        whole, *cut = (
            sorted((row["file"], row["position"]) for splits in each for row in rows_of(read_splits(splits, options)))
            for each in tasks
        )
        assert whole
        assert cut == [whole, whole], end


def test_packing() -> None:
    tasks = plan([made_up(n, 1000) for n in range(100)], open_cost=OPEN_COST)
    assert [len(task) for task in tasks] == [32, 32, 32, 4]
    assert len(plan([made_up(0, 1 << 30)])) == 8
    # What a segment is larger than its size says is no split of its own.
    assert len(plan([made_up(0, (1 << 30) + (12 << 20))])) == 8
    assert len(plan([made_up(0, (1 << 30) + (14 << 20))])) == 9
    assert len(plan([made_up(n, 1 << 20) for n in range(8)], min_partitions=4)) >= 4
    assert plan([made_up(0, 0)]) == []


def test_a_sparse_log_of_any_size_makes_few_splits() -> None:
    for size in (1 << 40, 1 << 62):
        splits = [split for task in plan([made_up(0, size)]) for split in task]
        assert sum(split.size for split in splits) == size
        assert len(splits) <= 5000


@given(st.lists(st.integers(0, 1 << 10), max_size=12), st.integers(10, 1 << 9), st.integers(1, 9))
def test_every_byte_is_in_one_split(sizes: list[int], split_bytes: int, least: int) -> None:
    logs = [made_up(number, size) for number, size in enumerate(sizes)]
    tasks = plan(logs, split_bytes=split_bytes, min_partitions=least)
    covered: dict[str, list[Split]] = {log.path: [] for log in logs}
    for task in tasks:
        for split in task:
            covered[split.log.path].append(split)
    for log in logs:
        splits = sorted(covered[log.path], key=lambda split: split.first)
        assert sum(split.size for split in splits) == log.size
        assert all(before.last == after.first for before, after in pairwise(splits))
    assert len(tasks) >= min(least, sum(map(bool, sizes)), 1)


def test_partitions_and_offsets_that_are_wanted(tmp_path: Path) -> None:
    for directory in ("a-0", "a-1", "b-0"):
        (tmp_path / directory).mkdir()
        for base in (0, 10, 20):
            (tmp_path / directory / f"{base:020}.log").write_bytes(
                v2_batch([Record(0, 0, None, None)], base_offset=base)
            )
    logs = logs_of(tmp_path)

    def planned(wanted: Wanted) -> list[str]:
        found = [split.log.path for task in plan(logs, wanted) for split in task]
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
    assert find_logs([str(tmp_path / "t-empty"), str(partition / "leader-epoch-checkpoint")], errors.append) == []
    assert [error.code for error in errors] == [Codes.NO_SEGMENTS, Codes.NOT_A_SEGMENT_FILE]
    errors.clear()
    assert find_logs([str(tmp_path / "no"), f"{tmp_path}/x*"], errors.append) == []
    assert [error.code for error in errors] == [Codes.MISSING, Codes.MISSING]
