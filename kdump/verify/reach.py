"""The offsets that a partition's log once had, and which files prove it: the one place of these rules.

A broker writes names and numbers beside its logs that are true when it writes them: an offset that one of them names
was once in the log, or was its end. Where the logs end before it, the offsets between are lost. The other way round is
normal: after a crash these files are older than the log.

- A producer snapshot, the recovery point, the high watermark and a leader epoch never lie after the end of the log.
- Retention and DeleteRecords move the start of the log. They move the first leader epoch too, before they rename a
  file, so a first epoch before the first segment tells that a segment was lost. The line in
  log-start-offset-checkpoint is up to a minute old; after a clean stop it is right.
  The file of the epochs is written by another thread, so a segment whose .log is still there as .deleted is no loss.
- What is in remote storage is not lost: the first local segment may begin later.
- The files of a segment are renamed together when it is deleted, the .log first. An .index without its .log, or of an
  empty one, and without a .deleted file of that name, is left of a log that was lost.

Each file may be damaged itself. Those that a check cannot tell from garbage count only near the end of the log, or
where a second one names about the same offset.

Source: docs/spec/startup.md rules 2, 7, 18, 21, 23, 24 and 25 (UnifiedLog.deleteSegments, LogManager
.checkpointLogStartOffsetsInDir, LeaderEpochFileCache.truncateFromStart, LogSegment.changeFileSuffixes).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kdump.codes import DamageError, KdumpError
from kdump.format.checkpoint import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from kdump.format.snapshot import parse_snapshot
from kdump.log import files
from kdump.log.names import INDEX_KINDS, FileName, Kind, is_uri, parse_file_name, parse_partition_directory
from kdump.log.siblings import checkpoint_offsets, parse_leader_epochs
from kdump.verify.batchtable import TailEnd
from kdump.verify.indexedlog import IndexedLog
from kdump.verify.indexes import index_end, indexed_end, is_near, without_appended
from kdump.verify.siblings import PartitionListing
from kdump.worlds import world_of_store

_ON_ITS_WAY_OUT: Final = "-delete"


class Witness(NamedTuple):
    """A file that names offsets up to ``end_offset`` (exclusive)."""

    file: str
    end_offset: int


class AlreadyLost(NamedTuple):
    """Offsets (inclusive) that the log had and none of its segments has; ``witnesses``: files that name them."""

    first_offset: int
    last_offset: int
    witnesses: tuple[str, ...]

    def has(self, first_offset: int, last_offset: int) -> bool:
        """Whether all of these offsets are among them."""
        return self.first_offset <= first_offset and last_offset <= self.last_offset

    def __str__(self) -> str:
        return f"offsets {self.first_offset}..{self.last_offset}, known from {_listed(self.witnesses)}"


class KnownOffsets(NamedTuple):
    """What the log directory knows of the partition; None: nothing.

    ``is_clean``: the broker was stopped properly, so that the offsets are those at its stop.
    """

    is_clean: bool = False
    recovery_point: int | None = None
    high_watermark: int | None = None
    log_start: int | None = None


class SegmentReach(NamedTuple):
    """The offsets of a .log; ``end_offset`` (exclusive) is called only where it is needed."""

    base_offset: int
    is_empty: bool
    end_offset: Callable[[], int]


class LastSegment(NamedTuple):
    """How to answer questions about the end of a log.

    ``was_cleaned``: whether the log cleaner compacted the last segment that is not empty.
    ``index_ends``: the result of ``PartitionEvidence.index_ends`` for the last segment.
    ``tail_end``: the result of ``BatchTable.tail_end``.
    """

    was_cleaned: Callable[[], bool]
    index_ends: Callable[[], Iterable[Witness]]
    tail_end: Callable[[], TailEnd] = lambda: TailEnd(0, 0)


class PartitionEvidence:
    """The files beside the logs of one partition.

    Names, epochs and checkpoints are read at once. What a running broker appends later is in the logs when they are
    read. Snapshots and indexes are read where an answer depends on them.

    Args:
        directory: the path; one that is about to be deleted (``-delete``) proves nothing.
        names: of the files in it.
        read: returns the bytes of one of them, raises KdumpError.
        checkpoints: of the log directory; None: they are read there.
    """

    def __init__(
        self,
        directory: str,
        names: Iterable[str],
        read: Callable[[str], bytes],
        checkpoints: KnownOffsets | None = None,
    ) -> None:
        self._directory = directory
        self._read = read
        whole = files.absolute(directory)
        if whole.endswith(_ON_ITS_WAY_OUT):
            names, checkpoints = (), KnownOffsets()
        self.checkpoints = read_checkpoints(whole) if checkpoints is None else checkpoints
        self._names: dict[int, dict[str, FileName]] = {}
        self._is_swapped = is_there = False
        self._deleted: list[int] = []
        self._snapshot_of_all = -1
        for name in sorted(names):
            is_there |= name == LEADER_EPOCH_CHECKPOINT
            parsed = parse_file_name(name)
            if (
                parsed is not None
                and parsed.kind is Kind.CHECKPOINT
                and (end := parsed.stem.partition("-")[0]).isdecimal()
            ):
                self._snapshot_of_all = max(self._snapshot_of_all, int(end))
            elif parsed is not None and parsed.base_offset is not None:
                self._names.setdefault(parsed.base_offset, {})[name] = parsed
                self._is_swapped |= parsed.state == ".swap"
                if parsed.kind is Kind.LOG and parsed.state == ".deleted":
                    self._deleted.append(parsed.base_offset)
        logs = (base for base, named in self._names.items() for one in named.values() if one.kind is Kind.LOG)
        self._first_base = min(logs, default=0)
        data = self._bytes(LEADER_EPOCH_CHECKPOINT) if is_there else None
        self._epochs = [] if data is None else parse_leader_epochs(data)

    @classmethod
    def of_directory(cls, directory: str) -> PartitionEvidence:
        """Read a partition directory on disk or in a store; no evidence if it cannot be listed."""
        return cls.of_files(PartitionListing(directory))

    @classmethod
    def of_files(cls, beside: PartitionListing) -> PartitionEvidence:
        """The evidence of a partition directory that was listed."""
        return cls(beside.directory, beside.names, beside.read)

    def ends(self, end: int) -> Iterator[Witness]:
        """The files that name an offset above ``end`` and are no index files of a segment."""
        for offset, names in self._names.items():
            for name, parsed in names.items():
                if (
                    offset > end
                    and parsed.kind is Kind.SNAPSHOT
                    and not parsed.state
                    and self._is_possible(name, offset)
                ):
                    yield Witness(name, offset)
        for name, known in (
            (RECOVERY_POINT_CHECKPOINT, self.checkpoints.recovery_point),
            (HIGH_WATERMARK_CHECKPOINT, self.checkpoints.high_watermark),
            (LEADER_EPOCH_CHECKPOINT, self._epochs[-1].start_offset if self._epochs else None),
        ):
            if known is not None and known > end:
                yield Witness(name, known)

    def index_ends(self, log: IndexedLog, kinds: Iterable[Kind] = INDEX_KINDS) -> Iterator[Witness]:
        """The indexes of one log that name an offset after its end and agree with its contents."""
        for kind in kinds:
            name = self._index(log.base_offset, kind)
            data = None if name is None else self._bytes(name)
            # A broker may have appended since: then what an index names is no loss.
            size = self._size_now(log) if data is not None else 0
            if data is not None and size > log.size:
                data = without_appended(data, kind, log, size)
            end = None if data is None else index_end(kind, data, log)
            if name is not None and end is not None and end > log.end_offset + 1:
                yield Witness(name, end)

    def _size_now(self, log: IndexedLog) -> int:
        """Bytes of a log on its disk; 0 if it cannot be asked."""
        name = self._index(log.base_offset, Kind.LOG)
        try:
            return 0 if name is None else files.size(os.path.join(self._directory, name))
        except KdumpError:
            return 0

    def names_later(self, base_offset: int, end: int) -> bool:
        """Whether an index of the log ``base_offset`` names an offset of ``end`` or more, true or not."""
        for kind in INDEX_KINDS:
            name = self._index(base_offset, kind)
            data = None if name is None else self._bytes(name)
            if data is not None and indexed_end(kind, data, base_offset) > end:
                return True
        return False

    def _index(self, base_offset: int, kind: Kind) -> str | None:
        names = self._names.get(base_offset, {})
        return next((name for name, parsed in names.items() if parsed.kind is kind and not parsed.state), None)

    def believed(self, witnesses: Iterable[Witness], end: int) -> list[Witness]:
        """The witnesses of offsets beyond ``end`` that are hardly garbage, the farthest first.

        Args:
            witnesses: of ``ends`` and ``index_ends``.
            end: of the log (exclusive), as its batches say.
        """
        clean_end = self.checkpoints.recovery_point if self.checkpoints.is_clean else None
        found = sorted({one for one in witnesses if one.end_offset > end}, key=lambda one: (-one.end_offset, one.file))
        if clean_end:
            # A broker that stops properly flushes everything first.
            found = [one for one in found if one.end_offset <= clean_end]
        while found and not is_near(found[0].end_offset, self._first_base, end):
            second = max((one.end_offset for one in found if one.file != found[0].file), default=end)
            if is_near(found[0].end_offset, end, second):
                break
            del found[0]
        return found

    def already_lost(self, segments: Sequence[SegmentReach], last_segment: LastSegment | None) -> list[AlreadyLost]:
        """Ranges that the log had and its segments lack, rising.

        Args:
            segments: all that are there, in offset order.
            last_segment: more about the last of them; None if there is none.
        """
        gone = self._gone({segment.base_offset: segment.is_empty for segment in segments})
        start = self._start(segments[0].base_offset if segments else None, gone)
        if not segments:
            return [] if start is None else list(self._after(start.end_offset, gone, last_segment))
        first, last = segments[0].base_offset, segments[-1]
        lost: list[AlreadyLost] = []
        if world_of_store(self._directory) is not None:
            # Retention deletes remote segments, and no file tells from where on they are there.
            start = None
        if self._is_swapped or self._snapshot_of_all >= first:
            # The missing segments have other names; a snapshot of the cluster's metadata contains them.
            start, gone = None, {}
        if start is not None and any(start.end_offset <= base < first for base in self._deleted):
            start = None
        if start is not None and start.end_offset < first:
            names = {start.file, *_files(base_files for base, base_files in gone.items() if base < first)}
            before_log = self._not_remote(start.end_offset, first - 1)
            lost += (AlreadyLost(*offsets, tuple(sorted(names))) for offsets in before_log)
        least = self.checkpoints.log_start or 0
        for number, segment in enumerate(segments[1:]):
            before = segments[number]
            inside = {base: names for base, names in gone.items() if before.base_offset <= base < segment.base_offset}
            if inside:
                begin = max(min(inside), before.end_offset(), least)
                if begin < segment.base_offset:
                    lost.append(AlreadyLost(begin, segment.base_offset - 1, tuple(sorted(_files(inside.values())))))
        end = max(last.base_offset, last.end_offset(), least)
        gone = {base: names for base, names in gone.items() if base >= last.base_offset}
        return [*lost, *self._after(end, gone, last_segment)]

    def _after(
        self, end: int, gone: Mapping[int, Sequence[str]], last_segment: LastSegment | None
    ) -> Iterator[AlreadyLost]:
        """What is lost after the last segment, whose sound part ends at ``end``.

        Damaged batches that the file has whole are not gone before a start cuts them.
        """
        witnesses = [*self.ends(end)]
        for base, names in gone.items():
            witnesses += [Witness(name, base) for name in names]
            witnesses += self.index_ends(IndexedLog.empty(base))
        if last_segment is not None:
            witnesses += last_segment.index_ends()
        found = self.believed(witnesses, end)
        # A follower that truncates a compacted log may have to end in a segment that the cleaner compacted. Then there
        # are no records up to the end.
        if found and not (last_segment is not None and last_segment.was_cleaned()):
            tail = TailEnd(end, end) if last_segment is None else last_segment.tail_end()
            if found[0].end_offset > tail.whole:
                known = max(found[0].end_offset, tail.torn)
                yield AlreadyLost(end, known - 1, tuple(dict.fromkeys(one.file for one in found)))

    def _start(self, first: int | None, gone: Mapping[int, Sequence[str]]) -> Witness | None:
        """Where the log begins if nothing is lost, and which file proves it; None: no file does.

        Args:
            first: base offset of the first segment, None without one.
            gone: segments whose log is lost.
        """
        is_before = first is None or (min(gone, default=first) < first)
        if self._epochs:
            found = Witness(LEADER_EPOCH_CHECKPOINT, self._epochs[0].start_offset)
        elif gone and is_before:
            found = Witness(gone[min(gone)][0], min(gone))
        elif self.checkpoints.is_clean and self.checkpoints.log_start is not None:
            found = Witness(LOG_START_CHECKPOINT, self.checkpoints.log_start)
        else:
            return None
        return found._replace(end_offset=max(found.end_offset, self.checkpoints.log_start or 0))

    def _gone(self, is_empty: Mapping[int, bool]) -> dict[int, list[str]]:
        """Base offsets whose log is lost, with the indexes that are left, rising.

        Args:
            is_empty: of the logs that are there, by base offset.
        """
        gone = {}
        for base, names in sorted(self._names.items()):
            indexes = [name for name, parsed in names.items() if parsed.kind in INDEX_KINDS]
            if not indexes or not is_empty.get(base, True) or any(parsed.state for parsed in names.values()):
                continue
            # The last segment may be empty; then its .index has no entry.
            if base not in is_empty or any(self.index_ends(IndexedLog.empty(base))):
                gone[base] = indexes
        return gone

    def _is_possible(self, snapshot: str, offset: int) -> bool:
        """Whether a snapshot does not name an offset after its own. A damaged one still has its name."""
        data = self._bytes(snapshot)
        try:
            entries = [] if data is None else parse_snapshot(data)
        except DamageError:
            return True
        return all(max(entry.last_offset, entry.current_txn_first_offset) < offset for entry in entries)

    def _not_remote(self, first_offset: int, last_offset: int) -> Iterator[tuple[int, int]]:
        """What of a range (inclusive) before the log is not in remote storage."""
        from kdump.kafka.remotesegments import remote_ranges  # few partitions lack offsets

        for covered in remote_ranges(self._directory):
            if first_offset < covered.first_offset <= last_offset:
                yield first_offset, covered.first_offset - 1
            if covered.first_offset <= last_offset:
                first_offset = max(first_offset, covered.last_offset + 1)
        if first_offset <= last_offset:
            yield first_offset, last_offset

    def _bytes(self, name: str) -> bytes | None:
        try:
            return self._read(name)
        except KdumpError:
            return None


class OffsetsOfDirectory:
    """What a log directory knows of its partitions, as it is when this object is made.

    In a store see ``read_checkpoints_of``.
    """

    def __init__(self, log_directory: str) -> None:
        marker = os.path.join(log_directory, CLEAN_SHUTDOWN)
        self._is_clean = not is_uri(marker) and files.exists(marker)
        names = (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT)
        self._offsets = [checkpoint_offsets(log_directory, name) for name in names]

    def of(self, directory: str) -> KnownOffsets:
        """What it knows of a partition directory in it."""
        partition = parse_partition_directory(os.path.basename(directory))
        if partition is None:
            return KnownOffsets(self._is_clean)
        return KnownOffsets(self._is_clean, *(offsets.get(partition) for offsets in self._offsets))


def read_checkpoints(directory: str) -> KnownOffsets:
    """What the log directory above knows of a partition directory."""
    directory = files.absolute(directory)
    return OffsetsOfDirectory(os.path.dirname(directory)).of(directory)


def _files(names: Iterable[Iterable[str]]) -> list[str]:
    return [name for several in names for name in several]


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
