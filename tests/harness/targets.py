"""The file of a dump that a path means."""

from __future__ import annotations

from kdump.codes import KdumpError
from kdump.dump.targets import Target, target_of
from kdump.inputs import PathDirectory, TextFile, resolve


def target_by_path(path: str) -> Target | None:
    """The stream or the file of a segment; None for anything else, text files too."""
    found = resolve(path)
    if isinstance(found, PathDirectory | TextFile):
        return None
    try:
        (file,) = found.files(lambda error: None)
    except KdumpError:
        return None
    return target_of(file)
