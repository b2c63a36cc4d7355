"""Which file system a path lies on (Linux: /proc/self/mountinfo, proc(5))."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

_MOUNTS: Final = "/proc/self/mountinfo"
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")
_WITHOUT_LOCKS: Final = ("nfs", "cifs", "smb", "fuse")


def file_system(path: str) -> str | None:
    """The type of the file system that ``path`` lies on, None where the system does not tell."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:
            return type_at(os.path.realpath(path), mounts)
    except OSError:
        return None


def type_at(path: str, mounts: Iterable[str]) -> str | None:
    """The type of the mount that holds ``path`` (absolute, without links), by the lines of mountinfo."""
    found: tuple[int, str] | None = None
    for line in mounts:
        fields, _, rest = line.partition(" - ")
        words = fields.split()
        if len(words) < 5 or not rest:
            continue
        point = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), words[4])
        holds = path == point or path.startswith(point.rstrip("/") + "/")
        # Of two mounts on one point the later one hides the other.
        if holds and (found is None or len(point) >= found[0]):
            found = len(point), rest.split()[0]
    return None if found is None else found[1]


def tells_locks(kind: str | None) -> bool:
    """Whether this machine's kernel knows who holds a lock on a file system of this type."""
    return kind is None or not kind.startswith(_WITHOUT_LOCKS)
