"""Restores partitions into a log directory whose broker is stopped, with the journal of repair.

Source: docs/spec/startup.md (what a start makes of a directory), docs/spec/metadata.md#6-strays.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from kdump.codes import Codes, DamageError, KdumpError
from kdump.convert.offsetmap import OFFSET_MAP
from kdump.format.checkpoint import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    parse_offset_checkpoint,
)
from kdump.kafka.startup.directory import Directory, LoadSettings
from kdump.kafka.startup.outcome import StartOutcome
from kdump.log.content import Content
from kdump.log.files import listing
from kdump.log.named import errors_at
from kdump.log.names import SIBLING_TEXT_FILES, Kind, parse_file_name
from kdump.log.opening import read_whole
from kdump.log.partition import is_log_directory, log_directory_above
from kdump.log.siblings import read_checkpoint, read_topic_id
from kdump.releases import Release
from kdump.repair.apply import disk
from kdump.repair.apply.folders import open_repair
from kdump.repair.apply.journal import Unfinished, clear_unprepared, unfinished
from kdump.repair.apply.manifest import HOME, MANIFEST_NAME, Manifest
from kdump.repair.apply.preparation import Preparation, check_room
from kdump.repair.apply.undo import resume
from kdump.repair.plan.location import PartitionLocation, place_of
from kdump.repair.plan.plan import LineChange
from kdump.repair.refusals import (
    GOES_ON,
    LockHolder,
    check_place,
    refuse_backup,
    refuse_checkpoint,
    refuse_pending,
    refuse_special,
    refused,
)
from kdump.restore.earlier import WAY, account_of, made_by, request_of, restored_before
from kdump.restore.newlogs import NewPartition, PartitionMaker
from kdump.restore.plan import Placing, RestoreOptions, RestorePlan
from kdump.system.files import like_of
from kdump.system.paths import absolute_path
from kdump.verify.startcheck import StartCheck, check_start

_LOG: Final = Kind.LOG.value
_STAYING: Final = frozenset({LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA})
"""Files that are replaced, and never gone."""


class RestoredBy(Enum):
    """Which run restored a partition."""

    THIS = "this"
    BOTH = "both"
    """An earlier one was interrupted; this run took the steps that were left."""
    EARLIER = "earlier"
    """This run changed nothing."""


@dataclass(frozen=True)
class RestoredPartition:
    """A partition that is restored.

    ``new``: what was made; None where an earlier run does not tell. ``start``: the next start of the broker, by the
    model; None where an earlier run asked it.
    """

    plan: RestorePlan
    directory: str
    manifest: str
    new: NewPartition | None
    by: RestoredBy = RestoredBy.THIS
    start: StartCheck | None = None


class Restore(LockHolder):
    """One run; see LockHolder.

    Args:
        log_directory: of the target; made if it is missing.
        options: what is asked for.
    """

    def __init__(self, log_directory: str, options: RestoreOptions) -> None:
        self._log_directory = absolute_path(log_directory)
        self._options = options
        self._earlier: dict[str, tuple[str, NewPartition | None]] = {}
        self._has_checkpoints = False
        """Those of the log directory can be changed."""
        super().__init__()

    def check(self, plan: RestorePlan) -> None:
        """Refuse what must not be done. Nothing is written but the lock file of the log directory.

        Raises:
            KdumpError: LOCK_HELD, OUTPUT_EXISTS, REPAIR_REFUSED.
        """
        directory = self._directory(plan)
        with errors_at(directory):
            self._check(plan, directory)

    def _check(self, plan: RestorePlan, directory: str) -> None:
        for path in (self._log_directory, directory):
            if os.path.lexists(path) and not os.path.isdir(path):
                raise refused("is no directory", path)
        names = _partition_files(self._log_directory)
        has_own = any(name.endswith(_LOG) or name == PARTITION_METADATA for name in names)
        if has_own and not is_log_directory(listing(self._log_directory)):
            message = "is a partition directory: name the log directory that it lies in, or is to lie in"
            raise refused(message, self._log_directory)
        above = log_directory_above(directory)
        if above is not None and above != os.path.realpath(self._log_directory):
            raise refused(f"lies in the log directory {above}; give a directory outside of it", self._log_directory)
        place = place_of(directory)
        check_place(place, is_forced=self._options.force)
        # What is no log directory yet becomes one.
        refuse_backup(replace(place, log_directory=self._log_directory), self._options.backup)
        self._take_lock(place)
        if not self._has_checkpoints:
            _check_checkpoints(place)
            self._has_checkpoints = True
        if os.path.realpath(plan.place.directory) == os.path.realpath(directory):
            raise refused("is the source itself", directory)
        if not os.path.lexists(directory) or any(unfinished(directory)):
            return
        _check_files(directory)
        refuse_pending(directory)
        earlier = restored_before(directory, self._options.backup, request_of(plan, self._options))
        if earlier is not None:
            self._earlier[directory] = earlier
        if earlier is not None or self._options.overwrites:
            return
        if any(
            name.endswith(_LOG) and os.path.getsize(os.path.join(directory, name)) for name in os.listdir(directory)
        ):
            message = "its log has records; --overwrite moves them into the backup"
            raise KdumpError(Codes.OUTPUT_EXISTS, message, path=directory)
        known = read_topic_id(directory)
        if known is not None and known != plan.target.topic_id and not plan.target.replicas:
            message = (
                f"is of topic id {known}, and {plan.target.topic_id} was given; --overwrite believes the given one"
            )
            raise refused(message, directory)

    def restore(self, plan: RestorePlan) -> RestoredPartition:
        """Restore one partition that was checked; what was begun before is finished, and what is done stays.

        Raises:
            KdumpError: it cannot be written or is refused; nothing has changed, or running it again goes on.
        """
        directory = self._directory(plan)
        with errors_at(directory):
            return self._restore(plan, directory)

    def _restore(self, plan: RestorePlan, directory: str) -> RestoredPartition:
        earlier = self._earlier.get(directory)
        if earlier is not None:
            # What an earlier run could not remove.
            clear_unprepared(directory, self._options.backup)
            return RestoredPartition(plan, directory, *earlier, RestoredBy.EARLIER)
        self._take_lock(place_of(directory))
        for begun in list(unfinished(directory)):
            manifest = self._go_on(begun)
            if not begun.is_undone:
                path = os.path.join(manifest.backup, MANIFEST_NAME)
                return RestoredPartition(plan, directory, path, made_by(manifest), RestoredBy.BOTH)
        made = _make_directories(directory)
        self._take_lock(place_of(directory))
        clear_unprepared(directory, self._options.backup)
        if not made and _is_bare(directory):
            # An earlier run made it, and was killed.
            made = [directory]
        try:
            return self._restored(plan, place_of(directory), is_new=bool(made))
        except BaseException:
            disk.remove_made(made)
            raise

    def _take_lock(self, place: PartitionLocation) -> None:
        """Raises KdumpError LOCK_HELD. Of a partition in no log directory nothing is locked until it is there."""
        if place.log_directory is not None or os.path.isdir(place.directory):
            self.take_lock(place)

    def _go_on(self, begun: Unfinished) -> Manifest:
        """Finish what was begun, a restore or the undo of one."""
        folders, manifest = open_repair(begun.path, self._options.backup)
        with folders:
            if manifest.way != WAY:
                raise refused(f"{begun}; kdump repair {GOES_ON}", begun.path)
            resume(folders, manifest)
        return manifest

    def _restored(self, plan: RestorePlan, place: PartitionLocation, *, is_new: bool) -> RestoredPartition:
        directory = place.directory
        check_room(directory, sum(one.size for one in plan.segments if not self._is_linked(one.path, directory)))
        with Preparation(directory, self._options.backup) as preparation:
            try:
                old = _partition_files(directory)
                for name in old:
                    preparation.save(name)
                new = PartitionMaker(plan, self._options, preparation, _owner(directory)).make()
                lines = _lines(plan, new, place, is_renumbered=self._options.conversion.renumber is not None)
                start = _start(preparation, new, old, place, self._options.release)
                _steps(preparation, new, old, lines)
                account = account_of(request_of(plan, self._options), new)
                logs = [{"path": name} for name in new.logs]
                manifest = preparation.begin(WAY, logs, {}, is_new=is_new, account=account)
            except BaseException:
                preparation.discard()
                if is_new:
                    with suppress(KdumpError):
                        disk.remove_directory(os.path.join(directory, HOME))
                raise
            path = preparation.finish(manifest, "it was begun: run it again to finish it, repair --undo takes it back")
        return RestoredPartition(plan, directory, path, new, start=start)

    def _is_linked(self, log: str, directory: str) -> bool:
        """It needs no room. What is gone meanwhile is an error when it is opened."""
        with suppress(OSError):
            return self._options.placing is not Placing.COPY and os.stat(log).st_dev == os.stat(directory).st_dev
        return False

    def _directory(self, plan: RestorePlan) -> str:
        return os.path.join(self._log_directory, plan.target.name)


def _check_checkpoints(place: PartitionLocation) -> None:
    """Raises KdumpError REPAIR_REFUSED for a checkpoint of the log directory in which no line can be changed."""
    for name in _WANTED if place.log_directory is not None else ():
        path = os.path.join(place.log_directory or "", name)
        _refuse_directory(path)
        refuse_checkpoint(path)
        if os.path.lexists(path):
            try:
                parse_offset_checkpoint(read_whole(path))
            except DamageError as error:
                message = f"is malformed ({error}), and the lines of the partition could not be changed in it"
                raise refused(message, path) from error


def _check_files(directory: str) -> None:
    """Raises KdumpError REPAIR_REFUSED for what must not be replaced in the directory of a partition."""
    home = os.path.join(directory, HOME)
    if os.path.lexists(home) and (os.path.islink(home) or not os.path.isdir(home)):
        raise refused("is no directory", home)
    for name in os.listdir(directory):
        if parse_file_name(name) is not None or name in SIBLING_TEXT_FILES:
            _refuse_directory(os.path.join(directory, name))
    refuse_special([directory, *(os.path.join(directory, name) for name in _partition_files(directory))])


def _refuse_directory(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        raise refused("is a directory, in the place of a file", path)


def _make_directories(directory: str) -> list[disk.Where]:
    """Make a partition directory that is missing, with the owner of the log directory; returns those made."""
    missing: list[str] = []
    path = directory
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    made: list[disk.Where] = []
    try:
        for one in reversed(missing):
            disk.make_directory(one, like_of(os.path.dirname(one)))
            made.append(one)
    except BaseException:
        disk.remove_made(made)
        raise
    return made


def _is_bare(directory: str) -> bool:
    """Nothing is in it but the home of journals, and no journal in that."""
    home = os.path.join(directory, HOME)
    return set(os.listdir(directory)) <= {HOME} and not (os.path.isdir(home) and os.listdir(home))


def _owner(directory: str) -> os.stat_result:
    """Owner and mode of new files: those of a log that is there, else what fits the directory."""
    for name in sorted(os.listdir(directory)):
        if name.endswith(_LOG):
            return like_of(os.path.join(directory, name))
    status = like_of(directory)
    mode = stat.S_IMODE(status.st_mode) & 0o666
    return os.stat_result((mode, 0, 0, 0, status.st_uid, status.st_gid, 0, 0, 0, 0))


def _partition_files(directory: str) -> list[str]:
    """Names of the files in a directory that are of its partition; those that a broker is about to remove stay."""
    if not os.path.isdir(directory):
        return []
    names = []
    for entry in os.scandir(directory):
        parsed = parse_file_name(entry.name)
        is_segment_file = parsed is not None and not parsed.state and parsed.kind is not Kind.CHECKPOINT
        is_own = is_segment_file or entry.name in SIBLING_TEXT_FILES or entry.name.endswith(OFFSET_MAP)
        if is_own and not entry.is_dir(follow_symlinks=False):
            names.append(entry.name)
    return sorted(names)


def _lines(plan: RestorePlan, new: NewPartition, place: PartitionLocation, *, is_renumbered: bool) -> list[LineChange]:
    """The lines of the partition in the checkpoints of the log directory, which fit the restored log.

    A start empties a log that ends before its log start offset, so that line comes first where it falls.
    """
    if place.log_directory is None:
        return []
    known = {name: read_checkpoint(place.directory, name) for name in _WANTED}
    wanted = {RECOVERY_POINT_CHECKPOINT: new.log_end, HIGH_WATERMARK_CHECKPOINT: new.log_end}
    if new.log_start > 0 or known[LOG_START_CHECKPOINT] is not None:
        wanted[LOG_START_CHECKPOINT] = new.log_start
    cleaned_to = None if is_renumbered else plan.place.cleaned_to
    if cleaned_to is not None or known[CLEANER_CHECKPOINT] is not None:
        wanted[CLEANER_CHECKPOINT] = min(max(cleaned_to or 0, new.log_start), new.log_end)
    return [LineChange(name, known[name], after) for name, after in wanted.items() if known[name] != after]


_WANTED: Final = (
    RECOVERY_POINT_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    CLEANER_CHECKPOINT,
)


def _start(
    preparation: Preparation, new: NewPartition, old: Sequence[str], place: PartitionLocation, release: Release
) -> StartCheck:
    """The next start of the broker, by the model. Raises KdumpError REPAIR_REFUSED if it would change the log."""
    folder = preparation.folders.new
    assert folder is not None
    files = dict(Directory.on_disk(place.directory).before)
    for name in old:
        files.pop(name, None)
    for name in new.names:
        path = os.path.join(folder.path, name)
        files[name] = Content.of_file(path, os.stat(path).st_size)
    is_clean = place.was_stopped_cleanly or place.log_directory is None
    settings = LoadSettings(is_clean, new.log_end, new.log_start, release=release)
    check = check_start(Directory(place.directory, files), settings)
    served = check.start.served
    if check.start.outcome is not StartOutcome.STARTS or served is None:
        why = "" if check.start.failure is None else f": {check.start.failure.message}"
        raise refused(f"a broker would not start on what it would become{why}", place.directory)
    if not check.is_harmless or (served.log_start_offset, served.end_offset) != (new.log_start, new.log_end):
        found = f"{served.log_start_offset} to {served.end_offset}"
        message = f"a start of the broker would serve offsets {found} instead of {new.log_start} to {new.log_end}"
        raise refused(message, place.directory)
    return check


def _steps(preparation: Preparation, new: NewPartition, old: Sequence[str], lines: Sequence[LineChange]) -> None:
    """The steps from the directory as it is to the restored one.

    No log is ever beside an index file of another one: all old index files go first, new ones come last.
    """
    names = set(new.names)
    first = [line for line in lines if _falls(line)]
    for line in first:
        preparation.set_line(line)
    gone = sorted((name for name in old if name not in _STAYING), key=lambda name: name.endswith(_LOG))
    for name in gone:
        if name not in names:
            preparation.remove(name)
        elif not name.endswith(_LOG):
            preparation.remove_old(name)
    preparation.sync()
    for name in new.others:
        preparation.place(name)
    for log in new.logs:
        preparation.place(log)
    preparation.sync()
    for log in new.logs:
        for name in new.beside[log]:
            preparation.place(name)
    preparation.sync()
    for line in lines:
        if line not in first:
            preparation.set_line(line)
    for name in old:
        if name in _STAYING and name not in names:
            preparation.remove(name)


def _falls(line: LineChange) -> bool:
    return line.name == LOG_START_CHECKPOINT and line.before is not None and line.after < line.before
