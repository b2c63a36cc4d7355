"""``--topic`` of every command: the partitions of a topic, as if they were named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.harness.cli_runs import BATCH, CLEAN, DAMAGE, DAMAGED_BATCH, NAME, UNREADABLE, USAGE, kdump

LOCAL = ("--engine", "local")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory: orders-0 and orders-1 are clean, pay-0 is damaged."""
    for name, data in (("orders-0", BATCH), ("orders-1", BATCH), ("pay-0", BATCH + DAMAGED_BATCH)):
        folder = tmp_path / "logs" / name
        folder.mkdir(parents=True)
        (folder / NAME).write_bytes(data)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ("dump", "--output", "jsonl", *LOCAL),
        ("dump", "--print-data-log"),
        ("verify", *LOCAL),
        ("verify", "-j", "2"),
        ("verify", "--startup"),
        ("stats", "--output", "jsonl", "--by", "partition", *LOCAL),
        ("stats", "--output", "jsonl", "-j", "2"),
        ("repair",),
        ("repair", "--salvage", "--output", "jsonl"),
    ],
    ids=" ".join,
)
def test_as_if_the_partitions_were_named(logs: Path, command: tuple[str, ...]) -> None:
    for topic, names in (("orders", ("orders-0", "orders-1")), ("p*", ("pay-0",))):
        chosen = kdump(*command, "--topic", topic, "logs", cwd=logs)
        named = kdump(*command, *(f"logs/{name}" for name in names), cwd=logs)
        assert chosen.stdout == named.stdout != b""
        assert (chosen.stderr, chosen.returncode) == (named.stderr, named.returncode)
    assert kdump(*command, "--topic", "orders", "--topic", "pay", "logs", cwd=logs).stdout


@pytest.mark.parametrize("command", ["dump", "verify", "stats", "repair"])
def test_no_such_topic(logs: Path, command: str) -> None:
    run = kdump(command, "--topic", "order", "logs", cwd=logs)
    assert run.returncode == UNREADABLE
    message = b"kdump: --topic order: no partition is of such a topic; there are partitions of orders, pay\n"
    assert run.stderr == message


def test_no_such_topic_with_a_time_of_day(logs: Path) -> None:
    run = kdump("dump", "--topic", "order", "--time", "12:00..13:00", "logs", cwd=logs)
    assert (run.returncode, run.stderr.count(b"\n")) == (UNREADABLE, 1)


def test_the_other_topics_are_still_done(logs: Path) -> None:
    run = kdump("verify", *LOCAL, "--topic", "order", "--topic", "pay", "--output", "jsonl", "logs", cwd=logs)
    assert run.returncode == UNREADABLE
    files = [json.loads(line)["file"] for line in run.stdout.splitlines()]
    assert f"logs/pay-0/{NAME}" in files
    assert all(file.startswith("logs/pay-0/") for file in files)


def test_diff(logs: Path) -> None:
    shutil.copytree(logs / "logs", logs / "copy")
    (logs / "copy" / "pay-0" / NAME).write_bytes(BATCH)
    shutil.rmtree(logs / "copy" / "orders-1")
    for topic, expected in (("orders", ["orders-0", "orders-1"]), ("p?y", ["pay-0"])):
        run = kdump("diff", *LOCAL, "--output", "jsonl", "--topic", topic, "logs", "copy", cwd=logs)
        rows = [json.loads(line) for line in run.stdout.splitlines()]
        assert sorted({f"{row['topic']}-{row['partition']}" for row in rows}) == expected
    run = kdump("diff", *LOCAL, "--topic", "order", "logs", "copy", cwd=logs)
    assert (run.returncode, run.stdout) == (UNREADABLE, b"")
    assert b"there are partitions of orders, pay" in run.stderr


def test_diff_with_a_manifest(logs: Path) -> None:
    assert kdump("verify", "--manifest", "m", *LOCAL, "logs", cwd=logs).returncode == DAMAGE
    (logs / "logs" / "orders-1" / NAME).write_bytes(BATCH + BATCH)
    same = kdump("diff", *LOCAL, "--output", "jsonl", "--topic", "pay", "m", "logs", cwd=logs)
    other = kdump("diff", *LOCAL, "--output", "jsonl", "--topic", "orders", "m", "logs", cwd=logs)
    assert b'"orders"' not in same.stdout
    assert other.returncode == DAMAGE
    assert b'"pay"' not in other.stdout


def test_with_options_that_name_files(logs: Path) -> None:
    for words in (("--files", "x"), ("-f", "logs/orders-0")):
        run = kdump("dump", "--topic", "orders", *words, cwd=logs)
        assert run.returncode == USAGE
        assert b"--topic does not go with" in run.stderr


@pytest.mark.slow
def test_what_if(logs: Path) -> None:
    run = kdump("stats", "--what-if", "codec", "--output", "jsonl", "--topic", "orders", "logs", cwd=logs)
    named = kdump("stats", "--what-if", "codec", "--output", "jsonl", "logs/orders-0", "logs/orders-1", cwd=logs)
    assert run.returncode == named.returncode == CLEAN
    rows, others = ([json.loads(line) for line in each.stdout.splitlines()] for each in (run, named))
    assert [row.get("bytes") for row in rows] == [row.get("bytes") for row in others]
