"""The producers at a segment's base offset: what the .txnindex of a repaired segment depends on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kdump.format.snapshot import parse_snapshot
from kdump.repair.plan.producersat import ProducersFromFiles
from tests.harness.captures import FIXTURES
from tests.harness.cli_runs import CLEAN, kdump

SOURCE = FIXTURES / "segments" / "v2-txn-0"
BASES = (0, 105, 201, 297, 397)


def name(base: int, suffix: str = ".log") -> str:
    return f"{base:020}{suffix}"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    target = tmp_path / "v2-txn-0"
    shutil.copytree(SOURCE, target)
    return target


@pytest.mark.parametrize("with_snapshots", [True, False])
def test_transaction_indexes_of_a_partition(partition: Path, tmp_path: Path, with_snapshots: bool) -> None:
    """They are those that the broker wrote while it ran, whether snapshots tell or the segments before."""
    for path in partition.glob("*.snapshot" if not with_snapshots else "none"):
        path.unlink()
    for path in partition.glob("*.txnindex"):
        path.write_bytes(b"")
    assert kdump("repair", "v2-txn-0", "-o", "out", cwd=tmp_path).returncode == CLEAN
    for base in BASES:
        copy = tmp_path / "out" / "v2-txn-0" / name(base, ".txnindex")
        assert copy.read_bytes() == (SOURCE / name(base, ".txnindex")).read_bytes()


def test_snapshots_know_what_the_log_cleaner_removed(partition: Path, tmp_path: Path) -> None:
    """It leaves empty segments; transactions that began there are aborted after them (seen of Kafka 4.1.1)."""
    (partition / name(0)).write_bytes(b"")
    for suffix in (".index", ".timeindex"):
        (partition / name(0, suffix)).write_bytes(b"")
    (partition / name(0, ".txnindex")).unlink()
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nv2-txn 0 397\n")
    assert kdump("repair", "v2-txn-0", cwd=tmp_path).returncode == CLEAN
    (partition / name(105, ".txnindex")).write_bytes(b"")
    assert kdump("repair", "v2-txn-0", "-o", "out", cwd=tmp_path).returncode == CLEAN
    copy = tmp_path / "out" / "v2-txn-0" / name(105, ".txnindex")
    assert copy.read_bytes() == (SOURCE / name(105, ".txnindex")).read_bytes()


@pytest.mark.parametrize("base", BASES[1:])
def test_state_by_replay_is_that_of_the_snapshot(partition: Path, base: int) -> None:
    path = partition / name(base)
    by_snapshot = ProducersFromFiles().at(str(path))
    entries = parse_snapshot((partition / name(base, ".snapshot")).read_bytes())
    for snapshot in partition.glob("*.snapshot"):
        snapshot.unlink()
    by_replay = ProducersFromFiles().at(str(path))
    assert by_snapshot.is_known
    assert by_replay.is_known
    assert dict(by_replay.ongoing) == dict(by_snapshot.ongoing)
    assert set(by_replay.by_id) == {entry.producer_id for entry in entries}
    assert not by_replay.has_unbegun_marker


def test_a_damaged_snapshot_is_passed_over(partition: Path) -> None:
    snapshot = partition / name(201, ".snapshot")
    data = bytearray(snapshot.read_bytes())
    data[20] ^= 1
    expected = dict(ProducersFromFiles().at(str(partition / name(201))).ongoing)
    snapshot.write_bytes(data)
    found = ProducersFromFiles().at(str(partition / name(201)))
    assert found.is_known
    assert dict(found.ongoing) == expected


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_what_is_not_there_is_not_known(partition: Path, damage: str) -> None:
    for snapshot in partition.glob("*.snapshot"):
        snapshot.unlink()
    first = partition / name(0)
    if damage == "gone":
        first.unlink()
    else:
        first.write_bytes(first.read_bytes()[:-10])
    assert not ProducersFromFiles().at(str(partition / name(201))).is_known


def test_an_index_that_cannot_be_rebuilt_stays(tmp_path: Path) -> None:
    alone = tmp_path / "v2-txn-0"
    alone.mkdir()
    for suffix in (".log", ".txnindex"):
        shutil.copy(SOURCE / name(201, suffix), alone)
    run = kdump("repair", "v2-txn-0", "-o", "out", cwd=tmp_path)
    assert run.returncode == CLEAN
    assert b"warning KD705 txnindex-kept" in run.stdout
    kept = tmp_path / "out" / "v2-txn-0" / name(201, ".txnindex")
    assert kept.read_bytes() == (SOURCE / name(201, ".txnindex")).read_bytes()
    run = kdump("repair", "v2-txn-0", "--first-segment", "-o", "first", cwd=tmp_path)
    assert run.returncode == CLEAN
    assert b"KD705" not in run.stdout
    rebuilt = tmp_path / "first" / "v2-txn-0" / name(201, ".txnindex")
    assert rebuilt.read_bytes() != kept.read_bytes()
    run = kdump("repair", "--in-place", "v2-txn-0", cwd=tmp_path)
    assert b"KD705" in run.stdout
    assert (alone / name(201, ".txnindex")).read_bytes() == kept.read_bytes()
