"""The manifest of a repair in place: what every file was and is, what was cut, and the steps from one to the other.

While a repair is under way it is its journal: every step may be taken again, so that whoever finds it can go on or
undo it. Afterwards it says what came from where.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, Final, Self

from kdump.codes import Codes, KdumpError
from kdump.format.checkpoint import OFFSET_CHECKPOINTS
from kdump.log.source import read_whole

FORMAT: Final = 1
MANIFEST_NAME: Final = "manifest.json"


class State(Enum):
    """How far a repair has come."""

    BEGUN = "begun"
    """Everything is prepared, and some of the steps may have been taken."""
    DONE = "done"
    UNDOING = "undoing"
    """Bringing everything back was begun: the steps must not be taken any more, they would remove what came back."""
    UNDONE = "undone"


class Action(Enum):
    """What a step does; taking it again changes nothing."""

    PLACE = "place"
    """``source`` becomes ``target``, in place of what was there."""
    REMOVE = "remove"
    """``target`` goes; with ``source`` only as long as that is there."""
    CUT = "cut"
    """``target`` ends at ``position``; the time of its last change is ``modified`` (ns), as it was."""
    SYNC = "sync"
    """The names in the directory ``target`` are durable before the next step."""
    LINE = "line"
    """In the checkpoint ``target`` of the log directory the partition's own line gets the offset ``position``."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step; paths are relative to the partition directory, but ``target`` of LINE is a name in the one above."""

    action: Action
    target: str
    source: str | None = None
    position: int | None = None
    modified: int | None = None


@dataclass(frozen=True, slots=True)
class FileState:
    """A file: size in bytes, SHA-256 in hexadecimal, permissions, owner, time of the last change (ns)."""

    size: int
    sha256: str
    mode: int
    uid: int
    gid: int
    modified: int

    @classmethod
    def of(cls, status: os.stat_result, size: int, sha256: str) -> Self:
        """With the owner, mode and time of ``status``."""
        return cls(size, sha256, status.st_mode & 0o7777, status.st_uid, status.st_gid, status.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that a repair changes, makes (``before`` None) or removes (``after`` None).

    ``name`` is relative to the partition directory. ``saved`` is the original in the backup directory, from byte
    ``kept`` on: what is before that stays in the file.
    """

    name: str
    before: FileState | None
    after: FileState | None
    saved: str | None = None
    kept: int = 0


@dataclass(frozen=True, slots=True)
class LineChange:
    """The partition's own line in a checkpoint of the log directory: its offset before and after.

    ``name`` is one of OFFSET_CHECKPOINTS.
    """

    name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Bystander:
    """A file of the partition directory that the repair does not change.

    ``sha256`` is None where the file was not read; then ``size`` (bytes) and ``modified`` (ns) tell whether it changed.
    """

    name: str
    size: int
    modified: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A repair in place.

    ``directory`` of the partition and ``backup`` with the originals are absolute; ``created`` is ISO 8601, UTC;
    ``logs`` says of each log what was kept, dropped, restored and made (see ``kdump.mend.account``); ``lines`` are the
    partition's own in the checkpoints of its log directory; ``bystanders`` is None in manifests that do not tell.
    ``replaced``: while it is undone, the name of the directory in the backup that keeps the files written since.
    """

    directory: str
    backup: str
    created: str
    version: str
    way: str
    state: State
    files: tuple[FileChange, ...]
    steps: tuple[Step, ...]
    logs: tuple[Mapping[str, Any], ...] = field(default=())
    lines: tuple[LineChange, ...] = ()
    bystanders: tuple[Bystander, ...] | None = None
    replaced: str | None = None

    def with_state(self, state: State) -> Manifest:
        """The same repair, further on."""
        return replace(self, state=state)

    def to_json(self) -> bytes:
        """The file's content."""
        members = {"format": FORMAT, **asdict(self)}
        return json.dumps(members, indent=1, default=_plain).encode() + b"\n"


def read_manifest(path: str) -> Manifest:
    """Read a manifest.

    Raises:
        KdumpError: MANIFEST where it is none of this format, else as read_whole.
    """
    data = read_whole(path)
    try:
        members = json.loads(data)
        if members.pop("format") != FORMAT:
            raise ValueError("its format is another")
        for name, make in _MEMBERS.items():
            members[name] = make(members[name])
        for name, make in _LATER_MEMBERS.items():
            if members.get(name) is not None:
                members[name] = make(members[name])
        return Manifest(**members)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise KdumpError(Codes.MANIFEST, f"no manifest of a repair: {error}", path=path) from error


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"{type(value)} is nothing for a manifest")


def _file_state(members: dict[str, Any] | None) -> FileState | None:
    return None if members is None else FileState(**members)


def _file_change(members: dict[str, Any]) -> FileChange:
    before, after = (_file_state(members.pop(name)) for name in ("before", "after"))
    return FileChange(before=before, after=after, **members)


def _step(members: dict[str, Any]) -> Step:
    step = Step(Action(members.pop("action")), **members)
    if step.action is Action.LINE:
        _check_checkpoint(step.target)
    return step


def _line_change(members: dict[str, Any]) -> LineChange:
    line = LineChange(**members)
    _check_checkpoint(line.name)
    return line


def _bystander(members: dict[str, Any]) -> Bystander:
    return Bystander(**members)


def _directory_name(name: str) -> str:
    if name != os.path.basename(name) or name in ("", os.curdir, os.pardir):
        raise ValueError(f"{name!r} is no name of a directory")
    return name


def _check_checkpoint(name: str) -> None:
    if name not in OFFSET_CHECKPOINTS:
        raise ValueError(f"{name!r} is no offset checkpoint")


def _each(make: Callable[[Any], Any]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    return lambda members: tuple(map(make, members))


_MEMBERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "state": State,
    "files": _each(_file_change),
    "steps": _each(_step),
    "logs": tuple,
}
_LATER_MEMBERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "lines": _each(_line_change),
    "bystanders": _each(_bystander),
    "replaced": _directory_name,
}
"""Manifests of earlier versions do not have them."""
