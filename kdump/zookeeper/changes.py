"""The changes of single nodes, in the order of the transactions.

Source: docs/spec/zookeeper.md#17-the-tree-at-a-moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kdump.codes import DamageError
from kdump.zookeeper.datafiles import DataSet
from kdump.zookeeper.releases import release_of
from kdump.zookeeper.snapshotfile import looks_complete, read_snapshot
from kdump.zookeeper.transactions import CREATES, DELETES, WRITES, Transaction, TxnBody, TxnType
from kdump.zookeeper.tree import ZNodeTree
from kdump.zookeeper.txnlog import TxnLog


class NodeChange(NamedTuple):
    """A change of one node.

    ``operation``: create, set, setACL, delete, or expire, where the node went with the session that owned it.
    ``time``: ms since 1970. ``ephemeral``: the node belongs to a session.
    """

    zxid: int
    time: int
    session: int
    operation: str
    path: str
    ephemeral: bool
    data: bytes | None


def node_changes(files: DataSet) -> Iterator[NodeChange]:
    """All changes in the logs; those of a failed multi are none.

    Raises:
        KdumpError: as ``open_source``.
    """
    release = release_of(files)
    tree = ZNodeTree.initial(release)
    first = files.logs[0].zxid if files.logs else 0
    # Sessions may own nodes from before the first log.
    for snapshot in files.snapshots:
        if snapshot.zxid + 1 < first or not looks_complete(snapshot):
            continue
        try:
            tree = read_snapshot(snapshot, release).tree if first > 1 else tree
        except DamageError:
            continue
        break
    for file in files.logs:
        try:
            log = TxnLog.of(file, release)
        except DamageError:
            continue
        for entry in log.entries():
            yield from _changes(entry.transaction, tree)
            tree.apply(entry.transaction)


def _changes(transaction: Transaction, tree: ZNodeTree) -> Iterator[NodeChange]:
    """What a transaction will change in the tree."""
    body = transaction.body
    head = (transaction.zxid, transaction.time, transaction.session)
    if body.type is TxnType.CLOSE_SESSION:
        for path in sorted({*(body.closed or ()), *tree.owned_by(transaction.session)}):
            yield NodeChange(*head, "expire", path, True, None)
        return
    for part in () if body.has_failed else body.parts or (body,):
        operation = _operation(part)
        if operation is not None and part.path is not None:
            node = tree.nodes.get(part.path)
            is_ephemeral = bool(part.ephemeral if part.type in CREATES else node is not None and node.owner)
            yield NodeChange(*head, operation, part.path, is_ephemeral, part.data)


def _operation(body: TxnBody) -> str | None:
    if body.type in CREATES:
        return "create"
    if body.type in DELETES:
        return "delete"
    if body.type in WRITES:
        return "set"
    return "setACL" if body.type is TxnType.SET_ACL else None
