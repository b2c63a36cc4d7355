"""``kdump explain``, and other first guesses of people who do not know kdump yet."""

from __future__ import annotations

import json
import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from kdump.cli.frame import WORLD
from kdump.explain import explain
from kdump.explain.lines import Labelled, Line, Space
from kdump.kafka07.frame import KINDS
from kdump.log.source import MemorySource
from tests.harness import ROOT
from tests.harness.archives import case_files, unpack_cases
from tests.harness.cli_runs import CLEAN, DAMAGE, NAME, UNREADABLE, USAGE, kdump
from tests.harness.examples import sparse

SEGMENTS = ROOT / "fixtures" / "segments"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("v2-txn-0", "v1-gzip-0", "damaged-crc-0"):
        shutil.copytree(SEGMENTS / name, tmp_path / name)
    return tmp_path


def test_a_position(folder: Path) -> None:
    log = f"damaged-crc-0/{NAME}"
    run = kdump("explain", log, "200", cwd=folder)
    assert run.stdout == kdump("dump", "--explain", "200", log, cwd=folder).stdout


@pytest.mark.parametrize("partition", ["v2-txn-0", "v1-gzip-0"])
def test_every_offset_of_a_partition(folder: Path, partition: str) -> None:
    """The entry is the one in which the records of the dump say that they are."""
    rows = [
        json.loads(line)
        for line in kdump("dump", "--output", "jsonl", "--records", partition, cwd=folder).stdout.splitlines()
    ]
    rows = [row for row in rows if row["type"] == "record"]
    for row in rows[:: max(1, len(rows) // 12)]:
        run = kdump("explain", partition, "--offset", str(row["offset"]), cwd=folder)
        assert run.stdout.decode().startswith(f"{row['file']}: byte {row['position']} of ")
        assert (run.returncode, run.stderr) == (CLEAN, b"")


def test_an_offset_in_a_segment(folder: Path) -> None:
    log = f"v2-txn-0/{NAME}"
    whole = kdump("explain", "v2-txn-0", "--offset", "100", cwd=folder)
    assert kdump("explain", log, "--offset", "100", cwd=folder).stdout == whole.stdout
    assert kdump("explain", log, "--offset", "300", cwd=folder).returncode == UNREADABLE


def test_an_offset_that_is_not_there(folder: Path) -> None:
    (folder / "v2-txn-0" / f"{105:020d}.log").unlink()
    run = kdump("explain", "v2-txn-0", "--offset", "150", cwd=folder)
    assert re.search(rb"offset 150 is not there; the next entry begins with 201", run.stderr)
    run = kdump("explain", "v2-txn-0", "--offset", "99999", cwd=folder)
    assert run.returncode == UNREADABLE
    assert b"no entry has offset 99999 or a later one" in run.stderr


def test_damage_before_the_offset_is_shown(folder: Path) -> None:
    run = kdump("explain", "damaged-crc-0", "--offset", "70", cwd=folder)
    assert run.returncode in (CLEAN, DAMAGE)
    assert run.stdout.startswith(b"damaged-crc-0/")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["explain", "v2-txn-0"], "one of POSITION and --offset"),
        (["explain", "v2-txn-0", "3", "--offset", "3"], "one of POSITION and --offset"),
        (["v2-txn-0"], "'v2-txn-0' is no command but a PATH: kdump dump shows it, kdump verify checks it"),
        (["s3://a/b"], "'s3://a/b' is no command but a PATH"),
        (["vrify"], "No such command 'vrify'"),
        (["dump", "--output", "json", "v2-txn-0"], "'json' is called jsonl"),
        (["verify", "--output", "json", "v2-txn-0"], "'json' is called jsonl"),
        (["stats", "--output", "json", "v2-txn-0"], "'json' is called jsonl"),
        (["verify", "--output", "a.xml", "v2-txn-0"], "'a.xml' is not one of"),
        (["convert", "--output", "x.parquet", "v2-txn-0"], "'x.parquet' is no format; -o names the file"),
        (["repair", "-o", "jsonl", "v2-txn-0"], "-o names a directory; --output jsonl prints the plan in that format"),
        (["state", "--between", "9:21..9:22", "v2-txn-0"], r"'9:21' has no day: \d{4}-\d\d-\d\dT9:21 is today's (UTC)"),
        (["dump", "--offset", "x", "v2-txn-0"], "'x' is not A:B (either may be left out), nor one offset"),
    ],
)
def test_usage(folder: Path, words: list[str], message: str) -> None:
    run = kdump(*words, cwd=folder)
    assert run.returncode == USAGE
    pattern = re.escape(message).replace(r"\\d", r"\d").replace(r"\{4\}", "{4}")
    assert re.search(pattern, run.stderr.decode()), run.stderr.decode()


def test_one_offset(folder: Path) -> None:
    words = ("dump", "--output", "jsonl", "--records", "--offset")
    one = kdump(*words, "105", "v2-txn-0", cwd=folder)
    assert one.stdout == kdump(*words, "105:106", "v2-txn-0", cwd=folder).stdout
    (row,) = map(json.loads, one.stdout.splitlines())
    assert row["offset"] == 105


def test_now(folder: Path) -> None:
    words = ("dump", "--output", "jsonl", "--records")
    assert kdump(*words, "--time", "now..", "v2-txn-0", cwd=folder).stdout == b""
    everything = kdump(*words, "v2-txn-0", cwd=folder).stdout
    assert kdump(*words, "--time", "..now", "v2-txn-0", cwd=folder).stdout == everything


KAFKA_07 = case_files("kafka07")
LOGS_07 = sorted(path for path in KAFKA_07 if path.endswith(".kafka") and "/cli/" not in path and KAFKA_07[path])
FRAMES_07 = sorted(path for path in KAFKA_07 if "/wire/" in path and path.endswith(".bin") and KAFKA_07[path])


def lines_07(path: str, position: int, frame: str | None = None) -> list[Line]:
    data = KAFKA_07[path]
    world = WORLD if frame else None
    return list(explain(MemorySource(Path(path).name, data), position, world=world, frame=frame))


def covered(lines: list[Line]) -> list[tuple[int, int]]:
    return [(line.position, line.end) for line in lines if isinstance(line, Labelled) and line.space is Space.FILE]


@pytest.mark.parametrize("path", sparse(LOGS_07, fast=6))
def test_each_byte_of_a_log_of_07_has_one_line(path: str) -> None:
    position = 0
    while position < len(KAFKA_07[path]):
        spans = covered(lines_07(path, position))
        assert spans[0][0] == position
        assert all(one[1] == other[0] for one, other in pairwise(spans))
        position = spans[-1][1]


@pytest.mark.parametrize("path", sparse(FRAMES_07, fast=6))
def test_each_byte_of_a_frame_of_07_has_one_line(path: str) -> None:
    kind = json.loads(KAFKA_07[path.partition(".")[0] + ".json"])["request"]["name"]
    if kind not in KINDS:
        return
    data, position = KAFKA_07[path], 0
    while position < len(data):
        spans = covered(lines_07(path, position, kind))
        assert spans[0][0] == position
        assert all(one[1] == other[0] for one, other in pairwise(spans))
        position = spans[-1][1]
    assert position == len(data)


def test_an_offset_of_07_is_a_position(tmp_path: Path) -> None:
    unpack_cases("kafka07", tmp_path)
    folder = tmp_path / "kafka07"
    whole = kdump("explain", "multi-0", "--offset", "4311", cwd=folder)
    assert whole.stdout == kdump("explain", "multi-0/00000000000000004311.kafka", "0", cwd=folder).stdout
    assert (whole.returncode, b"entry 0: message of magic 1, offset 4311" in whole.stdout) == (CLEAN, True)
    assert kdump("explain", "multi-0", "--offset", "99999999", cwd=folder).returncode == UNREADABLE
    shutil.copy(folder / "multi-0/00000000000000004311.kafka", folder / "saved")
    named = kdump("explain", "--log-format", "0.7", "saved", "0", cwd=folder)
    assert b"message of magic 1, offset 0" in named.stdout


def test_damage_of_07_is_explained(tmp_path: Path) -> None:
    path = f"kafka07/crc-last-0/{'0' * 20}.kafka"
    last = len(KAFKA_07[path]) - 1
    (tmp_path / "log.kafka").write_bytes(KAFKA_07[path])
    run = kdump("explain", "log.kafka", str(last), cwd=tmp_path)
    assert run.returncode == DAMAGE
    assert b"The CRC is wrong" in run.stdout
    (tmp_path / "cut.kafka").write_bytes(KAFKA_07[path][:-3])
    run = kdump("explain", "cut.kafka", str(last - 3), cwd=tmp_path)
    assert run.returncode == DAMAGE
    assert b"No entry covers byte" in run.stdout


def test_a_frame_of_07_of_another_kind(tmp_path: Path) -> None:
    name = "001-real-fetch.request.bin"
    (tmp_path / name).write_bytes(KAFKA_07[f"kafka07/wire/{name}"])
    right = kdump("explain", "--frame", "fetch", name, "20", cwd=tmp_path)
    assert (right.returncode, b"fetch request, bytes 0 to 27" in right.stdout) == (CLEAN, True)
    wrong = kdump("explain", "--frame", "offsets", name, "20", cwd=tmp_path)
    assert (wrong.returncode, b"No offsets request or response covers byte 20" in wrong.stdout) == (DAMAGE, True)
    assert kdump("explain", "--frame", "fetch", "--offset", "20", name, cwd=tmp_path).returncode == USAGE
