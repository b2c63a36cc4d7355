"""Names of topics by their ids, where the metadata log is beside what is read."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump import testing
from kdump.format.message import schemas
from kdump.kafka.image.metadatalog import MetadataLog
from kdump.kafka.image.names import TopicNames
from tests.harness.archives import unpack_cases
from tests.harness.cli_runs import kdump
from tests.harness.messages import write_message

DELETED = "Jt2S6gghSGK8lu6_h7oWjA"
"""The id of the topic deleted-51."""
CLICKS = "JhOC06xoRNy3iUe_PYn6pQ"
PAYMENTS = "W2aty_uwQMWhwVRLECHK4w"
METADATA = "__cluster_metadata-0"


@pytest.fixture(scope="module")
def strays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("strays", tmp_path_factory.mktemp("cases")) / "plain"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("metadata", tmp_path_factory.mktemp("cases")) / "cluster"


@pytest.mark.slow
def test_in_the_log_directory(strays: Path) -> None:
    for place in (strays / "n2-d0" / "keep-51-0", strays / "n2-d0" / "keep-51-0" / "partition.metadata"):
        names = TopicNames([str(place)])
        assert names.of(DELETED, str(place)) == "deleted-51"
        assert names.text(DELETED, str(place)) == f"{DELETED} (deleted-51)"
        assert names.of("A" * 22, str(place)) is None


def test_in_another_log_directory_of_the_cluster(strays: Path, tmp_path: Path) -> None:
    place = str(strays / "n2-d1" / "deleted-51-0")
    assert TopicNames([place, str(strays / "n2-d0")]).of(DELETED, place) == "deleted-51"
    assert TopicNames([place]).text(DELETED, place) == DELETED
    other = tmp_path / "other"
    shutil.copytree(strays / "n2-d0" / METADATA, other / METADATA)
    known = (strays / "n2-d0" / "meta.properties").read_text()
    (other / "meta.properties").write_text(known.replace("cluster.id=", "cluster.id=x"))
    assert TopicNames([place, str(other)]).of(DELETED, place) is None
    assert TopicNames([str(tmp_path / "nothing"), "-"]).of(DELETED, "-") is None


def test_the_metadata_log_is_read_once_for_all_places_of_a_log_directory(
    strays: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    topic_names = MetadataLog.topic_names

    def counted(log: MetadataLog) -> Iterator[tuple[str, str]]:
        read.append(log.directory)
        return topic_names(log)

    monkeypatch.setattr(MetadataLog, "topic_names", counted)
    names = TopicNames([])
    for place in ("keep-51-0", "keep-51-0/partition.metadata", "deleted-51-1"):
        assert names.of(DELETED, str(strays / "n2-d0" / place)) == "deleted-51"
    assert len(read) == 1


def test_a_damaged_log_tells_what_is_before_the_damage(strays: Path, tmp_path: Path) -> None:
    shutil.copytree(strays / "n2-d0" / METADATA, tmp_path / METADATA)
    for snapshot in (tmp_path / METADATA).glob("*.checkpoint"):
        snapshot.write_bytes(b"")
    (log,) = (tmp_path / METADATA).glob("*.log")
    data = log.read_bytes()
    at = data.index(b"deleted-51")
    log.write_bytes(data[: at + 2000])
    assert TopicNames([]).of(DELETED, str(tmp_path)) == "deleted-51"
    log.write_bytes(data[: at - 100])
    assert TopicNames([]).of(DELETED, str(tmp_path)) is None


def test_a_table_shows_names_and_the_other_outputs_what_is_stored(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    log = str(cluster / "n1" / METADATA / "00000000000000000000.log")
    words = ("dump", "--decode", "auto", "--fields", "decodedValue", "--offset", "71:73", log)
    table = kdump(*words, "--output", "table", cwd=cluster).stdout.decode()
    assert f"topicId={CLICKS} (clicks)" in table
    assert f"topicId={PAYMENTS} (payments)" in table
    for output in ("jsonl", "csv"):
        out = kdump(*words, "--output", output, cwd=cluster).stdout.decode()
        assert CLICKS in out
        assert "(clicks)" not in out


def test_the_table_of_a_partition_metadata(strays: Path) -> None:
    def shown(*words: str) -> bool:
        return f"{DELETED} (deleted-51)" in kdump("dump", *words, cwd=strays).stdout.decode()

    alone, beside = "n2-d1/deleted-51-0/partition.metadata", "n2-d0/deleted-51-1/partition.metadata"
    assert shown("--output", "table", beside)
    assert not shown("--output", "jsonl", beside)
    assert not shown("--output", "table", alone)
    assert shown("--output", "table", alone, "n2-d0/meta.properties"), "a file names its log directory"


def test_the_start_names_what_was_deleted(strays: Path) -> None:
    run = kdump("verify", "--startup", "n2-d0", "n2-d1", cwd=strays)
    gone = f"becomes a stray: no topic has the id {DELETED}, the topic deleted-51 was deleted"
    assert run.stdout.decode().count(gone) == 2


def test_verify_and_diff_name_topics_that_differ(strays: Path, tmp_path: Path) -> None:
    for name in (METADATA, "keep-51-0", "deleted-51-1"):
        shutil.copytree(strays / "n2-d0" / name, tmp_path / "d" / name)
    shutil.copytree(strays / "n2-d0" / "deleted-51-1", tmp_path / "d" / "keep-51-1")
    out = kdump("verify", "--quick", "d", cwd=tmp_path).stdout.decode()
    assert f"topic id {DELETED} (deleted-51), that of keep-51-0 is " in out
    run = kdump("diff", "d/keep-51-0", "d/keep-51-1", cwd=tmp_path)
    assert f"{DELETED} (deleted-51)" in run.stdout.decode()
    assert "(keep-51)" in run.stdout.decode()


def group_record(number: int, name: str, **values: Any) -> tuple[bytes, bytes]:
    """Key and value of a record of the group ``g``, of its member ``m`` where it is of one."""
    key, value = schemas()[f"{name}Key"], schemas()[f"{name}Value"]
    members = {field.name: field.default for field in value.fields} | values
    stored = write_message(key, 0, {"groupId": "g", "memberId": "m"})
    return struct.pack(">h", number) + stored, b"\0\0" + write_message(value, 0, members)


def test_the_assignments_of_a_group(strays: Path, tmp_path: Path) -> None:
    assigned = [{"topicId": DELETED, "partitions": [1], "assignmentEpochs": None}]
    log = testing.write_segment(
        tmp_path / "__consumer_offsets-0",
        [
            group_record(3, "ConsumerGroupMetadata", epoch=1),
            group_record(5, "ConsumerGroupMemberMetadata", classicMemberMetadata=None),
            group_record(8, "ConsumerGroupCurrentMemberAssignment", assignedPartitions=assigned),
        ],
    )

    def assignment() -> list[str]:
        words = ("state", "--at", "now", "--output", "jsonl", "__consumer_offsets-0")
        lines = kdump(*words, cwd=tmp_path).stdout.splitlines()
        (group,) = (row for row in map(json.loads, lines) if row["type"] == "group")
        found: list[str] = group["members"][0]["assignment"]
        return found

    assert log.is_file()
    assert assignment() == [f"{DELETED}-1"]
    shutil.copytree(strays / "n2-d0" / METADATA, tmp_path / METADATA)
    assert assignment() == ["deleted-51-1"]
