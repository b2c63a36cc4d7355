"""Repair in place, once everything is prepared: small steps that can be taken again, and undone.

What is prepared lies in ``PARTITION/.kdump/<time>``, the journal, where no broker looks (it reads the regular files of
a partition only): ``new`` holds the files to come, ``old`` (perhaps in another backup directory) what goes, and
``manifest.json`` is there once all of it is. Until then nothing but that directory was touched; from then on the steps
are finished or undone, whatever happens.

A log never stands beside an index that was made for another one, or for more than its beginning.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kdump.log.source import Source, open_source
from kdump.mend import disk
from kdump.mend.checkpointlines import set_line
from kdump.mend.manifest import MANIFEST_NAME, Action, Manifest, State, Step, read_manifest

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
    write_manifest(journal, manifest)
    for directory in (journal, os.path.dirname(journal), manifest.directory):
        disk.sync_directory(directory)


def finish(journal: str, manifest: Manifest) -> None:
    """Take the steps of a repair, or those that are left, and mark it done.

    Raises:
        KdumpError: UNWRITABLE; running it again goes on.
    """
    for step in manifest.steps:
        _take(step, manifest.directory)
    close(journal, manifest.with_state(State.DONE))


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


def clear_unprepared(directory: str) -> None:
    """Remove what preparations left behind that never came to a manifest: copies, nothing else."""
    for journal in _journals(directory):
        if not os.path.lexists(os.path.join(journal, MANIFEST_NAME)):
            clear(journal)


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


def close(journal: str, manifest: Manifest) -> None:
    """A repair is over: its manifest stays with the backup, what was only needed meanwhile goes."""
    clear(os.path.join(journal, NEW))
    write_manifest(manifest.backup, manifest)
    if os.path.abspath(journal) != os.path.abspath(manifest.backup):
        clear(journal)


def write_manifest(directory: str, manifest: Manifest) -> None:
    """Write the manifest in ``directory``, in place of the one there."""
    path = os.path.join(directory, MANIFEST_NAME)
    part = f"{path}.part"
    remove(part)
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
            remove(target)
    elif step.action is Action.PLACE:
        if source is not None and os.path.lexists(source):
            disk.replace(source, target)
    elif step.action is Action.LINE:
        if step.position is not None:
            set_line(directory, step.target, step.position)
    elif step.position is not None and step.modified is not None:
        disk.rewrite_end(target, step.position, (), step.modified)


def remove(path: str) -> None:
    """Remove a file if it is there."""
    if os.path.lexists(path):
        disk.remove(path)


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
