"""What the nodes of Kafka say, against Kafka's own tools and against odd data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kdump.zookeeper.changes import node_changes
from kdump.zookeeper.kafkanodes import kafka_rows
from kdump.zookeeper.restore import restore, tree_at
from kdump.zookeeper.secrets import data_without_secrets
from kdump.zookeeper.tree import OPEN_ACL, ServerRelease, ZNode, ZNodeTree
from tests.harness.archives import unpack_cases
from tests.harness.zookeepercases import data_set


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("zookeeper", tmp_path_factory.mktemp("cases"))


def rows(directory: Path, zxid: int, kind: str) -> list[dict[str, Any]]:
    tree = tree_at(data_set(directory), zxid).tree
    return [row for row in kafka_rows(tree, show_secrets=False) if row["type"] == kind]


@pytest.mark.slow
def test_topics_below_a_chroot(root: Path) -> None:
    """As kafka-topics.sh --describe of 1.1.1 shows them."""
    found = rows(root / "1.1.1" / "data", 0x170, "partition")
    shown = {(row["topic"], row["partition"]): (row["leader"], row["replicas"], row["isr"]) for row in found}
    assert {row["root"] for row in found} == {"/chroot/kafka"}
    assert shown[("t-a", 0)] == (1, [1, 0], [1, 0])
    assert shown[("t-b", 1)] == (1, [1, 0], [1, 0])
    assert shown[("t-cfg", 0)] == (1, [1], [1])
    assert shown[("t-del2", 0)] == (0, [0, 1], [0, 1])


def test_offsets_of_groups(root: Path) -> None:
    """As kafka-consumer-groups.sh of 1.1.1 shows them."""
    found = {
        (row["topic"], row["partition"]): row["offset"]
        for row in rows(root / "1.1.1" / "data", 0x27B, "offset")
        if row["group"] == "g1"
    }
    expected = {("t-b", 0): 60, ("t-b", 1): 60, ("t-a", 0): 60, ("t-a", 1): 60, ("t-a", 2): 0, ("t-a", 3): 0}
    assert found == expected


def test_configs_and_acls(root: Path) -> None:
    configs = rows(root / "1.1.1" / "data", 0x170, "config")
    alice = {row["name"]: row["value"] for row in configs if row["resourceName"] == "alice" and row["client"] is None}
    assert alice == {
        "SCRAM-SHA-256": "[redacted]",
        "SCRAM-SHA-512": "[redacted]",
        "consumer_byte_rate": "2097152",
        "producer_byte_rate": "1048576",
    }
    assert [row["value"] for row in configs if row["client"] == "c:1"] == ["77"]
    acls = rows(root / "3.9.1" / "data", 0x6F, "acl")
    assert [(row["resourceName"], row["patternType"], row["principal"]) for row in acls] == [
        ("t-one", "literal", "User:alice"),
        ("t-", "prefixed", "User:pre"),
    ]


def test_kafka_07(root: Path) -> None:
    directory = root / "0.7.0" / "data"
    assert [(row["id"], row["port"]) for row in rows(directory, 0x1D0, "broker")] == [(0, 9107), (1, 9108)]
    topic = next(row for row in rows(directory, 0x1D0, "topic") if row["name"] == "events")
    assert topic["brokers"] == {"0": 2, "1": 2}
    offsets = {row["partition"] for row in rows(directory, 0x1D0, "offset") if row["group"] == "g1"}
    assert {"0-0", "1-1"} <= offsets


def with_data(data: bytes | None) -> ZNodeTree:
    """Nodes of every kind with these data."""
    tree = ZNodeTree.initial(ServerRelease.V36)
    for path in (
        "/brokers", "/brokers/ids", "/brokers/ids/x", "/brokers/ids/1", "/brokers/topics", "/brokers/topics/t",
        "/controller", "/config", "/config/users", "/config/users/u", "/config/topics", "/config/topics/t",
        "/kafka-acl", "/kafka-acl/Topic", "/kafka-acl/Topic/t",
        "/consumers", "/consumers/g", "/consumers/g/offsets", "/consumers/g/offsets/t", "/consumers/g/offsets/t/0",
    ):  # fmt: skip
        tree.put(path, ZNode(data, OPEN_ACL))
    return tree


@pytest.mark.parametrize("data", [None, b"", b"\xff", b"[]", b"7", b"null", b"{", b'{"partitions":[]}', b"[" * 5000])
def test_odd_data(data: bytes | None) -> None:
    kinds = {row["type"] for row in kafka_rows(with_data(data), show_secrets=False)}
    assert {"broker", "topic", "offset"} <= kinds


HALF = r"\ud800"


def test_half_characters_become_text() -> None:
    members = f'"host": "{HALF}", "topic_id": "{HALF}", "partitions": {{"0": ["{HALF}"]}}'
    data = f'{{{members}, "config": {{"{HALF}": "v"}}, "acls": [{{"principal": "{HALF}"}}]}}'.encode()
    found = {row["type"]: row for row in kafka_rows(with_data(data), show_secrets=False)}
    json.dumps(found, ensure_ascii=False).encode()
    assert (found["broker"]["host"], found["topic"]["topicId"], found["partition"]["replicas"]) == ("?", "?", ["?"])
    assert (found["config"]["name"], found["acl"]["principal"]) == ("?", "?")


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", "[" * 500 + "]" * 500])
def test_what_is_no_json_for_java_is_none(value: str) -> None:
    data = f'{{"host": "h", "rack": {value}, "partitions": {{"0": [1]}}}}'.encode()
    found = {row["type"]: row for row in kafka_rows(with_data(data), show_secrets=False)}
    assert found["broker"]["host"] is None
    assert "partition" not in found


def test_secrets_beside_half_a_character() -> None:
    data = f'{{"config":{{"password":"x","a":"{HALF}"}}}}'.encode()
    shown = data_without_secrets("/config/topics/t", data)
    assert shown == f'{{"config":{{"password":"[redacted]","a":"{HALF}"}}}}'.encode()


@pytest.mark.parametrize("member", ["partitions", "adding_replicas", "config", "acls"])
@pytest.mark.parametrize("value", ["7", '"x"', "[7]", '{"0": 7}', "null"])
def test_odd_members(member: str, value: str) -> None:
    data = f'{{"partitions": {{"0": [1]}}, "{member}": {value}}}'.encode()
    assert list(kafka_rows(with_data(data), show_secrets=False))


def test_every_change_of_a_group(root: Path) -> None:
    """A replay of the changes below /consumers gives the nodes below it, at the end of the logs."""
    for version in ("0.7.0", "1.1.1", "3.9.1"):
        files = data_set(root / version / "data")
        nodes: dict[str, bytes | None] = {}
        for change in node_changes(files):
            if "/consumers/" not in change.path:
                continue
            if change.operation in ("delete", "expire"):
                del nodes[change.path]
            elif change.operation in ("create", "set"):
                nodes[change.path] = change.data
        tree = restore(files).tree
        assert nodes == {path: node.data for path, node in tree.nodes.items() if "/consumers/" in path}
