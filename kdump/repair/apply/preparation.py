"""Prepares a repair in place: the originals in the backup, the new files in the journal, and the list of the steps."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

from kdump import __version__
from kdump.codes import Codes, KdumpError
from kdump.log.files import listing
from kdump.log.names import Kind
from kdump.log.opening import LARGEST_SIBLING
from kdump.log.partition import is_log_directory
from kdump.repair.apply import disk, journal
from kdump.repair.apply.disk import DirectoryEntry, Folder, NewDiskFile, Where
from kdump.repair.apply.folders import Folders, backup_name
from kdump.repair.apply.manifest import (
    HOME,
    MANIFEST_NAME,
    NEW,
    OLD,
    SWAP,
    Action,
    Bystander,
    FileChange,
    FileState,
    Manifest,
    RepairStep,
    State,
)
from kdump.repair.plan.plan import LineChange
from kdump.repair.plan.recovery import LogDigests, start_sha256
from kdump.system.files import like_of
from kdump.system.paths import absolute_path
from kdump.worlds import WORLDS

LOGS: Final = (Kind.LOG.value, *(world.log_suffix for world in WORLDS if world.log_suffix))
"""Ends of the names of logs."""
_ROOM: Final = 1 << 17
"""Bytes for manifests and directories."""
_INDEXES: Final = 128
"""With the default settings of brokers a log is at least so many times as large as its index files."""


class Preparation:
    """Collects the changes of one partition. Only the journal and the backup are written.

    A context, which closes the directories that it keeps open.

    Args:
        directory: of the partition, absolute.
        backup: where the originals go, in a directory of their own; None: into the partition directory.

    Raises:
        KdumpError: REPAIR_REFUSED for a log directory: a broker does not start with a directory in it that is no
            partition (LogManager.loadLogs, UnifiedLog.parseTopicPartitionName); UNWRITABLE.
    """

    def __init__(self, directory: str, backup: str | None = None) -> None:
        self.directory = directory
        moment = datetime.now(UTC)
        name = moment.strftime("%Y%m%dT%H%M%S.%fZ")
        self._created = moment.isoformat(timespec="seconds")
        if is_log_directory(listing(directory)):
            message = f"is a log directory, in which a broker refuses a directory {HOME}: nothing is repaired there"
            raise KdumpError(Codes.REPAIR_REFUSED, message, path=directory)
        self._backup = backup if backup is not None and not os.path.isdir(backup) else None
        with ExitStack() as opened:
            partition = opened.enter_context(Folder(directory))
            self._like = partition.status
            made: list[Where] = []
            try:
                originals = self._make_directories(partition, name, backup, made, opened)
            except BaseException:
                disk.remove_made(made)
                raise
            self.folders = Folders.open(directory, name, originals)
            if self.folders.new is None or self.folders.old is None:
                self.folders.close()
                message = "somebody else has removed a directory in it that was just made"
                raise KdumpError(Codes.REPAIR_REFUSED, message, path=self.folders.journal.path)
            self._above = opened.pop_all()
        self._files: dict[str, FileChange] = {}
        self._lines: list[LineChange] = []
        self.steps: list[RepairStep] = []

    def _make_directories(
        self, partition: Folder, name: str, backup: str | None, made: list[Where], opened: ExitStack
    ) -> DirectoryEntry | None:
        """Make the journal ``name`` and the backup; returns where the backup is if that is not the journal.

        What was made is added to ``made``; the directories above stay open in ``opened``.
        """

        def make(where: Where) -> None:
            disk.make_directory(where, self._like)
            made.append(where)

        home = partition.entry(HOME)
        status = disk.status_of(home)
        if status is None or stat.S_ISREG(status.st_mode):
            make(home)
        journals = opened.enter_context(Folder(home))
        make(journals.entry(name))
        own = opened.enter_context(Folder(journals.entry(name)))
        if own.status.st_dev != self._like.st_dev:
            message = "lies on another file system than the partition, so no file could be moved into its place"
            raise KdumpError(Codes.REPAIR_REFUSED, message, path=journals.path)
        make(own.entry(NEW))
        if backup is None:
            make(own.entry(OLD))
            return None
        if self._backup is not None:
            make(backup)
        originals = opened.enter_context(self._backups(backup)).entry(backup_name(self.directory, name))
        make(originals)
        make(opened.enter_context(Folder(originals)).entry(OLD))
        return originals

    def _backups(self, path: str) -> Folder:
        """The directory of the caller for backups. It may be a link, but not where it was just made."""
        path = absolute_path(path)
        folder = Folder(path if self._backup is not None else os.path.realpath(path))
        folder.path = path
        return folder

    def discard(self) -> None:
        """Remove the preparation, if possible; the next one removes the rest."""
        folders = self.folders
        with suppress(KdumpError):
            journal.remove_manifest(folders.journal)
            if folders.backup is not folders.journal:
                journal.remove_journal(folders.backup)
            journal.remove_journal(folders.journal)
            # These may contain something of other repairs.
            above = (self._backup, None if folders.home is None else folders.home.where)
            disk.remove_made(where for where in above if where is not None)

    def finish(self, manifest: Manifest, goes_on: str) -> str:
        """Take all steps. Returns the path of the manifest.

        Raises:
            KdumpError: see ``journal.finish``; its message ends with ``goes_on``, what the user can do then.
        """
        try:
            journal.finish(self.folders, manifest)
        except KdumpError as error:
            raise KdumpError(error.code, f"{error.message}; {goes_on}", path=error.path) from error
        return os.path.join(manifest.backup, MANIFEST_NAME)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.folders.close()
        self._above.close()

    def begin(
        self,
        mode: str,
        logs: Iterable[Mapping[str, Any]],
        digests: Mapping[str, str],
        *,
        is_new: bool = False,
        account: Mapping[str, Any] | None = None,
    ) -> Manifest:
        """The preparation is complete: write the manifest.

        ``digests``: SHA-256 of logs by name, if they were read. ``is_new`` and ``account``: see ``Manifest``.
        """
        manifest = Manifest(
            self.directory,
            self.folders.backup.path,
            self._created,
            __version__,
            mode,
            State.BEGUN,
            tuple(self._files.values()),
            tuple(self.steps),
            tuple(logs),
            tuple(self._lines),
            tuple(self._bystanders(digests)),
            is_new=is_new,
            account=account,
        )
        journal.begin(self.folders, manifest)
        return manifest

    # The originals.

    def save(self, name: str, sha256: str | None = None) -> None:
        """Keep a file that goes; ``sha256``: its digest, if it is known already.

        A log is kept by a second name if the file system can give it one: nothing writes to it any more.
        """
        file, (saved, target) = self.folders.file(name), self._saved(os.path.basename(name))
        is_log = name.endswith(LOGS)
        if not (is_log and disk.link(file, target)):
            journal.copy_file(file, target, is_log=is_log)
        with disk.open_file(target) as source:
            status = like_of(source.descriptor)
            digest = sha256 or start_sha256(source, status.st_size)
        self._files[name] = FileChange(name, FileState.of(status, status.st_size, digest), None, saved)

    def save_tail(self, name: str, end: int, digests: LogDigests) -> None:
        """Keep the bytes after the good part of a log, and prove that both parts together are the log."""
        file = self.folders.file(name)
        saved, target = self._saved(f"{name}.from-{end}")
        journal.copy_file(file, target, end)
        digest = digests.kept.copy()
        with disk.open_file(target) as source:
            for piece in journal.pieces_of(source):
                digest.update(piece)
        if digest.hexdigest() != digests.whole:
            message = "the saved end is not that of the log as it was read"
            raise KdumpError(Codes.CHANGED_WHILE_READ, message, path=disk.path_of(file))
        with disk.open_file(file) as source:
            status = like_of(source.descriptor)
        before = FileState.of(status, status.st_size, digests.whole)
        after = FileState.of(status, end, digests.kept.hexdigest())
        self._files[name] = FileChange(name, before, after, saved, kept=end)

    def _bystanders(self, digests: Mapping[str, str]) -> Iterator[Bystander]:
        """The files that do not change. A log or another large file that was not read before is not read now."""
        for name in self.folders.partition.names():
            entry = self.folders.partition.entry(name)
            status = disk.status_of(entry)
            if name in self._files or status is None or not stat.S_ISREG(status.st_mode):
                continue
            digest = digests.get(name)
            if digest is None and not name.endswith(LOGS) and status.st_size <= LARGEST_SIBLING:
                with disk.open_file(entry) as source:
                    digest = start_sha256(source, status.st_size)
            yield Bystander(name, status.st_size, status.st_mtime_ns, digest)

    def _saved(self, name: str) -> tuple[str, DirectoryEntry]:
        """An original in the backup, as the manifest names it and where it is."""
        assert self.folders.old is not None
        return os.path.join(OLD, name), self.folders.old.entry(name)

    # The new files.

    def new_file(self, name: str, like: os.stat_result) -> NewDiskFile:
        """Open a new file; finish it and call ``made``."""
        return NewDiskFile(self.new_entry(name), like, keep_owner=True)

    def made(self, name: str, sha256: str) -> None:
        """Note that the new file ``name`` is complete."""
        status = disk.known_status(self.new_entry(name))
        old = self._files.get(name) or FileChange(name, None, None)
        self._files[name] = replace(old, after=FileState.of(status, status.st_size, sha256))

    def write(self, name: str, data: bytes, like: os.stat_result) -> None:
        """Write a whole new small file; the file that it replaces is kept."""
        if disk.exists(self.folders.file(name)) and name not in self._files:
            self.save(name)
        disk.write_file(self.new_entry(name), data, like, keep_owner=True)
        self.made(name, hashlib.sha256(data).hexdigest())

    def will_have(self, name: str) -> bool:
        """Whether the file is there, or will be."""
        return self.has_new(name) or disk.exists(self.folders.file(name))

    def link(self, name: str) -> None:
        """Give a file that stays, or the new one that replaces it, a second name to wait under.

        Raises:
            KdumpError: REPAIR_REFUSED for what is no regular file, such as a link that is a snapshot by its name.
        """
        source = self.new_entry(name) if self.has_new(name) else self.folders.file(name)
        disk.open_file(source).close()
        if not disk.link(source, self.new_entry(name + SWAP)):
            journal.copy_file(source, self.new_entry(name + SWAP))

    def new_entry(self, name: str) -> DirectoryEntry:
        """Where a new file waits."""
        assert self.folders.new is not None
        return self.folders.new.entry(name)

    def has_new(self, name: str) -> bool:
        """Whether a new file waits there."""
        return disk.exists(self.new_entry(name))

    # The steps.

    def place(self, name: str) -> None:
        """Step: a new file gets its name."""
        self.steps.append(RepairStep(Action.PLACE, name, self._new(name)))

    def swap_in(self, name: str) -> None:
        """Step: a new file, or the second name of one that stays, gets a .swap name."""
        source = self._new(name + SWAP if self.has_new(name + SWAP) else name)
        self.steps.append(RepairStep(Action.PLACE, name + SWAP, source))

    def swap(self, name: str) -> None:
        """Step: what has a .swap name gets its name."""
        self.steps.append(RepairStep(Action.PLACE, name, name + SWAP))

    def remove(self, name: str, while_there: str | None = None) -> None:
        """Step: a file is removed; ``while_there``: only while that file is there."""
        self.steps.append(RepairStep(Action.REMOVE, name, while_there))

    def remove_old(self, name: str) -> None:
        """Step: remove the file that a new one replaces later."""
        self.remove(name, self._new(name))

    def cut(self, name: str) -> None:
        """Step: a log whose tail was saved is cut after its good part."""
        change = self._files[name]
        assert change.before is not None
        self.steps.append(RepairStep(Action.CUT, name, position=change.kept, modified=change.before.modified))

    def set_line(self, line: LineChange) -> None:
        """Step: a line of the partition in a checkpoint of the log directory changes."""
        self._lines.append(line)
        self.steps.append(RepairStep(Action.LINE, line.name, position=line.after))

    def sync(self, directory: str = ".") -> None:
        """Step: make what was done durable."""
        self.steps.append(RepairStep(Action.SYNC, directory))

    def _new(self, name: str) -> str:
        return os.path.join(HOME, os.path.basename(self.folders.journal.path), NEW, name)


def check_room(directory: str, needed: int) -> None:
    """Raises KdumpError UNWRITABLE if the file system of ``directory``, which may not exist yet, has too little room.

    ``needed``: bytes.
    """
    place = absolute_path(directory)
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    status = os.statvfs(place)
    blocks = status.f_bfree if os.geteuid() == 0 else status.f_bavail
    room = blocks * status.f_frsize
    needed += needed // _INDEXES + _ROOM
    if room < needed:
        message = f"{needed:,} bytes are needed, {room:,} are free"
        raise KdumpError(Codes.UNWRITABLE, message, path=directory)
