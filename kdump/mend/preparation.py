"""What a repair in place needs before the first step: the originals in the backup, the new files beside the log."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from kdump import __version__
from kdump.codes import Codes, KdumpError
from kdump.log.names import Kind
from kdump.log.source import open_source
from kdump.mend import disk, journal
from kdump.mend.disk import NewFile
from kdump.mend.journal import HOME, NEW, OLD, SWAP
from kdump.mend.manifest import Action, Bystander, FileChange, FileState, LineChange, Manifest, State, Step
from kdump.mend.readthrough import ReadThrough, start_sha256

_ROOM: Final = 1 << 17
"""Bytes for manifests and directories."""
_INDEXES: Final = 128
"""A log is at least so many times as large as its index files, as brokers are set by default."""


class Preparation:
    """Collects the changes of one partition; nothing but the journal and the backup is touched.

    Args:
        directory: of the partition, absolute.
        backup: where backups go, None: into the partition directory. The originals go to a directory in it.
    """

    def __init__(self, directory: str, backup: str | None = None) -> None:
        self.directory = directory
        self._like = os.stat(directory)
        moment = datetime.now(UTC)
        name = moment.strftime("%Y%m%dT%H%M%S.%fZ")
        self._created = moment.isoformat(timespec="seconds")
        home = os.path.join(directory, HOME)
        if os.path.islink(home):
            raise KdumpError(Codes.REPAIR_REFUSED, "is a symbolic link", path=home)
        if not os.path.isdir(home):
            disk.make_directory(home, self._like)
        self.journal = os.path.join(home, name)
        self.backup = self.journal
        disk.make_directory(self.journal, self._like)
        if backup is not None:
            if not os.path.isdir(backup):
                disk.make_directory(backup, self._like)
            self.backup = os.path.join(os.path.abspath(backup), f"{os.path.basename(directory)}-{name}")
            disk.make_directory(self.backup, self._like)
        disk.make_directory(os.path.join(self.journal, NEW), self._like)
        disk.make_directory(os.path.join(self.backup, OLD), self._like)
        self._files: dict[str, FileChange] = {}
        self._lines: list[LineChange] = []
        self.steps: list[Step] = []

    def discard(self) -> None:
        """Take the preparation back."""
        journal.clear(self.journal)
        journal.clear(self.backup)
        home = os.path.dirname(self.journal)
        if not os.listdir(home):
            disk.remove_directory(home)

    def begin(self, way: str, logs: Iterable[Mapping[str, Any]], digests: Mapping[str, str]) -> Manifest:
        """Everything is there: write the manifest.

        ``digests``: SHA-256 of logs by name, as far as they were read.
        """
        manifest = Manifest(
            self.directory,
            self.backup,
            self._created,
            __version__,
            way,
            State.BEGUN,
            tuple(self._files.values()),
            tuple(self.steps),
            tuple(logs),
            tuple(self._lines),
            tuple(self._bystanders(digests)),
        )
        journal.begin(self.journal, manifest)
        return manifest

    # The originals.

    def save(self, name: str, sha256: str | None = None) -> None:
        """Keep a file that goes; ``sha256``: of it, if that is known already.

        A log is kept by a second name where the file system can give it one: nothing writes to it any more.
        """
        path = os.path.join(self.directory, name)
        status = os.stat(path, follow_symlinks=False)
        saved = os.path.join(OLD, os.path.basename(name))
        target = os.path.join(self.backup, saved)
        is_large = name.endswith(Kind.LOG.value)
        if not (is_large and disk.link(path, target)):
            journal.copy_file(path, target)
        with open_source(target) as source:
            digest = sha256 or start_sha256(source, status.st_size)
        self._files[name] = FileChange(name, FileState.of(status, status.st_size, digest), None, saved)

    def save_tail(self, name: str, read: ReadThrough) -> None:
        """Keep what of a log lies behind the end of its good part, and prove that both together are the log."""
        path = os.path.join(self.directory, name)
        status = os.stat(path, follow_symlinks=False)
        end = read.recovery.end
        saved = os.path.join(OLD, f"{name}.from-{end}")
        target = os.path.join(self.backup, saved)
        journal.copy_file(path, target, end)
        digest = read.kept()
        with open_source(target) as source:
            for piece in journal.pieces_of(source):
                digest.update(piece)
        if digest.hexdigest() != read.sha256:
            raise KdumpError(Codes.CHANGED_WHILE_READ, "the saved end is not that of the log as it was read", path=path)
        before = FileState.of(status, status.st_size, read.sha256)
        after = FileState.of(status, end, read.kept_sha256)
        self._files[name] = FileChange(name, before, after, saved, kept=end)

    def _bystanders(self, digests: Mapping[str, str]) -> Iterator[Bystander]:
        """What does not change; logs that nobody has read are not read for that."""
        for entry in sorted(os.scandir(self.directory), key=lambda entry: entry.name):
            if entry.name in self._files or not entry.is_file(follow_symlinks=False):
                continue
            status = entry.stat(follow_symlinks=False)
            digest = digests.get(entry.name)
            if digest is None and not entry.name.endswith(Kind.LOG.value):
                with open_source(entry.path) as source:
                    digest = start_sha256(source, status.st_size)
            yield Bystander(entry.name, status.st_size, status.st_mtime_ns, digest)

    # The new files.

    def new_file(self, name: str, like: os.stat_result) -> NewFile:
        """A file to come; finish it and call ``made``."""
        return NewFile(self.new_path(name), like, keep_owner=True)

    def made(self, name: str, sha256: str) -> None:
        """The new file ``name`` is complete."""
        status = os.stat(self.new_path(name))
        old = self._files.get(name) or FileChange(name, None, None)
        self._files[name] = replace(old, after=FileState.of(status, status.st_size, sha256))

    def write(self, name: str, data: bytes, like: os.stat_result) -> None:
        """A whole small file to come; one that it replaces is kept."""
        if os.path.lexists(os.path.join(self.directory, name)) and name not in self._files:
            self.save(name)
        disk.write_file(self.new_path(name), data, like, keep_owner=True)
        self.made(name, hashlib.sha256(data).hexdigest())

    def will_have(self, name: str) -> bool:
        """The file is there, or is to come."""
        return any(map(os.path.lexists, (self.new_path(name), os.path.join(self.directory, name))))

    def link(self, name: str) -> None:
        """A file that stays, or the new one that takes its place, gets a second name to wait under."""
        is_new = os.path.lexists(self.new_path(name))
        source = self.new_path(name) if is_new else os.path.join(self.directory, name)
        if not disk.link(source, self.new_path(name + SWAP)):
            journal.copy_file(source, self.new_path(name + SWAP))

    def new_path(self, name: str) -> str:
        """Where a new file waits."""
        return os.path.join(self.journal, NEW, name)

    # The steps.

    def place(self, name: str) -> None:
        """Step: a new file gets its name."""
        self.steps.append(Step(Action.PLACE, name, self._new(name)))

    def swap_in(self, name: str) -> None:
        """Step: a new file, or the second name of one that stays, waits beside it."""
        is_link = os.path.lexists(self.new_path(name + SWAP))
        self.steps.append(Step(Action.PLACE, name + SWAP, self._new(name + SWAP if is_link else name)))

    def swap(self, name: str) -> None:
        """Step: what waited takes its place."""
        self.steps.append(Step(Action.PLACE, name, name + SWAP))

    def remove(self, name: str, while_there: str | None = None) -> None:
        """Step: a file goes; ``while_there``: only as long as that is there."""
        self.steps.append(Step(Action.REMOVE, name, while_there))

    def remove_old(self, name: str) -> None:
        """Step: the file goes that a new one is to replace later."""
        self.remove(name, self._new(name))

    def cut(self, name: str) -> None:
        """Step: a log whose tail was saved ends where its good part does."""
        change = self._files[name]
        assert change.before is not None
        self.steps.append(Step(Action.CUT, name, position=change.kept, modified=change.before.modified))

    def set_line(self, line: LineChange) -> None:
        """Step: a line of the partition in a checkpoint of the log directory changes."""
        self._lines.append(line)
        self.steps.append(Step(Action.LINE, line.name, position=line.after))

    def sync(self, directory: str = ".") -> None:
        """Step: what was done is durable."""
        self.steps.append(Step(Action.SYNC, directory))

    def _new(self, name: str) -> str:
        return os.path.relpath(self.new_path(name), self.directory)


def check_room(directory: str, needed: int) -> None:
    """Raises KdumpError UNWRITABLE where the file system of ``directory``, which need not be there yet, has no room.

    ``needed``: bytes.
    """
    place = os.path.abspath(directory)
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    status = os.statvfs(place)
    blocks = status.f_bfree if os.geteuid() == 0 else status.f_bavail
    room = blocks * status.f_frsize
    needed += needed // _INDEXES + _ROOM
    if room < needed:
        message = f"{needed:,} bytes are needed, {room:,} are free"
        raise KdumpError(Codes.UNWRITABLE, message, path=directory)
