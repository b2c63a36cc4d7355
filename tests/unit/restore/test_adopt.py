"""The plan for log directories without their cluster."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kdump.codes import KdumpError
from kdump.restore.adopt import AdoptionPlan, plan_adoption
from kdump.restore.adoptreport import adoption_commands, adoption_page, adoption_rows
from kdump.restore.plan import UNFINISHED_COPY
from kdump.restore.source import directories_below
from tests.harness.archives import unpack_archive, unpack_cases
from tests.harness.batches import TRANSACTIONAL, plain_rows, v2_batch
from tests.harness.captures import CAPTURES, FIXTURES
from tests.harness.cli_runs import CLEAN, DAMAGE, UNREADABLE, USAGE, kdump
from tests.harness.decoder_logs import commit, coordinated, write_log

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
    assert (topic.name, topic.topic_id, topic.partitions, topic.missing) == ("t", ID, 3, (range(1, 2),))
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


def test_the_name_of_a_directory_makes_no_list(tmp_path: Path) -> None:
    """``t-2147483647`` says that 2,147,483,645 partitions are missing; that took minutes and all memory."""
    number = 2**31 - 1
    plan = planned(broker(tmp_path, 1, {"t-0": 1, "t-2": 1, f"t-{number}": 1}))
    (topic,) = plan.topics
    assert topic.missing == (range(1, 2), range(3, number))
    assert f"missing: partition 1, 3..{number - 1}\n" in "".join(adoption_page(plan))
    assert json.loads(next(adoption_rows(plan)))["missingPartitions"] == [[1, 1], [3, number - 1]]
    assert f"# partition 1, 3..{number - 1} of t is lost" in "".join(adoption_commands(plan))


def test_commands_can_be_run(tmp_path: Path) -> None:
    """Those of kdump do what they say, in a new log directory."""
    paths = [broker(tmp_path, 1, {"a-0": 2}), broker(tmp_path, 2, {"a-0": 3, "b-1": 1})]
    lines = "".join(adoption_commands(planned(*paths))).splitlines()
    created = [line for line in lines if "--create" in line]
    assert len(created) == 2
    assert "--topic a --partitions 1 --replication-factor 1" in created[0]
    assert "# partition 0 of b is lost, and will be empty" in lines
    converted = [line for line in lines if line.startswith("kdump restore")]
    assert [line.split()[2] for line in converted] == [f"{paths[1]}/a-0", f"{paths[1]}/b-1"]


def test_steps_are_numbered_and_stop_at_a_failure(tmp_path: Path) -> None:
    """Also without committed offsets; status 1 of a conversion goes on where the plan has told of losses."""
    path = Path(broker(tmp_path, 1, {"t-0": 3, "u-0": 1}))
    log = path / "t-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    text = "".join(adoption_commands(planned(str(path))))
    lines = text.splitlines()
    assert [line[:4] for line in lines if line[2:3].isdigit()] == ["# 1.", "# 2.", "# 3.", "# 4."]
    assert next(line for line in lines if not line.startswith("#")) == "set -eu"
    assert [line.endswith("|| [ $? -eq 1 ]") for line in lines if line.startswith("kdump restore")] == [True, False]
    (tmp_path / "restore.sh").write_text(text)
    subprocess.run(["sh", "-n", "restore.sh"], cwd=tmp_path, check=True)
    ran = subprocess.run(["sh", "restore.sh"], cwd=tmp_path, check=False, capture_output=True, env={"PATH": "/usr/bin"})
    assert ran.returncode
    assert b"SERVER" in ran.stderr


def test_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    """It is listed as what cannot be restored, unless another copy can be."""
    first, second = (Path(broker(tmp_path, node, {"t-0": 2, "t-1": 1, "u-0": 1})) for node in (1, 2))
    for folder in ("t-0", "t-1", "u-0"):
        (first / folder / f"{0:020}.log").unlink()
        os.mkfifo(first / folder / f"{0:020}.log")
    (second / "u-0" / f"{0:020}.log").unlink()
    (second / "t-1" / f"{0:020}.log").unlink()
    os.mkfifo(second / "t-1" / f"{0:020}.log")
    errors: list[KdumpError] = []
    plan = plan_adoption([str(first), str(second)], errors.append)
    assert len(errors) == 4
    assert [(topic.name, topic.partitions, topic.missing) for topic in plan.topics] == [("t", 2, ()), ("u", 1, ())]
    assert [one.name for one in plan.partitions] == [("t", 0)]
    directories = [first / "t-1", second / "t-1", first / "u-0", second / "u-0"]
    assert [one.directory for one in plan.left] == list(map(str, directories))
    assert not plan.is_whole
    assert f"u-0: cannot be restored: {first / 'u-0'}: " in "".join(adoption_page(plan))
    found = [(row["topic"], row["partition"], row["isLoss"]) for row in rows(plan) if row.get("kind") == "unreadable"]
    assert found == [("t", 1, True), ("t", 1, True), ("u", 0, True), ("u", 0, True)]
    lines = "".join(adoption_commands(plan)).splitlines()
    assert not any("--topic u" in line for line in lines)
    assert [line for line in lines if line.startswith("# u-0: cannot be restored")]


def test_names_that_no_topic_can_have(tmp_path: Path) -> None:
    path = Path(broker(tmp_path, 1, {"a-0": 1}))
    (path / "a-0").rename(path / "a b-0")
    (path / "replication-offset-checkpoint").write_text("0\n0\n")
    (path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    plan = planned(str(path))
    assert (plan.topics, plan.partitions) == ((), ())
    assert [one.name for one in plan.left] == [("a b", 0)]
    assert "a b-0: cannot be restored" in "".join(adoption_page(plan))
    assert all(line.startswith(("#", "set")) for line in "".join(adoption_commands(plan)).splitlines())
    done = kdump("restore", str(path), cwd=tmp_path)
    assert done.returncode == DAMAGE
    assert b"a b-0: cannot be restored" in done.stdout


def test_the_same_directory_twice(tmp_path: Path) -> None:
    path = broker(tmp_path, 1, {"t-0": 1})
    (tmp_path / "again").symlink_to(path)
    plan = planned(path, f"{path}/", str(tmp_path / "again"), f"{path}/t-0")
    assert plan.topics[0].replication_factor == 1
    assert [len(one.copies) for one in plan.partitions] == [1]


def test_high_watermarks_that_are_not_known(tmp_path: Path) -> None:
    """The checkpoint does not have it, or there is none."""
    path = Path(broker(tmp_path, 1, {"t-0": 1, "u-0": 1}))
    assert planned(str(path)).partitions[0].high_watermarks == (3,)
    (path / "replication-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    shutil.copytree(path / "t-0", tmp_path / "t-0")
    plan = planned(str(path), str(tmp_path / "t-0"))
    assert [one.high_watermarks for one in plan.partitions] == [(3, None), (None,)]
    assert "".join(adoption_page(plan)).count("high watermark not known") == 2
    found = [copy["highWatermark"] for row in rows(plan) for copy in row.get("copies", ())]
    assert found == [3, None, None]


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


def test_a_copy_that_was_not_finished_and_is_all_that_is_left(tmp_path: Path) -> None:
    """The plan said nothing of it, and ``--from-log-dir`` left it out with status 0."""
    path = Path(broker(tmp_path, 1, {"t-0": 2, "t-1": 1}))
    shutil.copytree(path / "t-0", path / f"t-0.{'0' * 32}-future")
    (path / "t-1").rename(path / f"t-1.{'0' * 32}-future")
    plan = planned(str(path))
    assert [one.name for one in plan.partitions] == [("t", 0)]
    (left,) = plan.left
    assert (left.name, left.note) == (("t", 1), UNFINISHED_COPY)
    assert not plan.is_whole
    below = dict(directories_below(str(path), put_aside=False))
    assert below == {("t", 0): [f"{path}/t-0"], ("t", 1): [left.directory]}
    shutil.rmtree(path / "t-0")
    plan = planned(str(path))
    assert ([one.name for one in plan.left], plan.partitions) == ([("t", 0), ("t", 1)], ())


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
    several = [row for row in found if len(row.get("replicas", ())) > 1]
    assert "".join(adoption_page(plan)).count(": had replicas on brokers ") == len(several)
    assert {row["type"] for row in found} >= {"adoptedTopic", "adoptedPartition"}
    assert "kdump restore" in "".join(adoption_commands(plan))


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
    # None of the groups has offsets of the topic that is left.
    assert "--reset-offsets" not in text
    assert "nobody can know whether it was committed" in text
    assert "--open-transactions keep" in text


def test_each_group_is_named(tmp_path: Path) -> None:
    """A new cluster has none. A partition that is not there would fail the whole group."""
    path = Path(broker(tmp_path, 1, {"t-0": 9, "t-1": 9}))
    groups = ("it's $HOME", "b", "-c", "gone")
    rows = [commit(group, partition=number, offset=7 + number) for group in groups[:3] for number in (1, 0, 2)]
    write_log(path, "__consumer_offsets-3", [*rows, commit("gone", "u")])
    text = "".join(adoption_commands(planned(str(path))))
    files, named = [], []
    for step in text.split("cat > group-offsets.csv <<'END'\n")[1:]:
        file, _, command = step.partition("END\n")
        files.append(file)
        named.append(shlex.split(command.splitlines()[0]))
    assert files == ["t,0,7\nt,1,8\n"] * 3
    assert [words[3 : words.index("--from-file")] for words in named] == [
        ["--reset-offsets", "--group=-c"],
        ["--reset-offsets", "--group", "b"],
        ["--reset-offsets", "--group", "it's $HOME"],
    ]
    assert "--all-groups" not in text
    assert "# Group gone has offsets only in partitions that are not restored.\n" in text


def test_a_group_that_is_not_reset_stops_the_script(tmp_path: Path) -> None:
    """Kafka's tool ends with 0 after some errors, and with another status after others."""
    path = Path(broker(tmp_path, 1, {"t-0": 9}))
    write_log(path, "__consumer_offsets-3", [commit("a"), commit("b")])
    (step,) = "".join(adoption_commands(planned(str(path)))).split("\n# 4. ")[1].split("\n# 5. ")[:1]
    tool = tmp_path / "kafka-consumer-groups.sh"
    for said, ends, status in (("GROUP TOPIC", 0, 0), ("Error: no", 0, 1), ("no such option", 1, 1)):
        tool.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit {ends}\n")
        tool.chmod(0o755)
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SERVER": "x"}
        command = ["sh", "-euc", step.partition("\n")[2]]
        ran = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True)
        assert (ran.returncode, ran.stdout.decode().count(said)) == (status, 2 - status)


def policies(plan: AdoptionPlan) -> list[str]:
    lines = "".join(adoption_commands(plan)).splitlines()
    return [line.partition(" --open-transactions ")[2] for line in lines if line.startswith("kdump restore")]


def test_a_commit_that_was_acknowledged_is_restored(tmp_path: Path) -> None:
    """From a real log directory. The coordinator's log may lie in another one; without it nobody can know."""
    logs = unpack_cases("prepared-commit", tmp_path)
    assert policies(planned(str(logs))) == ["commit", "commit"]
    other = tmp_path / "other"
    other.mkdir()
    (logs / "__transaction_state-0").rename(other / "__transaction_state-0")
    assert policies(planned(str(logs), str(other))) == ["commit", "commit"]
    assert policies(planned(str(logs))) == ["keep", "keep"]
    assert "".join(adoption_page(planned(str(logs)))).count("nobody can know whether it was committed") == 2


def test_each_transaction_for_itself(tmp_path: Path) -> None:
    """Several are open in one partition, and the coordinator says different things of them."""
    path = Path(broker(tmp_path, 1, {"t-0": 0}))
    header = {"attributes": TRANSACTIONAL, "partition_leader_epoch": 0, "producer_epoch": 0, "base_sequence": 0}
    batches = [v2_batch(plain_rows(3), base_offset=3 * number, producer_id=number, **header) for number in range(4)]
    (path / "t-0" / f"{0:020}.log").write_bytes(b"".join(batches))
    rows = [coordinated(f"id{number}", status, number, 0, ("t", 0)) for number, status in enumerate((2, 3, 1))]
    write_log(path, "__transaction_state-5", rows)
    plan = planned(str(path))
    assert policies(plan) == ["0=commit,1=abort,2=abort,3=keep"]
    text = "".join(adoption_page(plan))
    assert "its coordinator aborts it after its timeout (Ongoing)" in text
    assert "only partition 5 is at hand, which does not know its producer" in text


def test_command_line(tmp_path: Path) -> None:
    path = broker(tmp_path, 1, {"t-0": 2})
    done = kdump("restore", path, cwd=tmp_path)
    assert done.returncode in (CLEAN, DAMAGE)
    assert b"topic t: id" in done.stdout
    for output in ("jsonl", "commands"):
        assert kdump("restore", path, "--output", output, cwd=tmp_path).stdout
    assert kdump("restore", "nowhere", cwd=tmp_path).returncode == UNREADABLE
    (tmp_path / "empty").mkdir()
    assert kdump("restore", "empty", cwd=tmp_path).returncode == UNREADABLE


@pytest.mark.parametrize("words", [(), ("--topic", "t", "y"), ("--output", "commands", "-o", "x", "y"), ("",)])
def test_usage(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert kdump("restore", *words, cwd=tmp_path).returncode == USAGE


@pytest.mark.parametrize(("status", "offset"), [(2, 9), (3, 4), (1, 4), (None, 4)])
def test_offsets_of_a_transaction(tmp_path: Path, status: int | None, offset: int) -> None:
    """They count where the coordinator commits it, as its records do."""
    path = Path(broker(tmp_path, 1, {"t-0": 9}))
    log = write_log(path, "__consumer_offsets-3", [commit("g", offset=4)])
    header = {"attributes": TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    log.write_bytes(log.read_bytes() + v2_batch([commit("g", offset=9)], base_offset=1, **header))
    if status is not None:
        write_log(path, "__transaction_state-5", [coordinated("id", status, 7, 0, ("__consumer_offsets", 3))])
    assert [row["offset"] for row in planned(str(path)).offsets] == [offset]
