"""The journal of a repair in place: small steps that can be repeated, and undone.

The journal is ``PARTITION/.kdump/<time>``. A broker does not read it, because it reads only the regular files of a
partition. ``new`` has the files to come. ``old``, perhaps in another backup directory, has the files that go.
``manifest.json`` is written once both are complete. Until then nothing else has changed. From then on the steps are
finished or undone, whatever happens.

A log is never beside an index that was made for another log, or for a longer one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Final, NamedTuple

from kdump.codes import Codes, DamageError, KdumpError
from kdump.format.checkpoint import with_offset
from kdump.log.names import owner_of_lines
from kdump.log.opening import check_holes, check_size, read_all
from kdump.log.source import Source
from kdump.repair.apply import disk
from kdump.repair.apply.disk import Folder, Where
from kdump.repair.apply.folders import (
    Folders,
    backup_path,
    check_backup,
    read_manifest,
    trusted_writers,
    user_name,
)
from kdump.repair.apply.manifest import (
    HOME,
    JOURNAL,
    MANIFEST_NAME,
    MARKER,
    MAX_SIZE,
    NEW,
    OLD,
    Action,
    Manifest,
    RepairStep,
    State,
)
from kdump.repair.apply.manifestjson import parse_manifest
from kdump.system.files import like_of
from kdump.system.paths import name_with

_PART: Final = f"{MANIFEST_NAME}.part"
_PIECE: Final = 1 << 20


class Unfinished(NamedTuple):
    """A repair, or its undo, that was begun and not finished.

    Attributes:
        path: of its manifest.
        created: when it began, ISO 8601.
        user: whose manifest it is.
        steps: how many it has.
        is_undone: it is the undo of an interrupted repair.
    """

    path: str
    created: str
    user: str
    steps: int
    is_undone: bool

    def __str__(self) -> str:
        what = "undoing a repair" if self.is_undone else "a repair"
        return f"{what} of {self.user} ({self.steps} steps, {self.created}) was begun and not finished"


def begin(folders: Folders, manifest: Manifest) -> None:
    """Write the manifest of a complete preparation. From now on the repair is finished or undone, never dropped."""
    for folder in (folders.new, folders.old, folders.backup):
        if folder is not None:
            disk.sync_directory(folder)
    _write(folders.journal, manifest, _like_files(manifest, folders.partition.status))
    for folder in (folders.journal, folders.home, folders.partition):
        if folder is not None:
            disk.sync_directory(folder)


def finish(folders: Folders, manifest: Manifest) -> None:
    """Take the steps of a repair that are left, and mark it done.

    Raises:
        KdumpError: UNWRITABLE; another run continues.
    """
    durable: set[str] = set()
    for step in manifest.steps:
        if step.action is not Action.SYNC:
            durable.clear()
        elif step.target in durable:
            continue
        else:
            durable.add(step.target)
        _take(step, folders)
    close(folders, manifest.with_state(State.DONE))


def unfinished(directory: str) -> Iterator[Unfinished]:
    """The unfinished repairs of a partition directory, whoever began them. Nothing is changed.

    Raises:
        KdumpError: a manifest holds none, or cannot be read.
    """
    for journal in _journals(directory):
        with journal:
            entry = journal.entry(MANIFEST_NAME)
            if disk.exists(entry):
                manifest, status = read_manifest(entry)
                if not manifest.is_finished:
                    user, is_undone = user_name(status.st_uid), manifest.state is State.UNDOING
                    path = os.path.join(journal.path, MANIFEST_NAME)
                    yield Unfinished(path, manifest.created, user, len(manifest.steps), is_undone)


def has_unprepared(directory: str) -> bool:
    """There is something for ``clear_unprepared``."""
    for journal in _unprepared(directory):
        journal.close()
        return True
    return False


def clear_unprepared(directory: str, backup: str | None = None) -> None:
    """Remove journals without a manifest: what preparations left that were interrupted, and repairs that are done.

    ``backup``: the directory that is named for the originals.
    """
    for journal in _unprepared(directory):
        with journal:
            name = os.path.basename(journal.path)
            path = None if backup is None else backup_path(backup, directory, name)
            if path is not None and os.path.isdir(path):
                with Folder(path) as copies:
                    check_backup(copies, journal.status.st_uid)
                    if not disk.exists(copies.entry(MANIFEST_NAME)):
                        remove_journal(copies)
            remove_journal(journal)


def _unprepared(directory: str) -> Iterator[Folder]:
    """The open journals that have no manifest."""
    for journal in _journals(directory):
        if JOURNAL.fullmatch(os.path.basename(journal.path)) and not disk.exists(journal.entry(MANIFEST_NAME)):
            yield journal
        else:
            journal.close()


def _journals(directory: str) -> Iterator[Folder]:
    """The open journals of a partition directory; links do not count. Raises KdumpError UNREADABLE."""
    path = os.path.join(directory, HOME)
    status = disk.status_of(path)
    if status is None or not stat.S_ISDIR(status.st_mode):
        return
    with Folder(path) as home:
        for name in home.names():
            status = disk.status_of(home.entry(name))
            if status is not None and stat.S_ISDIR(status.st_mode):
                yield Folder(home.entry(name))


def clear(folder: Folder, name: str) -> None:
    """Remove the directory ``name`` in ``folder`` with the files in it, if it is there; directories in it stay."""
    entry = folder.entry(name)
    if not disk.exists(entry):
        return
    with Folder(entry) as inner:
        for file in map(inner.entry, inner.names()):
            status = disk.status_of(file)
            if status is not None and not stat.S_ISDIR(status.st_mode):
                disk.remove(file)
        is_empty = not inner.names()
    if is_empty:
        disk.remove_directory(entry)


def close(folders: Folders, manifest: Manifest) -> None:
    """End a repair: its manifest stays with the backup, the rest of the journal is removed."""
    clear(folders.journal, NEW)
    write_manifest(folders, folders.backup, manifest)
    if folders.journal is not folders.backup:
        remove_journal(folders.journal)


def remove_manifest(journal: Folder) -> None:
    """Remove the manifest durably, because it must not outlive the files that it names."""
    if disk.exists(journal.entry(MANIFEST_NAME)):
        disk.remove(journal.entry(MANIFEST_NAME))
        disk.sync_directory(journal)


def remove_journal(journal: Folder) -> None:
    """Remove a journal that is not needed any more."""
    remove_manifest(journal)
    remove(journal.entry(_PART))
    for name in (NEW, OLD):
        clear(journal, name)
    if not journal.names():
        disk.remove_directory(journal.where)


def write_manifest(folders: Folders, folder: Folder, manifest: Manifest) -> None:
    """Write the manifest in ``folder``, in place of the one there.

    It gets owner and mode of the one in the journal, else of the one in the backup.

    Raises:
        KdumpError: UNWRITABLE.
    """
    known = (disk.status_of(one.entry(MANIFEST_NAME)) for one in (folders.journal, folders.backup))
    _write(folder, manifest, next(filter(None, known), folders.partition.status))


def _write(folder: Folder, manifest: Manifest, like: os.stat_result) -> None:
    """Raises KdumpError UNWRITABLE, or REPAIR_REFUSED if the manifest could not be read again."""
    blocks, size, part = [], 0, folder.entry(_PART)
    for block in manifest.to_json():
        size += len(block)
        if size <= MAX_SIZE:
            blocks.append(block)
    if size > MAX_SIZE:
        message = f"its manifest would have {size:,} bytes, at most {MAX_SIZE:,} are read: repair fewer segments"
        raise KdumpError(Codes.REPAIR_REFUSED, message, path=manifest.directory)
    data = b"".join(blocks)
    try:
        parse_manifest(data)
    except ValueError as error:
        message = f"its manifest could not be read again: {error}"
        raise KdumpError(Codes.REPAIR_REFUSED, message, path=manifest.directory) from error
    remove(part)
    # Only the owner may write the manifest, even where others may write to the partition.
    disk.write_file(part, data, _owned(like.st_mode & 0o644, like.st_uid, like.st_gid), keep_owner=True)
    disk.replace(part, folder.entry(MANIFEST_NAME))
    disk.sync_directory(folder)


def _like_files(manifest: Manifest, partition: os.stat_result) -> os.stat_result:
    """Owner and mode of a file that the manifest names; of the partition directory if it names none.

    The manifest of an owner who is not trusted could be neither finished nor undone.
    """
    changes = [change for change in manifest.files if change.name != MARKER]
    states = [state for change in changes if (state := change.before or change.after) is not None]
    if not states:
        return partition
    uid = states[0].uid if states[0].uid in trusted_writers(partition.st_uid) else partition.st_uid
    return _owned(states[0].mode, uid, states[0].gid)


def _owned(mode: int, uid: int, gid: int) -> os.stat_result:
    return os.stat_result((mode, 0, 0, 0, uid, gid, 0, 0, 0, 0))


def _take(step: RepairStep, folders: Folders) -> None:
    if step.action is Action.SYNC:
        disk.sync_directory(folders.partition if step.target == os.curdir else folders.above)
        return
    if step.action is Action.LINE:
        if step.position is not None:
            name = os.path.basename(folders.partition.path)
            set_line(folders.above, name, step.target, step.position, creates=True)
        return
    target, source = folders.file(step.target), folders.source(step)
    if step.action is Action.REMOVE:
        if step.source is None or source is not None:
            remove(target)
    elif step.action is Action.PLACE:
        if source is not None:
            disk.replace(source, target)
    elif step.position is not None and step.modified is not None:
        disk.rewrite_end(target, step.position, (), step.modified)


def remove(where: Where) -> None:
    """Remove a file if it is there."""
    if disk.exists(where):
        disk.remove(where)


def copy_file(source: Where, target: Where, position: int = 0, *, is_log: bool = True) -> None:
    """A durable copy of a file from ``position`` on, with its owner, mode and time; of one that grows, as it was first.

    A whole file keeps its extended attributes, too.

    Raises KdumpError FILE_SIZE for what is no log, and too large for anything else.
    """
    with disk.open_file(source) as file:
        size = file.status.st_size
        if not is_log:
            check_size(file.path, size)
        with disk.NewDiskFile(target, like_of(file.descriptor), keep_owner=True) as copy:
            for piece in pieces_of(file, position, size):
                copy.write(piece)
            if not position:
                copy.take_attributes(file.descriptor)
            copy.finish(modified=file.status.st_mtime_ns)


def pieces_of(source: Source, position: int = 0, end: int | None = None) -> Iterator[memoryview]:
    """The bytes of a file from ``position`` to ``end`` (exclusive); each piece is valid until the next.

    Raises KdumpError FILE_SIZE for a sparse file that would take hours.
    """
    check_holes(source)
    buffer = memoryview(bytearray(_PIECE))
    while count := source.read_into(buffer if end is None else buffer[: end - position], position):
        yield buffer[:count]
        position += count


def part_name(name: str) -> str:
    """The name of a file, beside the one that it is to replace, while it is written."""
    return name_with(name, ".", ".kdump-part")


def set_line(
    log_directory: Folder, partition_directory: str, name: str, offset: int | None, *, creates: bool = False
) -> None:
    """Set the offset of a partition in the checkpoint ``name`` of its log directory, which other partitions share.

    The file changes as a whole, or not at all. A malformed checkpoint stays as it is. So does a line that is not that
    of this directory (``owner_of_lines``).

    Args:
        log_directory: holds the checkpoint.
        partition_directory: the name of the partition's directory.
        name: of the checkpoint.
        offset: None: the partition has no line.
        creates: make a missing checkpoint.

    Raises:
        KdumpError: UNREADABLE, FILE_SIZE or UNWRITABLE; REPAIR_REFUSED if the checkpoint is a symbolic link.
    """
    partition = owner_of_lines(partition_directory, lambda other: disk.exists(log_directory.entry(other)))
    checkpoint = log_directory.entry(name)
    is_there = disk.exists(checkpoint)
    if partition is None or not (is_there or creates):
        return
    part = log_directory.entry(part_name(name))
    if disk.exists(part):
        disk.remove(part)
    if not is_there:
        above = log_directory.status
        like = _owned(above.st_mode & 0o644, above.st_uid, above.st_gid)
        disk.write_file(part, with_offset(b"", *partition, offset), like, keep_owner=True)
        disk.replace(part, checkpoint)
        disk.sync_directory(log_directory)
        return
    with disk.open_file(checkpoint) as source:
        status = like_of(source.descriptor)
        data = read_all(source)
    try:
        changed = with_offset(data, *partition, offset)
    except DamageError:
        return
    if changed == data:
        return
    # Its time shows whether a broker ran (``kdump.repair.apply.undo``), so it stays.
    disk.write_file(part, changed, status, keep_owner=True, modified=status.st_mtime_ns)
    disk.replace(part, checkpoint)
    disk.sync_directory(log_directory)
