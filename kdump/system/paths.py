"""Paths as the system follows them, and file names as long as it takes them.

``..`` after a link leads to the directory above the one that the link leads to.
``os.path.abspath`` and ``os.path.normpath`` take the link away instead. What they give may be another file than the one
that is opened by the path.
"""

from __future__ import annotations

import os
from typing import Final

_LONGEST_NAME: Final = 255
"""Bytes in a file name, on the file systems of Linux."""
_DIGITS: Final = 16
_NO_NAMES: Final = ("", os.curdir, os.pardir)


def physical(path: str) -> str:
    """The path without ``..`` after a name: up to the last one all links are followed; the rest stays as it is.

    A path without such ``..`` stays as it is.
    """
    if os.pardir not in path:
        return path
    parts = path.split(os.sep)
    first = next((number for number, part in enumerate(parts) if part not in _NO_NAMES), len(parts))
    if os.pardir not in parts[first:]:
        return path
    end = len(parts) - parts[::-1].index(os.pardir)
    try:
        start = os.path.realpath(os.sep.join(parts[:end]))
    except ValueError:
        # No path of any file, as who opens it sees.
        return path
    return os.path.join(start, *parts[end:])


def name_with(name: str, before: str = "", after: str = "") -> str:
    """A file name made of another one: ``name`` between ``before`` and ``after``.

    Where it would be longer than file systems allow, the end of ``name`` gives way to a digest of it.
    """
    made = f"{before}{name}{after}"
    excess = len(os.fsencode(made)) - _LONGEST_NAME
    if excess <= 0:
        return made
    import hashlib  # would take its time at every start

    data = os.fsencode(name)
    digest = f"-{hashlib.sha256(data).hexdigest()[:_DIGITS]}"
    return f"{before}{os.fsdecode(data[: -excess - len(digest)])}{digest}{after}"


def absolute_path(path: str) -> str:
    """The absolute path of what the system finds at ``path``. A link in the last place stays one."""
    return os.path.abspath(physical(path))


def normal_path(path: str) -> str:
    """As ``absolute_path``, and relative if ``path`` has no ``..`` after a name."""
    return os.path.normpath(physical(path))
