"""``kdump verify --startup`` as its user meets it: what it reads by itself, log directories, outputs, refusals."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from kdump.codes import Codes, KdumpError
from kdump.inputs import resolve
from kdump.tasks.work import Work, in_process
from kdump.verify.startcheck import LogDirectoryCheck
from kdump.verify.startreport import log_directory_text
from kdump.verify.startups import StartOptions, start_all
from tests.harness.batches import NOW, TRANSACTIONAL, plain_rows, v2_batch
from tests.harness.cli_runs import CLEAN, DAMAGE, UNREADABLE, USAGE, kdump

SIZE = 3
"""Records of each batch."""
NO_PRODUCERS = struct.pack(">hIi", 1, crc32c(bytes(4)), 0)


def batch(offset: int, **header: int) -> bytes:
    return v2_batch(plain_rows(SIZE), base_offset=offset, base_timestamp=NOW + offset, **header)


def partition(directory: Path, bases: tuple[int, ...] = (0, 6, 12)) -> Path:
    """Two batches a segment, .index files that are empty as those of so small segments are."""
    directory.mkdir(parents=True)
    for base in bases:
        (directory / f"{base:020}.log").write_bytes(batch(base) + batch(base + SIZE))
        (directory / f"{base:020}.index").write_bytes(b"")
        (directory / f"{base:020}.timeindex").write_bytes(b"")
    for offset in (*bases[1:], bases[-1] + 2 * SIZE):
        (directory / f"{offset:020}.snapshot").write_bytes(NO_PRODUCERS)
    (directory / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 0\n")
    (directory / "partition.metadata").write_bytes(b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    return directory


def log_directory(path: Path, *names: str, is_clean: bool = True) -> Path:
    for name in names:
        partition(path / name)
    if is_clean:
        (path / ".kafka_cleanshutdown").write_bytes(b"")
    (path / "meta.properties").write_bytes(b"version=1\nnode.id=1\ncluster.id=x\n")
    return path


def checkpoint(path: Path, **offsets: int) -> None:
    lines = [f"{name.replace('_', ' ')} {offset}\n" for name, offset in offsets.items()]
    path.write_text(f"0\n{len(lines)}\n{''.join(lines)}")


def lines(*words: str, cwd: Path) -> tuple[int, list[dict[str, Any]]]:
    run = kdump("verify", "--startup", "--output", "jsonl", *words, cwd=cwd)
    assert run.stderr == b""
    return run.returncode, [json.loads(line) for line in run.stdout.splitlines()]


def text(*words: str, cwd: Path) -> tuple[int, str]:
    run = kdump("verify", "--startup", *words, cwd=cwd)
    engine = b"kdump: engine: local, 1 process (one partition is for one process)\n"
    assert run.stderr == (engine if "-v" in words else b"")
    return run.returncode, run.stdout.decode()


def test_a_clean_partition(tmp_path: Path) -> None:
    log_directory(tmp_path / "logs", "orders-0")
    status, [line] = lines("logs/orders-0", cwd=tmp_path)
    assert status == CLEAN
    assert (line["topic"], line["partition"], line["outcome"], line["exception"]) == ("orders", 0, "starts", None)
    assert (line["logStartOffset"], line["recoveryPoint"], line["logEndOffset"], line["lost"]) == (0, 18, 18, [])
    sizes = {file["name"]: file["size"] for file in line["files"]}
    assert sizes[f"{12:020}.index"] == 10_485_760
    assert sizes[f"{12:020}.timeindex"] == 10_485_756
    assert sizes[f"{6:020}.index"] == 0
    status, shown = text("logs/orders-0", cwd=tmp_path)
    assert status == CLEAN
    assert shown.startswith("logs/orders-0: starts after a clean stop; log end offset 18, nothing is lost; ")
    assert shown.count("\n") == 1
    assert "rebuilt" in text("-v", "logs/orders-0", cwd=tmp_path)[1]


def test_what_is_not_given_is_read_from_the_log_directory(tmp_path: Path) -> None:
    logs = log_directory(tmp_path / "logs", "orders-0", "orders-1", is_clean=False)
    for name in ("orders-0", "orders-1"):
        with (logs / name / f"{6:020}.log").open("ab") as file:
            file.write(bytes(40))
    checkpoint(logs / "recovery-point-offset-checkpoint", orders_0=12, orders_1=6)
    checkpoint(logs / "log-start-offset-checkpoint", orders_0=4)
    status, [kept, cut] = lines("logs", cwd=tmp_path)
    assert status == DAMAGE
    assert (kept["logStartOffset"], kept["recoveryPoint"], kept["logEndOffset"]) == (4, 12, 18)
    assert (cut["logStartOffset"], cut["recoveryPoint"], cut["logEndOffset"]) == (0, 6, 12)
    assert cut["lost"] == [{"firstOffset": 12, "lastOffset": 17, "records": 6, "reason": "behind-cut"}]
    # Without the snapshots the damaged segment is replayed, and the broker stops over it.
    for snapshot in (logs / "orders-0").glob("*.snapshot"):
        snapshot.unlink()
    stopped = lines("logs/orders-0", cwd=tmp_path)[1][0]
    assert stopped["exception"] == "org.apache.kafka.common.errors.CorruptRecordException"
    (logs / "orders-0" / f"{12:020}.snapshot").write_bytes(NO_PRODUCERS)
    # What is given goes before it; a checkpoint that cannot be read counts as empty.
    assert lines("--clean", "logs", cwd=tmp_path)[0] == CLEAN
    assert lines("--recovery-point", "12", "logs", cwd=tmp_path)[0] == CLEAN
    assert lines("--log-start-offset", "18", "--clean", "logs/orders-1", cwd=tmp_path)[1][0]["logStartOffset"] == 18
    (logs / "recovery-point-offset-checkpoint").write_bytes(b"0\n7\n")
    *found, refused = lines("logs", cwd=tmp_path)[1]
    assert [line["logEndOffset"] for line in found] == [12, 12]
    assert (refused["file"], refused["outcome"]) == ("logs/recovery-point-offset-checkpoint", "dir_offline")
    assert refused["exception"] == "org.apache.kafka.common.errors.KafkaStorageException"
    # It is told once.
    told = lines("logs/orders-0", "logs/orders-1", cwd=tmp_path)[1]
    assert [line["outcome"] for line in told] == ["starts", "dir_offline", "starts"]
    shown = text("--clean", "logs", cwd=tmp_path)[1]
    assert "its log directory goes offline" in shown
    assert "because of recovery-point-offset-checkpoint\n" in shown


def test_a_bad_partition_keeps_the_broker_down(tmp_path: Path) -> None:
    logs = log_directory(tmp_path / "logs", "orders-0", "orders-1")
    (logs / "orders-0" / "notes.log").write_bytes(b"")
    status, [bad, good] = lines("logs", cwd=tmp_path)
    assert status == DAMAGE
    assert (bad["outcome"], bad["exception"]) == ("broker_stops", "java.lang.NumberFormatException")
    assert [bad[name] for name in ("logStartOffset", "recoveryPoint", "logEndOffset")] == [None] * 3
    assert good["outcome"] == "starts"
    shown = text("logs", cwd=tmp_path)[1]
    assert "logs: 2 partitions, clean: the whole broker stops, because of orders-0\n" in shown
    assert "the start after this one is an unclean one" in shown


def test_a_refused_checkpoint_takes_the_directory_offline(tmp_path: Path) -> None:
    logs = log_directory(tmp_path / "logs", "orders-0", "orders-1")
    (logs / "orders-1" / "leader-epoch-checkpoint").write_bytes(b"1\n0\n")
    status, [_, bad] = lines("logs", cwd=tmp_path)
    assert status == DAMAGE
    assert (bad["outcome"], bad["exception"]) == (
        "dir_offline",
        "org.apache.kafka.common.errors.KafkaStorageException",
    )
    assert "its log directory goes offline" in text("logs", cwd=tmp_path)[1].splitlines()[-2]


def test_directories_of_two_brokers_and_strays_are_no_duplicates(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        log_directory(tmp_path / name, "orders-0")
    (tmp_path / "b" / "meta.properties").write_bytes(b"version=1\nnode.id=2\ncluster.id=x\n")
    (tmp_path / "c" / "orders-0" / "partition.metadata").unlink()
    assert lines("a", "b", "c", cwd=tmp_path)[0] == CLEAN
    (tmp_path / "b" / "meta.properties").write_bytes(b"")
    assert lines("a", "b", cwd=tmp_path)[0] == DAMAGE


def test_names_and_duplicates(tmp_path: Path) -> None:
    log_directory(tmp_path / "a", "orders-0", "orders-1", "orders-2.0123456789012345678901-future")
    log_directory(tmp_path / "b", "orders-1", "orders-2", "gone-0.0123456789012345678901-delete")
    (tmp_path / "a" / "remote-log-index-cache").mkdir()
    (tmp_path / "a" / "__cluster_metadata-0").mkdir()
    assert lines("a", cwd=tmp_path)[0] == lines("b", cwd=tmp_path)[0] == CLEAN
    status, found = lines("a", "b", cwd=tmp_path)
    assert status == DAMAGE
    stopped = {line["file"]: line["exception"] for line in found if line["outcome"] != "starts"}
    assert stopped == dict.fromkeys(("a/orders-1", "b/orders-1"), "java.lang.IllegalStateException")
    (tmp_path / "b" / "lost+found").mkdir()
    status, found = lines("b", cwd=tmp_path)
    assert status == DAMAGE
    assert (found[-1]["file"], found[-1]["outcome"], found[-1]["topic"]) == ("b/lost+found", "broker_stops", None)
    assert found[-1]["exception"] == "org.apache.kafka.common.KafkaException"
    assert "b/lost+found: the whole broker stops: the name is not <topic>-<number>" in text("b", cwd=tmp_path)[1]


def test_open_transactions_that_are_forgotten(tmp_path: Path) -> None:
    directory = partition(tmp_path / "logs" / "orders-0", bases=(0,))
    (tmp_path / "logs" / ".kafka_cleanshutdown").write_bytes(b"")
    with (directory / f"{0:020}.log").open("ab") as file:
        file.write(batch(6, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0))
    (directory / f"{6:020}.snapshot").unlink()
    status, shown = text("logs/orders-0", cwd=tmp_path)
    assert status == DAMAGE
    assert "forgotten: the transaction of producer 7, open since offset 6;" in shown
    status, shown = text("--unclean", "-v", "logs/orders-0", cwd=tmp_path)
    assert status == CLEAN
    assert "left open: the transaction of producer 7, open since offset 6" in shown


def test_a_missing_partition_metadata_is_said(tmp_path: Path) -> None:
    directory = partition(tmp_path / "logs" / "orders-0")
    assert "stray" not in text("--clean", "logs", cwd=tmp_path)[1]
    (directory / "partition.metadata").unlink()
    assert "takes the directory for a stray one" in text("--clean", "logs", cwd=tmp_path)[1]


def test_the_ways_to_lose_less_are_put_side_by_side(tmp_path: Path) -> None:
    directory = partition(tmp_path / "logs" / "orders-0")
    with (directory / f"{0:020}.log").open("ab") as file:
        file.write(bytes(40))
    status, shown = text("--unclean", "logs/orders-0", cwd=tmp_path)
    assert status == DAMAGE
    table = shown[shown.index("repairs that reduce") :].splitlines()
    cells = {row[:26].strip(): row[26:].split() for row in table if row.startswith("    ")}
    assert cells["good records lost"] == ["12", "0", "0"]
    assert cells["segments"] == ["1", "3", "3"]
    assert cells["log end offset"] == ["6", "18", "18"]
    commands = [row.partition("kdump ")[2] for row in table if "kdump repair" in row]
    assert len(commands) == 2
    # The promise holds: the repair, then the start.
    for number, command in enumerate(commands):
        copy = tmp_path / str(number)
        shutil.copytree(tmp_path / "logs", copy / "logs")
        repaired = kdump(*command.split(), cwd=copy)
        assert repaired.returncode == CLEAN, repaired.stderr
        status, [line] = lines("--unclean", "logs/orders-0", cwd=copy)
        assert status == CLEAN
        assert (line["logEndOffset"], len(line["segments"])) == (18, 3)


def test_a_repair_that_flips_a_bit_back_is_put_beside_the_others(tmp_path: Path) -> None:
    log = partition(tmp_path / "logs" / "orders-0") / f"{12:020}.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2 - 2] ^= 4
    log.write_bytes(data)
    shown = text("--unclean", "logs/orders-0", cwd=tmp_path)[1]
    table = shown[shown.index("repairs that reduce") :].splitlines()
    cells = {row[:28].strip(): row[28:].split() for row in table if row.startswith("    ")}
    assert cells["damaged records restored"] == ["0", "0", str(SIZE)]
    commands = [row.partition("kdump ")[2] for row in table if "kdump repair" in row]
    assert [command.endswith(" --correct") for command in commands] == [False, True]
    assert kdump(*commands[1].split(), cwd=tmp_path).returncode == CLEAN
    assert kdump("dump", "--output", "jsonl", "--records", "logs/orders-0", cwd=tmp_path).stdout.count(b"\n") == 18


def test_nothing_is_touched_or_made(tmp_path: Path) -> None:
    directory = partition(tmp_path / "logs" / "orders-0")
    with (directory / f"{0:020}.log").open("ab") as file:
        file.write(bytes(40))
    os.utime(directory, ns=(1, 1))

    def state() -> dict[str, tuple[bytes, int]]:
        return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}

    before = state()
    text("logs", cwd=tmp_path)
    lines("logs", cwd=tmp_path)
    assert state() == before
    assert directory.stat().st_mtime_ns == 1


@pytest.mark.parametrize(
    "words",
    [
        ("--clean", "."),
        ("--recovery-point", "1", "."),
        ("--now", "1", "."),
        ("--startup",),
        ("--startup", "--quick", "."),
        ("--startup", "--strict", "."),
        ("--startup", "--output", "junit", "."),
        ("--startup", "--max-decompressed-size", "5", "."),
        ("--startup", "--recovery-point", "-1", "."),
        ("--startup", "--segment-index-bytes", "1", "."),
        ("--startup", "--now", "yesterday", "."),
    ],
)
def test_usage(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert kdump("verify", *words, cwd=tmp_path).returncode == USAGE


def test_paths(tmp_path: Path) -> None:
    partition(tmp_path / "logs" / "orders-0")
    (tmp_path / "empty").mkdir()
    (tmp_path / "new-0").mkdir()
    run = kdump("verify", "--startup", "--clean", "missing", "empty", "logs/orders-0", cwd=tmp_path)
    assert run.returncode == UNREADABLE
    assert b"kdump: missing: no such file" in run.stderr
    assert b"kdump: empty: " in run.stderr
    assert b"logs/orders-0: starts" in run.stdout
    run = kdump("verify", "--startup", f"logs/orders-0/{0:020}.log", cwd=tmp_path)
    assert run.returncode == UNREADABLE
    assert b"is no directory" in run.stderr
    partition(tmp_path / "__cluster_metadata-0")
    run = kdump("verify", "--startup", "__cluster_metadata-0", cwd=tmp_path)
    assert run.returncode == UNREADABLE
    assert b"no answer" in run.stderr
    # An empty directory by the name of a partition gets its first segment.
    status, [line] = lines("new-0", cwd=tmp_path)
    assert status == CLEAN
    assert line["segments"] == [[0, 0]]


def test_a_single_partition_is_no_work_for_spark(tmp_path: Path) -> None:
    partition(tmp_path / "orders-0", tuple(range(0, 6 * 70, 6)))
    run = kdump("verify", "--startup", "--clean", "orders-0", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (CLEAN, b"")


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    directory = partition(tmp_path / "orders-0")
    (directory / "loop.log").symlink_to("loop.log")
    (directory / "nowhere.log").symlink_to("nowhere")
    (directory / "folder.log").mkdir()
    os.mkfifo(directory / "pipe.log")
    status, [line] = lines("--clean", "orders-0", cwd=tmp_path)
    assert (status, line["outcome"]) == (CLEAN, "starts")


def test_a_directory_that_cannot_be_read_is_not_said_to_start(tmp_path: Path) -> None:
    logs = log_directory(tmp_path / "logs", "orders-0", "orders-1")

    def run(groups: Sequence[Any], work: Work[Any, Any]) -> Iterator[Any]:
        (first,), (second,) = groups
        yield from in_process([[first]], work)
        yield KdumpError(Codes.UNREADABLE, "Permission denied", path=second.path)

    errors: list[KdumpError] = []
    *_, whole = start_all([resolve(str(logs))], StartOptions(NOW), errors.append, run)
    assert isinstance(whole, LogDirectoryCheck)
    assert len(errors) == 1
    assert log_directory_text(whole) == f"{logs}: 2 partitions, clean: 1 cannot be read, the others start\n"


def test_a_log_directory_with_nothing_but_a_stranger(tmp_path: Path) -> None:
    (tmp_path / "logs" / "lost+found").mkdir(parents=True)
    assert kdump("verify", "--startup", "logs", cwd=tmp_path).returncode == UNREADABLE
    log_directory(tmp_path / "logs")
    status, [line] = lines("logs", cwd=tmp_path)
    assert (status, line["outcome"], line["file"]) == (DAMAGE, "broker_stops", "logs/lost+found")


def test_json_lines_are_utf_8(tmp_path: Path) -> None:
    directory = partition(tmp_path / os.fsdecode(b"t\xff-0"))
    (directory / os.fsdecode(b"note\xff.txt")).write_bytes(b"")
    found = lines("--clean", directory.name, cwd=tmp_path)[1]
    assert found[0]["topic"] == "t\ufffd"
    assert "note\ufffd.txt" in {file["name"] for file in found[0]["files"]}
