"""Transactions that touch a gap, and whose end only the log of their coordinator tells."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.harness.archives import unpack_cases
from tests.harness.batches import TRANSACTIONAL, plain_rows, v2_batch
from tests.harness.cli_runs import CLEAN, DAMAGE, kdump
from tests.harness.decoder_logs import coordinated, write_log

ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT = range(1, 5)
GARBAGE = b"\0" * 70 + b"\7" * 78


def partition(home: Path, *producers: int) -> Path:
    """An open transaction of each producer, and a damaged end."""
    directory = home / "t-0"
    directory.mkdir()
    header = {"producer_epoch": 0, "base_sequence": 0, "attributes": TRANSACTIONAL, "partition_leader_epoch": 0}
    batches = [
        v2_batch(plain_rows(3), base_offset=3 * number, producer_id=producer, **header)
        for number, producer in enumerate(producers)
    ]
    (directory / f"{0:020}.log").write_bytes(b"".join(batches) + GARBAGE)
    return directory


def salvage(home: Path, name: str, *words: str) -> tuple[int, str, list[tuple[int, str]]]:
    """Exit status, what is said, and the markers of the copy."""
    output = str(home.parent / f"{home.name}-out")
    run = kdump("repair", "--salvage", "-o", output, name, *words, cwd=home)
    shown = kdump("dump", "--output", "jsonl", "--records", f"{output}/{name}", cwd=home).stdout.decode()
    found = [(row["offset"], row["controlType"]) for row in map(json.loads, shown.splitlines()) if row.get("isControl")]
    return run.returncode, run.stdout.decode() + run.stderr.decode(), found


@pytest.mark.parametrize(
    ("status", "epoch", "client_version", "marker", "told"),
    [
        (PREPARE_COMMIT, 0, 0, "COMMIT", "committed; its coordinator commits it (PrepareCommit)"),
        (COMPLETE_COMMIT, 1, 2, "COMMIT", "committed; it was committed (CompleteCommit), and the marker is lost"),
        (PREPARE_ABORT, 0, 0, "ABORT", "aborted; its coordinator aborts it (PrepareAbort)"),
        (ONGOING, 0, 0, None, "open; its coordinator aborts it after its timeout (Ongoing)"),
        (COMPLETE_COMMIT, 0, 0, None, "unknown, it is left as it is; nobody can know whether it was committed: "),
        (COMPLETE_COMMIT, 3, 2, None, "unknown, it is left as it is; nobody can know whether it was committed: "),
    ],
)
def test_the_coordinator_decides(
    tmp_path: Path, *, status: int, epoch: int, client_version: int, marker: str | None, told: str
) -> None:
    partition(tmp_path, 7)
    value = coordinated("id", status, 7, epoch, ("t", 0), client_version=client_version)
    write_log(tmp_path, "__transaction_state-2", [value])
    _, said, found = salvage(tmp_path, "t-0")
    assert told in said
    assert [kind for _, kind in found] == ([marker] if marker else [])


def test_what_is_asked_for_comes_first(tmp_path: Path) -> None:
    partition(tmp_path, 7)
    write_log(tmp_path, "__transaction_state-2", [coordinated("id", PREPARE_COMMIT, 7, 0, ("t", 0))])
    _, said, found = salvage(tmp_path, "t-0", "--txn", "abort")
    assert [kind for _, kind in found] == ["ABORT"]
    assert "coordinator" not in said


def test_each_for_itself(tmp_path: Path) -> None:
    """In place only those are refused that no coordinator knows."""
    directory = partition(tmp_path, 7, 8)
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    rows = [coordinated(f"id{number}", status, number, 0, ("t", 0)) for number, status in ((7, 2), (8, 3))]
    write_log(tmp_path, "__transaction_state-2", rows[:1])
    refused = kdump("repair", "--salvage", "--in-place", str(directory), cwd=tmp_path)
    assert refused.returncode == DAMAGE
    assert b"producer 8 from offset 3 on: nobody can know whether it was committed" in refused.stderr
    assert b"producer 7" not in refused.stderr
    write_log(tmp_path, "__transaction_state-2", rows)
    assert kdump("repair", "--salvage", "--in-place", str(directory), cwd=tmp_path).returncode == CLEAN


@pytest.mark.parametrize("name", ["orders-0", "orders-1"])
def test_a_commit_that_was_acknowledged(tmp_path: Path, name: str) -> None:
    """A real log directory, whose logs got a damaged end. The log of the coordinator may be in that of a copy."""
    logs = unpack_cases("prepared-commit", tmp_path)
    (log,) = (logs / name).glob("*.log")
    log.write_bytes(log.read_bytes() + GARBAGE)
    for copy in ("alone", "copy"):
        shutil.copytree(logs / name, tmp_path / copy / name)
    assert [kind for _, kind in salvage(logs, name)[2]][-1] == "COMMIT"
    assert "COMMIT" not in [kind for offset, kind in salvage(tmp_path / "alone", name)[2] if offset >= 21436]
    _, said, found = salvage(tmp_path / "copy", name, "--from", str(logs))
    assert "its coordinator commits it (PrepareCommit)" in said
    assert found[-1][1] == "COMMIT"
    assert found[-1][0] >= 21436
