"""Which release of ZooKeeper wrote files: they do not say it, but what is in them tells.

Source: docs/spec/zookeeper.md#18-which-release.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from kdump.codes import KdumpError
from kdump.zookeeper.datafiles import DataFile, DataSet
from kdump.zookeeper.snapshotfile import read_snapshot
from kdump.zookeeper.transactions import CREATES, Transaction, TxnBody, TxnType
from kdump.zookeeper.tree import CONFIG_PATH, ServerRelease, ZNodeTree
from kdump.zookeeper.txnlog import TxnLog

_SINCE_35: Final = frozenset(
    {TxnType.CREATE2, TxnType.RECONFIG, TxnType.CREATE_CONTAINER, TxnType.DELETE_CONTAINER, TxnType.CREATE_TTL}
)


def release_of(files: DataSet, until: int | None = None) -> ServerRelease:
    """The release of the server that wrote the newest files.

    Args:
        files: of one server.
        until: the release at this zxid is wanted; logs that begin later are asked last.
    """
    late = [log for log in files.logs if until is not None and log.zxid > until]
    early = files.logs[: len(files.logs) - len(late)]
    by_logs = (found for log in (*reversed(early), *late) if (found := _of_log(log)) is not None)
    newest = next(by_logs, None)
    if newest in (ServerRelease.V33, ServerRelease.V36):
        return newest
    by_snapshots = next((found for one in reversed(files.snapshots) if (found := _of_snapshot(one)) is not None), None)
    if newest is None:
        return by_snapshots or (ServerRelease.V34 if files.files else ServerRelease.V36)
    # What is only there since 3.5 need not be in the newest log.
    return max(newest, by_snapshots or max(by_logs, default=newest))


def _of_log(file: DataFile) -> ServerRelease | None:
    """None: nothing in it tells."""
    found = None
    with suppress(KdumpError):
        for entry in TxnLog.of(file, ServerRelease.V36).entries():
            one = _of_transaction(entry.transaction)
            if one in (ServerRelease.V33, ServerRelease.V36):
                return one
            found = max(found or ServerRelease.V33, one) if one is not None else found
    return found


def _of_transaction(transaction: Transaction) -> ServerRelease | None:
    if transaction.digest is not None:
        return ServerRelease.V36
    return max((found for part in _parts(transaction.body) if (found := _of_body(part)) is not None), default=None)


def _parts(body: TxnBody) -> tuple[TxnBody, ...]:
    return (body, *body.parts)


def _of_body(body: TxnBody) -> ServerRelease | None:
    if body.type in _SINCE_35:
        return ServerRelease.V35
    if body.type is TxnType.MULTI:
        return ServerRelease.V34
    if body.type in CREATES:
        return ServerRelease.V33 if body.parent_cversion is None else ServerRelease.V34
    return None


def _of_snapshot(file: DataFile) -> ServerRelease | None:
    """None: it cannot be read."""
    if file.name.codec:
        return ServerRelease.V36
    try:
        found = read_snapshot(file, ServerRelease.V36)
    except KdumpError:
        return None
    if found.digest is not None:
        return ServerRelease.V36
    return ServerRelease.V35 if CONFIG_PATH in found.tree.nodes else _by_counts(found.tree)


def _by_counts(tree: ZNodeTree) -> ServerRelease | None:
    """3.3 counts creations and deletions, so the count and the number of children are both even or both odd."""
    differences = {
        node.cversion - node.child_count for path, node in tree.nodes.items() if path not in ("/", "/zookeeper")
    }
    if differences <= {0}:
        return None
    return ServerRelease.V34 if any(difference % 2 for difference in differences) else ServerRelease.V33
