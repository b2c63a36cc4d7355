"""A file of another type under the name of a log, and directories without segments, as each command meets them."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from random import Random

import pytest

from tests.harness.batches import plain_rows, v2_batch
from tests.harness.cli_runs import CLEAN, DAMAGE, NAME, UNREADABLE, kdump

FIRST = b"".join(v2_batch(plain_rows(3), base_offset=3 * number) for number in range(4))
SECOND = v2_batch(plain_rows(3), base_offset=12)
SECOND_NAME = f"{12:020}.log"
WHAT = "a gzip file with a Kafka log in it, not itself a Kafka log; to look into it: gzip -dc"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """The first of two segments was compressed where it lies."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / NAME).write_bytes(gzip.compress(FIRST))
    (folder / SECOND_NAME).write_bytes(SECOND)
    for name in (NAME, SECOND_NAME):
        (folder / name).with_suffix(".index").write_bytes(b"")
        (folder / name).with_suffix(".timeindex").write_bytes(b"")
    return folder


def test_verify(partition: Path) -> None:
    run = kdump("verify", "orders-0", cwd=partition.parent)
    log = f"orders-0/{NAME}"
    size = len(gzip.compress(FIRST))
    lines = run.stdout.decode().splitlines()
    assert run.returncode == DAMAGE
    command = f"{WHAT} {partition / NAME} | kdump dump -"
    assert lines[0].startswith(f"{log}: error KD110 foreign-file at 0 ({size} bytes): {command}")
    assert lines[1] == f"{log}: 0 batches, {size} bytes: 1 error"
    assert [line for line in lines if "error" in line] == lines[:2]


def test_verify_of_the_last_segment(partition: Path) -> None:
    """Nothing beside it is compared with what nobody knows."""
    (partition / NAME).write_bytes(FIRST)
    (partition / SECOND_NAME).write_bytes(gzip.compress(SECOND))
    (partition / f"{15:020}.snapshot").write_bytes((partition / NAME).read_bytes()[:0])
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 14\n")
    (partition.parent / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 15\n")
    found = [
        json.loads(line) for line in kdump("verify", "--output", "jsonl", ".", cwd=partition.parent).stdout.splitlines()
    ]
    assert [row["code"] for row in found if row["severity"] == "error"] == ["KD110"]
    assert not {"KD308", "KD322", "KD321", "KD401"} & {row["code"] for row in found}


@pytest.mark.parametrize(
    "options", [(), ("-o", "saved"), ("--salvage", "-o", "saved"), ("--in-place", "--like-broker"), ("--indexes",)]
)
def test_repair_cuts_nothing(partition: Path, options: tuple[str, ...]) -> None:
    before = {path: path.read_bytes() for path in partition.iterdir()}
    run = kdump("repair", *options, "orders-0", cwd=partition.parent)
    assert (run.returncode, run.stdout) == (DAMAGE, b"")
    assert run.stderr.decode().startswith(f"kdump: orders-0/{NAME}: {WHAT}")
    assert {path: path.read_bytes() for path in partition.iterdir() if path.is_file()} == before
    assert not list(partition.parent.glob("saved/*"))


def test_repair_of_others(partition: Path) -> None:
    """One partition that is refused stops no other one."""
    shutil.copytree(partition, partition.parent / "orders-1")
    (partition.parent / "orders-1" / NAME).write_bytes(FIRST + b"torn")
    run = kdump("repair", ".", cwd=partition.parent)
    assert run.returncode == DAMAGE
    assert b"orders-1/" + NAME.encode() + b": would cut 4 bytes" in run.stdout
    assert run.stderr.count(b"\n") == 1


def test_a_foreign_segment_after_a_cut(partition: Path) -> None:
    (partition / NAME).write_bytes(FIRST[:-1])
    (partition / SECOND_NAME).write_bytes(gzip.compress(SECOND))
    run = kdump("repair", "orders-0", cwd=partition.parent)
    assert (run.returncode, run.stdout) == (DAMAGE, b"")
    assert SECOND_NAME.encode() in run.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--codec", "zstd", "-o", "out"),
        ("--codec", "zstd", "--skip-damaged", "-o", "out"),
        ("--to", "jsonl", "-o", "out"),
        ("--to", "jsonl", "--skip-damaged", "-o", "-"),
        ("--renumber", "0", "-o", "out"),
    ],
)
def test_convert(partition: Path, options: tuple[str, ...]) -> None:
    run = kdump("convert", f"orders-0/{NAME}", *options, cwd=partition.parent)
    assert (run.returncode, run.stdout) == (DAMAGE, b"")
    assert run.stderr.decode().startswith(f"kdump: orders-0/{NAME}: {WHAT}")
    assert not list(partition.parent.glob("out/*"))


def test_stats(partition: Path) -> None:
    run = kdump("stats", "--output", "jsonl", "orders-0", cwd=partition.parent)
    assert run.returncode == DAMAGE
    first, second = map(json.loads, run.stdout.splitlines())
    assert (first["records"], first["errors"], second["records"]) == (0, 1, 3)
    assert run.stderr.decode().startswith(f"kdump: orders-0/{NAME}: {WHAT}")


@pytest.mark.parametrize("options", [(), ("--deep-iteration",), ("--print-data-log",)])
def test_dump_as_the_java_tool(partition: Path, options: tuple[str, ...]) -> None:
    """What it is is said on standard error only."""
    size = len(gzip.compress(FIRST))
    run = kdump("dump", *options, f"orders-0/{NAME}", cwd=partition.parent)
    assert run.returncode == DAMAGE
    assert run.stdout.decode() == (
        f"Dumping orders-0/{NAME}\nLog starting offset: 0\nFound {size} invalid bytes at the end of {NAME}\n"
    )
    assert run.stderr.decode().splitlines() == [f"kdump: orders-0/{NAME}: {WHAT} {partition / NAME} | kdump dump -"]


@pytest.mark.parametrize("options", [(), ("--records",), ("--resync",)])
def test_dump_of_rows(partition: Path, options: tuple[str, ...]) -> None:
    run = kdump("dump", "--output", "jsonl", *options, f"orders-0/{NAME}", cwd=partition.parent)
    (row,) = map(json.loads, run.stdout.splitlines())
    assert (run.returncode, row["type"], row["code"]) == (DAMAGE, "finding", "KD110")
    assert WHAT in row["message"]
    assert WHAT in run.stderr.decode()


def test_explain(partition: Path) -> None:
    run = kdump("dump", "--explain", "20", f"orders-0/{NAME}", cwd=partition.parent)
    assert run.returncode == DAMAGE
    assert "The file is a gzip file with a Kafka log in it" in run.stdout.decode()
    assert b"batchLength" not in run.stdout


def test_a_pipe(partition: Path) -> None:
    data = (partition / NAME).read_bytes()
    for words in (("verify", "-"), ("dump", "-"), ("stats", "-"), ("convert", "-", "--to", "jsonl", "-o", "-")):
        run = kdump(*words, cwd=partition, stdin=data)
        assert run.returncode == DAMAGE
        assert b"a gzip file" in run.stdout + run.stderr
        # What it says to do does it.
        assert kdump(*words, cwd=partition, stdin=gzip.decompress(data)).returncode == CLEAN


def test_startup_says_what_a_broker_does(partition: Path) -> None:
    size = len(gzip.compress(FIRST))
    run = kdump("verify", "--startup", "--unclean", "orders-0", cwd=partition.parent)
    assert f"cut: {NAME}, from {size} to 0 bytes" in run.stdout.decode()


def test_a_damaged_log_is_none_of_them(partition: Path) -> None:
    """Its first batch begins as gzip does; the others are to be saved."""
    (partition / NAME).write_bytes(b"\x1f\x8b\x08\0" + FIRST[4:40] + b"?" + FIRST[41:])
    for words in (("verify",), ("stats", "--quick"), ("dump",), ("repair", "--salvage", "-o", "saved")):
        run = kdump(*words, "orders-0", cwd=partition.parent)
        assert b"gzip" not in run.stdout + run.stderr
    assert b"offsets 3..11: clean" in kdump("verify", f"saved/orders-0/{3:020}.log", cwd=partition.parent).stdout or (
        b"clean" in kdump("verify", "saved/orders-0", cwd=partition.parent).stdout
    )


COMMANDS = (("verify",), ("repair",), ("stats",), ("dump",), ("convert", "--codec", "none", "-o", "out"))


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ((), "an empty directory"),
        (("notes.txt",), "neither a partition directory nor a log directory of Kafka"),
        (
            (f"my_topic_0/{NAME}",),
            "neither a partition directory nor a log directory of Kafka; my_topic_0 is passed over: the name is not "
            "<topic>-<number>: a hyphen stands before the number, as in my_topic-0, and not an underscore; name it to "
            "read it",
        ),
        (
            ("d1/meta.properties",),
            "neither a partition directory nor a log directory of Kafka; log directories in it: d1",
        ),
        (("meta.properties",), "an empty log directory of broker 4, with 0 partitions"),
        (("meta.properties", "cleaner-offset-checkpoint"), "an empty log directory of broker 4, with 0 partitions"),
        (("replication-offset-checkpoint",), "an empty log directory, with 0 partitions"),
        (
            ("meta.properties", "t-0/partition.metadata"),
            "a log directory of broker 4 with 1 partition, but without a .log file",
        ),
        (("t-0/0.log.deleted", "t-1/5.index"), "a log directory with 2 partitions, but without a .log file"),
        (("leader-epoch-checkpoint",), "a partition directory without a .log file; it holds 1 other file"),
        (("5.index", "5.snapshot"), "a partition directory without a .log file; it holds 2 other files"),
    ],
)
def test_directories_without_segments(tmp_path: Path, files: tuple[str, ...], what: str) -> None:
    (tmp_path / "data").mkdir()
    for name in files:
        path = tmp_path / "data" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("version=1\nnode.id=4\ncluster.id=x\n" if name.endswith("meta.properties") else "")
    run = kdump("verify", "data", cwd=tmp_path)
    assert run.returncode == UNREADABLE
    assert run.stderr.decode().splitlines() == [f"kdump: data: no segment files: {what}"]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_all_commands_say_so(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "data" / "t-0").mkdir(parents=True)
    (tmp_path / "data" / "t-0" / f"{5:020}.index").write_bytes(b"")
    run = kdump(*words, "data", cwd=tmp_path)
    assert run.returncode == UNREADABLE
    assert run.stderr == b"kdump: data: no segment files: a log directory with 1 partition, but without a .log file\n"


def test_an_empty_partition_directory(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    run = kdump("verify", "orders-0", cwd=tmp_path)
    assert run.returncode == UNREADABLE
    assert run.stderr == b"kdump: orders-0: no segment files: a partition directory without a .log file; it is empty\n"


def test_what_has_the_frame_of_an_entry_by_accident(tmp_path: Path) -> None:
    """The bytes of a gzip file from 260 KiB on are a length that fits into it; the Java tool prints such a batch."""
    data = gzip.compress(Random(1).randbytes(300_000), 6, mtime=0)
    # gzip itself names the system (Unix is 3); Python does from 3.11 to 3.12 only.
    data = data[:9] + b"\x03" + data[10:]
    assert int.from_bytes(data[8:12], "big") < len(data)
    (tmp_path / NAME).write_bytes(data)
    run = kdump("verify", "--output", "jsonl", NAME, cwd=tmp_path)
    assert [json.loads(line)["code"] for line in run.stdout.splitlines()] == ["KD110"]
    for words in (("dump",), ("repair",), ("convert", "--codec", "none", "-o", "out/")):
        run = kdump(*words, NAME, cwd=tmp_path)
        assert run.returncode == DAMAGE
        assert run.stderr.decode().splitlines() == [
            f"kdump: {NAME}: a gzip file, not itself a Kafka log; to look into it: gzip -dc {tmp_path / NAME} | "
            "kdump dump -"
        ]
