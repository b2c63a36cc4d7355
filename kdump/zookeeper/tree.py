"""The tree of nodes, and what transactions do to it.

Source: docs/spec/zookeeper.md#15-replay, docs/spec/zookeeper.md#14-digest. Where releases differ in the replay of a
snapshot that was written while transactions went on, the rules of 3.6 are used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Final
from zlib import crc32

from kdump.zookeeper.jute import AccessRule, Acl
from kdump.zookeeper.secrets import data_without_secrets, shown_acl
from kdump.zookeeper.transactions import (
    CONTAINER_OWNER,
    CREATES,
    DELETES,
    WRITES,
    Transaction,
    TxnBody,
    TxnType,
    is_ttl_owner,
)

OPEN_ACL: Final = (AccessRule(31, "world", "anyone"),)
_READ_ACL: Final = (AccessRule(1, "world", "anyone"),)
_DIGESTED: Final = struct.Struct(">5q3iq")
CONFIG_PATH: Final = "/zookeeper/config"
"""The list of servers (3.5+)."""


class ServerRelease(IntEnum):
    """The releases of ZooKeeper whose files or rules differ, each up to the next one."""

    V33 = 303
    V34 = 304
    V35 = 305
    V36 = 306


class ZNode:
    """A node as it is stored. ``acl`` None: the snapshot does not tell it. Times are ms since 1970."""

    __slots__ = (
        "acl", "aversion", "children", "ctime", "cversion", "czxid", "data", "mtime", "mzxid", "owner", "pzxid",
        "version",
    )  # fmt: skip

    def __init__(
        self,
        data: bytes | None,
        acl: Acl | None,
        *,
        zxid: int = 0,
        time: int = 0,
        owner: int = 0,
    ) -> None:
        self.data = data
        self.acl = acl
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = time
        self.version = self.cversion = self.aversion = 0
        self.owner = owner
        self.children: set[str] | None = None
        """Their names; None: it has none, as most nodes."""

    @property
    def child_count(self) -> int:
        """How many children it has."""
        return len(self.children or ())


class ZNodeTree:
    """All nodes, and the sessions with their timeouts (ms).

    Args:
        release: its rules are used.

    ``counts_again``: a create of a node that is there counts again for its parent, as when a server of 3.3 starts.
    """

    def __init__(self, release: ServerRelease) -> None:
        self.release = release
        self.counts_again = False
        self.nodes: dict[str, ZNode] = {}
        self.sessions: dict[int, int] = {}
        self._owned: dict[int, set[str]] = {}
        """The paths of the nodes of each session."""

    @classmethod
    def initial(cls, release: ServerRelease) -> ZNodeTree:
        """The tree of a server that starts without any file."""
        tree = cls(release)
        paths = ["/", "/zookeeper", "/zookeeper/quota"]
        if release >= ServerRelease.V35:
            paths.append(CONFIG_PATH)
        for path in paths:
            tree.put(path, ZNode(b"", OPEN_ACL))
        if release >= ServerRelease.V35:
            tree.nodes[CONFIG_PATH].acl = _READ_ACL
            tree.nodes[CONFIG_PATH].aversion = -1
        return tree

    def put(self, path: str, node: ZNode) -> bool:
        """Add a node below its parent. False: there is no parent, and nothing is added."""
        if path != "/":
            parent = self.nodes.get(parent_of(path))
            if parent is None:
                return False
            if parent.children is None:
                parent.children = set()
            parent.children.add(path.rpartition("/")[2])
        self.nodes[path] = node
        if node.owner and not self._is_special(node.owner):
            self._owned.setdefault(node.owner, set()).add(path)
        return True

    def apply(self, transaction: Transaction) -> None:
        """Do what a transaction does. One that was applied before changes nothing more."""
        body = transaction.body
        match body.type:
            case TxnType.CREATE_SESSION:
                self.sessions[transaction.session] = body.timeout or 0
            case TxnType.CLOSE_SESSION:
                self.sessions.pop(transaction.session, None)
                self._close(transaction, body.closed or ())
            case TxnType.MULTI:
                for part in () if body.has_failed else body.parts:
                    self._change(part, transaction)
            case _:
                self._change(body, transaction)

    def owned_by(self, session: int) -> frozenset[str]:
        """The paths of the ephemeral nodes of a session."""
        return frozenset(self._owned.get(session, ()))

    def digest(self) -> int:
        """The digest of the whole tree, as 3.6 and later write it beside transactions and in snapshots."""
        total = sum(_node_digest(path, node) for path, node in self.nodes.items() if not path.startswith("/zookeeper/"))
        total &= (1 << 64) - 1
        return total - (total >> 63 << 64)

    def _change(self, body: TxnBody, transaction: Transaction) -> None:
        path = body.path
        if path is None:
            return
        if body.type in CREATES:
            self._create(path, body, transaction)
        elif body.type in DELETES:
            self._delete(path, transaction.zxid)
        elif (node := self.nodes.get(path)) is not None:
            if body.type in WRITES:
                node.data = body.data
                node.version = body.version or 0
                node.mzxid, node.mtime = transaction.zxid, transaction.time
            elif body.type is TxnType.SET_ACL:
                node.acl = body.acl or OPEN_ACL
                node.aversion = body.version or 0

    def _create(self, path: str, body: TxnBody, transaction: Transaction) -> None:
        parent = self.nodes.get(parent_of(path))
        if parent is None:
            return
        is_there = path in self.nodes
        if (
            is_there
            and self.release is ServerRelease.V33
            and not self.counts_again
            and parent.pzxid >= transaction.zxid
        ):
            return
        cversion = body.parent_cversion
        if cversion is None or cversion == -1:
            cversion = parent.cversion + 1
        if cversion > parent.cversion:
            parent.cversion, parent.pzxid = cversion, transaction.zxid
        if is_there:
            return
        owner = 0
        if body.ephemeral:
            owner = transaction.session
        elif body.type is TxnType.CREATE_CONTAINER:
            owner = CONTAINER_OWNER
        elif body.type is TxnType.CREATE_TTL:
            owner = (body.ttl or 0) | -1 << 56
        self.put(
            path, ZNode(body.data, body.acl or OPEN_ACL, zxid=transaction.zxid, time=transaction.time, owner=owner)
        )

    def _delete(self, path: str, zxid: int) -> None:
        node = self.nodes.pop(path, None)
        parent = self.nodes.get(parent_of(path))
        if parent is not None and (node is not None or self.release >= ServerRelease.V36):
            if parent.children is not None:
                parent.children.discard(path.rpartition("/")[2])
            parent.pzxid = max(parent.pzxid, zxid)
            if self.release is ServerRelease.V33:
                parent.cversion += 1
        if node is not None:
            self._owned.get(node.owner, set()).discard(path)

    def _close(self, transaction: Transaction, closed: tuple[str, ...]) -> None:
        for path in closed:
            self._delete(path, transaction.zxid)
        for path in sorted(self.owned_by(transaction.session)):
            self._delete(path, transaction.zxid)
        self._owned.pop(transaction.session, None)

    def _is_special(self, owner: int) -> bool:
        """The owner is no session: the node is a container or has a TTL."""
        return self.release >= ServerRelease.V35 and (owner == CONTAINER_OWNER or is_ttl_owner(owner))

    def shown_nodes(self, *, show_secrets: bool = True) -> Iterator[dict[str, Any]]:
        """All nodes by path, with the numbers that a client of this release is shown. ``data`` is bytes or None."""
        for path in sorted(self.nodes):
            node = self.nodes[path]
            children = node.child_count
            yield {
                "path": path,
                "data": node.data if show_secrets else data_without_secrets(path, node.data),
                "czxid": node.czxid,
                "mzxid": node.mzxid,
                "pzxid": node.pzxid,
                "ctime": node.ctime,
                "mtime": node.mtime,
                "version": node.version,
                "cversion": node.cversion
                if self.release is ServerRelease.V33
                else _int32(node.cversion * 2 - children),
                "aversion": node.aversion,
                "ephemeralOwner": 0 if self._is_special(node.owner) else node.owner,
                "dataLength": len(node.data or b""),
                "numChildren": children,
                "acl": shown_acl(node.acl or (), show_secrets=show_secrets),
            }


def parent_of(path: str) -> str:
    """The path of the node above."""
    return path.rpartition("/")[0] or "/"


def _int32(number: int) -> int:
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def _node_digest(path: str, node: ZNode) -> int:
    fields = _DIGESTED.pack(
        node.czxid,
        node.mzxid,
        node.pzxid,
        node.ctime,
        node.mtime,
        node.version,
        node.cversion,
        node.aversion,
        node.owner,
    )
    return crc32(fields, crc32(node.data or b"", crc32((path if path != "/" else "").encode())))
