"""The files of a dump: what a PATH, or a name of ``--files``, means.

Source: docs/contract.md#11-paths, docs/spec/dump-output.md#3-per-file-dispatch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from kdump.codes import Codes, KdumpError, OnError
from kdump.inputs import (
    Input,
    InputFile,
    KafkaFile,
    PathDirectory,
    Stream,
    TextFile,
    topic_of,
)
from kdump.log import files
from kdump.log.growing import GrowingFile
from kdump.log.names import Kind, is_uri, last_name
from kdump.log.opening import open_source
from kdump.log.source import Source
from kdump.payloads.java import normalize_path, parse_long
from kdump.worlds import World


@dataclass(frozen=True, slots=True)
class Follow:
    """The log is read as it grows, until ``is_over``. ``on_wait``: see GrowingFile."""

    is_over: Callable[[], bool]
    on_wait: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Target:
    """One file to dump.

    ``kind``: None for a text file, one of ``names.TEXT_FILES``. ``base_offset``: None where the name has none.
    ``unnamed``: a stream, whose first batch tells the base offset. ``may_be_missing``: the Java tool takes a missing
    transaction index for an empty one. ``is_listed``: the file was found in a directory, not named, so it is no error
    when it is deleted before it is read. ``world``: whose log it is; None: a file of today.
    """

    path: str
    kind: Kind | None
    base_offset: int | None
    unnamed: bool = False
    may_be_missing: bool = False
    is_listed: bool = False
    follow: Follow | None = None
    world: World | None = None

    def open(self) -> Source:
        """The file, read-only. Raises as ``open_source``."""
        if self.follow is None:
            return open_source(self.path)
        return GrowingFile(self.path, self.follow.is_over, self.follow.on_wait)

    @property
    def is_log(self) -> bool:
        """It holds batches."""
        return self.kind in (Kind.LOG, Kind.CHECKPOINT, Kind.WORLD_LOG)

    @property
    def topic(self) -> str | None:
        """See ``topic_of``; None of a stream."""
        return None if self.unnamed else topic_of(self.path, self.kind)

    @property
    def file_name(self) -> str:
        """Last component of the path."""
        return last_name(self.path)


def target_of(file: InputFile) -> Target:
    """The target for a file."""
    match file:
        case Stream(path=path):
            return Target(path, Kind.LOG, None, unnamed=True)
        case TextFile(path=path):
            return Target(path, None, None)
        case KafkaFile():
            return Target(file.path, file.kind, file.base_offset, world=file.world)


def targets_of(inputs: Iterable[Input], on_error: OnError, *, all_files: bool = False) -> Iterator[Target]:
    """The targets of inputs, those of a directory as it is listed.

    Args:
        inputs: what the PATHs mean.
        on_error: takes what is wrong with a PATH, or with a directory in it.
        all_files: in directories, also index files, snapshots and checkpoints.
    """
    for found in inputs:
        try:
            is_listed = isinstance(found, PathDirectory)
            for file in found.files(on_error, all_files=all_files):
                yield replace(target_of(file), is_listed=is_listed)
        except KdumpError as error:
            if error.code is Codes.NOT_A_SEGMENT_FILE:
                error.message = "not a segment file by its name (a stream can be read with -)"
            on_error(error)


def listed_targets(inputs: Iterable[Input], *, all_files: bool) -> list[Target | KdumpError]:
    """All of ``targets_of``; what is wrong with a PATH is in its place."""
    found: list[Target | KdumpError] = []
    found.extend(targets_of(inputs, found.append, all_files=all_files))
    return found


def bytes_of(targets: Iterable[Target | KdumpError]) -> int:
    """Bytes of the logs on this machine that can be read now."""
    total = 0
    for target in targets:
        if isinstance(target, Target) and target.is_log and not target.unnamed and not is_uri(target.path):
            with suppress(KdumpError):
                total += files.size(target.path)
    return total


def target_by_java_name(name: str, *, world: World | None = None) -> Target | None:
    """The file that a name of ``--files`` means; None where the Java tool says ``Ignoring unknown file``.

    ``world``: as the tool of that world takes it, to which every name is that of a log.

    It is always a file of this machine: to the Java tool ``s3://b/0.log`` is a file in the directory ``s3:``.
    """
    path = normalize_path(name)
    file_name = last_name(path)
    dot = file_name.rfind(".")
    try:
        kind = Kind.WORLD_LOG if world is not None else Kind(file_name[dot:] if dot >= 0 else "")
    except ValueError:
        return None
    base_offset = parse_long(file_name.partition(".")[0])
    return Target(path, kind, base_offset, may_be_missing=kind is Kind.TXN_INDEX, world=world)
