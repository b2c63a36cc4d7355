"""What is below a directory, and how it becomes that again."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Node(NamedTuple):
    """What a path is; of a directory the time says nothing."""

    mode: int
    uid: int
    gid: int
    modified: int
    data: bytes | None


Nodes = dict[str, Node]


def nodes_of(root: Path) -> Nodes:
    """All that is below ``root``, by relative path, directories before what is in them."""
    return {os.path.relpath(path, root): _node(path, status) for path, status in _entries(root)}


def restore(root: Path, wanted: Nodes) -> None:
    """Make what is below ``root`` what it was. Directories stay the same ones, for those who have them open."""
    now = nodes_of(root)
    for name in sorted(now.keys() - wanted.keys(), reverse=True):
        path = root / name
        path.unlink() if now[name].data is not None else path.rmdir()
    for name, node in wanted.items():
        if now.get(name) == node:
            continue
        path = root / name
        if node.data is None:
            path.mkdir(exist_ok=True)
        else:
            if path.exists() and path.stat().st_nlink > 1:
                path.unlink()
            path.write_bytes(node.data)
        os.chown(path, node.uid, node.gid)
        path.chmod(stat.S_IMODE(node.mode))
        if node.data is not None:
            os.utime(path, ns=(node.modified, node.modified))


def empty(root: Path) -> None:
    """Make ``root`` an empty directory."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)


def _entries(root: str | Path) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(root) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        status = entry.stat(follow_symlinks=False)
        yield entry.path, status
        if stat.S_ISDIR(status.st_mode):
            yield from _entries(entry.path)


def _node(path: str, status: os.stat_result) -> Node:
    if stat.S_ISDIR(status.st_mode):
        return Node(status.st_mode, status.st_uid, status.st_gid, 0, None)
    with open(path, "rb", buffering=0) as file:
        data = file.read()
    return Node(status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns, data)
