"""What a server restores of its files, and the tree at an earlier moment.

Source: docs/spec/zookeeper.md#15-replay, docs/spec/zookeeper.md#16-damaged-files (FileTxnSnapLog of ZooKeeper).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeAlias

from kdump.codes import Codes, DamageError, KdumpError
from kdump.zookeeper.datafiles import DataFile, DataSet
from kdump.zookeeper.releases import release_of
from kdump.zookeeper.snapshotfile import looks_complete, read_snapshot
from kdump.zookeeper.transactions import Transaction
from kdump.zookeeper.tree import CONFIG_PATH, ServerRelease, ZNodeTree
from kdump.zookeeper.txnlog import EndKind, TxnLog

_MOST_SNAPSHOTS: Final = 100
"""Snapshots that a server looks at."""
_MOST_STARTS: Final = 4
"""Snapshots from which the tree at a zxid is replayed. An older one hardly helps: the same gaps come after it."""
_COUNTER: Final = (1 << 32) - 1


@dataclass(slots=True)
class RestoredTree:
    """What was restored.

    ``last_zxid``: the last one of the tree. ``snapshot``: the one that was taken; None: the replay began with an empty
    tree. ``refused``: snapshots that were looked at before, and why they were not taken. ``replayed``: the number of
    transactions. ``gaps``: the last zxid before and the first one after
    each gap. ``failure``: the exception with which the server does not start; None: it starts. ``time``: of the last
    transaction that was applied (ms). ``logged_digest``: of the tree, as the log says it; None: it does not.
    """

    tree: ZNodeTree
    last_zxid: int = 0
    snapshot: DataFile | None = None
    refused: list[tuple[DataFile, str]] = field(default_factory=list)
    replayed: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    failure: str | None = None
    time: int | None = None
    logged_digest: int | None = None

    @property
    def digests(self) -> tuple[int, int] | None:
        """The digest of the tree, and the one that the log says; None: it says none."""
        return None if self.logged_digest is None else (self.tree.digest(), self.logged_digest)

    @property
    def is_whole(self) -> bool:
        """No transaction is missing between the start and the end."""
        return self.failure is None and not self.gaps


Until: TypeAlias = Callable[[Transaction], bool]
"""Whether a transaction is applied; after the first that is not, none is."""


def restore(files: DataSet, release: ServerRelease | None = None) -> RestoredTree:
    """What a server of ``release`` restores (None: of the release that wrote the files). Raises as ``open_source``."""
    release = release_of(files) if release is None else release
    found = _newest_snapshot(files, release)
    if found.failure is None and found.snapshot is None and release >= ServerRelease.V35 and files.logs:
        found.failure = "java.io.IOException: No snapshot found, but there are log entries. Something is broken!"
    found.tree.counts_again = True
    if found.failure is None:
        _replay(found, files.logs)
    return found


def tree_at(files: DataSet, zxid: int) -> RestoredTree:
    """The tree after all transactions up to and including ``zxid``.

    A snapshot is written while transactions go on. It may show changes that came after the zxid in its name, but none
    that came after the next snapshot began. So the replay starts one snapshot earlier than it must, if the logs
    have all transactions since then.

    Raises:
        KdumpError: ZOOKEEPER_STATE, neither a snapshot nor logs go back so far; as ``open_source``.
    """
    release = release_of(files, zxid)
    best: RestoredTree | None = None
    for start in islice(_starts(files, release, zxid), _MOST_STARTS):
        _replay(start, files.logs, lambda transaction: transaction.zxid <= zxid)
        _add_config(start.tree, files.snapshots, zxid)
        if best is None or (best.failure is not None and start.failure is None):
            best = start
        if start.is_whole:
            return start
    if best is None:
        what = f"the files do not go back to zxid 0x{zxid:x}"
        raise KdumpError(Codes.ZOOKEEPER_STATE, what, path=files.path)
    return best


def _add_config(tree: ZNodeTree, snapshots: Sequence[DataFile], zxid: int) -> None:
    """Take the list of servers from a snapshot: a server of an ensemble sets it at its start, without a transaction."""
    node = tree.nodes.get(CONFIG_PATH)
    if node is None or node.data:
        return
    for file in snapshots:
        try:
            found = read_snapshot(file, tree.release).tree.nodes.get(CONFIG_PATH)
        except DamageError:
            continue
        if found is not None and found.data and found.mzxid <= zxid:
            tree.nodes[CONFIG_PATH] = found
            return


def last_zxid_at(files: DataSet, time: int) -> int:
    """The zxid of the last transaction before the first one that is later than ``time`` (ms).

    Without logs: of the newest snapshot without a later change.

    Raises:
        KdumpError: ZOOKEEPER_STATE, neither a snapshot nor logs go back so far; as ``open_source``.
    """
    release = release_of(files)
    last = None
    for log in reversed(files.logs):
        found = None
        for entry in TxnLog.of(log, release).entries():
            if entry.transaction.time > time:
                break
            found = entry.transaction.zxid
        else:
            if found is not None:
                return found
            continue
        if found is not None:
            return found
        last = entry.transaction.zxid - 1
    if last is not None:
        return last
    for snapshot in reversed(files.snapshots):
        try:
            tree = read_snapshot(snapshot, release).tree
        except DamageError:
            continue
        if all(max(node.ctime, node.mtime) <= time for node in tree.nodes.values()):
            return snapshot.zxid
    raise KdumpError(Codes.ZOOKEEPER_STATE, "the files do not go back to this time", path=files.path)


def follows(zxid: int, before: int) -> bool:
    """A transaction is the next one after another: the next number, or the first of a later epoch."""
    return zxid == before + 1 or (zxid >> 32 > before >> 32 and zxid & _COUNTER <= 1)


def _newest_snapshot(files: DataSet, release: ServerRelease) -> RestoredTree:
    """The start of a restore, before the logs."""
    found = RestoredTree(ZNodeTree.initial(release))
    tried = 0
    for file in reversed(files.snapshots):
        if tried == _MOST_SNAPSHOTS:
            break
        if not looks_complete(file):
            found.refused.append((file, "it does not end as a snapshot ends"))
            continue
        tried += 1
        try:
            snapshot = read_snapshot(file, release)
        except DamageError as error:
            found.refused.append((file, error.message))
            continue
        found.tree, found.snapshot = snapshot.tree, file
        found.last_zxid = file.zxid if snapshot.last_zxid is None else snapshot.last_zxid
        return found
    if tried:
        found.failure = f"java.io.IOException: Not able to find valid snapshots in {files.path}"
    return found


def _starts(files: DataSet, release: ServerRelease, zxid: int) -> Iterator[RestoredTree]:
    """Where a replay up to ``zxid`` can start: one snapshot earlier than it must, then the newest."""
    starts: list[DataFile | None] = [file for file in files.snapshots if file.zxid <= zxid and looks_complete(file)]
    if _begins_at_the_start(files.logs, release):
        starts.insert(0, None)
    for file in (*starts[-2:], *reversed(starts[:-2])):
        if file is None:
            yield RestoredTree(ZNodeTree.initial(release))
            continue
        try:
            snapshot = read_snapshot(file, release)
        except DamageError:
            continue
        yield RestoredTree(snapshot.tree, file.zxid, file)


def _begins_at_the_start(logs: Sequence[DataFile], release: ServerRelease) -> bool:
    if not logs:
        return False
    try:
        first = next(TxnLog.of(logs[0], release).entries(), None)
    except DamageError:
        return False
    # The first transaction of a server alone, and that of an ensemble.
    return first is not None and first.transaction.zxid in (1, 1 << 32 | 1)


def _replay(found: RestoredTree, logs: Sequence[DataFile], applies: Until | None = None) -> None:
    """Apply the transactions after ``found.last_zxid``, as a server reads them."""
    start = found.last_zxid + 1
    first = max((number for number, log in enumerate(logs) if log.zxid < start), default=0)
    is_begun = False
    for file in logs[first:]:
        try:
            log = TxnLog.of(file, found.tree.release)
        except DamageError as error:
            found.failure = f"java.io.IOException: {error.message}"
            return
        for entry in log.entries():
            transaction = entry.transaction
            if transaction.zxid < start and not is_begun:
                continue
            is_begun = True
            if applies is not None and not applies(transaction):
                return
            if transaction.zxid > found.last_zxid and not follows(transaction.zxid, found.last_zxid):
                found.gaps.append((found.last_zxid, transaction.zxid))
            found.tree.apply(transaction)
            found.replayed += 1
            found.time = transaction.time
            if transaction.digest is not None:
                found.logged_digest = transaction.digest
            found.last_zxid = max(found.last_zxid, transaction.zxid)
        if log.end.kind is EndKind.FAILURE:
            found.failure = log.end.reason
            return
