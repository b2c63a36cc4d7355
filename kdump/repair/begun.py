"""Undoes a repair in place, or finishes those that were interrupted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kdump.codes import Codes, KdumpError, OnError
from kdump.log.files import listing
from kdump.log.named import errors_at
from kdump.log.partition import is_log_directory
from kdump.repair.apply.disk import Folder
from kdump.repair.apply.folders import Folders, open_repair
from kdump.repair.apply.journal import clear_unprepared, has_unprepared, unfinished
from kdump.repair.apply.manifest import HOME, MANIFEST_NAME, Manifest
from kdump.repair.apply.undo import Undone, remove_home, resume, undo
from kdump.repair.refusals import locked, refused


def undo_repair(
    path: str, *, replaces_changed: bool = False, force: bool = False, backup: str | None = None
) -> tuple[Manifest, Undone]:
    """Undo the repair whose manifest is ``path``; returns the manifest and the result.

    Args:
        path: of the manifest.
        replaces_changed: see ``kdump.repair.apply.undo.undo``.
        force: proceed even if it is unknown whether a broker runs.
        backup: the directory that was named for the originals; see ``kdump.repair.apply.folders.open_repair``.

    Raises:
        KdumpError: see ``kdump.repair.apply.undo.undo`` and ``kdump.repair.apply.folders.open_repair``; LOCK_HELD.
    """
    with errors_at(path), _locked_repair(path, force=force, backup=backup) as (folders, manifest):
        return manifest, undo(folders, manifest, replaces_changed=replaces_changed)


@contextmanager
def _locked_repair(path: str, *, force: bool, backup: str | None) -> Iterator[tuple[Folders, Manifest]]:
    """The repair whose manifest is ``path``, as it is once no other run can go on with it.

    Raises KdumpError as ``undo_repair``.
    """
    folders, manifest = open_repair(path, backup)
    folders.close()
    directory = manifest.directory
    with locked(directory, is_forced=force):
        # Until now another run may have finished it or taken it back.
        folders, manifest = open_repair(path, backup)
        with folders:
            if manifest.directory != directory:
                raise KdumpError(Codes.MANIFEST, "another run has replaced this manifest", path=path)
            yield folders, manifest


def finish_repairs(
    path: str, *, on_error: OnError, force: bool = False, backup: str | None = None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Finish the repairs, and the undoing of repairs, that were begun below ``path``; what others left there goes.

    Gives the partition directories of those that were finished, and where their manifests are now.

    Every directory is checked, also one without a log: the log may have a name that only a broker reads.

    Args:
        path: a partition directory, or a log directory.
        on_error: takes what is wrong with one partition.
        force: proceed even if it is unknown whether a broker runs.
        backup: the directory that was named for the originals.

    Raises:
        KdumpError: MISSING, or REPAIR_REFUSED if the path is no directory.
    """
    if not os.path.isdir(path):
        if not os.path.lexists(path):
            raise KdumpError(Codes.MISSING, Codes.MISSING.value.title, path=path)
        raise refused("is no directory; --finish takes partition directories and log directories", path)
    for directory in directory_and_below(path):
        try:
            with errors_at(directory):
                manifests = tuple(_finish(directory, force=force, backup=backup))
        except KdumpError as error:
            on_error(error.located(directory))
            continue
        if manifests:
            yield directory, manifests


def _finish(directory: str, *, force: bool, backup: str | None) -> Iterator[str]:
    """Finish the repairs of one partition; the paths of their manifests. Raises KdumpError."""
    for one in list(unfinished(directory)):
        with _locked_repair(one.path, force=force, backup=backup) as (folders, manifest):
            if manifest.is_finished:
                continue
            resume(folders, manifest)
        yield os.path.join(manifest.backup, MANIFEST_NAME)
    if has_unprepared(directory):
        with locked(directory, is_forced=force):
            clear_unprepared(directory, backup)
    if os.path.lexists(os.path.join(directory, HOME)) and is_log_directory(listing(directory)):
        with locked(directory, is_forced=force), Folder(directory) as folder:
            remove_home(folder)


def directory_and_below(directory: str) -> list[str]:
    """A directory, and the directories in it. Raises KdumpError where it cannot be listed."""
    with errors_at(directory), os.scandir(directory) as entries:
        return [directory, *sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))]
