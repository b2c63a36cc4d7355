"""What is wrong with the files of a ZooKeeper server, and what the server would restore of them.

Source: docs/spec/zookeeper.md#16-damaged-files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kdump.codes import Codes, DamageError, Finding, Severity
from kdump.log.files import is_directory
from kdump.system.units import counted
from kdump.verify.partition import Item
from kdump.verify.summary import SegmentSummary
from kdump.zookeeper.consumers import owner_findings
from kdump.zookeeper.datafiles import DataFile, DataSet, data_sets
from kdump.zookeeper.names import is_own
from kdump.zookeeper.releases import release_of
from kdump.zookeeper.restore import RestoredTree, follows, restore
from kdump.zookeeper.snapshotfile import looks_complete, read_snapshot
from kdump.zookeeper.tree import ServerRelease
from kdump.zookeeper.txnlog import EndKind, LogEntry, TxnLog


def check(path: str, beside: Sequence[str]) -> Iterator[Item]:
    """See WorldPathChecks.

    Where one PATH holds the snapshots and another one the logs, what is restored is told of the first of them.
    """
    for found in data_sets([path]):
        server: DataSet | None = found if is_directory(path) else None
        if server is not None and not (found.snapshots and found.logs):
            sets = data_sets(other for other in beside if is_directory(other) and is_own(other))
            server = next((one for one in sets if set(found.files) < set(one.files)), found)
        yield from _check(found, server if server is None or server.path == path else None)


def _check(files: DataSet, server: DataSet | None) -> Iterator[Item]:
    """Check each file, the sequence of all transactions, and what a server would restore.

    Args:
        files: these are checked.
        server: all files of the server; None: nobody asks what it restores.

    Raises:
        KdumpError: a file cannot be read.
    """
    release = release_of(files)
    for snapshot in files.snapshots:
        yield from _checked(snapshot, _check_snapshot(snapshot, release))
    sequence = _Sequence()
    for log in files.logs:
        yield from _checked(log, _check_log(log, release, sequence))
    if server is not None:
        yield from restored_findings(restore(server, release_of(server)), server, with_summary=True)


def restored_findings(found: RestoredTree, files: DataSet, *, with_summary: bool) -> Iterator[Finding]:
    """What is wrong with a restored tree.

    ``with_summary``: also what is restored, and without the snapshots that were refused, which are checked themselves.
    """
    path = files.path
    for file, reason in () if with_summary else found.refused:
        yield Finding(Codes.ZOOKEEPER_SNAPSHOT, f"ZooKeeper does not take the snapshot: {reason}", 0, path=file.path)
    for before, after in found.gaps:
        what = f"zxid 0x{after:x} follows 0x{before:x} in the replay: the tree lacks the changes between them"
        yield Finding(Codes.ZOOKEEPER_GAP, what, 0, path=path)
    if found.digests is not None and found.digests[0] != found.digests[1]:
        computed, logged = found.digests
        what = f"the tree has the digest {computed}, the log says {logged} after zxid 0x{found.last_zxid:x}"
        yield Finding(Codes.ZOOKEEPER_DIGEST, what, 0, path=path)
    if found.failure is not None:
        what = f"a server with only these files does not start: {found.failure}"
        yield Finding(Codes.ZOOKEEPER_NO_START, what, 0, path=path)
        return
    yield from owner_findings(found.tree, path)
    if with_summary:
        start = "nothing" if found.snapshot is None else found.snapshot.file_name
        tree = found.tree
        what = (
            f"ZooKeeper restores {counted(len(tree.nodes), 'node')} and {counted(len(tree.sessions), 'session')} up to "
            f"zxid 0x{found.last_zxid:x}, from {start} and {counted(found.replayed, 'transaction')}"
        )
        yield Finding(Codes.ZOOKEEPER_RESTORE, what, 0, path=path)


def _checked(file: DataFile, found: Iterator[Finding]) -> Iterator[Item]:
    counts = dict.fromkeys(Severity, 0)
    for finding in found:
        counts[finding.severity] += 1
        yield replace(finding, path=file.path)
    yield SegmentSummary(file.path, file.size, None, None, None, counts, None)


def _check_snapshot(file: DataFile, release: ServerRelease) -> Iterator[Finding]:
    if not looks_complete(file):
        yield Finding(Codes.ZOOKEEPER_SNAPSHOT, "it does not end as a snapshot ends; ZooKeeper ignores it", 0)
        return
    try:
        read_snapshot(file, release)
    except DamageError as error:
        yield Finding(Codes.ZOOKEEPER_SNAPSHOT, error.message, 0)


class _Sequence:
    """The zxids of all transactions so far."""

    def __init__(self) -> None:
        self._last: int | None = None

    def see(self, entry: LogEntry) -> Finding | None:
        """A finding where a transaction does not follow the one before."""
        zxid, last = entry.transaction.zxid, self._last
        self._last = zxid if last is None else max(last, zxid)
        if last is None or follows(zxid, last):
            return None
        if zxid > last:
            return Finding(Codes.ZOOKEEPER_GAP, f"zxid 0x{zxid:x} follows 0x{last:x}", entry.position)
        what = f"zxid 0x{zxid:x} is there again after 0x{last:x}; ZooKeeper applies it again"
        return Finding(Codes.ZOOKEEPER_GAP, what, entry.position, graded=Severity.WARNING)


def _check_log(file: DataFile, release: ServerRelease, sequence: _Sequence) -> Iterator[Finding]:
    try:
        log = TxnLog.of(file, release)
    except DamageError as error:
        yield Finding(Codes.ZOOKEEPER_LOG, error.message, 0)
        return
    for entry in log.entries():
        finding = sequence.see(entry)
        if finding is not None:
            yield finding
    end = log.end
    if end.kind is EndKind.FAILURE:
        yield Finding(Codes.ZOOKEEPER_LOG, end.reason, end.position)
    elif end.kind is EndKind.QUIET:
        yield Finding(Codes.ZOOKEEPER_TORN, end.reason, end.position)
    later = [entry.transaction.zxid for entry in log.later_entries()]
    if later:
        what = f"{counted(len(later), 'transaction')} from zxid 0x{later[0]:x} to 0x{later[-1]:x} follow"
        yield Finding(Codes.ZOOKEEPER_LOST, f"{what} after the end of what ZooKeeper reads", end.position)
