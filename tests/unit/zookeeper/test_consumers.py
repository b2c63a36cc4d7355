"""Owners of partitions: real groups that are balanced, real rebalances, and trees made by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdump.codes import Codes, Finding
from kdump.zookeeper.consumers import chosen_owners, owner_findings
from kdump.zookeeper.restore import tree_at
from kdump.zookeeper.tree import OPEN_ACL, ServerRelease, ZNode, ZNodeTree
from tests.harness.archives import unpack_cases
from tests.harness.zookeepercases import data_set


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("zookeeper", tmp_path_factory.mktemp("cases"))


def found_at(root: Path, version: str, zxid: int) -> list[Finding]:
    return list(owner_findings(tree_at(data_set(root / version / "data"), zxid).tree, version))


@pytest.mark.parametrize("moment", ["0.7.0/live/04-consumers", "0.7.0/live/06-c1-halted", "1.1.1/live/04-altered"])
def test_groups_at_rest_follow_the_rule(root: Path, moment: str) -> None:
    zxid = int(json.loads((root / f"{moment}.json").read_text())["zxidAfter"], 16)
    assert found_at(root, moment.partition("/")[0], zxid) == []


def test_a_rebalance_under_way(root: Path) -> None:
    (finding,) = found_at(root, "0.7.0", 0x88)
    assert finding.code is Codes.ZOOKEEPER_ASSIGNMENT
    assert "events-1-0 is owned by g1_c1-1, the rule gives it to g1_c2-0" in finding.message
    (finding,) = found_at(root, "1.1.1", 0x1A2 - 9)
    assert finding.message == "group g3: t-b-0 is owned by nobody, the rule gives it to g3_vm-1795352230854-de4fe1e7-0"


def tree_of(consumers: dict[str, str], owners: dict[str, str], partitions: int = 4) -> ZNodeTree:
    tree = ZNodeTree.initial(ServerRelease.V34)

    def put(path: str, data: str = "") -> None:
        parts = path.split("/")[1:]
        for end in range(1, len(parts)):
            parent = "/" + "/".join(parts[:end])
            if parent not in tree.nodes:
                tree.put(parent, ZNode(b"", OPEN_ACL))
        tree.put(path, ZNode(data.encode(), OPEN_ACL))

    put("/brokers/topics/t", json.dumps({"version": 1, "partitions": {str(one): [0] for one in range(partitions)}}))
    put("/consumers/g")
    for consumer, data in consumers.items():
        put(f"/consumers/g/ids/{consumer}", data)
    for partition, owner in owners.items():
        put(f"/consumers/g/owners/t/{partition}", owner)
    return tree


def subscribed(streams: int, pattern: str = "static", topic: str = "t") -> str:
    return json.dumps({"version": 1, "subscription": {topic: streams}, "pattern": pattern, "timestamp": "1"})


def messages(tree: ZNodeTree) -> Iterator[tuple[Codes, str]]:
    return ((finding.code, finding.message) for finding in owner_findings(tree, "zk"))


def test_an_owner_that_is_no_live_consumer() -> None:
    owners = {"0": "a-0", "1": "a-0", "2": "b-0", "3": "b-0"}
    assert list(messages(tree_of({"a": subscribed(1), "b": subscribed(1)}, owners))) == []
    assert list(messages(tree_of({"a": subscribed(1)}, owners))) == [
        (Codes.ZOOKEEPER_OWNER, "group g: b-0 owns 2 partitions (t-2, t-3) and is no live consumer")
    ]


@pytest.mark.parametrize(("pattern", "topic"), [("static", "t"), ("white_list", "t|u"), ("black_list", "u,v")])
def test_owners_that_the_rule_does_not_choose(pattern: str, topic: str) -> None:
    consumers = {"a": subscribed(2, pattern, topic), "b": subscribed(1, pattern, topic)}
    right = {"0": "a-0", "1": "a-0", "2": "a-1", "3": "b-0"}
    assert list(messages(tree_of(consumers, right))) == []
    turned = {"0": "a-0", "1": "a-1", "2": "b-0", "3": "a-0"}
    (found,) = messages(tree_of(consumers, turned))
    assert found[0] is Codes.ZOOKEEPER_ASSIGNMENT
    assert found[1].startswith("group g: t-1 is owned by a-1, the rule gives it to a-0; t-2 is owned by b-0, ")


@pytest.mark.parametrize(
    "data", ["", "{", '{"subscription": 3}', subscribed(10**9), subscribed(1, "white_list", "t\\d")]
)
def test_nothing_is_said_of_what_cannot_be_told(data: str) -> None:
    assert list(messages(tree_of({"a": data}, {"0": "a-0"}))) == []


def test_shares() -> None:
    assert chosen_owners(["a", "b", "c"], [0, 1, 2, 3]) == {0: "a", 1: "a", 2: "b", 3: "c"}
    assert chosen_owners(["a", "b", "c"], [0]) == {0: "a"}
