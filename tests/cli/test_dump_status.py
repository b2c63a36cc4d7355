"""Exit statuses of ``kdump dump``, one clear line for each file that fails, and that the others are still dumped."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.harness.batches import plain_rows, v2_batch, wrapper
from tests.harness.cli_runs import (
    BATCH,
    CLEAN,
    DAMAGE,
    DAMAGED_BATCH,
    KDUMP,
    UNREADABLE,
    USAGE,
    dump,
    dumped,
    kdump,
    write,
)
from tests.harness.fast_reference import Row

DAMAGED_LOGS = {
    "crc": (DAMAGED_BATCH, None),
    "trailing bytes": (BATCH + b"12345", None),
    "cut batch": (BATCH + BATCH[:-1], None),
    "zeros": (BATCH + bytes(100), "record size 0 is smaller"),
    "negative magic": (v2_batch(magic=-1), "magic byte -1"),
    "codec": (v2_batch(attributes=7), "unknown compression codec 7"),
}
DAMAGED_RECORDS = {
    "count": (v2_batch(plain_rows(2), record_count=3), "3 records declared, 2 found"),
    "payload": (v2_batch(body=b"rubbish", record_count=1, attributes=1), "gzip: "),
    "record": (v2_batch(body=b"\x10rubbish", record_count=1), "record 0: "),
    "control record": (v2_batch([Row(0, 3, None, b"")], attributes=0x20), "control record: "),
    "wrapper": (wrapper(1, 0, []), "holds no message"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, _1=BATCH, _2=DAMAGED_BATCH, _9=BATCH)
    return tmp_path


def test_clean(folder: Path) -> None:
    status, out, errors = dump("1.log", cwd=folder)
    assert (status, errors) == (CLEAN, [])
    assert out[:2] == ["Dumping 1.log", "Log starting offset: 1"]
    assert out[2].endswith("isvalid: true")
    assert len(out) == 3


@pytest.mark.parametrize(("data", "message"), DAMAGED_LOGS.values(), ids=DAMAGED_LOGS)
def test_damage(folder: Path, data: bytes, message: str | None) -> None:
    write(folder, _0=data)
    status, out, errors = dump("0.log", "1.log", cwd=folder)
    assert (status, dumped(out)) == (DAMAGE, ["0.log", "1.log"])
    if message is None:
        assert errors == []
    else:
        assert len(errors) == 1
        assert errors[0].startswith("kdump: 0.log: at ")
        assert message in errors[0]


@pytest.mark.parametrize(("data", "message"), DAMAGED_RECORDS.values(), ids=DAMAGED_RECORDS)
def test_damage_in_records(folder: Path, data: bytes, message: str) -> None:
    write(folder, _0=BATCH + data)
    status, out, errors = dump("--deep-iteration", "0.log", "1.log", cwd=folder)
    assert (status, dumped(out)) == (DAMAGE, ["0.log", "1.log"])
    assert errors[0].startswith(f"kdump: 0.log: at {len(BATCH)}: ")
    assert message in errors[0]


def test_damage_that_is_not_looked_at(folder: Path) -> None:
    write(folder, _0=v2_batch(plain_rows(2), record_count=3))
    assert dump("0.log", cwd=folder)[0] == CLEAN


def test_reports_leave_the_status_alone(folder: Path) -> None:
    write(folder, _0=v2_batch(plain_rows(1)) + v2_batch(plain_rows(1), base_offset=5))
    status, _, errors = dump("--deep-iteration", "0.log", cwd=folder)
    assert status == CLEAN
    assert errors == [f"Non-consecutive offsets in {folder}/0.log", "  0 is followed by 5"]


def test_segment_that_does_not_start_at_0_is_no_report(folder: Path) -> None:
    write(folder, _5=v2_batch(plain_rows(1), base_offset=5), _0=v2_batch(plain_rows(1), base_offset=5))
    assert dump("--deep-iteration", "5.log", cwd=folder)[2] == []
    assert dump("--deep-iteration", "0.log", cwd=folder)[2][1:] == ["  -1 is followed by 5"]


@pytest.mark.parametrize("door", [["1.log", "7.log", "9.log"], ["--files", "1.log,7.log,9.log"]])
def test_missing_file(folder: Path, door: list[str]) -> None:
    status, out, errors = dump(*door, cwd=folder)
    assert (status, dumped(out)) == (UNREADABLE, ["1.log", "7.log", "9.log"])
    assert errors == ["kdump: 7.log: no such file or directory"]


def test_missing_goes_before_damage(folder: Path) -> None:
    assert dump("2.log", "7.log", cwd=folder)[0] == dump("7.log", "2.log", cwd=folder)[0] == UNREADABLE


def test_missing_path_that_is_no_file_name(folder: Path) -> None:
    status, out, errors = dump("nowhere", "1.log", cwd=folder)
    assert (status, dumped(out), errors) == (UNREADABLE, ["1.log"], ["kdump: nowhere: no such file or directory"])


def test_directory_without_segments(folder: Path) -> None:
    (folder / "empty").mkdir()
    status, out, errors = dump("empty", "1.log", cwd=folder)
    assert (status, dumped(out)) == (UNREADABLE, ["1.log"])
    assert errors == ["kdump: empty: no segment files: an empty directory"]


def test_unreadable_files(folder: Path) -> None:
    (folder / "5.log").symlink_to("5.log")
    (folder / "6.log").symlink_to("nowhere")
    (folder / "7.log").mkdir()
    for door in (["5.log", "6.log", "7.log", "1.log"], ["--files", "5.log,6.log,7.log,1.log"]):
        status, out, errors = dump(*door, cwd=folder)
        assert status == UNREADABLE
        assert dumped(out)[-1] == "1.log"
        assert [line.split(":")[1] for line in errors] == [" 5.log", " 6.log", " 7.log"]


def test_empty_file_is_clean(folder: Path) -> None:
    write(folder, _0=b"")
    assert dump("0.log", cwd=folder) == (CLEAN, ["Dumping 0.log", "Log starting offset: 0"], [])


@pytest.mark.parametrize("door", [["x.log", "1.log"], ["--files", "x.log,1.log"]])
def test_name_without_a_number(folder: Path, door: list[str]) -> None:
    write(folder, x=BATCH)
    status, out, errors = dump(*door, cwd=folder)
    assert (status, dumped(out)) == (DAMAGE, ["x.log", "1.log"])
    assert errors == ["kdump: x.log: the file name holds no offset (text before its first dot)"]


def test_files_that_are_no_segment_files(folder: Path) -> None:
    (folder / "notes.txt").write_text("0\n0\n")
    status, out, errors = dump("notes.txt", "1.log", cwd=folder)
    assert (status, dumped(out), len(errors)) == (UNREADABLE, ["1.log"], 1)
    assert errors[0].startswith("kdump: notes.txt: ")
    for name in ("leader-epoch-checkpoint", "notes.txt"):
        (folder / name).write_text("0\n0\n")
        status, out, errors = dump("--files", f"{name},1.log", cwd=folder)
        assert (status, dumped(out), errors) == (CLEAN, [name, "1.log"], [f"Ignoring unknown file {name}"])


def test_index_without_its_log(folder: Path) -> None:
    (folder / "5.index").write_bytes(bytes(8))
    status, _, errors = dump("5.index", "1.log", cwd=folder)
    assert status == DAMAGE
    assert errors == ["kdump: 5.index: cannot be dumped without 5.log, which is missing"]
    assert not (folder / "5.log").exists()


def test_time_index_without_its_index(folder: Path) -> None:
    (folder / "1.timeindex").write_bytes(bytes(12))
    status, _, errors = dump("1.timeindex", cwd=folder)
    assert status == DAMAGE
    assert errors == ["kdump: 1.timeindex: cannot be dumped without 1.index, which is missing"]
    assert not (folder / "1.index").exists()


def test_corrupt_snapshot(folder: Path) -> None:
    (folder / "5.snapshot").write_bytes(b"")
    assert dump("5.snapshot", cwd=folder) == (
        DAMAGE,
        ["Dumping 5.snapshot"],
        ["Snapshot failed schema validation: null"],
    )


def test_odd_index_is_not_cut(folder: Path) -> None:
    (folder / "1.index").write_bytes(bytes(11))
    assert dump("1.index", cwd=folder)[0] == CLEAN
    assert (folder / "1.index").stat().st_size == 11
    status, _, errors = dump("--index-sanity-check", "1.index", cwd=folder)
    assert status == DAMAGE
    assert "not a multiple of 8" in errors[0]


def test_full_disk(folder: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run(
            [*KDUMP, "dump", "1.log"], cwd=folder, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert (run.returncode, run.stderr) == (UNREADABLE, b"kdump: No space left on device\n")


def test_interrupt(folder: Path) -> None:
    os.mkfifo(folder / "5.log")
    with subprocess.Popen([*KDUMP, "dump", "5.log"], cwd=folder, stderr=subprocess.PIPE) as process:
        with (folder / "5.log").open("wb"):
            # The other end is open: kdump waits for bytes.
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.parametrize("words", [[], ["--deep-iteration"], ["--nosuch", "1.log"], ["--deep", "1.log"]])
def test_usage(folder: Path, words: list[str]) -> None:
    status, out, errors = dump(*words, cwd=folder)
    assert (status, out) == (USAGE, [])
    assert errors[-1].startswith("Error: ")


def test_usage_of_the_group(tmp_path: Path) -> None:
    assert kdump(cwd=tmp_path).returncode == USAGE
    assert kdump("nosuch", cwd=tmp_path).returncode == USAGE
    version = kdump("--version", cwd=tmp_path)
    assert (version.returncode, version.stderr) == (CLEAN, b"")
    assert version.stdout.startswith(b"kdump ")


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["dump", "--help"], ["dump", "-h"]])
def test_help(tmp_path: Path, words: list[str]) -> None:
    run = kdump(*words, cwd=tmp_path)
    assert (run.returncode, run.stderr) == (CLEAN, b"")
    assert run.stdout.startswith(b"Usage: kdump ")
