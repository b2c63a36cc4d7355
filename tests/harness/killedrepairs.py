"""A damaged partition in a log directory, repaired in place and killed while that is done."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from kdump.codes import KdumpError
from kdump.inputs import resolve
from kdump.repair.apply.journal import HOME
from kdump.repair.begun import finish_repairs
from kdump.repair.plan.plan import RepairMode
from kdump.repair.run import Repair, RepairOptions
from tests.harness.captures import FIXTURES
from tests.harness.killing import killed_at

SOURCE = FIXTURES / "segments" / "v2-txn-0"
DAMAGED = (105, 297)
INDEXES = (".index", ".timeindex", ".txnindex")
MARKER = ".kafka_cleanshutdown"
CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")

Tree = dict[str, tuple[bytes, int, int]]


def build(root: Path, *, is_clean: bool = True) -> Path:
    """A log directory after a clean shutdown, or a crash; two of five segments have a damaged batch in the middle.

    Between them an index is missing.
    """
    partition = root / "logs" / "v2-txn-0"
    shutil.copytree(SOURCE, partition)
    for base_offset in DAMAGED:
        log = partition / f"{base_offset:020}.log"
        data = bytearray(log.read_bytes())
        data[5000] ^= 0x42
        log.write_bytes(data)
    (partition / f"{201:020}.timeindex").unlink()
    (partition / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n3 250\n")
    (root / "logs" / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    if is_clean:
        (root / "logs" / MARKER).write_text('{"version":0,"brokerEpoch":1}')
    for name in CHECKPOINTS:
        (root / "logs" / name).write_text("0\n2\nother 0 9\nv2-txn 0 448\n" if is_clean else "0\n0\n")
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
    """The files by name."""
    return {name: data for name, (data, _, _) in state.items()}


def repair(partition: Path, mode: RepairMode) -> None:
    """In place. Raises KdumpError."""
    errors: list[KdumpError] = []
    options = RepairOptions(mode, in_place=True, decides_transactions=True)
    with Repair(options, on_error=errors.append) as job:
        list(job.of(resolve(str(partition))))
    if errors:
        raise errors[0]


def finish(partition: Path) -> None:
    """What was begun. Raises KdumpError."""
    errors: list[KdumpError] = []
    for _ in finish_repairs(str(partition), on_error=errors.append):
        pass
    if errors:
        raise errors[0]


def recover(partition: Path, mode: RepairMode) -> None:
    """After a kill: finish what was begun; where nothing was, repair again."""
    if manifests(partition):
        finish(partition)
    else:
        repair(partition, mode)


def manifests(partition: Path) -> list[Path]:
    """Of the repairs in place that were begun."""
    return sorted(partition.glob(f"{HOME}/*/manifest.json"))


def killed_states(
    root: Path, work: Callable[[Path], None], step: int = 1, built: Callable[[Path], Path] = build
) -> list[Path]:
    """The partition as it is left by a kill at every ``step``-th system call that writes, in their order."""
    left = []
    for number in range(1, 2000, step):
        partition = built(root / str(number))
        if not killed_at(number, partial(work, partition)):
            return left
        left.append(partition)
    raise AssertionError("it does not end")


def check_pairs(before: dict[str, bytes], after: dict[str, bytes], found: dict[str, bytes]) -> None:
    """No log stands beside an index that was made for another one, or for more than its beginning."""
    for name, data in found.items():
        if not name.endswith(".log"):
            continue
        assert data in (before[name], after.get(name)), name
        for suffix in INDEXES:
            index = name.removesuffix(".log") + suffix
            if index in found and before[name] != after.get(name):
                made_for = [before.get(index)] if data == before[name] else [after.get(index)]
                if data == before[name] and data.startswith(after.get(name, data)):
                    made_for.append(after.get(index))
                assert found[index] in made_for, index
