"""A repair in place that is killed at any system call that writes: every state is whole, and finished or undone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kdump.repair.begun import undo_repair
from kdump.repair.plan.plan import RepairMode
from kdump.repair.plan.starts import is_worse
from kdump.verify.startcheck import StartCheck
from kdump.verify.startups import StartOptions, task_of
from tests.harness import batches
from tests.harness.killedrepairs import (
    DAMAGED,
    MARKER,
    SOURCE,
    build,
    check_pairs,
    contents,
    finish,
    killed_states,
    manifests,
    recover,
    repair,
    tree,
)
from tests.harness.killing import killed_at

STEP = 11
"""tests/oracle/test_repair_start.py kills at every call."""


def started(partition: Path) -> StartCheck:
    check = task_of(str(partition), StartOptions()).run()
    assert isinstance(check, StartCheck)
    return check


def build_tail(root: Path) -> Path:
    """After a clean shutdown, and only the last segment is damaged."""
    partition = build(root)
    for base_offset in DAMAGED:
        (partition / f"{base_offset:020}.log").write_bytes((SOURCE / f"{base_offset:020}.log").read_bytes())
    log = max(partition.glob("*.log"))
    log.write_bytes(log.read_bytes()[:-9])
    return partition


@pytest.mark.parametrize("way_on", ["again", "undo"])
@pytest.mark.parametrize("built", [build, partial(build, is_clean=False), build_tail], ids=["clean", "crash", "tail"])
@pytest.mark.parametrize("mode", [RepairMode.LIKE_BROKER, RepairMode.SALVAGE])
@pytest.mark.slow
def test_killed_anywhere(tmp_path: Path, mode: RepairMode, built: Callable[[Path], Path], way_on: str) -> None:
    sound = built(tmp_path / "sound")
    before, started_before = contents(tree(sound)), started(sound)
    repair(sound, mode)
    after, started_after = contents(tree(sound)), started(sound)
    assert (MARKER in after) == (MARKER in before)
    left = killed_states(tmp_path, partial(repair, mode=mode), STEP, built)
    for partition in left:
        found = contents(tree(partition))
        check_pairs(before, after, found)
        if MARKER in before:
            assert MARKER in found
            check_start(started(partition), started_before, started_after)
        if way_on == "again" or not manifests(partition):
            recover(partition, mode)
            assert contents(tree(partition)) == after
        else:
            undo_repair(str(manifests(partition)[0]))
            assert contents(tree(partition)) == before
    assert len(left) > 3


def check_start(check: StartCheck, before: StartCheck, after: StartCheck) -> None:
    """A clean start on a state in between: it loads the log as it was, or as it becomes, and knows the producers."""
    assert not is_worse(check, before)
    served = [one.start.served for one in (check, before, after)]
    assert served[0] is not None
    assert not served[0].is_forgotten
    assert served[0].end_offset in {one.end_offset for one in served[1:] if one is not None}
    assert served[0].log_start_offset == 0


@pytest.mark.parametrize("mode", [RepairMode.LIKE_BROKER, RepairMode.SALVAGE])
@pytest.mark.slow
def test_killed_while_undone(tmp_path: Path, mode: RepairMode) -> None:
    """The repair was killed in its last step, then undoing it was killed: what came back must not be removed again."""
    sound = build(tmp_path / "sound")
    repair(sound, mode)
    after = contents(tree(sound))
    killed = 0
    for number in range(1, 100, 7):
        partition = build(tmp_path / str(number))
        before = contents(tree(partition))
        repair(partition, mode)
        (manifest,) = manifests(partition)
        manifest.write_bytes(manifest.read_bytes().replace(b'"state": "done"', b'"state": "begun"'))
        if not killed_at(number, partial(undo_repair, str(manifest))):
            assert contents(tree(partition)) == before
            break
        killed += 1
        finish(partition)
        repair(partition, mode)
        assert contents(tree(partition)) == after
        for last in reversed(manifests(partition)):
            undo_repair(str(last))
        assert contents(tree(partition)) == before
    assert killed > 3


@pytest.mark.slow
def test_killed_while_a_log_gets_another_name(tmp_path: Path) -> None:
    """In between only .log.swap is there, which is no segment."""
    data = batches.v2_batch(batches.plain_rows(3), base_offset=50) + batches.v2_batch(
        batches.plain_rows(3), base_offset=53
    )
    for number in range(1, 100):
        partition = tmp_path / str(number) / "t-0"
        partition.mkdir(parents=True)
        (partition / f"{100:020}.log").write_bytes(data)
        is_killed = killed_at(number, partial(repair, partition, mode=RepairMode.SALVAGE))
        recover(partition, RepairMode.SALVAGE)
        names = {path.name for path in partition.iterdir() if path.is_file()}
        assert names == {f"{50:020}{suffix}" for suffix in (".log", ".index", ".timeindex")}
        assert (partition / f"{50:020}.log").read_bytes() == data
        if not is_killed:
            return
    raise AssertionError("it does not end")
