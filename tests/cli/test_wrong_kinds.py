"""PATHs of another kind than a command takes: the message says what they are, and what takes them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click
import pytest

import kdump as library
from kdump.codes import KdumpError
from kdump.log import tiers
from tests.harness.cli_runs import BATCH, CLEAN, DAMAGED_BATCH, NAME, UNREADABLE, USAGE, kdump
from tests.harness.tiers import LOGS, ZSTD

TIER = ("--tier", str(ZSTD))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A log directory, one of ZooKeeper, and an empty directory."""
    (tmp_path / "logs" / "orders-0").mkdir(parents=True)
    (tmp_path / "logs" / "orders-0" / NAME).write_bytes(BATCH)
    (tmp_path / "logs" / "orders-1").mkdir()
    (tmp_path / "logs" / "orders-1" / NAME).write_bytes(BATCH)
    (tmp_path / "version-2").mkdir()
    for name in ("log.1", "snapshot.0"):
        (tmp_path / "version-2" / name).touch()
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("verify --startup version-2", UNREADABLE, "is of ZooKeeper: no broker starts on it, but on log directories"),
        (
            f"verify --startup {ZSTD}",
            UNREADABLE,
            "is of remote storage: no broker starts on it, but on log directories",
        ),
        ("verify --startup -", UNREADABLE, "-: is a stream: a broker starts on directories of partitions"),
        (
            f"verify --startup --tier {ZSTD} logs",
            USAGE,
            "a broker starts on what its log directory has: --tier does not go with --startup",
        ),
        (
            f"restore logs/orders-0/{NAME}",
            UNREADABLE,
            f"logs/orders-0/{NAME}: is no directory: a plan is for log directories; -o LOGDIR restores a segment",
        ),
        ("restore -", UNREADABLE, "-: is no directory: a plan is for log directories; -o LOGDIR restores a segment"),
        ("restore version-2", UNREADABLE, "is of ZooKeeper, which holds no partition: kdump state shows it"),
        ("restore nosuch", UNREADABLE, "nosuch: No such file or directory"),
        ("restore empty", UNREADABLE, "empty: no segment files: an empty directory"),
        (
            f"repair {ZSTD}",
            USAGE,
            f"is a bucket, which is only read: repair what kdump convert {ZSTD} -o DIR takes out of it",
        ),
        (
            "repair --undo empty",
            UNREADABLE,
            "empty: is a directory: --undo takes manifest.json, which the repair named",
        ),
        (
            "state --history group=g version-2 logs",
            USAGE,
            "a PATH of logs beside one of another world is for the lag, --history does not go with it",
        ),
        ("explain tier://relative 0", UNREADABLE, "tier://relative: no bucket of remote storage"),
        (
            "serve --listen 127.0.0.1:0 --until-offset orders-7=1 logs",
            UNREADABLE,
            "--until-offset orders-7: no such partition is served",
        ),
        ("dump s3://", UNREADABLE, "s3://: names no bucket, as s3://BUCKET/PATH does"),
        ("verify s3a:///orders-0", UNREADABLE, "s3a:///orders-0: names no bucket, as s3a://BUCKET/PATH does"),
    ],
)
def test_messages(place: Path, line: str, status: int, message: str) -> None:
    run = kdump(*line.split(), cwd=place)
    lines = run.stderr.decode().splitlines()
    assert (run.returncode, run.stdout) == (status, b"")
    assert lines[-1].endswith(message)
    assert status == USAGE or len(lines) == 1


def test_the_state_of_zookeeper_is_shown_without_logs_that_are_missing(place: Path) -> None:
    alone, both = (kdump("state", "version-2", *more, cwd=place) for more in ((), ("nosuch",)))
    assert (both.returncode, both.stdout) == (UNREADABLE, alone.stdout)
    assert b"kdump: nosuch: no such file or directory\n" in both.stderr


def test_the_plan_of_other_paths_is_still_made(place: Path) -> None:
    both = kdump("restore", "version-2", "logs", cwd=place)
    alone = kdump("restore", "logs", cwd=place)
    assert both.stdout == alone.stdout != b""
    assert both.returncode == UNREADABLE


@pytest.mark.parametrize("page", ["explain", "help"])
def test_small_commands_have_a_page(place: Path, page: str) -> None:
    run = kdump("man", page, cwd=place)
    assert run.returncode == CLEAN
    assert any(line.split()[:1] == [page] for line in click.unstyle(run.stdout.decode()).splitlines())


def test_logs_that_only_the_broker_has(place: Path) -> None:
    run = kdump("verify", *TIER, "logs/orders-0", cwd=place)
    assert (run.returncode, run.stderr) == (CLEAN, b"")
    assert run.stdout.count(b"1 batches") == 1
    (place / "logs" / "orders-0" / NAME).write_bytes(BATCH + DAMAGED_BATCH)
    assert kdump("verify", *TIER, "logs/orders-0", cwd=place).stdout.count(b"error KD108") == 1


def test_logs_that_only_the_bucket_has(tmp_path: Path) -> None:
    shutil.copytree(LOGS, tmp_path / "logs")
    assert not (tmp_path / "logs" / "short-0").exists()
    run = kdump("verify", *TIER, "logs/short-0", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (CLEAN, b"")
    assert b"short-0: 3 segments, 55 batches, 143,593 bytes, offsets 317..1249: clean" in run.stdout


@pytest.mark.parametrize("paths", [("logs",), ("logs/orders-0", "logs/orders-1")])
def test_a_bucket_that_is_not_there_is_told_once(place: Path, paths: tuple[str, ...]) -> None:
    run = kdump("verify", "--tier", "nosuch", *paths, cwd=place)
    assert run.returncode == UNREADABLE
    assert run.stderr.decode() == f"kdump: {place}/nosuch: No such file or directory\n"
    assert run.stdout.count(b"1 batches") == 2, "what the broker has is checked all the same"


def test_the_library_checks_a_bucket_with_its_logs() -> None:
    words = ("verify", "--output", "jsonl", *TIER, str(LOGS))
    shown = [json.loads(line) for line in kdump(*words, cwd=LOGS).stdout.splitlines()]
    # The command told this process of the bucket.
    with tiers.told(tiers.Tier()):
        found = list(library.findings(LOGS, tier=str(ZSTD)))
        assert [(one.code, one.message) for one in found] == [(row["code"], row["message"]) for row in shown]
        assert any(one.code == "KD464" for one in found)
        assert not any(one.code == "KD464" for one in library.findings(LOGS))
        with pytest.raises(KdumpError, match="nosuch"):
            list(library.findings(LOGS, tier="nosuch"))


def test_the_library_predicts_for_a_release(place: Path) -> None:
    words = ("verify", "--startup", "--output", "jsonl", "--broker-version", "4.3", "logs")
    shown = [json.loads(line) for line in kdump(*words, cwd=place).stdout.splitlines()]
    found = [row.to_dict() for row in library.start_prediction(place / "logs", broker_version="4.3")]
    keys = ("type", "outcome", "release", "brokerVersion")
    assert [[row.get(key) for key in keys] for row in found] == [[row.get(key) for key in keys] for row in shown]
    assert str(found) != str([row.to_dict() for row in library.start_prediction(place / "logs")])
    with pytest.raises(ValueError, match=r"broker_version '0.9' is none of 4.3, 4.4"):
        library.start_prediction(place / "logs", broker_version="0.9")
