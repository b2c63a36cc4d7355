"""Where the schemas of a registry lie. Nothing here needs numpy."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from kdump.codes import KdumpError
from kdump.inputs import Input, LogSegment, PathDirectory
from kdump.log import files
from kdump.log.names import parse_partition_directory
from kdump.log.opening import open_source
from kdump.log.partition import partition_directories

SCHEMAS_TOPIC: Final = "_schemas"
"""The name that both registries have by default; ``kafkastore.topic`` and ``topic_name`` change it."""
_MARK: Final = b'"keytype"'
"""A member of the key of each record."""
_MARKED_BYTES: Final = 4096


def find_schemas(inputs: Iterable[Input]) -> str | None:
    """The log directory among the inputs that holds schemas of its own, or that of a partition; None: there is none."""
    for found in inputs:
        with suppress(KdumpError):
            folder = _log_directory(found)
            if folder is not None:
                return folder
    return None


def _log_directory(found: Input) -> str | None:
    if isinstance(found, PathDirectory) and not found.is_partition(files.listing(found.path)):
        return found.path if _holds_schemas(found.path) else None
    if isinstance(found, PathDirectory | LogSegment):
        partition = found.path if isinstance(found, PathDirectory) else os.path.dirname(files.absolute(found.path))
        above = os.path.dirname(files.absolute(partition).rstrip("/"))
        return above if files.exists(os.path.join(above, f"{SCHEMAS_TOPIC}-0")) else None
    return None


def _holds_schemas(log_directory: str) -> bool:
    entries = files.listing(log_directory)
    names = (parse_partition_directory(entry.name) for entry in entries)
    topics = Counter(named[0] for named in names if named is not None)
    return SCHEMAS_TOPIC in topics or any(
        is_marked(entry.path, entry.size)
        for folder in partition_directories(entries, lambda place: topics[place[0]] == 1, lambda error: None)
        for entry in files.listing(folder)
        if entry.name.endswith(".log")
    )


def is_marked(log: str, size: int | None) -> bool:
    """A record near the start of a log has the key of a registry. ``size``: bytes of the log, if they are known."""
    if size == 0:
        return False
    with suppress(KdumpError), open_source(log) as source:
        return _MARK in source.read(0, min(_MARKED_BYTES, source.size or 0))
    return False
