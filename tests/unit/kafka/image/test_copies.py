"""Several copies of one metadata log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdump.codes import KdumpError
from kdump.kafka.image.copies import by_cluster, certain_end, find_copies, newest
from kdump.kafka.image.replay import StatePoint, replay
from tests.harness.archives import unpack_cases


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("metadata", tmp_path_factory.mktemp("cases"))


def raised(error: KdumpError) -> None:
    raise error


def test_certain_is_what_a_majority_has(root: Path) -> None:
    """101 stopped after offset 276 and is still one of the two voters."""
    paths = [str(root / "cluster" / name) for name in ("n101", "n1", "n103")]
    (copies,) = by_cluster(find_copies(paths, raised))
    main = newest(copies)
    assert main.node_id in (1, 103)
    voters = [voter["voterId"] for voter in replay(main.log, StatePoint()).quorum.voters]
    assert voters == [101, 103]
    assert certain_end(copies, main, voters) == 277
    assert certain_end(copies, main, [101, 103, 104]) == 277
    assert certain_end(copies, main, [103, 104, 105]) is None, "too few copies"
    assert certain_end(copies, main, [103]) == 312


def test_clusters_stay_apart(root: Path) -> None:
    found = find_copies([str(root / "cluster" / "n1"), str(root / "upgraded" / "n1")], raised)
    assert [len(copies) for copies in by_cluster(found)] == [1, 1]


def test_paths(root: Path, tmp_path: Path) -> None:
    folder = root / "cluster" / "n1" / "__cluster_metadata-0"
    snapshot = "00000000000000000248-0000000002.checkpoint"
    (whole,) = find_copies([str(folder)], raised)
    assert (len(whole.log.segments), len(whole.log.snapshots)) == (3, 2)
    (alone,) = find_copies([str(folder / snapshot)], raised)
    assert (len(alone.log.segments), [one.name for one in alone.log.snapshots]) == (0, [snapshot])
    assert not find_copies([str(root), str(root / "results.jsonl")], raised)
    with pytest.raises(KdumpError, match="no such file"):
        find_copies([os.path.join(folder, "00000000000000000249-0000000002.checkpoint")], raised)
    other = tmp_path / "bootstrap.checkpoint"
    other.write_bytes((folder / snapshot).read_bytes())
    with pytest.raises(KdumpError, match="the name is not <20-digit end offset>"):
        find_copies([str(other)], raised)
