"""The manifest of a repair in place: what every file was and is, what was cut, and the steps from one to the other.

An interrupted repair is finished or undone by its manifest, because every step may be repeated. After the repair the
manifest shows what came from where. ``manifestjson`` reads it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, Final, Self

from kdump.format.checkpoint import CLEAN_SHUTDOWN
from kdump.repair.plan.plan import LineChange
from kdump.system.blocks import escaped
from kdump.wire.jsontext import json_blocks

FORMAT: Final = 1
MANIFEST_NAME: Final = "manifest.json"
MAX_SIZE: Final = 24 << 20
"""Most bytes of a manifest. A file that a repair changes takes about 800, one that it leaves 200, so 30,000 may change.

To read a manifest takes up to 20 times as much memory.
"""
HOME: Final = ".kdump"
"""The directory of the journals in the partition directory."""
JOURNAL: Final = re.compile(r"\d{8}T\d{6}\.\d{6}Z")
"""Names of journals: the time at which the repair began."""
OLD: Final = "old"
NEW: Final = "new"
KEPT: Final = "changed-"
"""Prefix of the directories in a backup that keep what was written since a repair."""
SWAP: Final = ".swap"
"""Suffix of files with which a broker replaces others when it starts."""
MARKER: Final = os.path.join(os.pardir, CLEAN_SHUTDOWN)
"""The name in a partition's manifest for the marker of the log directory."""


class State(Enum):
    """How far a repair has come."""

    BEGUN = "begun"
    """Everything is prepared, and some steps may have been taken."""
    DONE = "done"
    UNDOING = "undoing"
    """The undo was begun. The steps must not be taken any more: they would remove what came back."""
    UNDONE = "undone"


class Action(Enum):
    """What a step does; a repetition changes nothing."""

    PLACE = "place"
    """``source`` becomes ``target`` and replaces what was there."""
    REMOVE = "remove"
    """``target`` is removed; with ``source`` only while that is there."""
    CUT = "cut"
    """``target`` is cut at ``position``; the time of its last change stays ``modified`` (ns)."""
    SYNC = "sync"
    """The names in the directory ``target`` are durable before the next step."""
    LINE = "line"
    """In the checkpoint ``target`` of the log directory the partition's own line gets the offset ``position``."""


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One step; ``target`` is the name of a file of the partition, MARKER, or for LINE a checkpoint.

    ``source`` is the name of another one, or ``.kdump/<journal>/new/<name>``.
    """

    action: Action
    target: str
    source: str | None = None
    position: int | None = None
    modified: int | None = None

    @property
    def prepared(self) -> tuple[str, str] | None:
        """(journal, name) of a prepared source; None for other sources."""
        home, *parts = (self.source or "").split(os.sep)
        return (parts[0], parts[2]) if home == HOME and len(parts) == 3 and parts[1] == NEW else None


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
        """A state with the owner, mode and time of ``status``."""
        return cls(size, sha256, status.st_mode & 0o7777, status.st_uid, status.st_gid, status.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that a repair changes, makes (``before`` None) or removes (``after`` None).

    ``name`` is that of a file of the partition, or MARKER. ``saved`` (``old/<name>``) is the original in the backup
    directory, from byte ``kept`` on: what comes before that stays in the file.
    """

    name: str
    before: FileState | None
    after: FileState | None
    saved: str | None = None
    kept: int = 0

    @property
    def base_name(self) -> str:
        """The name without its directory."""
        return os.path.basename(self.name)


@dataclass(frozen=True, slots=True)
class Bystander:
    """A file of the partition directory that the repair does not change.

    ``sha256`` is None if the file was not read; then ``size`` (bytes) and ``modified`` (ns) show whether it changed.
    """

    name: str
    size: int
    modified: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A repair in place.

    ``directory`` of the partition and ``backup`` with the originals are absolute; ``created`` is ISO 8601, UTC;
    ``logs`` says of each log what was kept, dropped, restored and made (see ``kdump.repair.account``); ``lines`` are
    the partition's own in the checkpoints of its log directory; ``lines`` and ``bystanders`` are None in manifests that
    do not tell.
    ``replaced``: while it is undone, the name of the directory in the backup that keeps the files written since.
    ``is_new``: the partition directory was made for it, and goes when it is undone. ``account``: what a restore was
    asked for and came to (see ``kdump.restore.earlier``).
    """

    directory: str
    backup: str
    created: str
    version: str
    way: str
    state: State
    files: tuple[FileChange, ...]
    steps: tuple[RepairStep, ...]
    logs: tuple[Mapping[str, Any], ...] = field(default=())
    lines: tuple[LineChange, ...] | None = None
    bystanders: tuple[Bystander, ...] | None = None
    replaced: str | None = None
    is_new: bool = False
    account: Mapping[str, Any] | None = None

    @property
    def is_finished(self) -> bool:
        """No step is left, neither of the repair nor of its undo."""
        return self.state in (State.DONE, State.UNDONE)

    def with_state(self, state: State) -> Manifest:
        """The manifest of the repair in another state."""
        return replace(self, state=state)

    def to_json(self) -> Iterator[bytes]:
        """The file's content, in blocks."""
        # ``asdict`` would copy the accounts of the logs, which are long.
        members = {"format": FORMAT, **asdict(replace(self, logs=())), "logs": self.logs}
        return json_blocks(members, indent=1)


def undo_command(path: str) -> str:
    """The command that takes back a repair, as it is shown and as a shell takes it; ``path``: of the manifest."""
    return f"kdump repair --undo {escaped(shlex.quote(path))}"
