"""``kdump repair`` in this process: plans, repaired copies, repairs in place."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from kdump.codes import Codes, KdumpError, OnError
from kdump.inputs import (
    Input,
    LogSegment,
    OtherFile,
    PathDirectory,
    Sibling,
    WorldLog,
)
from kdump.log.files import FileFingerprint, listing
from kdump.log.named import errors_at, is_stream
from kdump.log.names import INDEX_KINDS, SIBLING_TEXT_FILES, Kind, parse_file_name, sibling
from kdump.log.partition import is_log_directory, segments_after
from kdump.repair.account import account, json_account, losses
from kdump.repair.apply.copies import Staging, account_name, write_logs, write_others
from kdump.repair.apply.inplace import prepare
from kdump.repair.apply.journal import Unfinished, clear_unprepared, unfinished
from kdump.repair.apply.preparation import Preparation, check_room
from kdump.repair.begun import directory_and_below
from kdump.repair.plan.location import PartitionLocation, is_metadata, place_of
from kdump.repair.plan.plan import Completion, PartitionPlan, RepairMode, RepairSettings
from kdump.repair.plan.planner import Planner
from kdump.repair.plan.repaireddirectory import RepairedDirectory
from kdump.repair.plan.starts import PossibleStart, Starts, WorseStart, cut_lines, is_worse, start_after
from kdump.repair.refusals import (
    GOES_ON,
    LockHolder,
    check_place,
    check_room_in_place,
    refuse_backup,
    refuse_checkpoint,
    refuse_exchanged,
    refuse_one_name,
    refuse_pending,
    refuse_special,
    refuse_unfinished,
    refused,
)
from kdump.repair.salvage.pieces import SalvageOptions, TxnPolicy
from kdump.repair.startreport import starts_members, worse_start
from kdump.rows.columns import Row
from kdump.system.paths import absolute_path
from kdump.verify.startcheck import StartCheck
from kdump.verify.startups import StartOptions, Task, task_of, tasks_of
from kdump.verify.transactioncoordinator import ending_beside
from kdump.worlds import World


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """What is asked for.

    ``mode``: the mode; None: none was named. ``output``: the directory for repaired copies; None: none are written.
    ``in_place``: repair the files themselves. ``backup``: where their originals go; None: into the partition.
    ``force``: proceed even if it is unknown whether a broker runs. ``salvaging``: how logs are salvaged.
    """

    mode: RepairMode | None = None
    settings: RepairSettings = field(default_factory=RepairSettings)
    output: str | None = None
    in_place: bool = False
    backup: str | None = None
    force: bool = False
    salvaging: SalvageOptions = field(default_factory=SalvageOptions)
    decides_transactions: bool = False
    """``salvaging`` says what is done about transactions whose end is lost."""
    overwrites: bool = False
    """Copies replace files that are there."""
    allow_worse_start: bool = False
    """Repair in place even if the next start of the broker then ends worse."""
    world: World | None = None
    """Directories without logs are those of this world."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """What came of one partition or segment.

    ``plan``: what was or would be done. ``written``: where the repaired copies are. ``manifest``: that of a repair in
    place. Where both are None nothing was done.
    """

    plan: PartitionPlan
    written: str | None = None
    manifest: str | None = None
    unfinished: tuple[Unfinished, ...] = ()
    """Repairs that were begun before and not finished: the plan, or the copy, is of the state in between."""
    has_guesses: bool = False
    """An undecided transaction was left as it is, and readers take a later marker for its end."""
    starts: Starts | None = None
    """The next start of the broker without and with a repair in place; None if that is not predicted."""

    @property
    def is_done(self) -> bool:
        """Whether something was done."""
        return self.written is not None or self.manifest is not None

    @property
    def leaves_damage(self) -> bool:
        """Whether something was left undone, no repair can do it, or readers of the result see a guess."""
        if self.unfinished or self.has_guesses or self.plan.left:
            return True
        if self.plan.mode is RepairMode.INDEXES and self.plan.is_damaged:
            return True
        return self.plan.has_changes and not self.is_done

    def row(self) -> Row:
        """What came of it, or would come of it, as a row."""
        plan = self.plan
        return {
            "type": "repair",
            "path": plan.target,
            "way": plan.mode.value,
            "isDamaged": plan.is_damaged,
            "isDone": self.is_done,
            "written": self.written,
            "manifest": self.manifest,
            "unfinished": [begun.path for begun in self.unfinished],
            "losses": losses(plan),
            "left": [
                {"path": finding.path, "code": finding.code.value.code, "message": str(finding)}
                for finding in plan.left
            ],
            "snapshots": [
                {
                    "path": snapshot.finding.path,
                    "action": "remove" if snapshot.data is None else "rebuild",
                    "code": snapshot.finding.code.value.code,
                    "message": snapshot.finding.message,
                }
                for snapshot in plan.unfit_snapshots
            ],
            "starts": None if self.starts is None else starts_members(self.starts),
            "logs": account(plan),
        }


class WorldRepaired(Protocol):
    """What came of a partition of another world, or of one of its logs."""

    @property
    def title(self) -> str:
        """The title of the world."""

    @property
    def is_done(self) -> bool:
        """Whether something was done."""

    @property
    def leaves_damage(self) -> bool:
        """Whether something was left undone, or no repair can do it."""

    def text(self) -> str:
        """What would be or was done, for people."""

    def json(self) -> str:
        """The report as a JSON object in one line, with the members of other repairs."""


class WorldRepair(Protocol):
    """How logs of another world are repaired: the module ``repair`` of its package."""

    def repaired(
        self, target: str, options: RepairOptions, written: set[str] | None, locks: LockHolder, *, is_whole: bool
    ) -> WorldRepaired:
        """Plan the repair of a partition or of one log, write copies of that, or do it in place.

        Args:
            target: the partition directory, or the log.
            options: what is asked for.
            written: see ``Staging``.
            locks: takes the lock of the log directory.
            is_whole: it is the directory.

        Raises:
            KdumpError: a file cannot be read or written, LOCK_HELD, or REPAIR_REFUSED.
        """


class Repair(LockHolder):
    """One run over any number of paths; see LockHolder.

    Args:
        options: what is asked for.
        on_error: takes what is wrong with one partition of several.
    """

    def __init__(
        self,
        options: RepairOptions,
        *,
        on_error: OnError,
    ) -> None:
        self._options = options
        self._mode = options.mode or RepairMode.LIKE_BROKER
        self._on_error = on_error
        self._written: set[str] | None = set() if options.overwrites else None
        """Copies that were made. None: copies replace nothing, so none of them either."""
        self._worse_unclean: dict[str, dict[str, WorseStart]] = {}
        super().__init__()

    def of(self, found: Input) -> Iterator[Repaired | WorldRepaired]:
        """Plan or repair the partitions that one PATH means, one after the other.

        Raises:
            KdumpError: the path cannot be read, or its repair is refused.
        """
        world = self._options.world
        if isinstance(found, PathDirectory) and world is not None and found.is_partition(listing(found.path)):
            # Also one without a log: the loader makes one.
            yield self._logs_of(world, found.folder, is_whole=True)
        elif isinstance(found, PathDirectory):
            yield from self._directory(found)
        elif isinstance(found, WorldLog) and found.world is not None and not is_stream(found.path):
            yield self._logs_of(found.world, found.path, is_whole=False)
        else:
            yield self._partition(found.path, [_log_of(found)], is_whole=False)

    def _directory(self, found: PathDirectory) -> Iterator[Repaired | WorldRepaired]:
        directory = found.folder
        partitions: dict[str, list[str]] = {}
        of_worlds: dict[str, World] = {}
        # A replica may have the logs of a partition that has none left.
        all_files = bool(self._options.salvaging.replicas)
        try:
            for file in found.files(self._on_error, all_files=all_files):
                folder = os.path.dirname(file.path)
                if file.world is not None:
                    of_worlds[folder] = file.world
                    continue
                if file.kind is Kind.CHECKPOINT:
                    continue
                segments = partitions.setdefault(folder, [])
                if file.kind is Kind.LOG:
                    segments.append(file.path)
        except KdumpError as error:
            if error.code is not Codes.NO_SEGMENTS or not self._name_unfinished(directory, partitions):
                raise
            return
        self._name_unfinished(directory, partitions)
        for folder, segments in partitions.items():
            try:
                yield self._partition(folder, segments, is_whole=True)
            except KdumpError as error:
                self._on_error(error.located(folder))
        for folder, world in of_worlds.items():
            try:
                yield self._logs_of(world, folder, is_whole=True)
            except KdumpError as error:
                self._on_error(error.located(folder))

    def _logs_of(self, world: World, target: str, *, is_whole: bool) -> WorldRepaired:
        """Repair the logs of another world in a partition, or one of them. Raises KdumpError REPAIR_REFUSED."""
        repair: WorldRepair = world.answer("repair")
        with errors_at(target):
            return repair.repaired(target, self._options, self._written, self, is_whole=is_whole)

    def _name_unfinished(self, directory: str, partitions: Container[str]) -> bool:
        """Report unfinished repairs in directories without a log: it may have a name that only a broker reads."""
        is_named = False
        for folder in directory_and_below(directory):
            if folder not in partitions:
                try:
                    refuse_unfinished(folder)
                except KdumpError as error:
                    self._on_error(error.located(folder))
                    is_named = True
        return is_named

    def _partition(self, target: str, segments: list[str], *, is_whole: bool) -> Repaired:
        with errors_at(target):
            place = place_of(target if is_whole else os.path.dirname(target))
            repaired = self._of_partition(target, segments, place, is_whole=is_whole)
        try:
            return replace(repaired, unfinished=tuple(unfinished(place.directory)))
        except KdumpError as error:
            # The plan is shown even if a manifest cannot be read.
            self._on_error(error.located(place.directory))
            return repaired

    def _of_partition(self, target: str, segments: list[str], place: PartitionLocation, *, is_whole: bool) -> Repaired:
        refuse_exchanged(segments)
        if self._options.output is not None or self._options.in_place:
            refuse_one_name(segments)
        if self._options.output is not None:
            if segments and is_metadata(segments[0]) and self._mode is RepairMode.SALVAGE:
                # Before anything is made there.
                self._refuse_metadata(self._planner(target).partition(target, segments, place, is_whole=is_whole))
            return self._copy(self._options.output, target, segments, place, is_whole=is_whole)
        if self._options.in_place:
            return self._in_place(target, segments, place, is_whole=is_whole)
        plan = self._planner(target).partition(target, segments, place, is_whole=is_whole)
        self._refuse_metadata(plan)
        try:
            return Repaired(plan, starts=self._starts(RepairedDirectory(plan)))
        except KdumpError as error:
            # The plan is shown even if nobody can tell what a start makes of it.
            self._on_error(error.located(target))
            return Repaired(plan)

    def _start_options(self) -> StartOptions:
        return StartOptions(release=self._options.settings.release)

    def _starts(self, directory: RepairedDirectory) -> Starts | None:
        """What a broker would make of the log directory as it is, and as the repair leaves it."""
        plan = directory.plan
        is_in_partition = plan.is_whole or plan.place.log_directory is not None
        if not is_in_partition or not plan.has_changes or plan.is_refused or plan.is_metadata:
            return None
        before = _started(task_of(plan.target if plan.is_whole else plan.place.directory, self._start_options()))
        repaired = start_after(directory, before)
        worse = []
        if is_worse(repaired.check, before):
            worse.append(WorseStart(before, repaired.check))
        starts = Starts(PossibleStart(None, before), repaired, plan.place.clean_shutdown, ())
        if starts.removes_marker:
            worse += self._worse_beside(plan.place.directory)
        return replace(starts, worse=tuple(worse))

    def _worse_beside(self, directory: str) -> list[WorseStart]:
        """The other partitions of the log directory whose start ends worse without the marker of a clean shutdown."""
        log_directory = os.path.dirname(directory)
        if log_directory not in self._worse_unclean:
            self._worse_unclean[log_directory] = dict(_worse_unclean(log_directory, self._start_options()))
        return [worse for path, worse in self._worse_unclean[log_directory].items() if path != directory]

    def _planner(self, target: str) -> Planner:
        """The planner. Salvage reads every record, so it is left out if another mode is carried out."""
        is_plan = self._options.output is None and not self._options.in_place
        salvaging = None
        if is_plan or self._mode is RepairMode.SALVAGE:
            replicas = self._replicas(target)
            directory = target if os.path.isdir(target) else os.path.dirname(absolute_path(target))
            ending = ending_beside(directory, *map(os.path.dirname, map(absolute_path, replicas)))
            is_asked = not self._options.decides_transactions
            salvaging = replace(self._options.salvaging, replicas=replicas, ending=ending if is_asked else None)
        all_indexes = self._options.output is not None and self._mode is not RepairMode.SALVAGE
        return Planner(self._mode, self._options.settings, salvaging=salvaging, all_indexes=all_indexes)

    def _replicas(self, target: str) -> tuple[str, ...]:
        if is_metadata(os.path.join(target, "0.log") if os.path.isdir(target) else target):
            return ()
        copies = (_copy_of(target, replica) for replica in self._options.salvaging.replicas)
        return tuple(copy for copy in copies if copy is not None)

    def _copy(
        self, output: str, target: str, segments: list[str], place: PartitionLocation, *, is_whole: bool
    ) -> Repaired:
        name = os.path.basename(absolute_path(target))
        check_room(output, sum(FileFingerprint.of_log(segment).size for segment in segments))
        with Staging(output, place.directory, others=self._replicas(target), written=self._written) as staging:
            staging.refuse_existing([name, account_name(name)])
            plan = self._planner(target).partition(target, segments, place, is_whole=is_whole)
            self._refuse(plan)
            if self._mode is RepairMode.SALVAGE:
                check_room(output, sum(segment.salvaged.size for segment in plan.segments if segment.salvaged))
            if plan.is_refused:
                return Repaired(plan)
            repaired = RepairedDirectory(plan)
            write_logs(repaired, staging)
            if is_whole:
                write_others(repaired, staging)
                staging.commit_directory(name, account_name(name), json_account(plan))
            else:
                staging.commit_files(account_name(name), json_account(plan))
        written = os.path.join(output, name if is_whole else "")
        return Repaired(plan, written, has_guesses=self._has_guesses(plan))

    def _in_place(self, target: str, segments: list[str], place: PartitionLocation, *, is_whole: bool) -> Repaired:
        refuse_special([*segments, *(sibling(segment, kind) for segment in segments for kind in INDEX_KINDS)])
        refuse_special([entry.path for entry in os.scandir(place.directory) if entry.name in SIBLING_TEXT_FILES])
        for segment in segments:
            name = parse_file_name(segment)
            if name is not None and name.state:
                message = f"a file that a broker is about to remove or to take in ({name.state}); use -o"
                raise refused(message, segment)
        check_place(place, is_forced=self._options.force)
        refuse_backup(place, self._options.backup)
        self.take_lock(place)
        refuse_unfinished(place.directory)
        clear_unprepared(place.directory, self._options.backup)
        if not self._options.salvaging.replicas:
            segments = [segment for segment in segments if os.path.lexists(segment)]
        if not segments and not self._options.salvaging.replicas:
            raise KdumpError(Codes.MISSING, Codes.MISSING.value.title, path=target)
        refuse_pending(place.directory)
        plan = self._planner(target).partition(target, segments, place, is_whole=is_whole)
        self._refuse(plan)
        if not plan.has_changes or plan.is_refused:
            return Repaired(plan)
        directory = RepairedDirectory(plan)
        # The comparison costs two more passes over the log.
        starts = None if _is_what_a_start_does(plan) else self._starts(directory)
        if starts is not None and starts.worse and not self._options.allow_worse_start:
            named = "; ".join(map(worse_start, starts.worse))
            raise refused(
                f"the next start of the broker would end worse after this repair than without it: {named}; "
                "--allow-worse-start goes on",
                target,
            )
        completion = Completion(lines=cut_lines(plan)) if starts is None else starts.repaired.completion
        for line in completion.lines:
            refuse_checkpoint(os.path.join(os.path.dirname(place.directory), line.name))
        manifest = self._repair(directory, completion)
        return Repaired(plan, manifest=manifest, has_guesses=self._has_guesses(plan), starts=starts)

    def _has_guesses(self, plan: PartitionPlan) -> bool:
        """See Repaired; not where it was asked to leave such transactions."""
        is_asked_for = self._options.decides_transactions and self._options.salvaging.transactions is TxnPolicy.LEAVE
        return self._mode is RepairMode.SALVAGE and bool(plan.guessed) and not is_asked_for

    def _refuse_metadata(self, plan: PartitionPlan) -> None:
        """Raises KdumpError REPAIR_REFUSED for metadata of a cluster that would not be what they were.

        A voter with another log than the one that it has acknowledged makes the quorum lose records.

        Source: docs/spec/repair.md#9-metadata-logs.
        """
        is_asked_for = self._options.in_place or self._mode is RepairMode.SALVAGE
        if not (plan.is_metadata and is_asked_for) or not (plan.has_changes or plan.is_damaged):
            return
        if not plan.is_correction:
            raise refused(
                "the metadata of a cluster are neither salvaged nor repaired in place, unless --correct restores all "
                "of them as their checksums prove; let this node fetch them from the other voters, or start from the "
                "newest good .checkpoint",
                plan.target,
            )

    def _refuse(self, plan: PartitionPlan) -> None:
        """Raises KdumpError REPAIR_REFUSED if the user has to decide something first."""
        options, good_after = self._options, plan.good_after_damage
        self._refuse_metadata(plan)
        if plan.has_changes and not plan.is_metadata and options.salvaging.replicas and not self._replicas(plan.target):
            raise refused("no directory of --from has a copy of it; without --from it is salvaged alone", plan.target)
        overlapping = (
            plan.overlapping if self._mode is RepairMode.SALVAGE and (plan.is_whole or options.in_place) else None
        )
        if overlapping is not None:
            message = (
                f"would have to be written as {overlapping.repaired_name}, and the offsets from there on are those of "
                "another segment: move one of them away"
            )
            raise refused(message, overlapping.path)
        if options.in_place and options.mode is None and good_after.batches:
            raise refused(
                f"good data lie after the damage ({good_after.records:,} records, batches: {good_after.batches:,}); "
                "--like-broker cuts them off, --salvage keeps them",
                plan.target,
            )
        if (
            options.in_place
            and self._mode is RepairMode.SALVAGE
            and plan.undecided
            and not options.decides_transactions
        ):
            named = "; ".join(
                f"producer {touched.producer_id} from offset {touched.first_offset} on"
                + ("" if touched.coordinator is None else f": {touched.coordinator}")
                for touched in plan.undecided
            )
            raise refused(f"transactions whose end is not known touch a gap ({named}): --txn decides", plan.target)
        if self._mode is RepairMode.INDEXES and plan.is_damaged and not options.in_place:
            damaged = next(segment for segment in plan.segments if segment.is_cut or segment.fails)
            raise refused("the log is damaged; --indexes rebuilds those of good logs only", damaged.path)

    def _repair(self, directory: RepairedDirectory, completion: Completion) -> str:
        plan = directory.plan
        check_room_in_place(plan, self._options.backup)
        with Preparation(plan.place.directory, self._options.backup) as preparation:
            try:
                prepare(directory, preparation, completion)
                for segment in plan.segments:
                    segment.fingerprint.check(segment.path)
                digests = {os.path.basename(segment.path): segment.recovered.sha256 for segment in plan.segments}
                manifest = preparation.begin(self._mode.value, account(plan), digests)
            except BaseException:
                preparation.discard()
                raise
            return preparation.finish(manifest, f"the repair was begun: {GOES_ON}")


def _started(task: Task) -> StartCheck:
    """Raises KdumpError if a file cannot be read."""
    check = task._replace(tells_begins=False).run()
    if isinstance(check, KdumpError):
        raise check
    return check


def _worse_unclean(log_directory: str, options: StartOptions) -> Iterator[tuple[str, WorseStart]]:
    """The partitions whose start ends worse without the marker of a clean shutdown, by their directories."""
    for task in tasks_of(PathDirectory(log_directory), options):
        before = _started(task)
        after = _started(task._replace(settings=task.settings._replace(is_clean=False)))
        if is_worse(after, before):
            yield absolute_path(task.path), WorseStart(before, after)


def _is_what_a_start_does(plan: PartitionPlan) -> bool:
    """Whether a start does what the plan does: after an unclean stop it recovers and cuts the last segment."""
    *others, last = plan.segments
    return (
        plan.mode is RepairMode.LIKE_BROKER
        and last.is_cut
        and not plan.place.was_stopped_cleanly
        and not any(plan.changes_log(segment) for segment in others)
        and not segments_after(last.path)
    )


def _copy_of(target: str, replica: str) -> str | None:
    """The partition ``target`` in a log directory ``replica``, or that itself; None: the log directory has no such one.

    Raises KdumpError MISSING.
    """
    if not os.path.lexists(replica):
        raise KdumpError(Codes.MISSING, Codes.MISSING.value.title, path=replica)
    directory = absolute_path(target if os.path.isdir(target) else os.path.dirname(target))
    below = os.path.join(replica, os.path.basename(directory))
    if os.path.isdir(below):
        return below
    return None if os.path.isdir(replica) and is_log_directory(listing(replica)) else replica


def _log_of(found: Input) -> str:
    """The log that a PATH stands for. Raises KdumpError MISSING, NOT_A_SEGMENT_FILE or UNREADABLE."""
    path = found.path
    if is_stream(path):
        raise KdumpError(Codes.NOT_A_SEGMENT_FILE, "only files can be repaired", path=path)
    if not isinstance(found, LogSegment | Sibling) or found.kind is Kind.SNAPSHOT or not os.path.lexists(path):
        raise OtherFile(path).error
    return path if isinstance(found, LogSegment) else found.log
