"""Repaired copies of segments and partitions in another directory."""

from __future__ import annotations

import os

from kdump.kafka.recover import Outcome
from kdump.log.names import Kind, parse_file_name, sibling
from kdump.log.source import read_whole
from kdump.mend.disk import NewFile
from kdump.mend.indexes import has_indexes
from kdump.mend.likebroker import Recovered, recover_log
from kdump.mend.mendedsource import MendedSource
from kdump.mend.partitionfiles import PartitionFiles, epochs_up_to
from kdump.mend.plan import SegmentPlan, Settings
from kdump.mend.staging import Staging


class CopyWriter:
    """Writes what is kept of one segment after the other into a staging directory.

    ``like``: files get the owner, where that can be given, and the mode of the logs that they come from.
    """

    def __init__(self, staging: Staging) -> None:
        self._staging = staging

    def open(self, name: str, path: str) -> NewFile:
        """The copy of the log ``path``, to be filled and given to ``finish``; without the state suffix of ``name``."""
        parsed = parse_file_name(name)
        return self._staging.file(name if parsed is None else f"{parsed.stem}{parsed.kind.value}", os.stat(path))

    def finish(self, path: str, copy: NewFile, recovered: Recovered) -> None:
        """The log's copy is filled: cut it, and write the index files beside it."""
        status = os.stat(path)
        recovery = recovered.recovery
        if recovery.outcome is Outcome.FAILED:
            return
        copy.finish(size=recovery.end, modified=status.st_mtime_ns)
        if not has_indexes(path):
            return
        name = os.path.basename(copy.path)
        old = sibling(path, Kind.TXN_INDEX)
        had = os.path.lexists(old)
        for kind, data in recovered.index_files(has_txn_index=had).items():
            self._staging.write(sibling(name, kind), data, status)
        if recovered.keeps_txn_index and had:
            self._staging.write(sibling(name, Kind.TXN_INDEX), read_whole(old), os.stat(old))

    def write_salvaged(self, segment: SegmentPlan, settings: Settings) -> None:
        """A log as salvage leaves it, and its index files."""
        log = segment.salvaged
        if log is None:
            raise ValueError("salvage was not asked for")
        producers, interval = segment.producers.copy(), settings.index_interval
        with self.open(segment.mended_name, segment.path) as copy, MendedSource(segment.path, log) as source:
            recovered = recover_log(source, log.base_offset, producers, index_interval=interval, copy=copy)
            self.finish(segment.path, copy, recovered)

    def write_others(self, files: PartitionFiles, *, end_offset: int, sound_up_to: int) -> None:
        """The files that belong to no single segment.

        Args:
            files: of the partition.
            end_offset: the log end offset of the copy.
            sound_up_to: the first offset lost; snapshots above it were made with what is dropped.
        """
        for path in files.kept_snapshots(end_offset=end_offset, sound_up_to=sound_up_to):
            self._copy(path, read_whole(path))
        for path in files.others:
            self._copy(path, read_whole(path))
        if files.epochs is not None:
            data = read_whole(files.epochs)
            self._copy(files.epochs, epochs_up_to(data, end_offset) or data)

    def _copy(self, path: str, data: bytes) -> None:
        status = os.stat(path)
        self._staging.write(os.path.basename(path), data, status, status.st_mtime_ns)
