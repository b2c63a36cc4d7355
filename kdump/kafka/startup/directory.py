"""A partition directory in memory: what lies on disk, and what a broker would make of it. Nothing is ever written."""

from __future__ import annotations

import os
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cached_property
from typing import Final, NamedTuple

from kdump.format.batch import MAGIC_OFFSET, parse_header
from kdump.format.index import OFFSET_ENTRY_SIZE
from kdump.format.legacy import parse_message
from kdump.kafka.segmentindexes import DEFAULT_INDEX_INTERVAL, DEFAULT_INDEX_SIZE
from kdump.kafka.startup.names import INDEX, LOG, SNAPSHOT, offset_of
from kdump.kafka.startup.outcome import OUT_OF_MEMORY, StartFailureError
from kdump.log import files
from kdump.log.content import Content, ContentSource
from kdump.log.names import SIBLING_TEXT_FILES, Kind, parse_file_name
from kdump.log.opening import check_size, open_source
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.releases import NEWEST, Release

_OPENED: Final = frozenset({Kind.INDEX, Kind.TIME_INDEX, Kind.TXN_INDEX})
_LARGEST_INDEX: Final = 64 << 20
_MOST_AT_ONCE: Final = 2**31 - 9
"""Files.readAllBytes reads no more."""


class LoadSettings(NamedTuple):
    """What a broker knows of a partition before it opens its directory.

    ``is_clean``: .kafka_cleanshutdown was there. The offsets are the partition's lines in the two checkpoints, 0
    without one. ``max_index_size``: segment.index.bytes; ``now``: the time, ms, see ``Directory.stopped_at``.
    ``remote_by``: what says that the topic has remote storage (remote.storage.enable), None where nothing does.
    ``release``: the broker's. ``index_interval``: index.interval.bytes.
    """

    is_clean: bool
    recovery_point: int = 0
    log_start_offset: int = 0
    max_index_size: int = DEFAULT_INDEX_SIZE
    now: int | None = None
    remote_by: str | None = None
    release: Release = NEWEST
    index_interval: int = DEFAULT_INDEX_INTERVAL


class FileAction(Enum):
    """What a start does to a file."""

    KEPT = "kept"
    CUT = "cut"
    """It is cut."""
    REBUILT = "rebuilt"
    """It is rewritten, or grown with zeros."""
    CREATED = "created"
    DELETED = "deleted"
    RENAMED = "renamed"
    """It gets a new name and replaces a file of that name."""


class StartFileChange(NamedTuple):
    """A file as a start leaves it; ``content`` is None when it is deleted."""

    name: str
    action: FileAction
    content: Content | None


class Directory:
    """The files of a partition directory by name.

    Args:
        path: of the directory.
        contents: its files.

    ``bytes_read`` counts what was read of files on disk.
    """

    def __init__(self, path: str, contents: Mapping[str, Content]) -> None:
        self.path = path
        self.bytes_read = 0
        self._before = dict(contents)
        self._files = dict(contents)
        self._former_names = {name: name for name in contents}
        self._snapshots: list[tuple[int, str]] | None = None

    @classmethod
    def on_disk(cls, path: str) -> Directory:
        """The regular files of a directory.

        A broker skips a pipe or a device in place of a log. But it opens the other files by their names, and would wait
        there forever, or read unknown data.

        Raises:
            KdumpError: it cannot be listed, or a file cannot be examined; SPECIAL_FILE for what a broker would open.
        """
        for entry in files.special_files(path):
            name = parse_file_name(entry.name)
            if entry.name in SIBLING_TEXT_FILES or (name is not None and name.kind in _OPENED and not name.state):
                open_source(entry.path).close()
        found = files.regular_files(path)
        return cls(path, {entry.name: Content.of_file(entry.path, entry.size or 0) for entry in found})

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def __getitem__(self, name: str) -> Content:
        return self._files[name]

    def get(self, name: str) -> Content | None:
        """The contents of a file, None if it is not there."""
        return self._files.get(name)

    def __setitem__(self, name: str, content: Content) -> None:
        is_new = name not in self._files
        self._files[name] = content
        self._former_names.setdefault(name, name)
        if is_new and self._snapshots is not None and name.endswith(SNAPSHOT):
            insort(self._snapshots, (offset_of(name), name))

    @property
    def before(self) -> Mapping[str, Content]:
        """The files before the start."""
        return self._before

    def names(self) -> list[str]:
        """The names of all files, in byte order, in which a broker loads them."""
        return sorted(self._files, key=os.fsencode)

    @property
    def snapshots(self) -> dict[int, str]:
        """The names of the snapshots by their offsets. Of several with one offset (``5``, ``05``) the last counts.

        A broker lists them anew for each segment that it recovers.

        Raises:
            StartFailureError: a name without a number.
        """
        if self._snapshots is None:
            self._snapshots = sorted((offset_of(name), name) for name in sorted(self._files) if name.endswith(SNAPSHOT))
        return dict(self._snapshots)

    def remove(self, name: str) -> None:
        """Delete a file if it is there."""
        if self._files.pop(name, None) is not None:
            del self._former_names[name]
            if self._snapshots is not None and name.endswith(SNAPSHOT):
                del self._snapshots[bisect_left(self._snapshots, (offset_of(name), name))]

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file if it is there, over another one of that name."""
        if name in self._files:
            content, former_name = self._files[name], self._former_names[name]
            self.remove(name)
            self[new_name] = content
            self._former_names[new_name] = former_name

    def resize(self, name: str, size: int) -> None:
        """Cut a file, or add zeros to it."""
        self._files[name] = self._files[name].resized(size)

    def open(self, name: str) -> ContentSource:
        """The bytes of a file."""
        return ContentSource(os.path.join(self.path, name), self._files[name], self._count)

    def read(self, name: str) -> bytes:
        """All bytes of a small file.

        Raises:
            KdumpError: it cannot be read, or is too large for its kind.
            StartFailureError: it is larger than a Java array.
        """
        if (size := self._files[name].size) > _MOST_AT_ONCE:
            raise StartFailureError(OUT_OF_MEMORY, f"{name} has {size} bytes, {_MOST_AT_ONCE} are the most at once")
        check_size(name, size)
        with self.open(name) as source:
            return source.read(0, size)

    def changes(self) -> Iterator[StartFileChange]:
        """What became of each file, in order of the names. A renamed file is listed under its new name only."""
        moved = set()
        for name, former in self._former_names.items():
            if former != name and former in self._before:
                moved.add(former)
        for name in sorted(self._before.keys() | self._files.keys(), key=os.fsencode):
            content = self._files.get(name)
            if content is not None:
                yield StartFileChange(name, self._action(name, content), content)
            elif name not in moved:
                yield StartFileChange(name, FileAction.DELETED, None)

    @cached_property
    def stopped_at(self) -> int:
        """The default clock of a start: the time (ms) at which a broker stopped, as if it were started right after.

        So a copy gives the same answer on any day. Only expiry depends on the clock
        (docs/spec/startup.md#rule-20-from-a-snapshot).

        Raises:
            KdumpError: a log cannot be opened.
        """
        # Other parts are read than a broker reads, and they must still be there after the broker has cut them off.
        return _newest_timestamp(Directory(self.path, self._before))

    def _action(self, name: str, content: Content) -> FileAction:
        former = self._former_names[name]
        if former != name and former in self._before:
            return FileAction.RENAMED
        before = self._before.get(name)
        if before is None:
            return FileAction.CREATED
        if content == before:
            return FileAction.KEPT
        return FileAction.CUT if content.starts_as(before) else FileAction.REBUILT

    def _count(self, count: int) -> None:
        self.bytes_read += count


def _newest_timestamp(directory: Directory) -> int:
    """The largest timestamp (ms) of the valid batches after the last index entry, in the last log that has such.

    If no log has one it is 0: nothing is older.
    """
    for name in reversed(directory.names()):
        if name.endswith(LOG) and directory[name].size:
            start = _last_indexed(directory, name.removesuffix(LOG) + INDEX)
            found = max(_timestamps(directory, name, start), default=None)
            if found is None and start:
                found = max(_timestamps(directory, name, 0), default=None)
            if found is not None:
                return found
    return 0


def _last_indexed(directory: Directory, name: str) -> int:
    """The position in the last entry of an .index, after which zeros may follow; 0 without one."""
    content = directory.get(name)
    if content is None or content.size > _LARGEST_INDEX:
        return 0
    entries = directory.read(name).rstrip(b"\0")
    whole = entries.ljust(-(-len(entries) // OFFSET_ENTRY_SIZE) * OFFSET_ENTRY_SIZE, b"\0")
    return int.from_bytes(whole[-OFFSET_ENTRY_SIZE // 2 :], "big")


def _timestamps(directory: Directory, name: str, start: int) -> Iterator[int]:
    with directory.open(name) as source:
        if start >= (source.size or 0):
            return
        for chunk in ResyncWalk(source, start=start).items():
            if isinstance(chunk, CheckedChunk):
                damaged = set(chunk.damaged)
                for number, (first, last) in enumerate(chunk.entries()):
                    if number not in damaged:
                        entry = chunk.data[first:last]
                        is_v2 = entry[MAGIC_OFFSET] >= 2
                        yield parse_header(entry).max_timestamp if is_v2 else parse_message(entry).timestamp
