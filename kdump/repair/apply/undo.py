"""Undoing a repair in place, and going on with one that was interrupted.

Every file that the repair changed comes back, and its digest proves it. A broker may have run since. What it wrote into
such a file is kept in the backup first. What it did to other files is reported.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from kdump.codes import Codes, KdumpError
from kdump.format.checkpoint import HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from kdump.log.files import listing
from kdump.log.names import Kind, parse_file_name
from kdump.log.partition import is_log_directory
from kdump.log.siblings import read_checkpoint
from kdump.log.source import Source
from kdump.repair.apply import disk
from kdump.repair.apply.disk import DirectoryEntry, Folder
from kdump.repair.apply.folders import Folders, read_manifest
from kdump.repair.apply.journal import (
    clear,
    close,
    copy_file,
    finish,
    part_name,
    pieces_of,
    remove,
    remove_journal,
    set_line,
    write_manifest,
)
from kdump.repair.apply.manifest import (
    HOME,
    KEPT,
    MANIFEST_NAME,
    MARKER,
    OLD,
    SWAP,
    Action,
    Bystander,
    FileChange,
    FileState,
    Manifest,
    State,
)
from kdump.repair.apply.preparation import LOGS
from kdump.repair.plan.recovery import start_digest, start_sha256
from kdump.system.units import listed

if TYPE_CHECKING:
    from hashlib import _Hash

_FEW: Final = 10
"""Names that a message lists."""


class MarkerFate(Enum):
    """What becomes of a marker of a clean shutdown that the repair had removed."""

    BACK = "back"
    """It is there again, as it was."""
    NEW = "new"
    """A broker ran and was stopped cleanly since: its own marker stays."""
    STALE = "stale"
    """A broker ran since and left none: the old marker does not count for that run, and does not come back."""


class Deviation(Enum):
    """How a file differs from what was there before the repair."""

    CHANGED = "was written to since the repair"
    GONE = "is gone"
    NEW = "was not there before the repair"


class Difference(NamedTuple):
    """A file of the partition directory that is not as it was before the repair."""

    name: str
    deviation: Deviation


@dataclass(frozen=True, slots=True)
class Undone:
    """What came of undoing a repair.

    Attributes:
        marker: None if the repair had not removed it.
        kept_in: the directory that keeps what was written since, None if nothing was.
        kept: names of the files in it.
        differences: files that are not as before the repair; the repair itself had not touched them.
    """

    marker: MarkerFate | None
    kept_in: str | None
    kept: tuple[str, ...]
    differences: tuple[Difference, ...]


def resume(folders: Folders, manifest: Manifest) -> None:
    """Finish a repair, or the undoing of one, that was interrupted.

    Raises:
        KdumpError: MANIFEST, before anything is changed, if a file was written to since, or the steps would not end
            with the repaired partition, or would remove an original that is not in the backup; REPAIR_REFUSED for a
            repair of a log directory, which earlier versions began; else see ``finish`` and ``undo``.
    """
    if manifest.state is State.UNDOING:
        undo(folders, manifest)
        return
    if is_log_directory(listing(folders.partition.path)):
        message = "is a log directory and no partition: what was begun can only be undone (--undo)"
        raise KdumpError(Codes.REPAIR_REFUSED, message, path=folders.partition.path)
    for change in manifest.files:
        if not _is_known(folders, manifest, change):
            raise _unfit(manifest, change, "was written to since")
    _check_outcome(folders, manifest)
    waiting = [change for change in manifest.files if not _is(folders, change, change.after)]
    originals = [change for change in waiting if _is(folders, change, change.before)]
    _check_backup(folders, manifest, originals, "is to be changed")
    finish(folders, manifest)


def _check_outcome(folders: Folders, manifest: Manifest) -> None:
    """Raises KdumpError MANIFEST if a file would not be as the repair makes it after the steps that are left."""
    origins = _origins(folders, manifest)
    cut = {step.target for step in manifest.steps if step.action is Action.CUT}
    for change in manifest.files:
        origin = origins.get(change.name)
        if origin is None and change.after is not None:
            raise _unfit(manifest, change, "is gone, and so is what was prepared for it")
        if origin is None or change.name in cut or _has_state(origin, change.after):
            continue
        is_left = origin == folders.file(change.name)
        what = "what was prepared is gone" if is_left else "was prepared with other content than is there now"
        raise _unfit(manifest, change, what)


def _origins(folders: Folders, manifest: Manifest) -> dict[str, DirectoryEntry]:
    """The files that would be there after the steps that are left: by its name, where each one is now."""
    steps = [step for step in manifest.steps if step.action in (Action.PLACE, Action.REMOVE)]
    names = {change.name for change in manifest.files} | {step.target for step in steps}
    origins = {name: file for name in names if disk.exists(file := folders.file(name))}
    for step in steps:
        if step.source is not None and (source := folders.source(step)) is not None:
            origins[step.source] = source
    for step in steps:
        if step.source is not None and step.source not in origins:
            continue
        if step.action is Action.REMOVE:
            origins.pop(step.target, None)
        elif step.source is not None:
            origins[step.target] = origins.pop(step.source)
    return origins


def undo(folders: Folders, manifest: Manifest, *, replaces_changed: bool = False) -> Undone:
    """Bring everything back as it was, and prove it by the digests.

    Args:
        folders: of the repair.
        manifest: of the repair.
        replaces_changed: also where records were written since; the logs that hold them are kept in the backup.

    Raises:
        KdumpError: MANIFEST if logs were written to since, or the backup is not complete, or a file that would be
            written to has another name; UNWRITABLE, and then undoing it again goes on.
    """
    status = disk.status_of(folders.journal.entry(MANIFEST_NAME))
    written = 0 if status is None else status.st_mtime_ns
    manifest, marker = _settle_marker(folders, manifest, written)
    linked = [change.name for change in manifest.files if _shows_elsewhere(folders, change)]
    if linked:
        raise _refused(manifest, linked, disk.OTHER_NAME)
    manifest = _keep_changed(folders, manifest, written, replaces_changed=replaces_changed)
    folders = folders.with_journal()
    for folder in dict.fromkeys((folders.journal, folders.backup)):
        write_manifest(folders, folder, manifest.with_state(State.UNDOING))
    kept = _take_out_kept(folders, manifest)
    _restore_all(folders, manifest)
    for line in manifest.lines or ():
        set_line(folders.above, os.path.basename(folders.partition.path), line.name, line.before)
    clear(folders.backup, OLD)
    close(folders, manifest.with_state(State.UNDONE))
    kept_in = None if manifest.replaced is None else os.path.join(folders.backup.path, manifest.replaced)
    undone = Undone(marker, kept_in, kept, tuple(_differences(folders, manifest, written)))
    if manifest.is_new and kept_in is None:
        _remove_partition(folders)
    elif is_log_directory(listing(folders.partition.path)):
        remove_home(folders.partition)
    return undone


def is_as_made(folders: Folders, manifest: Manifest) -> bool:
    """All files that a repair changed are as it made them, and so are the lines of the partition."""
    return all(_is(folders, change, change.after) for change in manifest.files) and all(
        read_checkpoint(folders.partition.path, line.name) == line.after for line in manifest.lines or ()
    )


def _remove_partition(folders: Folders) -> None:
    """Remove the directory of a partition that was not there before, unless something else is in it.

    A broker takes a directory without partition.metadata for one of a topic that is gone.
    """
    if set(folders.partition.names()) - {HOME}:
        return
    remove_home(folders.partition)
    disk.remove_made([folders.above.entry(os.path.basename(folders.partition.path))])


def remove_home(directory: Folder) -> None:
    """Remove the journals of a directory if nothing is left in them but the manifests of repairs that were undone.

    A broker does not start while they lie in a log directory, where earlier versions made some.
    """
    if not disk.exists(directory.entry(HOME)):
        return
    with Folder(directory.entry(HOME)) as home:
        journals = list(map(home.entry, home.names()))
        if all(map(_is_over, journals)):
            for entry in journals:
                with Folder(entry) as journal:
                    remove_journal(journal)
    disk.remove_made([directory.entry(HOME)])


def _is_over(entry: DirectoryEntry) -> bool:
    """Of a journal nothing is left but the manifest of a repair that was undone."""
    try:
        with Folder(entry) as journal:
            manifest, _ = read_manifest(journal.entry(MANIFEST_NAME))
            return manifest.state is State.UNDONE and journal.names() == [MANIFEST_NAME]
    except KdumpError:
        return False


def _settle_marker(folders: Folders, manifest: Manifest, written: int) -> tuple[Manifest, MarkerFate | None]:
    """The manifest without a marker that is not to come back. ``written``: time (ns) of the manifest."""
    change = next((change for change in manifest.files if change.name == MARKER), None)
    if change is None or change.before is None:
        return manifest, None
    if _is(folders, change, change.before):
        return manifest, MarkerFate.BACK
    if disk.exists(folders.file(change.name)):
        marker = MarkerFate.NEW
    elif _has_run_since(folders, written):
        marker = MarkerFate.STALE
    else:
        return manifest, MarkerFate.BACK
    files = tuple(one for one in manifest.files if one is not change)
    return replace(manifest, files=files, steps=tuple(step for step in manifest.steps if step.target != MARKER)), marker


def _has_run_since(folders: Folders, moment: int) -> bool:
    """A broker wrote the checkpoints of the log directory after ``moment`` (ns), as it does from its start on."""
    names = (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)
    states = map(disk.status_of, map(folders.above.entry, names))
    return any(status is not None and status.st_mtime_ns > moment for status in states)


# What was written since.


def _keep_changed(folders: Folders, manifest: Manifest, written: int, *, replaces_changed: bool) -> Manifest:
    """Keep what was written since in the backup; the manifest then names the directory.

    Index files, snapshots and epochs follow from the logs, and a broker writes them whenever it runs. Logs that were
    written to, or are new, hold records that would leave the partition.
    """
    is_resumed = manifest.state is State.UNDOING
    if not is_resumed:
        manifest = replace(manifest, replaced=None)
    changed = [change.name for change in manifest.files if not _is_known(folders, manifest, change)]
    wrong = [change for change in manifest.files if not _is(folders, change, change.before)]
    _check_backup(folders, manifest, wrong, "is changed")
    added = [] if is_resumed else _added(folders, manifest, written)
    if is_resumed and changed:
        raise _refused(manifest, changed, "was written to since")
    if any(name.endswith(LOGS) for name in (*changed, *added)) and not replaces_changed:
        what = "was written to since the repair, or is new; --replace-changed goes on and keeps it in the backup"
        raise _refused(manifest, [*changed, *added], what)
    if not (changed or added):
        return manifest
    if folders.home is not None and is_log_directory(listing(folders.partition.path)):
        what = "was written to since the repair, and nothing is kept in a log directory: move it away"
        raise _refused(manifest, [*changed, *added], what)
    name = f"{KEPT}{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    disk.make_directory(folders.backup.entry(name), folders.partition.status)
    with Folder(folders.backup.entry(name)) as kept:
        for file in (*changed, *added):
            copy_file(folders.file(file), kept.entry(os.path.basename(file)), is_log=file.endswith(LOGS))
        disk.sync_directory(kept)
    disk.sync_directory(folders.backup)
    return replace(manifest, replaced=name)


def _check_backup(folders: Folders, manifest: Manifest, changes: Iterable[FileChange], what: str) -> None:
    """Raises KdumpError MANIFEST if the original of a file is not in the backup; ``what`` becomes of the file."""
    for change in changes:
        if change.saved is None:
            continue
        saved = folders.saved(change)
        if saved is None:
            raise _unfit(manifest, change, f"{what}, and {change.saved} is not in the backup")
        start = _kept_start(folders, change)
        if start is None:
            raise _unfit(manifest, change, f"its first {change.kept} bytes, which the backup does not hold, are gone")
        if not _is_original(change, start, saved):
            raise _unfit(manifest, change, f"{what}, and {change.saved} in the backup is not what was saved")


def _kept_start(folders: Folders, change: FileChange) -> _Hash | None:
    """The digest of the first bytes of a file, which the backup does not hold; None where they are gone."""
    if not change.kept:
        return hashlib.sha256()
    entry = folders.file(change.name)
    if change.after is None or not disk.exists(entry):
        return None
    with disk.open_file(entry) as source:
        if (source.size or 0) < change.kept:
            return None
        digest = start_digest(source, change.kept)
    return digest if digest.hexdigest() == change.after.sha256 else None


def _is_original(change: FileChange, digest: _Hash, saved: DirectoryEntry) -> bool:
    """The file before the repair is what ``digest`` is of, and then what is saved. ``digest`` is continued."""
    with disk.open_file(saved) as source:
        for piece in pieces_of(source):
            digest.update(piece)
    return change.before is not None and digest.hexdigest() == change.before.sha256


def _added(folders: Folders, manifest: Manifest, written: int) -> list[str]:
    """Segment files and snapshots that are new, and do not fit the log as it was before the repair.

    Files after the last log fit where the repair did not change that log.
    """
    logs = {change.name for change in manifest.files if change.before is not None and change.name.endswith(LOGS)}
    others = {bystander.name for bystander in manifest.bystanders or () if bystander.name.endswith(LOGS)}
    last = max(map(_base_offset, others), default=-1)
    fitting = last if last > max(map(_base_offset, logs), default=-1) else None
    added = []
    for name in _unknown_files(folders, manifest, written):
        parsed = parse_file_name(name)
        if parsed is None or parsed.state or parsed.kind is Kind.CHECKPOINT:
            continue
        if fitting is None or _base_offset(name) <= fitting:
            added.append(name)
    return added


def _base_offset(name: str) -> int:
    parsed = parse_file_name(name)
    return -1 if parsed is None or parsed.base_offset is None else parsed.base_offset


def _unknown_files(folders: Folders, manifest: Manifest, written: int) -> Iterator[str]:
    """Files that the manifest does not name; of one that does not name all, those written after it (ns)."""
    known = {change.name for change in manifest.files}
    known |= {bystander.name for bystander in manifest.bystanders or ()}
    for name in folders.partition.names():
        status = disk.status_of(folders.partition.entry(name))
        if name in known or status is None or not stat.S_ISREG(status.st_mode):
            continue
        if manifest.bystanders is not None or status.st_mtime_ns > written:
            yield name


def _take_out_kept(folders: Folders, manifest: Manifest) -> tuple[str, ...]:
    """Take what is kept in the backup out of the partition: files go, a log that was only cut ends there again."""
    if manifest.replaced is None:
        return ()
    changes = {change.base_name: change for change in manifest.files}
    with Folder(folders.backup.entry(manifest.replaced)) as kept:
        names = kept.names()
        for name in names:
            change = changes.get(name)
            entry = folders.partition.entry(name) if change is None else folders.file(change.name)
            if not _are_equal(entry, kept.entry(name)):
                continue
            if change is not None and change.kept and change.after is not None:
                disk.rewrite_end(entry, change.kept, (), change.after.modified)
            else:
                disk.remove(entry)
    return tuple(names)


def _are_equal(entry: DirectoryEntry, other: DirectoryEntry) -> bool:
    """Two files hold the same."""
    if not (disk.exists(entry) and disk.exists(other)):
        return False
    with disk.open_file(entry) as one, disk.open_file(other) as two:
        size = one.size or 0
        return size == two.size and start_sha256(one, size) == start_sha256(two, size)


# The files of the repair.


def _restore_all(folders: Folders, manifest: Manifest) -> None:
    wrong = [change for change in manifest.files if not _is(folders, change, change.before)]
    for step in manifest.steps:
        # Files that wait to be swapped in must go.
        if step.action is Action.PLACE and step.target.endswith(SWAP):
            remove(folders.file(step.target))
    # In the order of the repair: indexes go, logs change, indexes come back.
    logs = [change for change in wrong if change.name.endswith(LOGS)]
    others = [change for change in wrong if not change.name.endswith(LOGS)]
    for change in others:
        remove(folders.file(change.name))
    for change in (*logs, *others):
        _restore(folders, manifest, change)
    for change in manifest.files:
        # This holds for a file that went and came back with the same content, too.
        if change.before is not None:
            disk.set_modified(folders.file(change.name), change.before.modified)
    for folder in {folders.file(change.name).folder for change in wrong}:
        disk.sync_directory(folder)
    for change in wrong:
        if not _is(folders, change, change.before):
            raise _unfit(manifest, change, "is not as it was before the repair")


def _restore(folders: Folders, manifest: Manifest, change: FileChange) -> None:
    entry = folders.file(change.name)
    if change.before is None:
        remove(entry)
        return
    saved = folders.saved(change)
    status = None if saved is None else disk.status_of(saved)
    if saved is None or status is None:
        raise _unfit(manifest, change, f"is changed, and {change.saved} is not in the backup")
    if change.kept:
        with disk.open_file(saved) as source:
            disk.rewrite_end(entry, change.kept, pieces_of(source), change.before.modified)
    elif status.st_dev == entry.folder.status.st_dev:
        disk.replace(saved, entry)
    else:
        part = entry.folder.entry(part_name(entry.name))
        remove(part)
        copy_file(saved, part)
        disk.replace(part, entry)


def _shows_elsewhere(folders: Folders, change: FileChange) -> bool:
    """The file has another name, and gets its end or its time back where it is; other files are replaced."""
    status = disk.status_of(folders.file(change.name))
    if status is None or status.st_nlink == 1 or change.before is None:
        return False
    if _is(folders, change, change.before):
        return status.st_mtime_ns != change.before.modified
    return bool(change.kept)


def _is_known(folders: Folders, manifest: Manifest, change: FileChange) -> bool:
    """The file is as it was, as the repair makes it, between the two, or as it is kept in the backup."""
    entry = folders.file(change.name)
    if not disk.exists(entry) or _is(folders, change, change.after) or _is(folders, change, change.before):
        return True
    if manifest.replaced is not None:
        with Folder(folders.backup.entry(manifest.replaced)) as kept:
            if _are_equal(entry, kept.entry(change.base_name)):
                return True
    return _is_growing_back(folders, change)


def _is(folders: Folders, change: FileChange, state: FileState | None) -> bool:
    entry = folders.file(change.name)
    return _has_state(entry, state) if disk.exists(entry) else state is None


def _has_state(entry: DirectoryEntry, state: FileState | None) -> bool:
    """A regular file with that content is there."""
    status = disk.status_of(entry)
    if state is None or status is None or not stat.S_ISREG(status.st_mode) or status.st_size != state.size:
        return False
    with disk.open_file(entry) as source:
        return source.size == state.size and start_sha256(source, state.size) == state.sha256


def _is_growing_back(folders: Folders, change: FileChange) -> bool:
    """A log that was cut, and after that a part of its saved end: undoing it was interrupted."""
    entry = folders.saved(change)
    if not change.kept or change.after is None or entry is None:
        return False
    with disk.open_file(folders.file(change.name)) as source, disk.open_file(entry) as saved:
        more = (source.size or 0) - change.kept
        return (
            0 < more <= (saved.size or 0)
            and start_sha256(source, change.kept) == change.after.sha256
            and all(piece == saved.read(at, len(piece)) for at, piece in _numbered(source, change.kept))
        )


def _numbered(source: Source, position: int) -> Iterator[tuple[int, memoryview]]:
    """Pieces from ``position`` on, each with its distance from there."""
    distance = 0
    for piece in pieces_of(source, position):
        yield distance, piece
        distance += len(piece)


# What the repair did not touch.


def _differences(folders: Folders, manifest: Manifest, written: int) -> Iterator[Difference]:
    for bystander in manifest.bystanders or ():
        entry = folders.partition.entry(bystander.name)
        status = disk.status_of(entry)
        if status is None:
            yield Difference(bystander.name, Deviation.GONE)
        elif not _is_unchanged(entry, status, bystander):
            yield Difference(bystander.name, Deviation.CHANGED)
    is_complete = manifest.bystanders is not None
    for name in _unknown_files(folders, manifest, written):
        yield Difference(name, Deviation.NEW if is_complete else Deviation.CHANGED)


def _is_unchanged(entry: DirectoryEntry, status: os.stat_result, bystander: Bystander) -> bool:
    if status.st_size != bystander.size or not stat.S_ISREG(status.st_mode):
        return False
    if status.st_mtime_ns == bystander.modified or bystander.sha256 is None:
        return status.st_mtime_ns == bystander.modified
    with disk.open_file(entry) as source:
        return start_sha256(source, bystander.size) == bystander.sha256


def _unfit(manifest: Manifest, change: FileChange, what: str) -> KdumpError:
    return _refused(manifest, [change.name], what)


def _refused(manifest: Manifest, names: Sequence[str], what: str) -> KdumpError:
    first, *others = names
    message = f"{what} ({listed(others, _FEW)} too)" if others else what
    return KdumpError(Codes.MANIFEST, message, path=os.path.join(manifest.directory, first))
