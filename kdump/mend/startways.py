"""What a repair would change about the next start: the model run on the directory that a plan would leave."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from kdump.checks.startup import StartCheck, check_start
from kdump.kafka.startup.loading import Settings as StartSettings
from kdump.kafka.startup.names import CLEANED, SWAP
from kdump.kafka.startup.outcome import Outcome
from kdump.log.names import is_uri
from kdump.log.partition import segment_files
from kdump.mend.pieces import TxnPolicy
from kdump.mend.place import is_metadata, place_of
from kdump.mend.plan import PartitionPlan, Settings, Way
from kdump.mend.planned import changes_any_log, planned_directory
from kdump.mend.planner import Planner
from kdump.mend.salvageoptions import SalvageOptions


class StartWay(NamedTuple):
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


_RANKS: Final = {Outcome.STARTS: 0, Outcome.DIR_OFFLINE: 1, Outcome.BROKER_STOPS: 2}


def is_worse(check: StartCheck, other: StartCheck) -> bool:
    """The start ends worse than the other one, or loses more records, or forgets more transactions."""
    return StartWay(None, check).cost > StartWay(None, other).cost


def start_behind(plan: PartitionPlan, settings: Settings, known: StartSettings, command: str | None = None) -> StartWay:
    """The start of a directory as the plan would leave it.

    Args:
        plan: of a partition, or of one segment in it.
        settings: of the plan.
        known: what the broker knows of the partition now.
        command: that carries the plan out.

    Raises:
        KdumpError: a file cannot be read.
    """
    is_clean = known.is_clean and not changes_any_log(plan)
    check = check_start(planned_directory(plan, settings), known._replace(is_clean=is_clean))
    loss = plan.own_loss()
    return StartWay(command, check, 0 if loss is None else loss.records)


def start_ways(check: StartCheck) -> list[StartWay]:
    """The start as it is, then the repairs in place behind which less is lost by it.

    Raises:
        KdumpError: a file cannot be read.
    """
    as_it_is = StartWay(None, check)
    if is_uri(check.path):
        return [as_it_is]
    settings = Settings()
    ways = [start_behind(plan, settings, check.settings, command) for command, plan in _plans(check, settings)]
    return [as_it_is, *(way for way in ways if way.cost < as_it_is.cost)]


def _plans(check: StartCheck, settings: Settings) -> Iterator[tuple[str, PartitionPlan]]:
    """(command line, plan)."""
    directory = check.path
    segments = list(segment_files(directory, lambda error: None))
    # Where a broker was replacing segments nothing is repaired in place.
    if not segments or is_metadata(segments[0]) or any(file.name.endswith((SWAP, CLEANED)) for file in check.files):
        return
    place = place_of(directory)
    indexes = Planner(Way.INDEXES, settings).partition(directory, segments, place, is_whole=True)
    if not indexes.is_damaged:
        if indexes.has_changes:
            yield _command(Way.INDEXES, directory), indexes
        return
    cut = next((segment.path for segment in indexes.segments if segment.is_cut), None)
    if cut is not None and cut != segments[-1]:
        alone = Planner(Way.LIKE_BROKER, settings).partition(cut, [cut], place, is_whole=False)
        if alone.has_changes and not alone.is_refused:
            yield _command(Way.LIKE_BROKER, cut), alone
    options = SalvageOptions(deep=False)
    salvage = Planner(Way.SALVAGE, settings, salvaging=options).partition(directory, segments, place, is_whole=True)
    suffix = ""
    if salvage.undecided:
        options = replace(options, transactions=TxnPolicy.ABORT)
        salvage = Planner(Way.SALVAGE, settings, salvaging=options).partition(directory, segments, place, is_whole=True)
        suffix = f" --txn {TxnPolicy.ABORT.value}"
    if salvage.has_changes and not salvage.is_refused and salvage.overlapping is None:
        yield _command(Way.SALVAGE, directory) + suffix, salvage


def _command(way: Way, path: str) -> str:
    return f"kdump repair --in-place --{way.value} {shlex.quote(path)}"
