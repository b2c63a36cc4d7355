"""verify and repair agree about producer snapshots: what one finds the other rebuilds or removes."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

import pytest
from crc32c import crc32c

from kdump.cli.main import cli
from tests.harness.captures import FIXTURES
from tests.harness.cli_runs import CLEAN, DAMAGE

NAME = "v2-txn-0"
SOURCE = FIXTURES / "segments" / NAME
END = 448
WAYS = ("--like-broker", "--salvage", "--indexes")


class Run(NamedTuple):
    returncode: int
    stdout: bytes


def kdump(*words: str, cwd: Path) -> Run:
    """In this process, which is faster than many of them; the output goes to descriptor 1."""
    kept = os.dup(1)
    with chdir(cwd), TemporaryFile() as output:
        os.dup2(output.fileno(), 1)
        try:
            status = cli.main(words, standalone_mode=False)
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        output.seek(0)
        return Run(status or CLEAN, output.read())


def snapshot(offset: int) -> str:
    return f"{offset:020}.snapshot"


@pytest.fixture(scope="module")
def mended_indexes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("mended")
    assert kdump("repair", "--indexes", str(SOURCE), "-o", str(out), cwd=out).returncode == CLEAN
    return out / NAME


@pytest.fixture
def partition(tmp_path: Path, mended_indexes: Path) -> Path:
    """In a log directory whose broker was not stopped properly."""
    target = tmp_path / "logs" / NAME
    shutil.copytree(SOURCE, target)
    (target.parent / "meta.properties").write_text("version=1\nbroker.id=1\ncluster.id=x\n")
    # The index files are those of a broker, which are not quite those of a repair.
    shutil.copytree(mended_indexes, target, dirs_exist_ok=True)
    return target


def state(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def found(directory: Path) -> list[str]:
    """Codes of what verify says about snapshots."""
    rows = map(json.loads, kdump("verify", "--output", "jsonl", ".", cwd=directory).stdout.splitlines())
    return [row["code"] for row in rows if "code" in row and row["file"].endswith(".snapshot")]


def break_crc(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)


def break_entry(path: Path) -> None:
    """Its first producer has written beyond the offset of the snapshot."""
    data = bytearray(path.read_bytes())
    struct.pack_into(">q", data, 10 + 14, 10**6)
    struct.pack_into(">I", data, 2, crc32c(bytes(data[6:])))
    path.write_bytes(data)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


DAMAGES = {"KD304": cut_short, "KD305": break_crc, "KD314": break_entry}


@pytest.mark.parametrize(
    ("way", "offset", "code"),
    [("--like-broker", 105, "KD304"), ("--salvage", END, "KD305"), ("--indexes", 297, "KD314")],
)
@pytest.mark.slow
def test_a_damaged_one_is_rebuilt(partition: Path, way: str, offset: int, code: str) -> None:
    healthy = state(partition)
    DAMAGES[code](partition / snapshot(offset))
    damaged = state(partition)
    assert found(partition) == [code]
    plan = kdump("repair", way, "--output", "jsonl", NAME, cwd=partition.parent)
    members = json.loads(plan.stdout)
    (row,) = members["snapshots"]
    assert (plan.returncode, row["action"], row["code"]) == (DAMAGE, "rebuild", code)
    assert row["path"].endswith(snapshot(offset))
    text = kdump("repair", way, NAME, cwd=partition.parent).stdout.decode()
    assert f"{snapshot(offset)}: would rebuild the snapshot: " in text
    assert kdump("repair", way, NAME, "-o", "../out", cwd=partition.parent).returncode == CLEAN
    copy = partition.parent.parent / "out" / NAME
    assert not found(copy)
    done = kdump("repair", way, "--in-place", "--output", "jsonl", NAME, cwd=partition.parent)
    assert done.returncode == CLEAN
    assert not found(partition)
    repaired = state(partition)
    assert {name for name in healthy if healthy[name] != repaired[name]} <= {snapshot(offset)}
    # The same producers; the order of entries, and what has expired, depend on when the broker took it.
    assert len(repaired[snapshot(offset)]) == len(healthy[snapshot(offset)])
    assert (copy / snapshot(offset)).read_bytes() == repaired[snapshot(offset)]
    assert kdump("repair", way, NAME, cwd=partition.parent).returncode == CLEAN
    assert kdump("repair", "--undo", json.loads(done.stdout)["manifest"], cwd=partition.parent).returncode == CLEAN
    assert state(partition) == damaged


@pytest.mark.parametrize("way", WAYS[::2])
def test_one_beyond_the_log_is_removed(partition: Path, way: str) -> None:
    healthy = state(partition)
    shutil.copy(partition / snapshot(105), partition / snapshot(9000))
    assert found(partition) == ["KD322"]
    (row,) = json.loads(kdump("repair", way, "--output", "jsonl", NAME, cwd=partition.parent).stdout)["snapshots"]
    assert (row["action"], row["code"]) == ("remove", "KD322")
    assert kdump("repair", way, "--in-place", NAME, cwd=partition.parent).returncode == CLEAN
    assert state(partition) == healthy


def test_where_the_producers_are_not_known_it_is_removed(partition: Path) -> None:
    """A log that begins late, and an offset within a segment."""
    for path in partition.glob(f"{0:020}.*"):
        path.unlink()
    break_crc(partition / snapshot(105))
    shutil.copy(partition / snapshot(105), partition / snapshot(250))
    for path in partition.glob("*.txnindex"):
        path.unlink()
    rows = json.loads(kdump("repair", "--output", "jsonl", NAME, cwd=partition.parent).stdout)["snapshots"]
    assert [row["action"] for row in rows] == ["remove", "remove"]
    kdump("repair", "--in-place", "--indexes", NAME, cwd=partition.parent)
    assert not found(partition)
    assert not (partition / snapshot(105)).exists()
    assert (partition / snapshot(201)).exists()


@pytest.mark.parametrize("damage", [break_crc, break_entry])
def test_a_clean_start_knows_the_producers_after_the_repair(partition: Path, damage: Callable[[Path], None]) -> None:
    """Without any snapshot it would not read the log for them."""
    (partition.parent / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    for path in partition.glob("*.snapshot"):
        damage(path)
    assert kdump("repair", "--in-place", NAME, cwd=partition.parent).returncode == CLEAN
    assert not found(partition)
    assert (partition / snapshot(END)).exists()
    assert (partition.parent / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(("way", "is_missing"), [*((way, False) for way in WAYS), ("--indexes", True)])
def test_healthy_and_missing_ones_are_nothing_to_repair(partition: Path, way: str, is_missing: bool) -> None:
    """A broker makes those that are missing when it needs them, and verify finds nothing."""
    if is_missing:
        (partition / snapshot(201)).unlink()
    before = state(partition)
    assert not found(partition)
    run = kdump("repair", way, NAME, cwd=partition.parent)
    assert (run.returncode, b"nothing to repair" in run.stdout) == (CLEAN, True)
    assert json.loads(kdump("repair", way, "--output", "jsonl", NAME, cwd=partition.parent).stdout)["snapshots"] == []
    assert kdump("repair", way, "--in-place", NAME, cwd=partition.parent).returncode == CLEAN
    assert state(partition) == before


def test_beside_a_damaged_log(partition: Path) -> None:
    """It is cut in the segment from 297 on: the snapshots up to there are rebuilt, the others go."""
    log = partition / f"{297:020}.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    for offset in (201, 397):
        break_crc(partition / snapshot(offset))
    assert kdump("repair", "--in-place", "--like-broker", NAME, cwd=partition.parent).returncode == CLEAN
    assert not found(partition)
    assert (partition / snapshot(201)).read_bytes()[10:] == (SOURCE / snapshot(201)).read_bytes()[10:]
    assert not (partition / snapshot(397)).exists()


def test_indexes_leave_what_is_beyond_a_damaged_log(partition: Path) -> None:
    """Nobody has decided where such a log ends."""
    log = partition / f"{397:020}.log"
    log.write_bytes(log.read_bytes()[:-5])
    break_crc(partition / snapshot(105))
    rows = json.loads(kdump("repair", "--indexes", "--output", "jsonl", NAME, cwd=partition.parent).stdout)["snapshots"]
    assert [Path(row["path"]).name for row in rows] == [snapshot(105)]
    kdump("repair", "--in-place", "--indexes", NAME, cwd=partition.parent)
    assert (partition / snapshot(END)).exists()
    assert "KD305" not in found(partition)
