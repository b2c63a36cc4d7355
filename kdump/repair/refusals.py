"""What a repair in place refuses, and the locks that it takes first."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final, Self

from kdump.codes import Codes, KdumpError
from kdump.log.lock import DirectoryLock, Lock, LockState, PartitionLock
from kdump.log.names import Kind, parse_file_name, parse_partition_directory
from kdump.log.opening import check_size
from kdump.log.partition import log_directory_above, segments_around
from kdump.repair.apply.journal import part_name, unfinished
from kdump.repair.apply.manifest import HOME
from kdump.repair.apply.preparation import check_room
from kdump.repair.plan.location import PartitionLocation, place_of
from kdump.repair.plan.plan import PartitionPlan, RepairMode
from kdump.system.paths import absolute_path
from kdump.verify.swapped import exchanged_logs, swapped_finding

_PENDING: Final = (".swap", ".cleaned")
GOES_ON: Final = "--finish finishes it, --undo takes it back"


def refused(message: str, path: str) -> KdumpError:
    """The error REPAIR_REFUSED."""
    return KdumpError(Codes.REPAIR_REFUSED, message, path=path)


def check_place(place: PartitionLocation, *, is_forced: bool) -> None:
    """Raises KdumpError REPAIR_REFUSED for a symbolic link, LOCK_HELD if it is unknown whether a broker runs."""
    refuse_special([place.directory])
    if place.lock is LockState.UNKNOWN and not is_forced:
        message = "on this file system it is unknown whether a broker runs elsewhere; --force goes on"
        raise KdumpError(Codes.LOCK_HELD, message, path=place.log_directory)


def refuse_special(paths: list[str]) -> None:
    """Raises KdumpError for paths that a repair must not replace.

    REPAIR_REFUSED: it is neither a regular file nor a directory. FILE_SIZE: it is an index or a text file, which the
    backup copies, and too large for one.
    """
    for path in paths:
        try:
            status = os.lstat(path)
        except OSError:
            continue
        mode = status.st_mode
        if stat.S_ISLNK(mode):
            raise refused("is a symbolic link, through which nothing is written: name what it leads to", path)
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise refused("is a pipe, a socket or a device, in whose place nothing is written", path)
        name = parse_file_name(path)
        if name is None or name.kind not in (Kind.LOG, Kind.CHECKPOINT):
            check_size(path, status.st_size)


def refuse_exchanged(segments: list[str]) -> None:
    """Raises KdumpError REPAIR_REFUSED if a log has the contents of another one: all of them are good data."""
    named = bool(segments) and parse_file_name(segments[0])
    others = exchanged_logs(segments_around(segments[0])) if named else {}
    path = next((segment for segment in segments if segment in others), None)
    if path is not None:
        raise refused(f"{swapped_finding(path, others[path]).message}; nothing of them is damage", path)


def refuse_one_name(segments: list[str]) -> None:
    """Raises KdumpError REPAIR_REFUSED for two logs whose repaired files would have one name.

    A name counts up to its first dot: ``5.log`` and ``5.a.log`` have the same index files.
    """
    known: dict[str, str] = {}
    for segment in segments:
        name = parse_file_name(segment)
        if name is not None and (other := known.setdefault(name.stem, segment)) != segment:
            raise refused(
                f"has the same name as {os.path.basename(other)} up to the dot: move one of them away", segment
            )


def refuse_backup(place: PartitionLocation, backup: str | None) -> None:
    """Raises KdumpError REPAIR_REFUSED for a backup that could not be used.

    A broker would load one among its partitions, of whichever of its log directories. One in a directory ``.kdump``
    would look like the journal of a repair of the directory above it, and one with the name of a partition would make
    the partition directory a log directory.
    """
    if backup is None:
        return
    if HOME in (os.path.basename(absolute_path(backup)), os.path.basename(os.path.realpath(backup))):
        raise refused(f"{HOME} is the name for the journals of repairs; give a directory of another name", backup)
    if is_below(backup, place.directory):
        inside = os.path.relpath(os.path.realpath(backup), os.path.realpath(place.directory)).split(os.sep)[0]
        if parse_partition_directory(inside) is not None:
            raise refused(f"{inside} is the name of a partition directory; give a directory of another name", backup)
        return
    above = log_directory_above(backup)
    if above is None and place.log_directory is not None and is_below(backup, place.log_directory):
        above = os.path.realpath(place.log_directory)
    if above is not None:
        raise refused(f"{above} is the log directory of a broker; give a directory outside of it", backup)


def is_below(path: str, directory: str) -> bool:
    """A path is a directory, or lies in it, once all links are followed."""
    real = os.path.realpath(directory)
    return os.path.commonpath((os.path.realpath(path), real)) == real


def refuse_pending(directory: str) -> None:
    """Raises KdumpError REPAIR_REFUSED if a broker was replacing segments: at its start these files come first.

    What is no file there has a name that the repair may need.
    """
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if entry.name.endswith(_PENDING):
            refuse_taken(entry.path)
            message = "a broker was replacing segments, and its next start decides about this file first; use -o"
            raise refused(message, entry.path)


def refuse_taken(path: str) -> None:
    """Raises KdumpError REPAIR_REFUSED if a file cannot get this name for a moment.

    The repair would stop there, or what is there would be gone. A regular file was left by a run that was killed.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise refused("has the name that a new file gets for a moment, and is no regular file: move it away", path)


def refuse_checkpoint(path: str) -> None:
    """Raises KdumpError as ``refuse_special`` for a checkpoint of the log directory in which a line is to change."""
    refuse_special([path])
    directory, name = os.path.split(path)
    refuse_taken(os.path.join(directory, part_name(name)))


def refuse_unfinished(directory: str) -> None:
    """Raises KdumpError REPAIR_REFUSED if a repair was begun before: the user has to finish or undo it."""
    for begun in unfinished(directory):
        raise refused(f"{begun}; {GOES_ON}", begun.path)


def check_room_in_place(plan: PartitionPlan, backup: str | None) -> None:
    """Raises KdumpError UNWRITABLE if the new files, or the originals that must be copied, have no room.

    A backup in the partition needs no room for a log that goes: the log is kept by a second name.
    """
    if backup is None:
        check_room(plan.place.directory, plan.bytes_to_write)
        return
    check_room(plan.place.directory, plan.bytes_to_write if plan.mode is RepairMode.SALVAGE else 0)
    if plan.mode is RepairMode.SALVAGE:
        check_room(backup, sum(segment.fingerprint.size for segment in plan.segments if segment.is_salvaged))
    else:
        loss = plan.broker_loss() if plan.mode is RepairMode.LIKE_BROKER else None
        check_room(backup, loss.bytes_cut if loss is not None else 0)


class LockHolder:
    """A run that writes to log directories; a context, which gives back the locks that it took.

    That of a log directory is held until the run is over. That of a partition elsewhere is held until the next one is
    taken, so that many of them need few descriptors.
    """

    def __init__(self) -> None:
        self._held: dict[str, Lock] = {}
        self._held_partition: str | None = None

    def take_lock(self, place: PartitionLocation) -> None:
        """The lock of a place. Raises KdumpError as ``lock_of``."""
        path = os.path.realpath(place.log_directory or place.directory)
        if path in self._held:
            return
        if self._held_partition is not None:
            self._held.pop(self._held_partition).release()
            self._held_partition = None
        self._held[path] = lock_of(place)
        if place.log_directory is None:
            self._held_partition = path

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._held_partition = None
        while self._held:
            self._held.popitem()[1].release()


def lock_of(place: PartitionLocation) -> Lock:
    """Take the lock of a log directory, or of a partition that lies in none. Raises KdumpError LOCK_HELD."""
    return PartitionLock(place.directory) if place.log_directory is None else DirectoryLock(place.log_directory)


@contextmanager
def locked(directory: str, *, is_forced: bool) -> Iterator[None]:
    """Hold the lock under which a partition is changed. Raises KdumpError REPAIR_REFUSED or LOCK_HELD."""
    place = place_of(directory)
    check_place(place, is_forced=is_forced)
    with lock_of(place):
        yield
