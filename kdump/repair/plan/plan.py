"""What a repair would do to a partition or one segment. Nothing is changed to find it out."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from enum import Enum

from kdump.codes import Finding
from kdump.format.checkpoint import LEADER_EPOCH_CHECKPOINT
from kdump.kafka.recover import RecoveryOutcome
from kdump.kafka.segmentindexes import DEFAULT_INDEX_INTERVAL
from kdump.log.files import FileFingerprint, directory_of
from kdump.log.names import Kind, parse_file_name
from kdump.log.partition import segments_around
from kdump.log.siblings import read_leader_epochs
from kdump.releases import NEWEST, Release
from kdump.repair.plan.location import PartitionLocation, is_metadata
from kdump.repair.plan.producersat import ProducersAt
from kdump.repair.plan.recovery import Recovered
from kdump.repair.salvage.pieces import PieceOrigin, RepairedLog, TouchedTransaction, TxnPolicy
from kdump.verify.batchtable import ValidData


class RepairMode(Enum):
    """What a damaged log is made into."""

    LIKE_BROKER = "like-broker"
    """A log that ends where a broker's recovery cuts it."""
    SALVAGE = "salvage"
    """A log with every good batch."""
    INDEXES = "indexes"
    """The log as it is: only index files and producer snapshots are rebuilt."""


@dataclass(frozen=True, slots=True)
class RepairSettings:
    """What is assumed of the segments.

    ``index_interval``: the broker's index.interval.bytes. ``first_segment``: the first segment is the first of its log.
    ``digests``: the SHA-256 of each log is computed; a plan that is only shown needs none. ``release``: of the broker.
    """

    index_interval: int = DEFAULT_INDEX_INTERVAL
    first_segment: bool = False
    digests: bool = True
    release: Release = NEWEST


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """One segment.

    Attributes:
        path: of its log, which may be missing: then it is taken for an empty one.
        base_offset: of its name.
        fingerprint: of the log when it was read.
        like: the file whose owner and mode new files get: the log, or one beside it where that is missing.
        modified: the time of the log's last change (ns), or of that of the replica which a missing log comes from.
        producers: those at its base offset.
        recovered: what a broker's recovery makes of it; the contents of the index files only where the log is cut.
        good_after: the good data of the log after the place where recovery ends.
        end_offset: after the last offset of the log, those of damaged batches at its end included.
        salvaged: what salvage makes of it, None if that was not asked for.
        repaired: what recovery makes of that, None if it is the log itself.
        rebuilt: the index files to be written, those of a log that is cut too.
        is_after_cut: a recovery of the whole partition would not come to it: a segment before it is cut.
    """

    path: str
    base_offset: int
    fingerprint: FileFingerprint
    like: str
    modified: int
    producers: ProducersAt
    recovered: Recovered
    good_after: ValidData
    end_offset: int
    salvaged: RepairedLog | None
    repaired: Recovered | None
    rebuilt: frozenset[Kind]
    is_after_cut: bool

    def without_producers_after(self) -> SegmentPlan:
        """A copy that forgets the producers after the log."""
        repaired = None if self.repaired is None else self.repaired.without_producers()
        return replace(self, recovered=self.recovered.without_producers(), repaired=repaired)

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """(leader epoch, base offset of its first batch) of the repaired log."""
        return (self.repaired or self.recovered).recovery.leader_epochs

    @property
    def is_missing(self) -> bool:
        """Whether it has no log."""
        return not self.fingerprint.is_there

    @property
    def is_cut(self) -> bool:
        """Whether recovery cuts the log."""
        return self.recovered.recovery.outcome is RecoveryOutcome.TRUNCATED

    @property
    def valid_up_to(self) -> int:
        """The first offset that salvage changes. What comes from a replica counts as unchanged."""
        log = self.salvaged
        position: int | None = 0
        offset = self.base_offset
        for piece in log.pieces if log is not None else ():
            if piece.origin is PieceOrigin.REPLICA:
                position = None
            elif piece.origin is PieceOrigin.KEPT and position in (None, piece.position):
                position = piece.position + piece.length
            else:
                break
            offset = piece.last_offset + 1
        losses = [lost.first_offset for lost in log.lost] if log is not None else []
        return min([offset, *losses])

    @property
    def repaired_name(self) -> str:
        """The file name of the salvaged log: its own, unless that cannot hold its offsets."""
        log = self.salvaged
        if log is None or log.base_offset == self.base_offset:
            return os.path.basename(self.path)
        return f"{log.base_offset:020d}{Kind.LOG.value}"

    @property
    def is_salvaged(self) -> bool:
        """Whether salvage changes the log."""
        return self.repaired is not None

    @property
    def fails(self) -> bool:
        """Whether recovery ends in an exception."""
        return self.recovered.recovery.outcome is RecoveryOutcome.FAILED


@dataclass(frozen=True, slots=True)
class RepairLoss:
    """What a repair costs a partition.

    ``records`` and ``batches`` are good ones; ``offsets`` are ranges (inclusive) of which nothing is left, damaged ones
    included; ``end_offset`` is the log end offset after it.
    """

    bytes_cut: int
    records: int
    batches: int
    offsets: tuple[tuple[int, int], ...]
    segments: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class LineChange:
    """The partition's own line in a checkpoint of the log directory: its offset before and after.

    ``name`` is one of OFFSET_CHECKPOINTS. ``before`` is None where it had no line.
    """

    name: str
    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class Completion:
    """What a repair in place does beside the logs, so that the next start loads them as they are planned.

    Attributes:
        keeps_marker: the marker of a clean shutdown stays if there is one.
        snapshot: name and content of a producer snapshot at the end of the log, without which a clean start would not
            know the producers; None if none is needed, or none can be made.
        lines: of the partition in the checkpoints of its log directory, which the log does not reach any more.
    """

    keeps_marker: bool = False
    snapshot: tuple[str, bytes] | None = None
    lines: tuple[LineChange, ...] = ()


@dataclass(frozen=True, slots=True)
class UnfitSnapshot:
    """A producer snapshot that does not fit the log.

    Attributes:
        finding: what verify says of it, with its path.
        data: what it is to hold, None: it goes, and a broker that needs it makes it again.
    """

    finding: Finding
    data: bytes | None

    @property
    def name(self) -> str:
        """Of the file."""
        return os.path.basename(self.finding.path or "")


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """A partition, or one segment of it.

    ``mode``: the mode that is asked for. ``target``: the PATH. ``is_whole``: it is the directory of the partition.
    ``settings``: what was assumed.
    ``left``: text files that a broker refuses. No repair changes them, because nothing tells what they should hold.
    ``unfit_snapshots``: see ``beside.unfit_snapshots``.
    """

    mode: RepairMode
    target: str
    place: PartitionLocation
    is_whole: bool
    segments: tuple[SegmentPlan, ...]
    settings: RepairSettings
    left: tuple[Finding, ...] = ()
    unfit_snapshots: tuple[UnfitSnapshot, ...] = ()

    @property
    def is_metadata(self) -> bool:
        """The metadata of a KRaft cluster."""
        return is_metadata(self.segments[0].path)

    @property
    def is_correction(self) -> bool:
        """Salvage leaves each log as it was.

        CRCs prove all but offsets and leader epochs (``RepairedLog.is_correction_of``). Offsets must follow one another
        in the log of a quorum, and the leader-epoch-checkpoint tells the epochs.
        """
        known = read_leader_epochs(os.path.join(directory_of(self.segments[0].path), LEADER_EPOCH_CHECKPOINT))
        starts = {entry.epoch: entry.start_offset for entry in known}
        return self.mode is RepairMode.SALVAGE and all(
            segment.salvaged is not None
            and segment.salvaged.is_correction_of(segment.path, segment.fingerprint.size, segment.base_offset)
            and all(not known or starts.get(epoch, offset + 1) <= offset for epoch, offset in segment.epochs)
            for segment in self.segments
        )

    @property
    def salvaged_logs(self) -> list[RepairedLog]:
        """What salvage makes of the logs; none where it was not asked for."""
        return [segment.salvaged for segment in self.segments if segment.salvaged is not None]

    @property
    def undecided(self) -> list[TouchedTransaction]:
        """Transactions whose end may lie in a gap and that nothing proves, or whose marker finds no place there."""
        return [
            touched
            for log in self.salvaged_logs
            for touched in log.transactions
            if touched.outcome.is_undecided or touched.done is TxnPolicy.LEAVE
        ]

    @property
    def guessed(self) -> list[TouchedTransaction]:
        """Those of ``undecided`` that stay as they are, so that readers take a later marker for their end."""
        return [touched for touched in self.undecided if touched.is_guessed]

    @property
    def overlapping(self) -> SegmentPlan | None:
        """A segment whose new name would claim offsets that another segment has, or may have."""
        there = next((segment.path for segment in self.segments if not segment.is_missing), self.segments[0].path)
        names = map(parse_file_name, segments_around(there))
        bases = sorted({name.base_offset for name in names if name is not None and name.base_offset is not None})
        end = -1
        for segment in self.segments:
            log, old = segment.salvaged, segment.base_offset
            if log is None:
                continue
            if log.base_offset != old:
                low, high = sorted((log.base_offset, old))
                between = bases[bisect_left(bases, low) : bisect_right(bases, high)]
                is_between = bool({between[0], between[-1]} - {old}) if between else False
                is_unknown = not self.is_whole and bool(bases) and bases[0] < old
                if is_between or is_unknown or log.base_offset < end:
                    return segment
            end = max(end, log.end_offset)
        return None

    @property
    def failed(self) -> SegmentPlan | None:
        """The segment over which recovery of the log fails."""
        return next((segment for segment in self.segments if segment.fails and not segment.is_after_cut), None)

    @property
    def is_damaged(self) -> bool:
        """Whether recovery would cut or fail."""
        return any(segment.is_cut or segment.fails for segment in self.segments)

    @property
    def has_changes(self) -> bool:
        """Whether there is something to do."""
        if self.unfit_snapshots or any(segment.rebuilt for segment in self.segments):
            return True
        if self.mode is RepairMode.SALVAGE:
            return any(segment.is_salvaged for segment in self.segments)
        return self.mode is RepairMode.LIKE_BROKER and self.is_damaged

    def changes_log(self, segment: SegmentPlan) -> bool:
        """Whether the repair changes the log of the segment, or removes it."""
        if self.mode is RepairMode.SALVAGE:
            return segment.is_salvaged
        return self.mode is RepairMode.LIKE_BROKER and (segment.is_cut or segment.is_after_cut)

    @property
    def epochs_found(self) -> list[tuple[int, int]]:
        """(leader epoch, base offset of its first batch in a segment), where something comes from a replica."""
        if self.mode is not RepairMode.SALVAGE or not any(log.takes_from_replica for log in self.salvaged_logs):
            return []
        return [found for segment in self.segments for found in segment.epochs]

    @property
    def changes_any_log(self) -> bool:
        """Whether a log changes, or is removed."""
        return any(self.changes_log(segment) for segment in self.segments)

    @property
    def changes_any_other(self) -> bool:
        """Whether files that belong to no single segment change."""
        return self.changes_any_log or bool(self.unfit_snapshots)

    @property
    def bytes_to_write(self) -> int:
        """Of new logs, and of an end that is saved before it is cut off; index files left out."""
        if self.mode is RepairMode.SALVAGE:
            return sum(segment.salvaged.size for segment in self.segments if segment.salvaged and segment.repaired)
        return sum(segment.recovered.recovery.bytes_cut for segment in self.segments if not segment.is_after_cut)

    @property
    def is_refused(self) -> bool:
        """Whether the requested mode cannot repair the log."""
        if self.mode is RepairMode.SALVAGE:
            return any(
                segment.repaired and segment.repaired.recovery.outcome is not RecoveryOutcome.UNCHANGED
                for segment in self.segments
            )
        return self.failed is not None

    def ends(self) -> tuple[int, int]:
        """The log end offset after the repair, and the offset up to which nothing of the log changes."""
        loss = self.salvage_loss() if self.mode is RepairMode.SALVAGE else self.broker_loss()
        if loss is None:
            raise ValueError("this mode cannot repair the log")
        if self.mode is not RepairMode.SALVAGE:
            return loss.end_offset, loss.end_offset
        changed = (segment for segment in self.segments if segment.salvaged is not None and segment.is_salvaged)
        ends = ((segment.valid_up_to, segment.salvaged) for segment in changed)
        sound = (sound for sound, log in ends if log is not None and (sound < log.end_offset or log.lost))
        return loss.end_offset, next(sound, loss.end_offset)

    @property
    def correctable(self) -> int:
        """Records that salvage loses, and that it restores if it may flip single bits back."""
        return sum(log.correctable for log in self.salvaged_logs)

    @property
    def corrected(self) -> int:
        """Records of batches in which salvage flips a bit back."""
        return sum(log.corrected for log in self.salvaged_logs)

    def own_loss(self) -> RepairLoss | None:
        """What the repair costs; None if it drops nothing, or cannot repair the log."""
        if self.mode is RepairMode.INDEXES:
            return None
        return self.salvage_loss() if self.mode is RepairMode.SALVAGE else self.broker_loss()

    @property
    def good_after_damage(self) -> ValidData:
        """The good data that a repair like a broker loses."""
        total = ValidData()
        for segment in self.segments:
            total += segment.good_after
        return total

    def broker_loss(self) -> RepairLoss | None:
        """What a repair like a broker costs; None if recovery fails."""
        if self.failed is not None:
            return None
        after = self.good_after_damage
        cut = next((segment for segment in self.segments if segment.is_cut), None)
        last = self.segments[-1]
        ends = [segment.end_offset for segment in self.segments]
        # Salvage reads the files around the log, which may tell that it went on.
        lost = [lost for log in self.salvaged_logs for lost in log.lost]
        end_before = max([*ends, *(one.last_offset + 1 for one in lost)])
        if cut is None:
            return RepairLoss(0, 0, 0, (), 0, last.recovered.recovery.next_offset)
        removed = [segment for segment in self.segments if segment.is_after_cut]
        end = cut.recovered.recovery.next_offset
        return RepairLoss(
            cut.recovered.recovery.bytes_cut + sum(segment.fingerprint.size for segment in removed),
            after.records,
            after.batches,
            ((end, end_before - 1),) if end_before > end else (),
            len(removed),
            end,
        )

    def salvage_loss(self) -> RepairLoss | None:
        """What salvage costs; None if it was not asked for."""
        logs = self.salvaged_logs
        if len(logs) < len(self.segments):
            return None
        dropped = [extent for log in logs for extent in log.dropped]
        return RepairLoss(
            sum(extent.length for extent in dropped),
            sum(extent.records for extent in dropped),
            sum(extent.batches for extent in dropped),
            tuple((lost.first_offset, lost.last_offset) for log in logs for lost in log.lost),
            sum(
                not log.pieces and segment.fingerprint.size > 0
                for log, segment in zip(logs, self.segments, strict=True)
            ),
            max(log.end_offset for log in logs),
        )
