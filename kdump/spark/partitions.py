"""The partitions of some PATHs as they are now, with one listing each. A stream asks for them again and again.

Unlike ``log_files`` this opens no file. It leaves out folders that a broker adds or removes (``-delete``, ``-future``,
``-stray``): their records are those of a partition that is, was or will be there.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kdump.codes import KdumpError, OnError
from kdump.inputs import LogSegment, OtherFile, file_by_name
from kdump.log import files
from kdump.log.context import FileContext
from kdump.log.names import Kind, parse_partition_directory
from kdump.log.partition import is_log_directory
from kdump.tasks.logs import Wanted


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The segments of a directory, by rising base offset. There may be none."""

    directory: str
    bases: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def context(self) -> FileContext:
        """Topic and partition."""
        return FileContext(
            self.directory, *(parse_partition_directory(os.path.basename(self.directory)) or (None, None))
        )

    @property
    def newest(self) -> int:
        """The number of the segment that is written to."""
        return len(self.bases) - 1

    def path(self, number: int) -> str:
        """Of a segment."""
        return os.path.join(self.directory, self.names[number])

    def up_to(self, other: PartitionLog) -> PartitionLog:
        """The log without segments that are newer than those of ``other``."""
        count = bisect_right(self.bases, other.bases[-1]) if other.bases else 0
        return PartitionLog(self.directory, self.bases[:count], self.names[:count])

    def number_of(self, base_offset: int) -> int | None:
        """The number of the segment with this base offset; None where there is none."""
        return self.bases.index(base_offset) if base_offset in self.bases else None


def list_partitions(paths: Iterable[str], wanted: Wanted, on_error: OnError) -> dict[str, PartitionLog]:
    """Partitions by absolute directory.

    Raises KdumpError where a store cannot be asked.

    Args:
        paths: .log files, partition and log directories, globs of any of them.
        wanted: topics and partitions that are followed.
        on_error: takes MISSING for a path that is not there, UNREADABLE for a directory that cannot be listed, and
            NOT_A_SEGMENT_FILE for a file that is no log by its name. A glob may fit nothing yet, and other files.
    """
    found: dict[str, dict[int, str]] = {}
    for given in map(files.strip_credentials, paths):
        for path in files.expanded(given):
            for directory, names in _partitions_at(files.absolute(path), path == given, on_error):
                found.setdefault(directory, {}).update(names)
    logs = (
        PartitionLog(directory, tuple(sorted(names)), tuple(names[base] for base in sorted(names)))
        for directory, names in sorted(found.items())
    )
    return {log.directory: log for log in logs if wanted.accepts(log.context)}


def _partitions_at(path: str, is_named: bool, on_error: OnError) -> Iterator[tuple[str, dict[int, str]]]:
    """Directories and their logs by base offset. The path was named, or matches a pattern."""
    parent, name = os.path.split(path)
    if files.is_directory(path):
        is_partition = parse_partition_directory(name) is not None
        names, folders = _listed(path, on_error)
        if folders is not None:
            for folder in filter(_is_in_place, folders):
                directory = os.path.join(path, folder)
                yield directory, _listed(directory, on_error)[0]
        elif _is_in_place(name) or (is_named and is_partition) or (names and not is_partition):
            yield path, names
        return
    base_offset = _base_offset(path)
    if base_offset is not None:
        yield parent, {base_offset: name} if files.exists(path) else {}
    elif is_named:
        on_error(OtherFile(path).error)


def _listed(directory: str, on_error: OnError) -> tuple[dict[int, str], list[str] | None]:
    """Logs by base offset, and the folders of a log directory; None for any other directory."""
    names: dict[int, str] = {}
    try:
        entries = files.listing(directory)
    except KdumpError as error:
        # It was removed since its name was listed, and counts as empty.
        if files.is_directory(directory):
            on_error(error)
        return names, None
    if is_log_directory(entries):
        return names, [entry.name for entry in entries if entry.is_directory]
    for entry in entries:
        name = entry.name
        base_offset = _base_offset(name)
        if base_offset is not None:
            names[base_offset] = min(name, names.get(base_offset, name), key=lambda each: (len(each), each))
    return names, None


def _base_offset(path: str) -> int | None:
    """The base offset of a log that is in use; None for another file, and for one with a state suffix."""
    log = file_by_name(path)
    return log.base_offset if isinstance(log, LogSegment) and log.kind is Kind.LOG and not log.state else None


def _is_in_place(folder: str) -> bool:
    parsed = parse_partition_directory(folder)
    return parsed is not None and folder == f"{parsed[0]}-{folder.rpartition('-')[2]}"
