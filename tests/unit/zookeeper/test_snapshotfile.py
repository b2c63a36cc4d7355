"""Snapshots: the ACLs of nodes."""

from __future__ import annotations

import struct
from zlib import adler32

import pytest

from kdump import limits
from kdump.codes import Codes, KdumpError
from kdump.zookeeper.jute import AccessRule
from kdump.zookeeper.snapshotfile import parse_snapshot_content
from kdump.zookeeper.tree import OPEN_ACL, ServerRelease, ZNode, ZNodeTree

_SEAL_END = b"\0\0\0\1/"


def node(path: bytes, acl: int, owner: int = 0) -> bytes:
    stat = struct.pack(">4q3i2q", 1, 1, 0, 0, 0, 0, 0, owner, 1)
    return struct.pack(">i", len(path)) + path + struct.pack(">iq", 0, acl) + stat


def snapshot(acls: list[tuple[int, list[int]]], nodes: list[bytes]) -> bytes:
    """A snapshot with these ACLs, each a number and the perms of its rules."""
    parts = [struct.pack(">iiqii", 0x5A4B534E, 2, -1, 0, len(acls))]
    for number, perms in acls:
        parts.append(struct.pack(">qi", number, len(perms)))
        parts += (struct.pack(">iii", one, 0, 0) for one in perms)
    content = b"".join((*parts, *nodes, _SEAL_END))
    return content + struct.pack(">q", adler32(content)) + _SEAL_END


def tree_of(acls: list[tuple[int, list[int]]], nodes: list[bytes]) -> ZNodeTree:
    return parse_snapshot_content(snapshot(acls, nodes), ServerRelease.V36).tree


def test_the_last_acl_of_a_number_counts() -> None:
    acls = [(1, [1, 2]), (2, [3]), (3, []), (1, [4])]
    numbers = {b"": -1, b"/a": 1, b"/b": 2, b"/c": 1, b"/d": 3, b"/e": 9}
    nodes = tree_of(acls, [node(path, number) for path, number in numbers.items()]).nodes
    assert nodes["/"].acl is OPEN_ACL
    assert nodes["/a"].acl is nodes["/c"].acl
    assert {path: list(found.acl or ()) for path, found in nodes.items() if path != "/"} == {
        "/a": [AccessRule(4, "", "")],
        "/b": [AccessRule(3, "", "")],
        "/c": [AccessRule(4, "", "")],
        "/d": [],
        "/e": [],
    }
    assert nodes["/e"].acl is None


def test_an_acl_may_have_the_number_of_the_open_one() -> None:
    nodes = tree_of([(-1, [7])], [node(b"", -1)]).nodes
    assert list(nodes["/"].acl or ()) == [AccessRule(7, "", "")]


def test_the_nodes_of_a_session() -> None:
    tree = ZNodeTree.initial(ServerRelease.V36)
    for path in ("/a", "/b", "/b", "/c"):
        tree.put(path, ZNode(None, None, owner=5))
    tree.put("/d", ZNode(None, None, owner=6))
    assert [tree.owned_by(session) for session in (5, 6, 7)] == [{"/a", "/b", "/c"}, {"/d"}, frozenset()]


@pytest.mark.parametrize(("kept", "is_read"), [(6, True), (5, False)])
def test_a_snapshot_with_more_than_kdump_keeps_is_refused(
    kept: int, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_given", {limits.ELEMENTS: kept})
    acls, nodes = [(1, [1, 2]), (2, [3, 4])], [node(b"", 1)]
    if is_read:
        assert len(tree_of(acls, nodes).nodes["/"].acl or ()) == 2
        return
    with pytest.raises(KdumpError, match="--most elements=NUMBER raises the limit of 5") as caught:
        tree_of(acls, nodes)
    assert caught.value.code is Codes.FILE_SIZE
