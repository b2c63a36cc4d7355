"""A repair in place that is killed at any system call that writes: every state is whole, and finished or undone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kdump.engine.repair import Repair, RepairOptions, undo_repair
from kdump.mend.journal import HOME
from kdump.mend.plan import Way
from tests.harness.captures import FIXTURES
from tests.harness.killing import killed_at

SOURCE = FIXTURES / "segments" / "v2-txn-0"
DAMAGED = 105
INDEXES = (".index", ".timeindex", ".txnindex")

Tree = dict[str, tuple[bytes, int, int]]


def build(root: Path) -> Path:
    """A log directory after a clean shutdown; the second of four segments is damaged in the middle."""
    partition = root / "logs" / "v2-txn-0"
    shutil.copytree(SOURCE, partition)
    log = partition / f"{DAMAGED:020}.log"
    data = bytearray(log.read_bytes())
    data[5000] ^= 0x40
    log.write_bytes(data)
    (partition / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n3 250\n")
    (root / "logs" / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    (root / "logs" / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    (root / "logs" / ".lock").touch()
    return partition


def tree(partition: Path) -> Tree:
    """Content, mode and time of every file of the log directory, journals left out."""
    root = partition.parent
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.is_file() and HOME not in path.parts
    }


def contents(state: Tree) -> dict[str, bytes]:
    return {name: data for name, (data, _, _) in state.items()}


def repair(partition: Path, **options: object) -> None:
    errors: list[Exception] = []
    given = RepairOptions(in_place=True, **{"way": Way.LIKE_BROKER, **options})  # type: ignore[arg-type]
    list(Repair(given, on_error=errors.append).path(str(partition)))
    assert not errors


def manifests(partition: Path) -> list[Path]:
    return sorted(partition.glob(f"{HOME}/*/manifest.json"))


def states(root: Path, work: Callable[[Path], None]) -> list[Path]:
    """The partition as it is left at each kill point, in the order of the system calls."""
    left = []
    for number in range(1, 2000):
        partition = build(root / str(number))
        if not killed_at(number, lambda partition=partition: work(partition)):  # type: ignore[misc]
            return left
        left.append(partition)
    raise AssertionError("it does not end")


def check_pairs(before: dict[str, bytes], after: dict[str, bytes], found: dict[str, bytes]) -> None:
    """No log stands beside an index that was made for another one."""
    for name, data in found.items():
        if not name.endswith(".log"):
            continue
        assert data in (before[name], after.get(name)), name
        for suffix in INDEXES:
            index = name.removesuffix(".log") + suffix
            if index in found and before[name] != after.get(name):
                made_for = before if data == before[name] else after
                assert found[index] == made_for.get(index), index


@pytest.mark.parametrize("recover", ["again", "undo"])
def test_killed_anywhere(tmp_path: Path, recover: str) -> None:
    sound = build(tmp_path / "sound")
    before = tree(sound)
    repair(sound)
    after = tree(sound)
    marker = ".kafka_cleanshutdown"
    assert marker not in after
    left = states(tmp_path, repair)
    for partition in left:
        found = tree(partition)
        plain = contents(found)
        check_pairs(contents(before), contents(after), plain)
        if marker in plain:
            assert plain == contents(before)
        if recover == "again" or not manifests(partition):
            repair(partition)
            assert contents(tree(partition)) == contents(after)
        else:
            undo_repair(str(manifests(partition)[0]))
            assert contents(tree(partition)) == contents(before)
    print(f"{len(left)} kill points")
    assert len(left) > 100
