"""Repaired copies of segments and partitions in another directory."""

from __future__ import annotations

import os

from kdump.kafka.recover import RecoveryOutcome
from kdump.log.names import Kind, parse_file_name, sibling
from kdump.log.opening import read_whole
from kdump.repair.brokerrecovery import Recovered, recover_log
from kdump.repair.disk import NewDiskFile
from kdump.repair.indexes import has_indexes
from kdump.repair.others import changed_others
from kdump.repair.partitionfiles import PartitionFiles
from kdump.repair.plan import PartitionPlan, RepairSettings, SegmentPlan
from kdump.repair.repairedsource import RepairedSource
from kdump.repair.staging import Staging


class CopyWriter:
    """Writes what is kept of one segment after the other into a staging directory.

    ``like``: files get the owner, where that can be given, and the mode of the logs that they come from.
    """

    def __init__(self, staging: Staging) -> None:
        self._staging = staging

    def open(self, name: str, path: str) -> NewDiskFile:
        """A copy with the owner and mode of ``path``, to be filled and given to ``finish``.

        It is called ``name`` without the state suffix.
        """
        parsed = parse_file_name(name)
        return self._staging.file(name if parsed is None else f"{parsed.stem}{parsed.kind.value}", os.stat(path))

    def finish(self, path: str, copy: NewDiskFile, recovered: Recovered, status: os.stat_result, modified: int) -> None:
        """The copy of the log ``path`` is filled: cut it, and write the index files beside it.

        ``status``: with the owner and mode for them; ``modified``: the time of the log's last change (ns).
        """
        recovery = recovered.recovery
        if recovery.outcome is RecoveryOutcome.FAILED:
            return
        copy.finish(size=recovery.end, modified=modified)
        if not has_indexes(path):
            return
        name = os.path.basename(copy.path)
        old = sibling(path, Kind.TXN_INDEX)
        had = os.path.lexists(old)
        for kind, data in recovered.index_files(has_txn_index=had).items():
            self._staging.write(sibling(name, kind), data, status)
        if recovered.keeps_txn_index and had:
            self._staging.write(sibling(name, Kind.TXN_INDEX), read_whole(old), os.stat(old))

    def write_salvaged(self, segment: SegmentPlan, settings: RepairSettings) -> None:
        """A log as salvage leaves it, and its index files."""
        log = segment.salvaged
        if log is None:
            raise ValueError("salvage was not asked for")
        producers, interval = segment.producers.copy(), settings.index_interval
        with self.open(segment.repaired_name, segment.like) as copy, RepairedSource(segment.path, log) as source:
            recovered = recover_log(source, log.base_offset, producers, index_interval=interval, copy=copy)
            self.finish(segment.path, copy, recovered, os.stat(segment.like), segment.modified)

    def write_others(self, plan: PartitionPlan) -> None:
        """The files that belong to no single segment."""
        files, others = PartitionFiles.of(plan.place.directory), changed_others(plan)
        snapshots = [path for _, path in files.snapshots]
        for path in (*snapshots, *files.others, *([] if files.epochs is None else [files.epochs])):
            if os.path.basename(path) not in (*others.dropped, *others.written):
                self._copy(path, read_whole(path))
        for name, data in others.written.items():
            path = os.path.join(plan.place.directory, name)
            if os.path.lexists(path):
                self._copy(path, data)
            else:
                self._staging.write(name, data, os.stat(plan.segments[0].like))

    def _copy(self, path: str, data: bytes) -> None:
        status = os.stat(path)
        self._staging.write(os.path.basename(path), data, status, status.st_mtime_ns)
