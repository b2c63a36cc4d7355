"""A repair in place that is killed at any system call that writes: every state is whole, and finished or undone."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import batches
import pytest

from kdump.engine.repair import undo_repair
from kdump.mend.plan import Way
from tests.harness.killedrepairs import MARKER, build, check_pairs, contents, killed_states, manifests, repair, tree
from tests.harness.killing import killed_at

STEP = 11
"""tests/oracle/test_repair_start.py kills at every call."""


@pytest.mark.parametrize("recover", ["again", "undo"])
@pytest.mark.parametrize("way", [Way.LIKE_BROKER, Way.SALVAGE])
def test_killed_anywhere(tmp_path: Path, way: Way, recover: str) -> None:
    sound = build(tmp_path / "sound")
    before = contents(tree(sound))
    repair(sound, way)
    after = contents(tree(sound))
    assert MARKER not in after
    left = killed_states(tmp_path, partial(repair, way=way), STEP)
    for partition in left:
        found = contents(tree(partition))
        check_pairs(before, after, found)
        if MARKER in found:
            # What is there stays as it is; at most there is something beside it.
            assert found.items() >= before.items()
        if recover == "again" or not manifests(partition):
            repair(partition, way)
            assert contents(tree(partition)) == after
        else:
            undo_repair(str(manifests(partition)[0]))
            assert contents(tree(partition)) == before
    assert len(left) > 10


@pytest.mark.parametrize("way", [Way.LIKE_BROKER, Way.SALVAGE])
def test_killed_while_undone(tmp_path: Path, way: Way) -> None:
    """The repair was killed in its last step, then undoing it was killed: what came back must not be removed again."""
    sound = build(tmp_path / "sound")
    repair(sound, way)
    after = contents(tree(sound))
    killed = 0
    for number in range(1, 100, 7):
        partition = build(tmp_path / str(number))
        before = contents(tree(partition))
        repair(partition, way)
        (manifest,) = manifests(partition)
        manifest.write_bytes(manifest.read_bytes().replace(b'"state": "done"', b'"state": "begun"'))
        if not killed_at(number, partial(undo_repair, str(manifest))):
            assert contents(tree(partition)) == before
            break
        killed += 1
        repair(partition, way)
        assert contents(tree(partition)) == after
        for last in reversed(manifests(partition)):
            undo_repair(str(last))
        assert contents(tree(partition)) == before
    assert killed > 3


def test_killed_while_a_log_gets_another_name(tmp_path: Path) -> None:
    """In between only .log.swap is there, which is no segment."""
    data = batches.v2_batch(batches.plain_rows(3), base_offset=50) + batches.v2_batch(
        batches.plain_rows(3), base_offset=53
    )
    for number in range(1, 100):
        partition = tmp_path / str(number) / "t-0"
        partition.mkdir(parents=True)
        (partition / f"{100:020}.log").write_bytes(data)
        is_killed = killed_at(number, partial(repair, partition, way=Way.SALVAGE))
        repair(partition, Way.SALVAGE)
        names = {path.name for path in partition.iterdir() if path.is_file()}
        assert names == {f"{50:020}{suffix}" for suffix in (".log", ".index", ".timeindex")}
        assert (partition / f"{50:020}.log").read_bytes() == data
        if not is_killed:
            return
    raise AssertionError("it does not end")
