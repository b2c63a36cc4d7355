"""Which file a PATH stands for, by kdump's own rules for names (docs/contract.md#11-paths)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from kdump.log.names import CLUSTER_METADATA, TEXT_FILES, Kind, parse_file_name, partition_of_file
from kdump.log.source import STDIN, GrowingFile, Source, is_stream, open_source


@dataclass(frozen=True, slots=True)
class Follow:
    """A log is to be read as it grows, until ``is_over``; ``on_wait`` is called before each wait for more."""

    is_over: Callable[[], bool]
    on_wait: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Target:
    """One file to dump: where it is, what kind, and its base offset (None: the name has none).

    ``kind`` None: a text file, one of ``names.TEXT_FILES``, which is shown as it is.
    ``unnamed``: a stream, whose base offset can only be that of its first batch. ``may_be_missing``: the Java tool
    takes a missing transaction index for an empty one. ``is_listed``: it was found in a directory, not named; that it
    has gone since is nothing to tell.
    """

    path: str
    kind: Kind | None
    base_offset: int | None
    unnamed: bool = False
    may_be_missing: bool = False
    is_listed: bool = False
    follow: Follow | None = None

    def open(self) -> Source:
        """The file, read-only. Raises as ``open_source``."""
        if self.follow is None:
            return open_source(self.path)
        return GrowingFile(self.path, self.follow.is_over, self.follow.on_wait)

    @property
    def topic(self) -> str | None:
        """The topic of the directory that the file lies in; None when it is no ``<topic>-<n>``.

        A checkpoint is a snapshot of the cluster metadata wherever it lies.
        """
        if self.kind is Kind.CHECKPOINT:
            return CLUSTER_METADATA
        return None if self.unnamed else (partition_of_file(self.path) or (None,))[0]

    @property
    def file_name(self) -> str:
        """Last component of the path."""
        return PurePosixPath(self.path).name


def is_text_file(path: str) -> bool:
    """By its name a text file of Kafka, which is dumped when it is named, and not where a directory is."""
    return PurePosixPath(path).name in TEXT_FILES


def target_by_path(path: str) -> Target | None:
    """The file a PATH stands for, by kdump's own rules for names (inner suffixes, tiered storage, streams).

    None for a file that is no segment file. A path that does not exist is taken by its name.
    """
    if path == STDIN or is_stream(path):
        return Target(path, Kind.LOG, None, unnamed=True)
    name = parse_file_name(path)
    return None if name is None else Target(path, name.kind, name.base_offset)
