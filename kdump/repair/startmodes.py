"""What a repair would change about the next start: the model run on the directory that a plan would leave."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kdump.kafka.startup.names import CLEANED, SWAP
from kdump.kafka.startup.outcome import StartOutcome
from kdump.log.names import is_uri
from kdump.log.partition import segment_files
from kdump.repair.location import is_metadata, place_of
from kdump.repair.pieces import TxnPolicy
from kdump.repair.plan import Completion, PartitionPlan, RepairMode, RepairSettings
from kdump.repair.planner import Planner
from kdump.repair.predicted import predicted_contents, predicted_start
from kdump.repair.salvageoptions import SalvageOptions
from kdump.verify.startcheck import StartCheck, check_start
from kdump.verify.swapped import exchanged_logs


class StartMode(NamedTuple):
    """A start, perhaps behind a repair.

    ``command``: that repairs, None: the start as it is. ``records_dropped``: good ones that the repair itself drops.
    """

    command: str | None
    check: StartCheck
    records_dropped: int = 0

    @property
    def cost(self) -> tuple[int, int, int]:
        """To be compared: how it ends, good records lost, transactions forgotten."""
        check = self.check
        records = self.records_dropped + sum(lost.good_records for lost in check.lost)
        return _RANKS[check.start.outcome], records, len(check.forgotten)


_RANKS: Final = {StartOutcome.STARTS: 0, StartOutcome.DIR_OFFLINE: 1, StartOutcome.BROKER_STOPS: 2}


def is_worse(check: StartCheck, other: StartCheck) -> bool:
    """The start ends worse than the other one, or loses more records, or forgets more transactions or all producers."""
    return StartMode(None, check).cost > StartMode(None, other).cost or _forgets_producers(check, other)


def _forgets_producers(check: StartCheck, other: StartCheck) -> bool:
    """The start knows no producer, and the other one does."""
    served, of_other = check.start.served, other.start.served
    return served is not None and served.is_forgotten and of_other is not None and not of_other.is_forgotten


class RepairedStart(NamedTuple):
    """The start after a repair in place, and what that repair does beside the logs."""

    way: StartMode
    completion: Completion


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
        marker: the path of the marker of a clean shutdown, None where there is none.
        worse: the partitions of the log directory whose start ends worse.
    """

    without: StartMode
    repaired: RepairedStart
    marker: str | None
    worse: tuple[WorseStart, ...]

    @property
    def removes_marker(self) -> bool:
        """The marker goes: the next start recovers every partition of the log directory."""
        return self.marker is not None and not self.repaired.completion.keeps_marker


def start_after(
    plan: PartitionPlan, settings: RepairSettings, before: StartCheck, command: str | None = None
) -> RepairedStart:
    """The start of a directory as the plan would leave it.

    The marker of a clean shutdown stays where the start then loads what is planned. Where it does not, and a start
    that recovers the log does better, the marker goes.

    Args:
        plan: of a partition, or of one segment in it.
        settings: of the plan.
        before: the start without the repair.
        command: that carries the plan out.

    Raises:
        KdumpError: a file cannot be read.
    """
    contents = predicted_contents(plan, settings)
    loss = plan.own_loss()

    def repaired(*, keeps_marker: bool) -> RepairedStart:
        planned = predicted_start(plan, contents, before.settings, keeps_marker=keeps_marker)
        check = check_start(planned.directory, planned.known)
        return RepairedStart(StartMode(command, check, 0 if loss is None else loss.records), planned.completion)

    kept = repaired(keeps_marker=True)
    if not (before.settings.is_clean and plan.changes_any_log):
        return kept
    if kept.way.check.start.outcome is StartOutcome.STARTS and not is_worse(kept.way.check, before):
        return kept
    removed = repaired(keeps_marker=False)
    return removed if is_worse(kept.way.check, removed.way.check) else kept


def start_modes(check: StartCheck) -> list[StartMode]:
    """The start as it is, then the repairs in place behind which less is lost by it.

    Raises:
        KdumpError: a file cannot be read.
    """
    as_it_is = StartMode(None, check)
    if is_uri(check.path):
        return [as_it_is]
    settings = RepairSettings()
    ways = [start_after(plan, settings, check, command).way for command, plan in _plans(check, settings)]
    return [as_it_is, *(way for way in ways if way.cost < as_it_is.cost)]


def _plans(check: StartCheck, settings: RepairSettings) -> Iterator[tuple[str, PartitionPlan]]:
    """(command line, plan)."""
    directory = check.path
    segments = list(segment_files(directory, lambda error: None))
    # Where a broker was replacing segments nothing is repaired in place.
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
    options = SalvageOptions(deep=False)
    salvage = Planner(RepairMode.SALVAGE, settings, salvaging=options).partition(
        directory, segments, place, is_whole=True
    )
    suffix = ""
    if salvage.undecided:
        options = replace(options, transactions=TxnPolicy.ABORT)
        salvage = Planner(RepairMode.SALVAGE, settings, salvaging=options).partition(
            directory, segments, place, is_whole=True
        )
        suffix = f" --txn {TxnPolicy.ABORT.value}"
    if salvage.has_changes and not salvage.is_refused and salvage.overlapping is None:
        yield _command(RepairMode.SALVAGE, directory) + suffix, salvage


def _command(way: RepairMode, path: str) -> str:
    return f"kdump repair --in-place --{way.value} {shlex.quote(path)}"
