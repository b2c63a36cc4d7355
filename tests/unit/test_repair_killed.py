"""A repair in place that is killed at any system call that writes: every state is whole, and finished or undone."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from kdump.engine.repair import undo_repair
from kdump.mend.plan import Way
from tests.harness.killedrepairs import MARKER, build, check_pairs, contents, killed_states, manifests, repair, tree

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
