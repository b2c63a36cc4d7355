"""What a repair changes about the next start of a broker: the model of a start runs on the repaired directory."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, NamedTuple

from kdump.codes import DamageError
from kdump.format.checkpoint import LOG_START_CHECKPOINT, OFFSET_CHECKPOINTS, RECOVERY_POINT_CHECKPOINT
from kdump.format.snapshot import parse_snapshot
from kdump.inputs import PathDirectory, log_paths
from kdump.kafka.producers import ProducerStates
from kdump.kafka.startup.directory import Directory
from kdump.kafka.startup.directory import LoadSettings as StartSettings
from kdump.kafka.startup.names import CLEANED, SNAPSHOT, SWAP, file_name
from kdump.kafka.startup.outcome import StartOutcome
from kdump.kafka.startup.start import producers_at_end
from kdump.log.content import Content
from kdump.log.names import is_uri
from kdump.log.opening import read_whole
from kdump.log.partition import segments_after
from kdump.log.siblings import read_checkpoint
from kdump.repair.plan.beside import PartitionFiles
from kdump.repair.plan.location import is_metadata, place_of
from kdump.repair.plan.plan import Completion, LineChange, PartitionPlan, RepairMode, RepairSettings
from kdump.repair.plan.planner import Planner
from kdump.repair.plan.repaireddirectory import RepairedDirectory
from kdump.repair.salvage.pieces import SalvageOptions, TxnPolicy
from kdump.verify.startcheck import StartCheck, check_start
from kdump.verify.swapped import exchanged_logs
from kdump.verify.transactioncoordinator import ending_beside


class PossibleStart(NamedTuple):
    """A start, perhaps after a repair.

    ``command``: the repair; None: the start as it is. ``records_dropped``: good records that the repair itself drops.
    ``records_corrected``: records of damaged batches that it restores by flipping a bit back. ``completion``: what it
    does beside the logs.
    """

    command: str | None
    check: StartCheck
    records_dropped: int = 0
    records_corrected: int = 0
    completion: Completion = Completion()

    @property
    def cost(self) -> tuple[int, int, int]:
        """How it ends, how many good records it loses, how many transactions it forgets; to be compared."""
        check = self.check
        records = self.records_dropped + sum(lost.good_records for lost in check.lost)
        return _RANKS[check.start.outcome], records, len(check.forgotten)


_RANKS: Final = {StartOutcome.STARTS: 0, StartOutcome.DIR_OFFLINE: 1, StartOutcome.BROKER_STOPS: 2}


def is_worse(check: StartCheck, other: StartCheck) -> bool:
    """The start ends worse than the other one, or loses more records, or forgets more transactions or all producers."""
    return PossibleStart(None, check).cost > PossibleStart(None, other).cost or _forgets_producers(check, other)


def _forgets_producers(check: StartCheck, other: StartCheck) -> bool:
    """Whether the start knows no producer, and the other one does."""
    served, of_other = check.start.served, other.start.served
    return served is not None and served.is_forgotten and of_other is not None and not of_other.is_forgotten


class WorseStart(NamedTuple):
    """A partition whose next start would end worse after a repair than without it."""

    before: StartCheck
    after: StartCheck


@dataclass(frozen=True, slots=True)
class Starts:
    """The next start without and with a repair in place.

    Attributes:
        without: of the partition as it is.
        repaired: of the partition as the repair leaves it.
        marker: the path of the marker of a clean shutdown, None if there is none.
        worse: the partitions of the log directory whose start ends worse.
    """

    without: PossibleStart
    repaired: PossibleStart
    marker: str | None
    worse: tuple[WorseStart, ...]

    @property
    def removes_marker(self) -> bool:
        """Whether the marker is removed, so that the next start recovers every partition of the log directory."""
        return self.marker is not None and not self.repaired.completion.keeps_marker


def start_after(repaired: RepairedDirectory, before: StartCheck, command: str | None = None) -> PossibleStart:
    """The start of a repaired directory.

    The marker of a clean shutdown stays if the start then loads what is planned. If it does not, and a start that
    recovers the log does better, the marker is removed.

    Args:
        repaired: of a partition, or of one segment in it.
        before: the start without the repair.
        command: that repairs it.

    Raises:
        KdumpError: a file cannot be read.
    """
    plan = repaired.plan
    loss = plan.own_loss()

    def start(*, keeps_marker: bool) -> PossibleStart:
        directory, known, completion = predicted_start(repaired, before.settings, keeps_marker=keeps_marker)
        check = check_start(directory, known)
        return PossibleStart(command, check, 0 if loss is None else loss.records, plan.corrected, completion)

    kept = start(keeps_marker=True)
    if not (before.settings.is_clean and plan.changes_any_log):
        return kept
    if kept.check.start.outcome is StartOutcome.STARTS and not is_worse(kept.check, before):
        return kept
    removed = start(keeps_marker=False)
    return removed if is_worse(kept.check, removed.check) else kept


def predicted_start(
    repaired: RepairedDirectory, known: StartSettings, *, keeps_marker: bool
) -> tuple[Directory, StartSettings, Completion]:
    """What the next start meets: the files, what the broker knows of the partition, what was done beside the logs.

    Args:
        repaired: of a partition, or of one segment in it.
        known: what the broker knows of the partition now.
        keeps_marker: whether the marker of a clean shutdown stays, if there is one.

    Raises:
        KdumpError: a file cannot be read.
    """
    plan, files = repaired.plan, dict(repaired.files)
    directory = Directory(plan.place.directory, files)
    completion = Completion(keeps_marker, lines=cut_lines(plan))
    known = _with_lines(known, completion.lines)._replace(is_clean=known.is_clean and keeps_marker)
    if known.is_clean and plan.changes_any_other:
        snapshot = _snapshot_at_end(plan, directory, known)
        if snapshot is not None:
            completion = replace(completion, snapshot=snapshot)
            files[snapshot[0]] = Content.of_bytes(snapshot[1])
    return Directory(plan.place.directory, files), known, completion


def cut_lines(plan: PartitionPlan) -> tuple[LineChange, ...]:
    """The partition's lines in the checkpoints of its log directory that are above the end of the repaired log.

    Source: Kafka lowers the same offsets when it truncates a log (UnifiedLog.truncateTo,
    LogCleaner.maybeTruncateCheckpoint).
    """
    is_end_known = plan.changes_any_log and not segments_after(plan.segments[-1].path)
    if not is_end_known or not plan.place.has_lines:
        return ()
    end_offset, _ = plan.ends()
    offsets = ((name, read_checkpoint(plan.place.directory, name)) for name in OFFSET_CHECKPOINTS)
    return tuple(
        LineChange(name, offset, end_offset) for name, offset in offsets if offset is not None and offset > end_offset
    )


def _with_lines(known: StartSettings, lines: Iterable[LineChange]) -> StartSettings:
    for line in lines:
        if line.name == RECOVERY_POINT_CHECKPOINT:
            known = known._replace(recovery_point=min(known.recovery_point, line.after))
        elif line.name == LOG_START_CHECKPOINT:
            known = known._replace(log_start_offset=min(known.log_start_offset, line.after))
    return known


def _snapshot_at_end(plan: PartitionPlan, directory: Directory, known: StartSettings) -> tuple[str, bytes] | None:
    """Name and content of the snapshot that a clean start needs; None if those that stay serve.

    A producer that has nothing left in the log is taken from the newest snapshot that the repair drops. Where the log
    cannot be read for producers, because of segments that are not repaired, that snapshot stays itself.
    """
    states = producers_at_end(directory, known)
    dropped = _newest_dropped(plan, None if states is None else states.end_offset)
    if states is None:
        return dropped and (file_name(dropped[0], SNAPSHOT), read_whole(dropped[1]))
    name = file_name(states.end_offset, SNAPSHOT)
    if name in directory.before and directory.get(name) == directory.before[name]:
        return None
    others = (
        entry._replace(current_txn_first_offset=-1)
        for entry in (parse_snapshot(read_whole(dropped[1])) if dropped else ())
        if entry.producer_id not in states.by_id
    )
    return name, ProducerStates.from_snapshot(chain(states.entries(), others), states.end_offset).snapshot()


def _newest_dropped(plan: PartitionPlan, end_offset: int | None) -> tuple[int, str] | None:
    """(offset, path) of the newest good snapshot of those that the repair drops, up to ``end_offset``."""
    _, valid_up_to = plan.ends()
    for offset, path in reversed(PartitionFiles.of(plan.place.directory).snapshots):
        if offset > valid_up_to and (end_offset is None or offset <= end_offset):
            try:
                parse_snapshot(read_whole(path))
            except DamageError:
                continue
            return offset, path
    return None


def possible_starts(check: StartCheck) -> list[PossibleStart]:
    """The start without a repair, then the repairs in place that reduce its loss.

    Raises:
        KdumpError: a file cannot be read.
    """
    as_it_is = PossibleStart(None, check)
    if is_uri(check.path):
        return [as_it_is]
    settings = RepairSettings(release=check.settings.release)
    repairs = ((command, RepairedDirectory(plan)) for command, plan in _plans(check, settings))
    starts = [start_after(repaired, check, command) for command, repaired in repairs]
    return [as_it_is, *(start for start in starts if start.cost < as_it_is.cost)]


def _plans(check: StartCheck, settings: RepairSettings) -> Iterator[tuple[str, PartitionPlan]]:
    """(command line, plan)."""
    directory = check.path
    segments = list(log_paths([PathDirectory(directory)]))
    # Nothing is repaired in place where a broker was replacing segments.
    if not segments or is_metadata(segments[0]) or exchanged_logs(segments):
        return
    if any(file.name.endswith((SWAP, CLEANED)) for file in check.files):
        return
    place = place_of(directory)
    settings = replace(settings, digests=False)
    indexes = Planner(RepairMode.INDEXES, settings).partition(directory, segments, place, is_whole=True)
    if not indexes.is_damaged:
        if indexes.has_changes:
            yield _command(RepairMode.INDEXES, directory), indexes
        return
    cut = next((segment.path for segment in indexes.segments if segment.is_cut), None)
    if cut is not None and cut != segments[-1]:
        alone = Planner(RepairMode.LIKE_BROKER, settings).partition(cut, [cut], place, is_whole=False)
        if alone.has_changes and not alone.is_refused:
            yield _command(RepairMode.LIKE_BROKER, cut), alone
    for correct in (False, True):
        options = SalvageOptions(deep=False, correct=correct, ending=ending_beside(directory))
        words = ["--correct"] if correct else []
        salvage = Planner(RepairMode.SALVAGE, settings, salvaging=options).partition(
            directory, segments, place, is_whole=True
        )
        if salvage.undecided:
            options = replace(options, transactions=TxnPolicy.ABORT, ending=None)
            words += ["--txn", TxnPolicy.ABORT.value]
            salvage = Planner(RepairMode.SALVAGE, settings, salvaging=options).partition(
                directory, segments, place, is_whole=True
            )
        if salvage.has_changes and not salvage.is_refused and salvage.overlapping is None:
            yield _command(RepairMode.SALVAGE, directory, *words), salvage
        if not salvage.correctable:
            return


def _command(mode: RepairMode, path: str, *words: str) -> str:
    return " ".join(("kdump repair --in-place", f"--{mode.value}", shlex.quote(path), *words))
