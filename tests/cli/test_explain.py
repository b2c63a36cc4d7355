"""``kdump explain``, and other first guesses of people who do not know kdump yet."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.harness import ROOT
from tests.harness.cli_runs import CLEAN, DAMAGE, NAME, UNREADABLE, USAGE, kdump

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
