"""The open directories of a repair in place, and the manifest in one of them.

Whoever may write to a partition directory may put a manifest there, and links in the place of directories. So a
manifest is read only if nobody else can have written it. No directory is looked up twice, and no link is followed.
"""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final, Self

from kdump.codes import Codes, KdumpError
from kdump.repair.apply import disk
from kdump.repair.apply.disk import DirectoryEntry, Folder, Where
from kdump.repair.apply.manifest import (
    HOME,
    JOURNAL,
    MANIFEST_NAME,
    MARKER,
    MAX_SIZE,
    NEW,
    OLD,
    FileChange,
    Manifest,
    RepairStep,
)
from kdump.repair.apply.manifestjson import parse_manifest
from kdump.system.paths import absolute_path, name_with

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Folders:
    """The directories of one repair; a context, which closes them.

    Attributes:
        partition: the partition directory.
        above: the directory that it lies in.
        home: ``.kdump`` in the partition directory; None if the manifest is in a backup elsewhere.
        journal: the directory of the manifest.
        backup: where the manifest stays after the repair; the journal, unless the caller named another one.
        new: the directory of the new files; None if it is gone.
        old: the directory of the originals; None if it is gone.
    """

    partition: Folder
    above: Folder
    home: Folder | None
    journal: Folder
    backup: Folder
    new: Folder | None
    old: Folder | None
    _opened: ExitStack = field(repr=False)

    @classmethod
    def open(cls, partition: Where, journal: str | None, backup: Where | None) -> Self:
        """Open the directories.

        Args:
            partition: the partition directory.
            journal: name of the journal in ``.kdump``; None: the manifest is in the backup.
            backup: another backup directory; None: the journal.

        Raises:
            KdumpError: MISSING, or REPAIR_REFUSED for a symbolic link.
        """
        with ExitStack() as opened:

            def folder(where: Where) -> Folder:
                return opened.enter_context(Folder(where))

            directory = folder(partition)
            home = None if journal is None else folder(directory.entry(HOME))
            own = None if home is None or journal is None else folder(home.entry(journal))
            kept = own if backup is None else folder(backup)
            if kept is None:
                raise ValueError("neither a journal nor a backup")
            own = own or kept
            above = opened.enter_context(directory.above())
            new, old = (folder(entry) if disk.exists(entry) else None for entry in (own.entry(NEW), kept.entry(OLD)))
            return cls(directory, above, home, own, kept, new, old, opened.pop_all())

    def file(self, name: str) -> DirectoryEntry:
        """The entry of a file of the partition, or of the marker beside it."""
        return self.above.entry(os.path.basename(name)) if name == MARKER else self.partition.entry(name)

    def source(self, step: RepairStep) -> DirectoryEntry | None:
        """The file that a step takes, or that it needs; None if it is gone."""
        if step.source is None:
            return None
        if step.prepared is None:
            entry = self.partition.entry(step.source)
        elif self.new is None:
            return None
        else:
            entry = self.new.entry(step.prepared[1])
        return entry if disk.exists(entry) else None

    def saved(self, change: FileChange) -> DirectoryEntry | None:
        """The original of a file; None if it is not there."""
        if change.saved is None or self.old is None:
            return None
        entry = self.old.entry(os.path.basename(change.saved))
        return entry if disk.exists(entry) else None

    def with_journal(self) -> Self:
        """The directories with a journal in the partition directory, where the next run looks for what is not finished.

        A repair that is done has none if the originals are in a backup elsewhere: it is made again. None is made for a
        backup that was given another name, because ``--backup-dir`` would not find that.

        Raises:
            KdumpError: UNWRITABLE, or REPAIR_REFUSED for a symbolic link.
        """
        kept = os.path.basename(self.backup.path)
        name = kept.rpartition("-")[2]
        if self.home is not None or not JOURNAL.fullmatch(name) or kept != backup_name(self.partition.path, name):
            return self
        home = self._made(self.partition.entry(HOME))
        return replace(self, home=home, journal=self._made(home.entry(name)))

    def _made(self, entry: DirectoryEntry) -> Folder:
        if not disk.exists(entry):
            disk.make_directory(entry, self.partition.status)
            disk.sync_directory(entry.folder)
        return self._opened.enter_context(Folder(entry))

    def close(self) -> None:
        """Close all directories."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def backup_path(backup: str, directory: str, journal: str) -> str:
    """The path of the originals of a repair in another backup directory; ``journal``: the name of its journal."""
    return os.path.join(absolute_path(backup), backup_name(directory, journal))


def backup_name(directory: str, journal: str) -> str:
    """The name of ``backup_path``."""
    return name_with(os.path.basename(directory), after=f"-{journal}")


def check_backup(backup: Folder, owner: int) -> None:
    """Raises KdumpError REPAIR_REFUSED for a backup that ``owner``, whose repair it is said to be of, may not change.

    Root and the caller may change it. Anybody else has made no backup in a directory of another user.
    """
    user = backup.status.st_uid
    if owner not in {0, os.geteuid(), user}:
        message = f"belongs to {user_name(user)}, so it is no backup of a repair of {user_name(owner)}"
        raise KdumpError(Codes.REPAIR_REFUSED, message, path=backup.path)


def open_repair(path: str, backup_dir: str | None = None) -> tuple[Folders, Manifest]:
    """Open the repair whose manifest is ``path``; ``directory`` and ``backup`` of the result are the open ones.

    A manifest in ``PARTITION/.kdump/<time>`` belongs to that partition, even if the partition was moved: the directory
    that the manifest names does not count. Its backup is beside it, or in ``backup_dir``. A manifest anywhere else is
    in its backup, and names the partition.

    Raises:
        KdumpError: MANIFEST if it is none, or must not be followed; REPAIR_REFUSED if a directory is a symbolic link;
            MISSING or UNREADABLE.
    """
    path = absolute_path(path)
    place, name = os.path.split(path)
    home, journal = os.path.split(place)
    with Folder(place) as folder:
        manifest, status = read_manifest(folder.entry(name))
    if os.path.basename(home) == HOME:
        if not JOURNAL.fullmatch(journal):
            message = f"{journal} is no name of a journal; move a backup of another directory out of {HOME}"
            raise _not_followed(message, path)
        if any(prepared[0] != journal for step in manifest.steps if (prepared := step.prepared)):
            raise _not_followed("its sources lie in another journal", path)
        backup = _backup_of(manifest, path, backup_dir)
        folders = Folders.open(os.path.dirname(home), journal, backup)
    elif os.path.isabs(manifest.directory):
        folders = Folders.open(manifest.directory, None, place)
    else:
        raise _not_followed("it does not say where the partition directory is", path)
    try:
        _check_writers(path, status, folders.partition.status.st_uid)
        check_backup(folders.backup, status.st_uid)
    except BaseException:
        folders.close()
        raise
    return folders, replace(manifest, directory=folders.partition.path, backup=folders.backup.path)


def trusted_writers(owner: int) -> set[int]:
    """The users whose manifests are followed; ``owner``: of the partition directory.

    Root follows those of the owner: so root does nothing for a user that this user could not do.
    """
    caller = os.geteuid()
    return {0, caller, owner} if caller == 0 else {0, caller}


def read_manifest(entry: DirectoryEntry) -> tuple[Manifest, os.stat_result]:
    """The manifest in a file, and the status of the file.

    Raises:
        KdumpError: MANIFEST if there is none, or no regular file; MISSING or UNREADABLE.
    """
    path = disk.path_of(entry)
    try:
        with disk.open_file(entry) as source:
            status = source.status
            if status.st_size > MAX_SIZE:
                raise ValueError(f"it has more than {MAX_SIZE:,} bytes")
            return parse_manifest(source.read(0, status.st_size)), status
    except ValueError as error:
        raise KdumpError(Codes.MANIFEST, f"no manifest of a repair: {error}", path=path) from error
    except KdumpError as error:
        if error.code is Codes.REPAIR_REFUSED:
            if os.path.isdir(path):
                message = f"is a directory: --undo takes {MANIFEST_NAME}, which the repair named"
                raise KdumpError(Codes.UNREADABLE, message, path=path) from error
            raise KdumpError(Codes.MANIFEST, f"no manifest of a repair: {error.message}", path=path) from error
        raise


def user_name(uid: int) -> str:
    """The name of a user, or their number."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _backup_of(manifest: Manifest, path: str, backup_dir: str | None) -> str | None:
    """The backup directory if it is not the journal, else None; ``path``: of the manifest. Raises KdumpError MANIFEST.

    The directory that is named may hold backups of other partitions.
    """
    home, journal = os.path.split(os.path.dirname(path))
    name = os.path.basename(manifest.backup)
    if name == journal:
        return None
    if backup_dir is None:
        message = (
            f"its originals are in another directory, {manifest.backup}: --backup-dir has to name the one above it"
        )
        raise _not_followed(message, path)
    backup = backup_path(backup_dir, os.path.dirname(home), journal)
    if name != os.path.basename(backup):
        message = f"its originals are in {manifest.backup}, which is no backup of this repair"
        raise _not_followed(message, path)
    return backup


def _check_writers(path: str, status: os.stat_result, owner: int) -> None:
    """Raises KdumpError MANIFEST for a manifest that another user may have written; ``owner``: of the partition."""
    if status.st_uid not in trusted_writers(owner):
        message = f"belongs to {user_name(status.st_uid)}; only one of the caller or of root is followed"
        raise _not_followed(f"{message}, and by root one of the partition directory's owner", path)
    if status.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(status.st_mode)
        raise _not_followed(f"other users may have written it (mode {mode:o}): check it, then chmod go-w", path)


def _not_followed(message: str, path: str) -> KdumpError:
    return KdumpError(Codes.MANIFEST, f"this manifest is not followed: {message}", path=path)
