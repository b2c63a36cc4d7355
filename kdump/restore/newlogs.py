"""The files of a restored partition, made in the journal of its directory: logs, and everything that follows from them.

Source: docs/spec/recovery.md (index files, producers), docs/spec/startup.md#rule-23-leader-epochs,
docs/spec/startup.md#rule-20-from-a-snapshot.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

from kdump.codes import Codes, KdumpError
from kdump.convert.conversion import Losses
from kdump.convert.offsetmap import OFFSET_MAP
from kdump.convert.run import plan_conversion
from kdump.convert.segment import SegmentJob, SegmentResult, convert_segment
from kdump.format.checkpoint import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    EpochEntry,
    write_leader_epoch_checkpoint,
    write_partition_metadata,
)
from kdump.format.snapshot import write_snapshot
from kdump.inputs import resolve
from kdump.kafka.recover import RecoveryOutcome
from kdump.kafka.segmentindexes import DEFAULT_INDEX_INTERVAL
from kdump.log.names import Kind, base_of, sibling
from kdump.log.opening import open_source, read_whole
from kdump.reading.transactionreader import TransactionReader
from kdump.repair.apply import disk
from kdump.repair.apply.journal import pieces_of
from kdump.repair.apply.preparation import Preparation
from kdump.repair.plan.beside import has_txn_index
from kdump.repair.plan.producersat import ProducersAt, ProducersFromFiles, producers_in_snapshot
from kdump.repair.plan.recovery import Recovered, recover_log, start_sha256
from kdump.repair.salvage.pieces import TxnPolicy
from kdump.repair.salvage.placeholders import end_marker
from kdump.restore.plan import Placing, RestoreOptions, RestorePlan
from kdump.system.files import discard, publish

_OWNER: Final = stat.S_IRUSR | stat.S_IWUSR
_OTHER_OWNER: Final = "a second name would have another owner or mode than the files of the target"
_NO_LINKS: Final = "the file systems of source and target allow no second name"
_NO_REFLINKS: Final = "the file systems of source and target share no blocks"
_INDEXES: Final = (Kind.TIME_INDEX, Kind.TXN_INDEX, Kind.INDEX)


@dataclass
class NewPartition:
    """What was made for a partition.

    Attributes:
        logs: names of the logs, in the order of their offsets.
        beside: names of the index files of each log, in the order in which they come.
        others: names of the other new files.
        log_start: log start offset.
        log_end: log end offset.
        size: bytes of the logs.
        linked: how many logs share their blocks with the source.
        unlinked: why others, which need not change, are copies all the same: how many by reason.
        ended: transactions that got a marker.
        losses: what a conversion that was asked for did not keep.
    """

    log_start: int = 0
    log_end: int = 0
    logs: list[str] = field(default_factory=list)
    beside: dict[str, list[str]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    size: int = 0
    linked: int = 0
    unlinked: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    losses: Losses = field(default_factory=Losses)

    @property
    def names(self) -> list[str]:
        """Of all files."""
        return [*self.logs, *(name for names in self.beside.values() for name in names), *self.others]


class PartitionMaker:
    """Makes the files of one partition.

    Args:
        plan: of the partition.
        options: of the run.
        preparation: takes the files.
        like: owner and mode of new files.
    """

    def __init__(
        self, plan: RestorePlan, options: RestoreOptions, preparation: Preparation, like: os.stat_result
    ) -> None:
        self._plan = plan
        self._options = options
        self._preparation = preparation
        self._like = like
        self._conversion = options.conversion_for(plan.target)
        self._made = NewPartition()
        self._epochs_found: list[tuple[int, int]] = []
        self._taken_over: dict[str, str] = {}

    def make(self) -> NewPartition:
        """Make all files.

        Raises:
            KdumpError: a file cannot be read or written, or a broker's recovery would cut what was made.
        """
        made = self._made
        base_offset, count = Counter(segment.base_offset for segment in self._plan.segments).most_common(1)[0]
        if count > 1 and self._conversion.renumber is None:
            # Such as 5.log and 05.log.
            message = f"two logs of it begin at offset {base_offset}: move one of them away, or --renumber them"
            raise KdumpError(Codes.REPAIR_REFUSED, message, path=self._plan.source)
        if self._options.is_converted:
            self._convert()
        else:
            self._take_over()
        is_moved = self._conversion.selects or self._conversion.renumber is not None
        made.log_start = base_of(made.logs[0]) if is_moved else max(self._plan.log_start, base_of(made.logs[0]))
        self._follow()
        self._write(PARTITION_METADATA, write_partition_metadata(self._plan.target.topic_id))
        self._write(LEADER_EPOCH_CHECKPOINT, write_leader_epoch_checkpoint(self._epochs()))
        return made

    # The logs.

    def _convert(self) -> None:
        """Convert all segments as they were asked for."""
        new = os.path.join(self._new, "")
        followed = TransactionReader()
        results = [
            convert_segment(replace(job, like=self._like, new_name=self._name), followed=followed)
            for job in plan_conversion(resolve(self._plan.source), new, self._conversion, maps_offsets=True)
        ]
        errors = [result.error for result in results if result.error is not None]
        if errors:
            for result in results:
                discard(result.staged)
            raise errors[0]
        for result in results:
            self._made.losses += result.losses
        if self._made.losses and self._options.refuses_losses:
            message = "the conversion would lose something; nothing was written (--strict)"
            raise KdumpError(Codes.REPAIR_REFUSED, message, path=self._plan.source)
        kept = [result for result in results if not result.is_empty] or results[-1:]
        for result in results:
            self._keep(result if result in kept else SegmentResult(result.source, staged=result.staged))
        self._made.logs.sort(key=base_of)

    def _take_over(self) -> None:
        """Take each segment as it is, or without what must not be in it."""
        segments = self._plan.segments
        last = len(segments) - 1
        for number, segment in enumerate(segments):
            name = f"{segment.base_offset:020}{Kind.LOG.value}"
            if not self._plan.rewritten[number]:
                self._place(segment.path, name, is_last=number == last)
                continue
            target, base = os.path.join(self._new, name), segment.base_offset
            job = SegmentJob(segment.path, target, base, self._conversion, is_alone=False, like=self._like)
            result = convert_segment(job)
            if result.error is not None:
                raise result.error
            if result.is_empty and number < last:
                discard(result.staged)
                continue
            self._keep(result)
            self._set_modified(result, os.stat(segment.path).st_mtime_ns)

    def _keep(self, result: SegmentResult) -> None:
        """Give the logs of a result, and its offset map, their names.

        Their index files are made anew, after all logs are there.
        """
        logs = {segment.path for segment in result.segments}
        maps = {staged.path for staged in result.staged if logs and staged.path.endswith(OFFSET_MAP)}
        publish([staged for staged in result.staged if staged.path in logs | maps])
        discard([staged for staged in result.staged if staged.path not in logs | maps])
        self._made.logs += sorted(map(os.path.basename, logs), key=base_of)
        for path in maps:
            with open_source(path) as source:
                self._preparation.made(os.path.basename(path), start_sha256(source, source.size or 0))
            self._made.others.append(os.path.basename(path))

    def _set_modified(self, result: SegmentResult, modified: int) -> None:
        for segment in result.segments:
            disk.set_modified(self._preparation.new_entry(os.path.basename(segment.path)), modified)

    def _place(self, path: str, name: str, *, is_last: bool) -> None:
        """Give a log that need not change its place; a broker writes to the last one, so that gets no second name."""
        placing, entry = self._options.placing, self._preparation.new_entry(name)
        self._made.logs.append(name)
        self._taken_over[name] = path
        if placing is Placing.HARD_LINK and not is_last:
            if not self._may_share(path):
                self._made.unlinked[_OTHER_OWNER] += 1
            elif disk.link(path, entry):
                self._made.linked += 1
                return
            else:
                self._made.unlinked[_NO_LINKS] += 1
        with disk.open_file(path) as source, disk.NewDiskFile(entry, self._like, keep_owner=True) as copy:
            if placing is Placing.REFLINK and copy.clone(path):
                self._made.linked += 1
            else:
                if placing is Placing.REFLINK:
                    self._made.unlinked[_NO_REFLINKS] += 1
                for piece in pieces_of(source):
                    copy.write(piece)
            copy.finish(modified=source.status.st_mtime_ns)

    def _may_share(self, path: str) -> bool:
        """The broker may open the file of the source: a second name has the same owner and mode."""
        status, like = os.stat(path), self._like
        is_owned = (status.st_uid, status.st_gid) == (like.st_uid, like.st_gid)
        return is_owned and status.st_mode & _OWNER == _OWNER

    @property
    def _new(self) -> str:
        folder = self._preparation.folders.new
        assert folder is not None
        return folder.path

    @property
    def _name(self) -> tuple[str, int]:
        return self._plan.target.topic, self._plan.target.partition

    def _path(self, name: str) -> str:
        return os.path.join(self._new, name)

    # What follows from the logs.

    def _follow(self) -> None:
        """Make index files and snapshots as a broker's recovery of all logs makes them, one after the other."""
        made = self._made
        producers = self._first_producers()
        for number, name in enumerate(made.logs):
            if number:
                producers = self._snapshot_at(base_of(name), producers, is_end=False)
            is_last = number == len(made.logs) - 1
            before = producers.copy() if is_last else producers
            recovered = self._recovered(name, producers)
            if is_last and self._end_transactions(name, recovered):
                recovered = self._recovered(name, before)
            producers = recovered.producers
            self._note_log(name, recovered)
        if self._options.forgets_producers:
            self._add_empty_log()
        elif made.log_end == base_of(made.logs[-1]):
            return  # An empty last log: its first snapshot is that of the end.
        self._snapshot_at(made.log_end, producers, is_end=True)

    def _first_producers(self) -> ProducersAt:
        if self._has_source_snapshots:
            return ProducersFromFiles().at(self._plan.segments[0].path)
        return ProducersAt(base_of(self._made.logs[0]), is_known=True)

    @property
    def _keeps_producers(self) -> bool:
        return self._conversion.keeps_markers and not self._conversion.selects

    def _recovered(self, name: str, producers: ProducersAt) -> Recovered:
        """What a broker's recovery makes of a new log. Raises KdumpError if it cuts the log."""
        base, interval = base_of(name), DEFAULT_INDEX_INTERVAL
        with open_source(self._path(name)) as source:
            recovered = recover_log(source, base, producers, index_interval=interval)
        if recovered.recovery.outcome is not RecoveryOutcome.UNCHANGED:
            failure = recovered.recovery.failure
            why = "would cut it" if failure is None else f"fails: {failure.message}"
            message = (
                f"a broker's recovery of {name} {why}; kdump repair --salvage first makes a log of it that is good"
            )
            raise KdumpError(Codes.REPAIR_REFUSED, message, path=self._plan.source)
        return recovered

    def _note_log(self, name: str, recovered: Recovered) -> None:
        made = self._made
        self._preparation.made(name, recovered.sha256)
        files = recovered.index_files(has_txn_index=False)
        self._epochs_found += recovered.recovery.leader_epochs
        source = self._taken_over.get(name)
        if recovered.keeps_txn_index and source is not None and has_txn_index(source):
            # What was before the log, and is lost, may have begun a transaction.
            files[Kind.TXN_INDEX] = read_whole(sibling(source, Kind.TXN_INDEX))
        made.beside[name] = []
        for kind in _INDEXES:
            if kind in files:
                index = sibling(name, kind)
                self._preparation.write(index, files[kind], self._like)
                made.beside[name].append(index)
        made.size += recovered.recovery.end
        made.log_end = max(made.log_end, made.log_start, base_of(name), recovered.recovery.next_offset)

    def _end_transactions(self, name: str, recovered: Recovered) -> bool:
        """Add markers for the transactions that end at the end of the last log; False: none is added."""
        default = self._options.transactions or TxnPolicy.LEAVE
        policies = {one: self._plan.transactions.get(one, default) for one in recovered.producers.ongoing.values()}
        ended = {one: policy for one, policy in policies.items() if policy is not TxnPolicy.LEAVE}
        if not ended:
            return False
        offset = max(recovered.recovery.next_offset, base_of(name), self._made.log_start)
        entry, epoch = self._preparation.new_entry(name), self._plan.target.highest_epoch
        markers = bytearray()
        for producer_id, policy in ended.items():
            state = recovered.producers.by_id[producer_id]
            markers += end_marker(
                offset,
                epoch,
                is_abort=policy is TxnPolicy.ABORT,
                producer_id=producer_id,
                producer_epoch=state.epoch,
                coordinator_epoch=max(state.coordinator_epoch, 0),
                timestamp=state.timestamp,
            )
            offset += 1
        modified = os.stat(self._path(name)).st_mtime_ns
        disk.rewrite_end(entry, recovered.recovery.end, [memoryview(markers)], modified)
        self._made.ended = len(ended)
        return True

    def _snapshot_at(self, offset: int, producers: ProducersAt, *, is_end: bool) -> ProducersAt:
        """Write the snapshot at an offset; returns the producers there.

        That of the source is taken where it is one of the same log: a broker takes it for true, and it knows producers
        whose batches are gone. Where producers are forgotten, those of open transactions stay: without them readers of
        committed records would not wait.
        """
        if offset <= self._made.log_start:
            return producers
        name, data = f"{offset:020}{Kind.SNAPSHOT.value}", b""
        if self._has_source_snapshots and not (is_end and self._made.ended):
            path = os.path.join(self._plan.place.directory, f"{offset:020}{Kind.LOG.value}")
            states = producers_in_snapshot(path)
            if states is not None:
                producers, data = states, read_whole(sibling(path, Kind.SNAPSHOT))
        if not self._options.forgets_producers:
            self._write(name, data or producers.snapshot())
        elif is_end:
            entries = producers.entries()
            self._write(name, write_snapshot(entry for entry in entries if entry.current_txn_first_offset >= 0))
        return producers

    @property
    def _has_source_snapshots(self) -> bool:
        return self._keeps_producers and self._plan.place.log is None

    def _add_empty_log(self) -> None:
        """An empty last segment: a recovery begins there, and reads no batch with a producer."""
        made = self._made
        name = f"{made.log_end:020}{Kind.LOG.value}"
        if made.log_end == base_of(made.logs[-1]):
            return
        self._write_new(name, b"")
        made.logs.append(name)
        made.beside[name] = []
        for kind in (Kind.TIME_INDEX, Kind.INDEX):
            self._write_new(sibling(name, kind), b"")
            made.beside[name].append(sibling(name, kind))

    def _epochs(self) -> list[EpochEntry]:
        """The leader epochs as the recovery of the batches finds them, from the log start on."""
        found: list[EpochEntry] = []
        for epoch, first in self._epochs_found:
            if not found or epoch > found[-1].epoch:
                # Of those that begin at the log start, or before it, the last one holds.
                entry = EpochEntry(epoch, max(first, self._made.log_start))
                found = [*(one for one in found if one.start_offset < entry.start_offset), entry]
        return found

    def _write(self, name: str, data: bytes) -> None:
        self._write_new(name, data)
        self._made.others.append(name)

    def _write_new(self, name: str, data: bytes) -> None:
        self._preparation.write(name, data, self._like)
