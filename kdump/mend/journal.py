"""Repair in place, once everything is prepared: small steps that can be taken again, and undone.

What is prepared lies in ``PARTITION/.kdump/<time>``, the journal, where no broker looks (it reads the regular files of
a partition only): ``new`` holds the files to come, ``old`` (perhaps in another backup directory) what goes, and
``manifest.json`` is there once all of it is. Until then nothing but that directory was touched; from then on the steps
are finished or undone, whatever happens.

A log never stands beside an index that was made for another one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kdump.codes import Codes, KdumpError
from kdump.format.checkpoint import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from kdump.log.source import Source, open_source
from kdump.mend import disk
from kdump.mend.manifest import MANIFEST_NAME, Action, FileChange, FileState, Manifest, State, Step, read_manifest
from kdump.mend.readthrough import start_sha256

HOME: Final = ".kdump"
"""In the partition directory: the journals."""
OLD: Final = "old"
NEW: Final = "new"

SWAP: Final = ".swap"
"""Ends the names of files with which a broker replaces others when it starts."""
_LOG: Final = ".log"
_PIECE: Final = 1 << 20


def begin(journal: str, manifest: Manifest) -> None:
    """Write the manifest of a complete preparation: from here on the repair is finished or undone, never dropped."""
    for directory in (os.path.join(journal, NEW), os.path.join(manifest.backup, OLD), manifest.backup):
        disk.sync_directory(directory)
    _write_manifest(journal, manifest)
    for directory in (journal, os.path.dirname(journal), manifest.directory):
        disk.sync_directory(directory)


def finish(journal: str, manifest: Manifest) -> None:
    """Take the steps of a repair, or those that are left, and mark it done.

    Raises:
        KdumpError: UNWRITABLE; running it again goes on.
    """
    for step in manifest.steps:
        _take(step, manifest.directory)
    _close(journal, manifest.with_state(State.DONE))


def read_journal(path: str) -> Manifest:
    """The manifest at ``path``; one that lies in a partition directory belongs to that, wherever it was moved to.

    Raises:
        KdumpError: see read_manifest.
    """
    manifest = read_manifest(path)
    journal = os.path.dirname(os.path.abspath(path))
    home, name = os.path.split(journal)
    if os.path.basename(home) != HOME:
        return manifest
    is_inside = os.path.basename(manifest.backup) == name
    return replace(manifest, directory=os.path.dirname(home), backup=journal if is_inside else manifest.backup)


def unfinished(directory: str) -> Iterator[tuple[str, Manifest]]:
    """(journal, manifest) of the repairs of a partition directory that were begun, or begun to be undone, no more."""
    for journal in _journals(directory):
        path = os.path.join(journal, MANIFEST_NAME)
        if os.path.lexists(path):
            manifest = read_journal(path)
            if manifest.state in (State.BEGUN, State.UNDOING):
                yield journal, manifest


def resume(journal: str, manifest: Manifest) -> None:
    """Come to the end of a repair, or of undoing one, that was interrupted.

    Raises:
        KdumpError: MANIFEST where a file was written to since, else see ``finish`` and ``undo``.
    """
    if manifest.state is State.UNDOING:
        undo(os.path.join(journal, MANIFEST_NAME), manifest)
    else:
        check_unchanged(manifest)
        finish(journal, manifest)


def clear_unprepared(directory: str) -> None:
    """Remove what preparations left behind that never came to a manifest: copies, nothing else."""
    for journal in _journals(directory):
        if not os.path.lexists(os.path.join(journal, MANIFEST_NAME)):
            clear(journal)


def check_unchanged(manifest: Manifest) -> None:
    """Raises KdumpError MANIFEST where a file is neither as it was nor as the repair makes it.

    A file that is not there may be on its way.
    """
    for change in manifest.files:
        if os.path.lexists(os.path.join(manifest.directory, change.name)) and not (
            _is(manifest, change, change.after)
            or _is(manifest, change, change.before)
            or _is_growing_back(manifest, change)
        ):
            raise _unfit(manifest, change, "was written to since")


def undo(path: str, manifest: Manifest) -> bool:
    """Bring everything back as it was, and prove it by the digests.

    False when all is back but the marker of a clean shutdown: a broker ran since, and the marker says nothing of that.

    Args:
        path: of the manifest.
        manifest: what it holds.

    Raises:
        KdumpError: MANIFEST where a file was written to since, or the backup is not complete; UNWRITABLE, and then
            undoing it again goes on.
    """
    check_unchanged(manifest)
    wrong = [change for change in manifest.files if not _is(manifest, change, change.before)]
    for change in wrong:
        if change.saved is not None and not os.path.lexists(os.path.join(manifest.backup, change.saved)):
            raise _unfit(manifest, change, f"is changed, and {change.saved} is not in the backup")
    journal = os.path.dirname(path)
    is_stale = any(change.before and os.path.basename(change.name) == CLEAN_SHUTDOWN for change in wrong)
    is_stale = is_stale and _has_run_since(os.stat(path).st_mtime_ns, manifest)
    if is_stale:
        files = [change for change in manifest.files if os.path.basename(change.name) != CLEAN_SHUTDOWN]
        wrong = [change for change in wrong if change in files]
        manifest = replace(manifest, files=tuple(files))
    _write_manifest(journal, manifest.with_state(State.UNDOING))
    for step in manifest.steps:
        # What waits to be swapped in must not be.
        if step.action is Action.PLACE and step.target.endswith(SWAP):
            _remove(os.path.join(manifest.directory, step.target))
    # As on the way there: indexes out, logs, indexes in.
    logs = [change for change in wrong if change.name.endswith(_LOG)]
    others = [change for change in wrong if not change.name.endswith(_LOG)]
    for change in others:
        _remove(os.path.join(manifest.directory, change.name))
    for change in (*logs, *others):
        _restore(manifest, change)
    for change in manifest.files:
        # Also of a file that went and came back with the same content.
        if change.before is not None:
            disk.set_modified(os.path.join(manifest.directory, change.name), change.before.modified)
    for directory in {os.path.dirname(os.path.join(manifest.directory, change.name)) for change in wrong}:
        disk.sync_directory(directory)
    for change in wrong:
        if not _is(manifest, change, change.before):
            raise _unfit(manifest, change, "is not as it was before the repair")
    clear(os.path.join(manifest.backup, OLD))
    _close(journal, manifest.with_state(State.UNDONE))
    return not is_stale


def _has_run_since(moment: int, manifest: Manifest) -> bool:
    """A broker wrote the checkpoints of the log directory after ``moment`` (ns), as it does from its start on."""
    above = os.path.dirname(manifest.directory)
    paths = [
        os.path.join(above, name)
        for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)
    ]
    return any(os.stat(path).st_mtime_ns > moment for path in paths if os.path.lexists(path))


def clear(directory: str) -> None:
    """Remove a directory of files and directories, if it is there."""
    if not os.path.isdir(directory):
        return
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            clear(entry.path)
        else:
            disk.remove(entry.path)
    disk.remove_directory(directory)


def _journals(directory: str) -> list[str]:
    home = os.path.join(directory, HOME)
    if not os.path.isdir(home) or os.path.islink(home):
        return []
    return sorted(entry.path for entry in os.scandir(home) if entry.is_dir(follow_symlinks=False))


def _close(journal: str, manifest: Manifest) -> None:
    """A repair is over: its manifest stays with the backup, what was only needed meanwhile goes."""
    clear(os.path.join(journal, NEW))
    _write_manifest(manifest.backup, manifest)
    if os.path.abspath(journal) != os.path.abspath(manifest.backup):
        clear(journal)


def _write_manifest(directory: str, manifest: Manifest) -> None:
    path = os.path.join(directory, MANIFEST_NAME)
    part = f"{path}.part"
    _remove(part)
    disk.write_file(part, manifest.to_json(), _like_logs(manifest), keep_owner=True)
    disk.replace(part, path)
    disk.sync_directory(directory)


def _like_logs(manifest: Manifest) -> os.stat_result | None:
    """Owner and mode of a file of the partition."""
    changes = [change for change in manifest.files if os.sep not in change.name]
    states = [state for change in changes if (state := change.before or change.after) is not None]
    if not states:
        return None
    first = states[0]
    return os.stat_result((first.mode, 0, 0, 0, first.uid, first.gid, 0, 0, 0, 0))


def _take(step: Step, directory: str) -> None:
    target = os.path.join(directory, step.target)
    source = None if step.source is None else os.path.join(directory, step.source)
    if step.action is Action.SYNC:
        disk.sync_directory(target)
    elif step.action is Action.REMOVE:
        if source is None or os.path.lexists(source):
            _remove(target)
    elif step.action is Action.PLACE:
        if source is not None and os.path.lexists(source):
            disk.replace(source, target)
    elif step.position is not None and step.modified is not None:
        disk.rewrite_end(target, step.position, (), step.modified)


def _remove(path: str) -> None:
    if os.path.lexists(path):
        disk.remove(path)


def _restore(manifest: Manifest, change: FileChange) -> None:
    path = os.path.join(manifest.directory, change.name)
    if change.before is None or change.saved is None:
        _remove(path)
        return
    saved = os.path.join(manifest.backup, change.saved)
    if change.kept:
        with open_source(saved) as source:
            disk.rewrite_end(path, change.kept, pieces_of(source), change.before.modified)
    elif os.stat(saved).st_dev == os.stat(os.path.dirname(path)).st_dev:
        disk.replace(saved, path)
    else:
        part = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.kdump-part")
        _remove(part)
        copy_file(saved, part)
        disk.replace(part, path)


def copy_file(source_path: str, target: str, position: int = 0) -> None:
    """A durable copy of a file from ``position`` on, with its owner, mode and time."""
    status = os.stat(source_path)
    with disk.NewFile(target, status, keep_owner=True) as copy, open_source(source_path) as source:
        for piece in pieces_of(source, position):
            copy.write(piece)
        copy.finish(modified=status.st_mtime_ns)


def pieces_of(source: Source, position: int = 0, end: int | None = None) -> Iterator[memoryview]:
    """The bytes of a file from ``position`` to ``end`` (exclusive); each piece is valid until the next."""
    buffer = memoryview(bytearray(_PIECE))
    while count := source.read_into(buffer if end is None else buffer[: end - position], position):
        yield buffer[:count]
        position += count


def _is(manifest: Manifest, change: FileChange, state: FileState | None) -> bool:
    path = os.path.join(manifest.directory, change.name)
    if not os.path.lexists(path):
        return state is None
    if state is None or os.path.islink(path):
        return False
    with open_source(path) as source:
        return source.size == state.size and start_sha256(source, state.size) == state.sha256


def _is_growing_back(manifest: Manifest, change: FileChange) -> bool:
    """A log that was cut, and behind that a part of its saved end: undoing it was interrupted."""
    if not change.kept or change.after is None or change.saved is None:
        return False
    with (
        open_source(os.path.join(manifest.directory, change.name)) as source,
        open_source(os.path.join(manifest.backup, change.saved)) as saved,
    ):
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


def _unfit(manifest: Manifest, change: FileChange, what: str) -> KdumpError:
    return KdumpError(Codes.MANIFEST, what, path=os.path.join(manifest.directory, change.name))
