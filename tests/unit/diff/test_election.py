"""Whom the cluster elects, and what its start costs: copies of a real cluster, and what became of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.harness.archives import cases, unpack_cases
from tests.harness.batches import v2_batch
from tests.harness.cli_runs import DAMAGE, kdump
from tests.harness.fast_reference import Row

NODES = ("n1-d0", "n2-d0", "n2-d1", "n3-d0")
OF_CLUSTER = (
    "possibleLeaders", "expectedLeader", "expectedLeaderCopy", "expectedRecordsLost", "expectedRecordsNowhereElse",
)  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return unpack_cases("elections", tmp_path)


def recommendation(root: Path, topic: str, *paths: str) -> dict[str, Any]:
    run = kdump("diff", "--topic", topic, "--output", "jsonl", *(paths or NODES), cwd=root)
    assert run.returncode == DAMAGE
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    (found,) = (row for row in rows if row["type"] == "recommendation")
    return dict(found)


def page(root: Path, topic: str, *paths: str) -> str:
    return kdump("diff", "--topic", topic, *(paths or NODES), cwd=root).stdout.decode()


def test_what_the_real_cluster_did(root: Path) -> None:
    """All records that only one copy had were acknowledged, so as many were lost."""
    for case in cases(root):
        found = recommendation(root, case["topic"])
        assert (found["possibleLeaders"], found["expectedLeader"]) == ([case["leader"]], case["leader"])
        assert found["expectedLeaderCopy"] == f"n{case['leader']}-d0"
        assert found["expectedRecordsNowhereElse"] == len(case["lost"]) > 0


def test_the_cluster_elects_a_worse_copy(root: Path) -> None:
    text = page(root, "s04-epochs")
    assert "  keep n1-d0: as the leader it costs 35 records, 35 of them nowhere else\n" in text
    assert (
        "  the cluster elects node 3 (n3-d0), unless server.properties enables unclean elections (leader 3, ISR 3 at "
        "offset 1125 of n3-d0/__cluster_metadata-0)\n"
        "  with it as leader, starting all nodes costs 54 records, 54 of them nowhere else\n"
        "  before the start, copy n1-d0/s04-epochs-0 away: the start destroys 30 records of it, offsets 126..155\n"
        "  before the start, copy n2-d1/s04-epochs-0 away: the start destroys 24 records of it, offsets 126..149\n"
        "  to let n1-d0 lead, start node 1 and the controllers without the other replicas, run "
        "kafka-leader-election.sh --bootstrap-server HOST:9092 --election-type UNCLEAN --topic s04-epochs "
        "--partition 0, then start the others\n"
    ) in text


def test_records_that_several_followers_lose_count_once(root: Path) -> None:
    shutil.copytree(root / "n1-d0", root / "n5-d0")
    properties = root / "n5-d0" / "meta.properties"
    lines = properties.read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("node.id", "directory.id"))]
    properties.write_text("\n".join([*kept, "node.id=5", ""]))
    found = recommendation(root, "s04-epochs", *NODES, "n5-d0")
    assert (found["expectedRecordsLost"], found["expectedRecordsNowhereElse"]) == (54, 54)
    text = page(root, "s04-epochs", *NODES, "n5-d0")
    assert text.count("before the start, copy") == 2


def test_the_cluster_elects_the_best_copy(root: Path) -> None:
    text = page(root, "s03-unclean")
    assert "  keep n3-d0: as the leader it costs 50 records, 50 of them nowhere else\n" in text
    assert "  the cluster elects node 3 (n3-d0)" in text
    assert (
        "  before the start, copy n1-d0/s03-unclean-0 away: the start destroys 50 records of it, offsets 124..173\n"
        in text
    )
    assert "kafka-leader-election" not in text


def test_partition_directories_in_log_directories(root: Path) -> None:
    paths = [f"{node}/s04-epochs-0" for node in ("n1-d0", "n2-d1", "n3-d0")]
    assert recommendation(root, "s04-epochs", *paths)["expectedLeaderCopy"] == "n3-d0/s04-epochs-0"


def test_no_metadata(root: Path) -> None:
    before = recommendation(root, "s04-epochs")
    for node in NODES:
        shutil.rmtree(root / node / "__cluster_metadata-0", ignore_errors=True)
    found = recommendation(root, "s04-epochs")
    assert [found[name] for name in OF_CLUSTER] == [None] * len(OF_CLUSTER)
    assert {**before, **dict.fromkeys((*OF_CLUSTER, "message"))} == {**found, "message": None}
    assert "  the cluster may elect another one: its metadata is not at hand\n" in page(root, "s04-epochs")


def test_metadata_of_another_cluster(root: Path) -> None:
    for node in NODES:
        path = root / node / "meta.properties"
        text = path.read_text()
        own = next(line for line in text.splitlines() if line.startswith("cluster.id="))
        path.write_text(text.replace(own, "cluster.id=AAAAAAAAAAAAAAAAAAAAAA") if node == "n1-d0" else text)
    assert recommendation(root, "s04-epochs")["possibleLeaders"] is None


def test_no_path_has_the_copy_of_the_elected_node(root: Path) -> None:
    shutil.rmtree(root / "n3-d0" / "s04-epochs-0")
    found = recommendation(root, "s04-epochs")
    assert (found["possibleLeaders"], found["expectedLeader"]) == ([3], 3)
    assert [found[name] for name in OF_CLUSTER[2:]] == [None] * 3
    text = page(root, "s04-epochs")
    assert "  the cluster elects node 3 (no PATH has its copy)" in text
    assert "is not known: copy the partition directories away before the start\n" in text


def test_the_newest_metadata_counts(root: Path) -> None:
    """Node 1 was killed long before node 3: then it led alone."""
    found = recommendation(root, "s04-epochs", "n1-d0/s04-epochs-0", "n2-d1/s04-epochs-0")
    assert (found["expectedLeader"], found["expectedLeaderCopy"]) == (1, "n1-d0/s04-epochs-0")


@pytest.mark.slow
def test_processes_give_the_same(root: Path) -> None:
    one, several = (kdump("diff", "-j", jobs, *NODES, cwd=root).stdout for jobs in "13")
    assert one == several


def test_metadata_of_a_newer_kafka(root: Path) -> None:
    """What is not in the image may let the cluster elect another one."""
    told = "  perhaps it elects another one: n3-d0/__cluster_metadata-0: offset 1126 holds what is not in the metadata"
    assert told not in page(root, "s04-epochs")
    (log,) = (root / "n3-d0" / "__cluster_metadata-0").glob("*.log")
    unknown = v2_batch([Row(0, 0, None, bytes((1, 99, 0)))], base_offset=1126, partition_leader_epoch=99)
    log.write_bytes(log.read_bytes() + unknown)
    assert told in page(root, "s04-epochs")
