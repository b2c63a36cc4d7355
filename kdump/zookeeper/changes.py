"""The changes of single nodes, in the order of the transactions.

Source: docs/spec/zookeeper.md#17-the-tree-at-a-moment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kdump.codes import DamageError
from kdump.rows.scalarlines import plain
from kdump.system.blocks import escaped
from kdump.system.units import time_text
from kdump.zookeeper.datafiles import DataSet
from kdump.zookeeper.releases import release_of
from kdump.zookeeper.secrets import data_without_secrets
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


_PLACES: Final = {
    "group": ("/consumers/{0}/",),
    "topic": ("/brokers/topics/{0}/", "/config/topics/{0}/", "/admin/delete_topics/{0}/"),
    "broker": ("/brokers/ids/{0}/", "/config/brokers/{0}/"),
    "partition": ("/brokers/topics/{0}/partitions/{1}/",),
}
"""Where the nodes of a thing lie; a partition has a topic and a number."""


def change_rows(
    files: DataSet, span: tuple[int | None, int | None], wanted: tuple[str, str] | None, *, show_secrets: bool
) -> Iterator[dict[str, Any]]:
    """The changes in the order of the log.

    Args:
        files: of one server.
        span: the first time (ms) and the time before which they end; None: open.
        wanted: ``group``, ``topic``, ``broker`` or ``partition``, and its name; None: all nodes.
        show_secrets: the data of Kafka's configs are shown whole.

    Raises:
        KdumpError: a file cannot be read.
    """
    first, end = span
    places = None if wanted is None else _places(*wanted)
    for change in node_changes(files):
        if (first is not None and change.time < first) or (end is not None and change.time >= end):
            continue
        if places is None or any(place in f"{change.path}/" for place in places):
            row = change._asdict()
            row["timestamp"] = row.pop("time")
            data = change.data if show_secrets else data_without_secrets(change.path, change.data)
            yield {"type": "change"} | row | {"data": plain(data)}


def change_text(row: dict[str, Any]) -> str:
    """A change in one line."""
    data = row["data"]
    shown = "" if data is None else f"  {data if isinstance(data, str) else json.dumps(data)}"
    session = f"session 0x{row['session'] % (1 << 64):x}"
    head = f"{time_text(row['timestamp'])}  zxid 0x{row['zxid']:x}  {session}"
    return escaped(f"{head}  {row['operation']} {row['path']}{shown}") + "\n"


def _places(kind: str, name: str) -> list[str]:
    topic, _, number = name.rpartition("-") if kind == "partition" else (name, "", "")
    return [place.format(topic, number) for place in _PLACES[kind]]
