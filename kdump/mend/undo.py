"""Undoing a repair in place, and going on with one that was interrupted.

Every file that the repair changed comes back, and its digest proves it. A broker may have run since: what it wrote into
such a file is kept in the backup before the file is put back, and what it did to other files is told.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Final, NamedTuple

from kdump.codes import Codes, KdumpError
from kdump.format.checkpoint import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from kdump.log.names import Kind, parse_file_name
from kdump.log.source import Source, open_source
from kdump.mend import disk
from kdump.mend.checkpointlines import set_line
from kdump.mend.journal import OLD, SWAP, clear, close, copy_file, finish, pieces_of, remove, write_manifest
from kdump.mend.manifest import MANIFEST_NAME, Action, Bystander, FileChange, FileState, Manifest, State
from kdump.mend.readthrough import start_sha256

_LOG: Final = Kind.LOG.value
_FEW: Final = 10
"""Names that a message lists."""


class Marker(Enum):
    """What becomes of a marker of a clean shutdown that the repair had removed."""

    BACK = "back"
    """It is there again, as it was."""
    NEW = "new"
    """A broker ran and was stopped cleanly since: its own marker stays."""
    STALE = "stale"
    """A broker ran since and left none: the old one says nothing of that, and does not come back."""


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
        marker: None where the repair had not removed it.
        kept_in: the directory that keeps what was written since, None where nothing was.
        kept: names of the files in it.
        differences: files that are not as before the repair; the repair itself had not touched them.
    """

    marker: Marker | None
    kept_in: str | None
    kept: tuple[str, ...]
    differences: tuple[Difference, ...]


def resume(journal: str, manifest: Manifest) -> None:
    """Come to the end of a repair, or of undoing one, that was interrupted.

    Raises:
        KdumpError: MANIFEST where a file was written to since, else see ``finish`` and ``undo``.
    """
    if manifest.state is State.UNDOING:
        undo(os.path.join(journal, MANIFEST_NAME), manifest)
        return
    for change in manifest.files:
        if not _is_known(manifest, change):
            raise _unfit(manifest, change, "was written to since")
    finish(journal, manifest)


def undo(path: str, manifest: Manifest, *, replaces_changed: bool = False) -> Undone:
    """Bring everything back as it was, and prove it by the digests.

    Args:
        path: of the manifest.
        manifest: what it holds.
        replaces_changed: also where records were written since; the logs that hold them are kept in the backup.

    Raises:
        KdumpError: MANIFEST where logs were written to since, or the backup is not complete; UNWRITABLE, and then
            undoing it again goes on.
    """
    journal, written = os.path.dirname(path), os.stat(path).st_mtime_ns
    manifest, marker = _settle_marker(manifest, written)
    manifest = _keep_changed(manifest, written, replaces_changed=replaces_changed)
    write_manifest(journal, manifest.with_state(State.UNDOING))
    kept = _take_out_kept(manifest)
    _restore_all(manifest)
    for line in manifest.lines:
        set_line(manifest.directory, line.name, line.before)
    clear(os.path.join(manifest.backup, OLD))
    close(journal, manifest.with_state(State.UNDONE))
    return Undone(marker, _kept_in(manifest), kept, tuple(_differences(manifest, written)))


def _settle_marker(manifest: Manifest, written: int) -> tuple[Manifest, Marker | None]:
    """The manifest without a marker that is not to come back. ``written``: time (ns) of the manifest."""
    change = next((change for change in manifest.files if os.path.basename(change.name) == CLEAN_SHUTDOWN), None)
    if change is None or change.before is None:
        return manifest, None
    if _is(manifest, change, change.before):
        return manifest, Marker.BACK
    if os.path.lexists(os.path.join(manifest.directory, change.name)):
        marker = Marker.NEW
    elif _has_run_since(written, manifest):
        marker = Marker.STALE
    else:
        return manifest, Marker.BACK
    return replace(manifest, files=tuple(one for one in manifest.files if one is not change)), marker


def _has_run_since(moment: int, manifest: Manifest) -> bool:
    """A broker wrote the checkpoints of the log directory after ``moment`` (ns), as it does from its start on."""
    above = os.path.dirname(manifest.directory)
    paths = [
        os.path.join(above, name)
        for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)
    ]
    return any(os.stat(path).st_mtime_ns > moment for path in paths if os.path.lexists(path))


# What was written since.


def _keep_changed(manifest: Manifest, written: int, *, replaces_changed: bool) -> Manifest:
    """Keep what was written since in the backup; the manifest then names the directory.

    Index files, snapshots and epochs follow from the logs, and a broker writes them whenever it runs. Logs that were
    written to, or are new, hold records that would leave the partition.
    """
    is_resumed = manifest.state is State.UNDOING
    if not is_resumed:
        manifest = replace(manifest, replaced=None)
    changed = [change.name for change in manifest.files if not _is_known(manifest, change)]
    _check_backup(manifest)
    added = [] if is_resumed else _added(manifest, written)
    if is_resumed and changed:
        raise _refused(manifest, changed, "was written to since")
    if any(name.endswith(_LOG) for name in (*changed, *added)) and not replaces_changed:
        what = "was written to since the repair, or is new; --replace-changed goes on and keeps it in the backup"
        raise _refused(manifest, [*changed, *added], what)
    if not (changed or added):
        return manifest
    name = f"changed-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    directory = os.path.join(manifest.backup, name)
    disk.make_directory(directory, os.stat(manifest.directory))
    for file in (*changed, *added):
        copy_file(os.path.join(manifest.directory, file), os.path.join(directory, file))
    disk.sync_directory(directory)
    disk.sync_directory(manifest.backup)
    return replace(manifest, replaced=name)


def _check_backup(manifest: Manifest) -> None:
    """Raises KdumpError MANIFEST where a file cannot be put back."""
    for change in manifest.files:
        if change.saved is None or _is(manifest, change, change.before):
            continue
        if not os.path.lexists(os.path.join(manifest.backup, change.saved)):
            raise _unfit(manifest, change, f"is changed, and {change.saved} is not in the backup")
        if change.kept and not _has_kept_start(manifest, change):
            raise _unfit(manifest, change, f"its first {change.kept} bytes, which the backup does not hold, are gone")


def _has_kept_start(manifest: Manifest, change: FileChange) -> bool:
    path = os.path.join(manifest.directory, change.name)
    if change.after is None or not os.path.lexists(path):
        return False
    with open_source(path) as source:
        return (source.size or 0) >= change.kept and start_sha256(source, change.kept) == change.after.sha256


def _added(manifest: Manifest, written: int) -> list[str]:
    """Segment files and snapshots that are new, and do not fit the log as it was before the repair.

    Those fit that lie after its last log, where the repair left that one as it was.
    """
    logs = {change.name for change in manifest.files if change.before is not None and change.name.endswith(_LOG)}
    others = {bystander.name for bystander in manifest.bystanders or () if bystander.name.endswith(_LOG)}
    last = max(map(_base_offset, others), default=-1)
    fitting = last if last > max(map(_base_offset, logs), default=-1) else None
    added = []
    for name in _unknown_files(manifest, written):
        parsed = parse_file_name(name)
        if parsed is None or parsed.state or parsed.kind is Kind.CHECKPOINT:
            continue
        if fitting is None or _base_offset(name) <= fitting:
            added.append(name)
    return added


def _base_offset(name: str) -> int:
    parsed = parse_file_name(name)
    return -1 if parsed is None or parsed.base_offset is None else parsed.base_offset


def _unknown_files(manifest: Manifest, written: int) -> Iterator[str]:
    """Files that the manifest does not name; of one that does not name all, those written after it (ns)."""
    known = {change.name for change in manifest.files}
    known |= {bystander.name for bystander in manifest.bystanders or ()}
    for entry in sorted(os.scandir(manifest.directory), key=lambda entry: entry.name):
        if entry.name in known or not entry.is_file(follow_symlinks=False):
            continue
        if manifest.bystanders is not None or entry.stat(follow_symlinks=False).st_mtime_ns > written:
            yield entry.name


def _kept_in(manifest: Manifest) -> str | None:
    return None if manifest.replaced is None else os.path.join(manifest.backup, manifest.replaced)


def _take_out_kept(manifest: Manifest) -> tuple[str, ...]:
    """Take what is kept in the backup out of the partition: files go, a log that was only cut ends there again."""
    directory = _kept_in(manifest)
    if directory is None:
        return ()
    names = sorted(os.listdir(directory))
    changes = {change.name: change for change in manifest.files}
    for name in names:
        path = os.path.join(manifest.directory, name)
        if not os.path.lexists(path) or not _are_equal(path, os.path.join(directory, name)):
            continue
        change = changes.get(name)
        if change is not None and change.kept and change.after is not None:
            disk.rewrite_end(path, change.kept, (), change.after.modified)
        else:
            disk.remove(path)
    return tuple(names)


def _are_equal(path: str, other: str) -> bool:
    if os.stat(path).st_size != os.stat(other).st_size:
        return False
    with open_source(path) as one, open_source(other) as two:
        return start_sha256(one, one.size or 0) == start_sha256(two, two.size or 0)


# The files of the repair.


def _restore_all(manifest: Manifest) -> None:
    wrong = [change for change in manifest.files if not _is(manifest, change, change.before)]
    for step in manifest.steps:
        # What waits to be swapped in must not be.
        if step.action is Action.PLACE and step.target.endswith(SWAP):
            remove(os.path.join(manifest.directory, step.target))
    # As on the way there: indexes out, logs, indexes in.
    logs = [change for change in wrong if change.name.endswith(_LOG)]
    others = [change for change in wrong if not change.name.endswith(_LOG)]
    for change in others:
        remove(os.path.join(manifest.directory, change.name))
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


def _restore(manifest: Manifest, change: FileChange) -> None:
    path = os.path.join(manifest.directory, change.name)
    if change.before is None or change.saved is None:
        remove(path)
        return
    saved = os.path.join(manifest.backup, change.saved)
    if change.kept:
        with open_source(saved) as source:
            disk.rewrite_end(path, change.kept, pieces_of(source), change.before.modified)
    elif os.stat(saved).st_dev == os.stat(os.path.dirname(path)).st_dev:
        disk.replace(saved, path)
    else:
        part = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.kdump-part")
        remove(part)
        copy_file(saved, part)
        disk.replace(part, path)


def _is_known(manifest: Manifest, change: FileChange) -> bool:
    """The file is as it was, as the repair makes it, on its way, or as it is kept in the backup."""
    path = os.path.join(manifest.directory, change.name)
    if not os.path.lexists(path) or _is(manifest, change, change.after) or _is(manifest, change, change.before):
        return True
    kept_in = _kept_in(manifest)
    kept = None if kept_in is None else os.path.join(kept_in, change.name)
    is_kept = kept is not None and os.path.lexists(kept) and not os.path.islink(path) and _are_equal(path, kept)
    return is_kept or _is_growing_back(manifest, change)


def _is(manifest: Manifest, change: FileChange, state: FileState | None) -> bool:
    path = os.path.join(manifest.directory, change.name)
    if not os.path.lexists(path):
        return state is None
    if state is None or os.path.islink(path):
        return False
    with open_source(path) as source:
        return source.size == state.size and start_sha256(source, state.size) == state.sha256


def _is_growing_back(manifest: Manifest, change: FileChange) -> bool:
    """A log that was cut, and after that a part of its saved end: undoing it was interrupted."""
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


# What the repair did not touch.


def _differences(manifest: Manifest, written: int) -> Iterator[Difference]:
    for bystander in manifest.bystanders or ():
        path = os.path.join(manifest.directory, bystander.name)
        if not os.path.lexists(path):
            yield Difference(bystander.name, Deviation.GONE)
        elif not _is_unchanged(path, bystander):
            yield Difference(bystander.name, Deviation.CHANGED)
    is_complete = manifest.bystanders is not None
    for name in _unknown_files(manifest, written):
        yield Difference(name, Deviation.NEW if is_complete else Deviation.CHANGED)


def _is_unchanged(path: str, bystander: Bystander) -> bool:
    status = os.stat(path, follow_symlinks=False)
    if status.st_size != bystander.size or os.path.islink(path):
        return False
    if status.st_mtime_ns == bystander.modified or bystander.sha256 is None:
        return status.st_mtime_ns == bystander.modified
    with open_source(path) as source:
        return start_sha256(source, bystander.size) == bystander.sha256


def _unfit(manifest: Manifest, change: FileChange, what: str) -> KdumpError:
    return _refused(manifest, [change.name], what)


def _refused(manifest: Manifest, names: Sequence[str], what: str) -> KdumpError:
    first, *others = names
    message = f"{what} ({_listed(others)} too)" if others else what
    return KdumpError(Codes.MANIFEST, message, path=os.path.join(manifest.directory, first))


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(names[:_FEW])
    return text if len(names) <= _FEW else f"{text} and {len(names) - _FEW} more"
