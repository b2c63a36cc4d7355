"""The plan for log directories without their cluster."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kdump.codes import KdumpError
from kdump.restore.adopt import AdoptionPlan, plan_adoption
from kdump.restore.adoptreport import adoption_commands, adoption_page, adoption_rows
from tests.harness.archives import unpack_archive, unpack_cases
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.captures import CAPTURES, FIXTURES
from tests.harness.cli_runs import CLEAN, DAMAGE, UNREADABLE, USAGE, kdump

ID = "kdumpkdumpkdumpkdumpkg"
OTHER_ID = "kdumpkdumpkdumpkdumpkQ"


def broker(home: Path, node: int, sizes: dict[str, int], topic_id: str = ID) -> str:
    """A log directory of one broker; ``sizes``: the number of batches of each partition."""
    logs = home / f"broker{node}"
    logs.mkdir()
    (logs / "meta.properties").write_text(f"version=1\ncluster.id=x\nnode.id={node}\n")
    (logs / ".kafka_cleanshutdown").touch()
    lines = [f"{name.rpartition('-')[0]} {name.rpartition('-')[2]} {3 * size}" for name, size in sizes.items()]
    text = "\n".join(["0", str(len(lines)), *lines, ""])
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (logs / name).write_text(text)
    for name, size in sizes.items():
        partition = logs / name
        partition.mkdir()
        (partition / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
        (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        batches = [v2_batch(plain_rows(3), base_offset=3 * number, partition_leader_epoch=0) for number in range(size)]
        (partition / f"{0:020}.log").write_bytes(b"".join(batches))
        (partition / f"{0:020}.index").touch()
    return str(logs)


def planned(*paths: str) -> AdoptionPlan:
    errors: list[KdumpError] = []
    plan = plan_adoption(paths, errors.append)
    assert not errors
    return plan


def test_the_best_copy(tmp_path: Path) -> None:
    """The longest of three; a topic of the same name with another id is no copy of it."""
    paths = [
        broker(tmp_path, 1, {"t-0": 2, "t-2": 1}),
        broker(tmp_path, 2, {"t-0": 4}),
        broker(tmp_path, 3, {"t-0": 9}, OTHER_ID),
    ]
    plan = planned(*paths)
    (topic,) = plan.topics
    assert (topic.name, topic.topic_id, topic.partitions, topic.missing) == ("t", ID, 3, (1,))
    first, second = plan.partitions
    assert [(copy.node_id, copy.log_end) for copy in first.copies] == [(1, 6), (2, 12)]
    assert first.best_copy.directory == f"{paths[1]}/t-0"
    assert first.other_ids == (f"{paths[2]}/t-0",)
    assert second.best_copy.node_id == 1
    assert not plan.is_whole
    page = "".join(adoption_page(plan))
    assert "missing: partition 1" in page
    assert f"t-0: best of broker 2: {paths[1]}/t-0: offsets 0 to 12" in page
    assert "Nothing else is safe" in page


def test_commands_can_be_run(tmp_path: Path) -> None:
    """Those of kdump do what they say, in a new log directory."""
    paths = [broker(tmp_path, 1, {"a-0": 2}), broker(tmp_path, 2, {"a-0": 3, "b-1": 1})]
    lines = "".join(adoption_commands(planned(*paths))).splitlines()
    created = [line for line in lines if "--create" in line]
    assert len(created) == 2
    assert "--topic a --partitions 1 --replication-factor 1" in created[0]
    assert "# partition 0 of b is lost, and will be empty" in lines
    converted = [line for line in lines if line.startswith("kdump convert")]
    assert [line.split()[2] for line in converted] == [f"{paths[1]}/a-0", f"{paths[1]}/b-1"]


def test_damage_and_other_copies(tmp_path: Path) -> None:
    """The better copy has all records; what only the other one has is told."""
    paths = [broker(tmp_path, 1, {"t-0": 3}), broker(tmp_path, 2, {"t-0": 3})]
    log = Path(paths[0]) / "t-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    (partition,) = planned(*paths).partitions
    assert partition.best_copy.node_id == 2
    assert partition.is_whole
    (partition,) = planned(paths[0]).partitions
    assert not partition.is_whole


def test_put_aside_and_about_to_go(tmp_path: Path) -> None:
    path = Path(broker(tmp_path, 1, {"t-0": 2, "t-1": 1}))
    (path / "t-0").rename(path / f"t-0.{'0' * 32}-stray")
    (path / "t-1").rename(path / f"t-1.{'0' * 32}-delete")
    (partition,) = planned(str(path)).partitions
    assert partition.name == ("t", 0)
    assert partition.best_copy.directory.endswith("-stray")


def rows(plan: AdoptionPlan) -> list[dict[str, Any]]:
    return [json.loads(line) for line in adoption_rows(plan)]


@pytest.mark.slow
def test_with_the_metadata(tmp_path: Path) -> None:
    old = unpack_cases("strays", tmp_path) / "bad-name" / "n2-d0"
    plan = planned(str(old))
    assert plan.has_metadata
    found = rows(plan)
    keep = next(row for row in found if row["type"] == "adoptedPartition" and row["topic"] == "keep-51")
    assert 2 in keep["replicas"]
    assert {row["type"] for row in found} >= {"adoptedTopic", "adoptedPartition"}
    assert "kdump convert" in "".join(adoption_commands(plan))


@pytest.mark.slow
def test_committed_offsets(tmp_path: Path) -> None:
    unpack_archive(CAPTURES / "4.3.1.tar.zst", tmp_path)
    captures = tmp_path / "4.3.1"
    home = tmp_path / "old"
    home.mkdir()
    for number in (0, 2):
        shutil.copytree(captures / f"__consumer_offsets-{number}", home / f"__consumer_offsets-{number}")
    shutil.copytree(FIXTURES / "segments" / "v2-txn-0", home / "v2-txn-0")
    plan = planned(str(home))
    assert [one.name for one in plan.partitions] == [("v2-txn", 0)]
    assert plan.offsets
    assert len([row for row in rows(plan) if row["type"] == "committedOffset"]) == len(plan.offsets)
    text = "".join(adoption_commands(plan))
    assert "--reset-offsets" in text
    assert "--open-transactions abort" in text


def test_command_line(tmp_path: Path) -> None:
    path = broker(tmp_path, 1, {"t-0": 2})
    done = kdump("repair", "--adopt", path, cwd=tmp_path)
    assert done.returncode in (CLEAN, DAMAGE)
    assert b"topic t: id" in done.stdout
    for output in ("jsonl", "commands"):
        assert kdump("repair", "--adopt", path, "--output", output, cwd=tmp_path).stdout
    assert kdump("repair", "--adopt", "nowhere", cwd=tmp_path).returncode == UNREADABLE
    (tmp_path / "empty").mkdir()
    assert kdump("repair", "--adopt", "empty", cwd=tmp_path).returncode == UNREADABLE


@pytest.mark.parametrize("words", [("--adopt",), ("--adopt", "-o", "x", "y"), ("--output", "commands", "y")])
def test_usage(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert kdump("repair", *words, cwd=tmp_path).returncode == USAGE
