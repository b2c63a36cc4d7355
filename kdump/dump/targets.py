"""The files of a dump: what a PATH, or a name of ``--files``, means.

Source: docs/contract.md#11-paths, docs/spec/dump-output.md#3-per-file-dispatch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from kdump.codes import Codes, KdumpError, OnError
from kdump.inputs import (
    Input,
    InputFile,
    KafkaFile,
    PathDirectory,
    Stream,
    TextFile,
    file_by_name,
    topic_of,
)
from kdump.log import files
from kdump.log.growing import GrowingFile
from kdump.log.names import Kind, is_uri, last_name
from kdump.log.opening import open_source
from kdump.log.partition import segments_after
from kdump.log.source import Source
from kdump.payloads.java import normalize_path, parse_long
from kdump.worlds import World


class Target(NamedTuple):
    """One file to dump.

    ``kind``: None for a text file, one of ``names.TEXT_FILES``. ``base_offset``: None where the name has none.
    ``unnamed``: a stream, whose first batch tells the base offset. ``may_be_missing``: the Java tool takes a missing
    transaction index for an empty one. ``is_listed``: the file was found in a directory, not named, so it is no error
    when it is deleted before it is read. ``on_wait``: the log is read as it grows, until it has a successor; see
    GrowingFile. ``world``: whose log it is; None: a file of today.
    """

    path: str
    kind: Kind | None
    base_offset: int | None
    unnamed: bool = False
    may_be_missing: bool = False
    is_listed: bool = False
    on_wait: Callable[[str], None] | None = None
    world: World | None = None

    def open(self) -> Source:
        """The file, read-only. Raises as ``open_source``."""
        if self.on_wait is None:
            return open_source(self.path)
        return GrowingFile(self.path, lambda: bool(segments_after(self.path)), self.on_wait)

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
                yield target_of(file)._replace(is_listed=is_listed)
        except KdumpError as error:
            if error.code is Codes.NOT_A_SEGMENT_FILE:
                error.message = "not a segment file by its name (a stream can be read with -)"
            on_error(error)


def followed(found: Input, on_wait: Callable[[str], None]) -> Iterator[Target]:
    """The segments of ``found``, a log or a partition directory. The newest is read as it grows.

    When a segment is rolled, the next one follows. It ends only where the newest segment cannot be read any more.

    Raises:
        KdumpError: there is no such segment or partition, or ``found`` is a log directory or another kind of file.
    """
    for segment, is_newest in _growing(found):
        log = None if isinstance(found, Stream) else file_by_name(segment)
        if log is None or log.kind not in (Kind.LOG, Kind.WORLD_LOG):
            raise KdumpError(Codes.NOT_A_SEGMENT_FILE, "only a log or a partition can be followed", path=segment)
        target = target_of(log)
        # One more may have been made since they were listed.
        if is_newest and not segments_after(segment):
            target = target._replace(on_wait=on_wait)
        yield target


def _growing(found: Input) -> Iterator[tuple[str, bool]]:
    """The segments that are there, then those that are made while the newest one is read; each with whether it is that.

    The directory is not listed for each of them.
    """
    path = found.path
    if not files.exists(path):
        raise KdumpError(Codes.MISSING, "no such file or directory", path=path)
    if not isinstance(found, PathDirectory):
        pending = [path]
    else:
        errors: list[KdumpError] = []
        pending = []
        of_worlds: dict[World, list[str]] = {}
        for log in found.files(errors.append):
            (pending if log.world is None else of_worlds.setdefault(log.world, [])).append(log.path)
        if errors:
            raise errors[0]
        world, others = next(iter(of_worlds.items()), (None, []))
        if pending and world is not None:
            message = f"has logs of {world.title} and of today: name the one to follow"
            raise KdumpError(Codes.NOT_A_SEGMENT_FILE, message, path=path)
        pending = pending or others
        if len({os.path.dirname(segment) for segment in pending}) > 1:
            raise KdumpError(Codes.NOT_A_SEGMENT_FILE, "a log directory: one partition can be followed", path=path)
    while pending:
        *others, newest = pending
        for segment in others:
            yield segment, False
        yield newest, True
        pending = segments_after(newest)


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
