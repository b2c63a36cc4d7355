"""``kdump repair`` in this process: plans, repaired copies, repairs in place."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final, Self

from kdump.codes import Codes, KdumpError
from kdump.log.fingerprint import FileFingerprint
from kdump.log.lock import DirectoryLock, LockState
from kdump.log.names import INDEX_KINDS, SIBLING_TEXT_FILES, Kind, parse_file_name, sibling
from kdump.log.partition import segments_after, segments_around
from kdump.log.paths import LogSegment, OtherFile, PathDirectory, Resolved, Sibling, Stream, resolve
from kdump.log.source import Source, check_size, open_source
from kdump.repair.account import account, json_account
from kdump.repair.afterwards import RepairedDirectory
from kdump.repair.copies import CopyWriter, Staging
from kdump.repair.folders import open_repair
from kdump.repair.inplace import prepare
from kdump.repair.journal import Unfinished, clear_unprepared, finish, unfinished
from kdump.repair.location import PartitionLocation, is_metadata, log_directory_above, place_of
from kdump.repair.manifest import MANIFEST_NAME, Manifest
from kdump.repair.pieces import TxnPolicy
from kdump.repair.plan import Completion, PartitionPlan, RepairMode, RepairSettings
from kdump.repair.planner import Planner
from kdump.repair.preparation import Preparation, check_room
from kdump.repair.salvageoptions import SalvageOptions
from kdump.repair.startreport import worse_start
from kdump.repair.starts import StartMode, Starts, WorseStart, cut_lines, is_worse, start_after
from kdump.repair.undo import Undone, resume, undo
from kdump.verify.startcheck import StartCheck
from kdump.verify.startups import StartOptions, Task, task_of, tasks_below
from kdump.verify.swapped import exchanged_logs, swapped_finding

_PENDING: Final = (".swap", ".cleaned")
_GOES_ON: Final = "--finish finishes it, --undo takes it back"


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """What is asked for.

    ``way`` None: nothing in particular. ``output``: the directory for repaired copies, None: none are written.
    ``in_place``: repair the files themselves; ``backup``: where their originals go, None: into the partition;
    ``force``: also where nobody can tell whether a broker runs. ``salvaging``: how logs are salvaged.
    """

    way: RepairMode | None = None
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
    """Repair in place also where the next start of the broker ends worse after that."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """What came of one partition or segment.

    ``plan`` is what was, or would be, done; ``written`` where the repaired copies are; ``manifest`` the one of a repair
    in place. Both None: nothing was done.
    """

    plan: PartitionPlan
    written: str | None = None
    manifest: str | None = None
    unfinished: tuple[Unfinished, ...] = ()
    """Repairs that were begun before: the plan, or the copy, is of the state in between."""
    has_guesses: bool = False
    """A transaction was left that nobody has decided about, and readers take a later marker for its end."""
    starts: Starts | None = None
    """The next start without and with what changes a partition directory in its place."""

    @property
    def is_done(self) -> bool:
        """Something was done."""
        return self.written is not None or self.manifest is not None

    @property
    def leaves_damage(self) -> bool:
        """Something is to be done that was not, or that no repair does, or readers of the result see a guess."""
        if self.unfinished or self.has_guesses or self.plan.left:
            return True
        if self.plan.way is RepairMode.INDEXES and self.plan.is_damaged:
            return True
        return self.plan.has_changes and not self.is_done


class Repair:
    """One run over any number of paths; a context, which gives back the locks that it took.

    Args:
        options: what is asked for.
        opened: opens a log; to be replaced where reading is to be watched.
        on_error: takes what is wrong with one partition of several.
    """

    def __init__(
        self,
        options: RepairOptions,
        *,
        on_error: Callable[[KdumpError], None],
        opened: Callable[[str], Source] = open_source,
    ) -> None:
        self._options = options
        self._way = options.way or RepairMode.LIKE_BROKER
        self._open = opened
        self._on_error = on_error
        self._locks = _Locks()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._locks.release()

    def path(self, path: str) -> Iterator[Repaired]:
        """Plan, or do, what one PATH stands for; it comes when its partition is done.

        Raises:
            KdumpError: the path cannot be looked at, or nothing is done about it.
        """
        found = resolve(path)
        if isinstance(found, PathDirectory):
            yield from self._directory(found)
        else:
            yield self._partition(path, [_log_of(found)], is_whole=False)

    def _directory(self, found: PathDirectory) -> Iterator[Repaired]:
        directory = found.folder
        partitions: dict[str, list[str]] = {}
        # What is missing of a partition of which no log is left a replica may have.
        all_files = bool(self._options.salvaging.replicas)
        try:
            for file in found.files(self._on_error, all_files=all_files):
                segments = partitions.setdefault(os.path.dirname(file.path), [])
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

    def _name_unfinished(self, directory: str, partitions: Container[str]) -> bool:
        """Say which directories have a repair that was begun, and no log: some were there under a broker's name."""
        is_named = False
        for folder in _with_those_below(directory):
            if folder not in partitions:
                try:
                    _refuse_unfinished(folder)
                except KdumpError as error:
                    self._on_error(error.located(folder))
                    is_named = True
        return is_named

    def _partition(self, target: str, segments: list[str], *, is_whole: bool) -> Repaired:
        place = place_of(target if is_whole else os.path.dirname(target))
        repaired = self._of_partition(target, segments, place, is_whole=is_whole)
        try:
            return replace(repaired, unfinished=tuple(unfinished(place.directory)))
        except KdumpError as error:
            # A manifest that cannot be read is no reason to keep the plan back.
            self._on_error(error.located(place.directory))
            return repaired

    def _of_partition(self, target: str, segments: list[str], place: PartitionLocation, *, is_whole: bool) -> Repaired:
        _refuse_exchanged(segments)
        if segments and is_metadata(segments[0]) and (self._options.in_place or self._way is RepairMode.SALVAGE):
            return self._leave_metadata(target, segments, place, is_whole=is_whole)
        if self._options.output is not None:
            return self._copy(self._options.output, target, segments, place, is_whole=is_whole)
        if self._options.in_place:
            return self._in_place(target, segments, place, is_whole=is_whole)
        plan = self._planner(target).partition(target, segments, place, is_whole=is_whole)
        return Repaired(plan, starts=self._starts(RepairedDirectory(plan, self._options.settings)))

    def _starts(self, directory: RepairedDirectory) -> Starts | None:
        """What a broker would make of the log directory as it is, and as the repair leaves it."""
        plan = directory.plan
        is_in_partition = plan.is_whole or plan.place.log_directory is not None
        if not is_in_partition or not plan.has_changes or plan.is_refused or plan.is_metadata:
            return None
        before = _started(task_of(plan.target if plan.is_whole else plan.place.directory, StartOptions()))
        repaired = start_after(directory, before)
        worse = []
        if is_worse(repaired.way.check, before):
            worse.append(WorseStart(before, repaired.way.check))
        starts = Starts(StartMode(None, before), repaired, plan.place.clean_shutdown, ())
        if starts.removes_marker:
            worse += _worse_beside(plan.place.directory)
        return replace(starts, worse=tuple(worse))

    def _leave_metadata(
        self, target: str, segments: list[str], place: PartitionLocation, *, is_whole: bool
    ) -> Repaired:
        """Nothing is done about them; KdumpError REPAIR_REFUSED where something would have to be."""
        planner = Planner(RepairMode.LIKE_BROKER, self._options.settings, self._open)
        plan = planner.partition(target, segments, place, is_whole=is_whole)
        if plan.has_changes:
            raise _refused(
                "the metadata of a cluster are neither salvaged nor repaired in place; let this node fetch them from "
                "the other voters, or start from the newest good .checkpoint",
                target,
            )
        return Repaired(plan)

    def _planner(self, target: str, copies: CopyWriter | None = None) -> Planner:
        """Salvage costs a look at every record; it is left out where another way is gone at once."""
        is_plan = self._options.output is None and not self._options.in_place
        salvaging = None
        if is_plan or self._way is RepairMode.SALVAGE:
            replicas = tuple(_copy_of(target, replica) for replica in self._options.salvaging.replicas)
            salvaging = replace(self._options.salvaging, replicas=replicas)
        return Planner(self._way, self._options.settings, self._open, salvaging=salvaging, copies=copies)

    def _copy(
        self, output: str, target: str, segments: list[str], place: PartitionLocation, *, is_whole: bool
    ) -> Repaired:
        above = log_directory_above(output)
        if above is not None:
            message = f"{above} is the log directory of a broker; give a directory outside of it"
            raise KdumpError(Codes.REPAIR_REFUSED, message, path=output)
        name = os.path.basename(os.path.abspath(target))
        check_room(output, sum(FileFingerprint.of_log(segment).size for segment in segments))
        with Staging(output, overwrites=self._options.overwrites) as staging:
            account_name = f"kdump-{name}.json"
            staging.refuse_existing([name, account_name])
            copies = CopyWriter(staging)
            if self._way is RepairMode.SALVAGE:
                plan = self._planner(target).partition(target, segments, place, is_whole=is_whole)
                self._refuse(plan)
                check_room(output, sum(segment.salvaged.size for segment in plan.segments if segment.salvaged))
                repaired = RepairedDirectory(plan, self._options.settings)
                copies.write_salvaged(repaired)
            else:
                plan = self._planner(target, copies).partition(target, segments, place, is_whole=is_whole)
                self._refuse(plan)
                repaired = RepairedDirectory(plan, self._options.settings)
            if plan.is_refused:
                return Repaired(plan)
            if is_whole:
                copies.write_others(repaired)
                staging.commit_directory(name, account_name, json_account(plan))
            else:
                staging.commit_files(account_name, json_account(plan))
        is_asked_for = self._options.decides_transactions and self._options.salvaging.transactions is TxnPolicy.LEAVE
        has_guesses = bool(plan.guessed) and not is_asked_for
        return Repaired(plan, os.path.join(output, name if is_whole else ""), has_guesses=has_guesses)

    def _in_place(self, target: str, segments: list[str], place: PartitionLocation, *, is_whole: bool) -> Repaired:
        _refuse_special([*segments, *(sibling(segment, kind) for segment in segments for kind in INDEX_KINDS)])
        _refuse_special([entry.path for entry in os.scandir(place.directory) if entry.name in SIBLING_TEXT_FILES])
        for segment in segments:
            name = parse_file_name(segment)
            if name is not None and name.state:
                message = f"a file that a broker is about to remove or to take in ({name.state}); use -o"
                raise _refused(message, segment)
        _check_place(place, is_forced=self._options.force)
        _refuse_backup(place, self._options.backup)
        _refuse_unfinished(place.directory)
        self._locks.take(place)
        clear_unprepared(place.directory, self._options.backup)
        if not self._options.salvaging.replicas:
            segments = [segment for segment in segments if os.path.lexists(segment)]
        if not segments and not self._options.salvaging.replicas:
            raise KdumpError(Codes.MISSING, Codes.MISSING.value.title, path=target)
        _refuse_pending(place.directory)
        plan = self._planner(target).partition(target, segments, place, is_whole=is_whole)
        self._refuse(plan)
        if not plan.has_changes or plan.is_refused:
            return Repaired(plan)
        directory = RepairedDirectory(plan, self._options.settings)
        # The comparison costs two more passes over the log.
        starts = None if _is_what_a_start_does(plan) else self._starts(directory)
        if starts is not None and starts.worse and not self._options.allow_worse_start:
            named = "; ".join(map(worse_start, starts.worse))
            raise _refused(
                f"the next start of the broker would end worse after this repair than without it: {named}; "
                "--allow-worse-start goes on",
                target,
            )
        completion = Completion(lines=cut_lines(plan)) if starts is None else starts.repaired.completion
        _refuse_special([os.path.join(os.path.dirname(place.directory), line.name) for line in completion.lines])
        return Repaired(plan, manifest=self._repair(directory, completion), starts=starts)

    def _refuse(self, plan: PartitionPlan) -> None:
        """Raises KdumpError REPAIR_REFUSED for what nobody has decided."""
        options, behind = self._options, plan.good_after_damage
        overlapping = (
            plan.overlapping if self._way is RepairMode.SALVAGE and (plan.is_whole or options.in_place) else None
        )
        if overlapping is not None:
            message = (
                f"would have to be written as {overlapping.repaired_name}, and the offsets from there on are those of "
                "another segment: move one of them away"
            )
            raise _refused(message, overlapping.path)
        if options.in_place and options.way is None and behind.batches:
            raise _refused(
                f"good data lie behind the damage ({behind.records:,} records, batches: {behind.batches:,}); "
                "--like-broker cuts them off, --salvage keeps them",
                plan.target,
            )
        if options.in_place and self._way is RepairMode.SALVAGE and plan.undecided and not options.decides_transactions:
            named = "; ".join(
                f"producer {touched.producer_id} from offset {touched.first_offset} on" for touched in plan.undecided
            )
            raise _refused(f"transactions whose end is not known touch a gap ({named}): --txn decides", plan.target)
        if self._way is RepairMode.INDEXES and plan.is_damaged and not options.in_place:
            damaged = next(segment for segment in plan.segments if segment.is_cut or segment.fails)
            raise _refused("the log is damaged; --indexes rebuilds those of good logs only", damaged.path)

    def _repair(self, directory: RepairedDirectory, completion: Completion) -> str:
        plan = directory.plan
        _check_room_in_place(plan, self._options.backup)
        with Preparation(plan.place.directory, self._options.backup) as preparation:
            try:
                prepare(directory, preparation, completion)
                for segment in plan.segments:
                    segment.stamp.check(segment.path)
                digests = {os.path.basename(segment.path): segment.recovered.read.sha256 for segment in plan.segments}
                manifest = preparation.begin(self._way.value, account(plan), digests)
            except BaseException:
                preparation.discard()
                raise
            try:
                finish(preparation.folders, manifest)
            except KdumpError as error:
                message = f"{error.message}; the repair was begun: {_GOES_ON}"
                raise KdumpError(error.code, message, path=error.path) from error
            return os.path.join(manifest.backup, MANIFEST_NAME)


def undo_repair(
    path: str, *, replaces_changed: bool = False, force: bool = False, backup: str | None = None
) -> tuple[Manifest, Undone]:
    """Undo the repair whose manifest is ``path``; gives that, and what came of it.

    Args:
        path: of the manifest.
        replaces_changed: see ``kdump.repair.undo.undo``.
        force: also where nobody can tell whether a broker runs.
        backup: the directory that was named for the originals; see ``kdump.repair.folders.open_repair``.

    Raises:
        KdumpError: see ``kdump.repair.undo.undo`` and ``kdump.repair.folders.open_repair``; LOCK_HELD.
    """
    folders, manifest = open_repair(path, backup)
    with folders, _locked(manifest.directory, is_forced=force):
        return manifest, undo(folders, manifest, replaces_changed=replaces_changed)


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of finishing the repairs of a partition directory: their manifests, where they are now."""

    path: str
    manifests: tuple[str, ...]


def finish_repairs(
    path: str, *, on_error: Callable[[KdumpError], None], force: bool = False, backup: str | None = None
) -> Iterator[Finished]:
    """Finish the repairs, and the undoing of repairs, that were begun below ``path``.

    A log whose name changes may be there under a name for a broker only, so every directory is looked into.

    Args:
        path: a partition directory, or a log directory.
        on_error: takes what is wrong with one partition.
        force: also where nobody can tell whether a broker runs.
        backup: the directory that was named for the originals.

    Raises:
        KdumpError: MISSING, or REPAIR_REFUSED where the path is no directory.
    """
    if not os.path.isdir(path):
        if not os.path.lexists(path):
            raise KdumpError(Codes.MISSING, Codes.MISSING.value.title, path=path)
        raise _refused("is no directory; --finish takes partition directories and log directories", path)
    for directory in _with_those_below(path):
        try:
            begun = list(unfinished(directory))
            manifests = []
            for one in begun:
                folders, manifest = open_repair(one.path, backup)
                with folders, _locked(manifest.directory, is_forced=force):
                    resume(folders, manifest)
                manifests.append(os.path.join(manifest.backup, MANIFEST_NAME))
            if manifests:
                yield Finished(directory, tuple(manifests))
        except KdumpError as error:
            on_error(error.located(directory))


def _with_those_below(directory: str) -> list[str]:
    """A directory, and the directories in it."""
    below = sorted(entry.path for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False))
    return [directory, *below]


@contextmanager
def _locked(directory: str, *, is_forced: bool) -> Iterator[None]:
    """Hold the lock of the log directory in which a partition lies. Raises KdumpError REPAIR_REFUSED or LOCK_HELD."""
    place = place_of(directory)
    _check_place(place, is_forced=is_forced)
    with DirectoryLock(place.log_directory) if place.log_directory is not None else nullcontext():
        yield


def _started(task: Task) -> StartCheck:
    """Raises KdumpError where a file cannot be read."""
    check = task.run()
    if isinstance(check, KdumpError):
        raise check
    return check


def _worse_beside(directory: str) -> Iterator[WorseStart]:
    """The other partitions of the log directory that lose by a start without the marker of a clean shutdown."""
    for task in tasks_below(os.path.dirname(directory), StartOptions()):
        if os.path.abspath(task.path) != directory:
            before = _started(task)
            after = _started(task._replace(settings=task.settings._replace(is_clean=False)))
            if is_worse(after, before):
                yield WorseStart(before, after)


def _is_what_a_start_does(plan: PartitionPlan) -> bool:
    """After an unclean stop a broker recovers the last segment in any case, and cuts its end where the plan does."""
    *others, last = plan.segments
    return (
        plan.way is RepairMode.LIKE_BROKER
        and last.is_cut
        and not plan.place.was_stopped_cleanly
        and not any(plan.changes_log(segment) for segment in others)
        and not segments_after(last.path)
    )


class _Locks:
    """The locks of the log directories that are written to: once taken, held until the run is done."""

    def __init__(self) -> None:
        self._held: dict[str, DirectoryLock] = {}

    def take(self, place: PartitionLocation) -> None:
        """The lock of the place's log directory, where there is one. Raises KdumpError LOCK_HELD."""
        if place.log_directory is not None and (path := os.path.realpath(place.log_directory)) not in self._held:
            self._held[path] = DirectoryLock(place.log_directory)

    def release(self) -> None:
        """All of them."""
        while self._held:
            self._held.popitem()[1].release()


def _check_place(place: PartitionLocation, *, is_forced: bool) -> None:
    """Raises KdumpError REPAIR_REFUSED for a symbolic link, LOCK_HELD where nobody can tell whether a broker runs."""
    _refuse_special([place.directory])
    if place.lock is LockState.UNKNOWN and not is_forced:
        message = "on this file system nobody can tell whether a broker runs elsewhere; --force goes on"
        raise KdumpError(Codes.LOCK_HELD, message, path=place.log_directory)


def _refuse_backup(place: PartitionLocation, backup: str | None) -> None:
    """Raises KdumpError REPAIR_REFUSED for a backup where a broker would stumble over it: among its partitions."""
    if backup is None or place.log_directory is None:
        return
    path = os.path.realpath(backup)
    log_directory, partition = os.path.realpath(place.log_directory), os.path.realpath(place.directory)
    if _is_below(path, log_directory) and not _is_below(path, partition):
        raise _refused(f"{log_directory} is the log directory of a broker; give a directory outside of it", backup)


def _is_below(path: str, directory: str) -> bool:
    return os.path.commonpath((path, directory)) == directory


def _refuse_unfinished(directory: str) -> None:
    """Raises KdumpError REPAIR_REFUSED where a repair was begun before: somebody has to decide about it."""
    for begun in unfinished(directory):
        raise _refused(f"{begun}; {_GOES_ON}", begun.path)


def _refuse_pending(directory: str) -> None:
    """Raises KdumpError REPAIR_REFUSED where a broker was replacing segments: at its start these files come first."""
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if entry.name.endswith(_PENDING) and entry.is_file(follow_symlinks=False):
            message = "a broker was replacing segments, and its next start decides about this file first; use -o"
            raise _refused(message, entry.path)


def _check_room_in_place(plan: PartitionPlan, backup: str | None) -> None:
    """Raises KdumpError UNWRITABLE where the new files, or the originals that must be copied, have no room.

    In the partition's own backup a log that goes needs none: it is kept by a second name.
    """
    if backup is None:
        check_room(plan.place.directory, plan.bytes_to_write)
        return
    check_room(plan.place.directory, plan.bytes_to_write if plan.way is RepairMode.SALVAGE else 0)
    if plan.way is RepairMode.SALVAGE:
        check_room(backup, sum(segment.stamp.size for segment in plan.segments if segment.is_salvaged))
    else:
        loss = plan.broker_loss() if plan.way is RepairMode.LIKE_BROKER else None
        check_room(backup, loss.bytes_cut if loss is not None else 0)


def _copy_of(target: str, replica: str) -> str:
    """The partition ``target`` in a log directory ``replica``, or that itself. Raises KdumpError MISSING."""
    if not os.path.lexists(replica):
        raise KdumpError(Codes.MISSING, Codes.MISSING.value.title, path=replica)
    directory = os.path.abspath(target if os.path.isdir(target) else os.path.dirname(target))
    below = os.path.join(replica, os.path.basename(directory))
    return below if os.path.isdir(below) else replica


def _refuse_exchanged(segments: list[str]) -> None:
    """Raises KdumpError REPAIR_REFUSED where a log has the contents of another one: all of it is good data."""
    named = bool(segments) and parse_file_name(segments[0])
    others = exchanged_logs(segments_around(segments[0])) if named else {}
    path = next((segment for segment in segments if segment in others), None)
    if path is not None:
        raise _refused(f"{swapped_finding(path, others[path]).message}; nothing of them is damage", path)


def _refuse_special(paths: list[str]) -> None:
    """Raises KdumpError where a file is not one that a repair may take the place of.

    REPAIR_REFUSED: it is neither a file nor a directory; FILE_SIZE: an index or a text file, of which the backup keeps
    the bytes, is a giant.
    """
    for path in paths:
        try:
            status = os.lstat(path)
        except OSError:
            continue
        mode = status.st_mode
        if stat.S_ISLNK(mode):
            raise _refused("is a symbolic link, through which nothing is written: name what it leads to", path)
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise _refused("is a pipe, a socket or a device, in whose place nothing is written", path)
        name = parse_file_name(path)
        if name is None or name.kind not in (Kind.LOG, Kind.CHECKPOINT):
            check_size(path, status.st_size)


def _refused(message: str, path: str) -> KdumpError:
    return KdumpError(Codes.REPAIR_REFUSED, message, path=path)


def _log_of(found: Resolved) -> str:
    """The log that a PATH stands for. Raises KdumpError MISSING, NOT_A_SEGMENT_FILE or UNREADABLE."""
    path = found.path
    if isinstance(found, Stream):
        raise KdumpError(Codes.NOT_A_SEGMENT_FILE, "only files can be repaired", path=path)
    if not isinstance(found, LogSegment | Sibling) or found.kind is Kind.SNAPSHOT or not os.path.lexists(path):
        raise OtherFile(path).error
    return path if isinstance(found, LogSegment) else found.log
