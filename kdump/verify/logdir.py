"""A log directory: its checkpoints against the partitions in it, its directory names, its meta.properties.

Source: docs/spec/formats.md#5-directories-and-names and docs/spec/formats.md#9-text-files;
docs/spec/startup.md#4-recovery-of-the-log (rules 16 to 18, 24 and 29) for what a broker does with a checkpoint that
does not fit. Nothing is written and no segment is read: the caller has walked them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.format import checkpoint
from kdump.kafka.image.names import TopicNames
from kdump.log import files
from kdump.log.files import FileFingerprint
from kdump.log.lock import is_held
from kdump.log.names import (
    LOCK_FILE,
    LOG_DIRECTORY_MARKERS,
    LOG_DIRECTORY_TEXT_FILES,
    NO_PARTITIONS,
    is_uri,
    no_partition_name,
    parse_partition_directory,
)
from kdump.log.opening import read_whole
from kdump.log.partition import has_gone
from kdump.verify.siblings import beyond_end

_DIRECTORY_STATES: Final = ("-delete", "-future", "-stray")

Partition = tuple[str, int]


class PartitionExtent(NamedTuple):
    """What the segments of a partition cover.

    ``end_offset`` follows the last record; ``last_base`` is the base offset of the last segment. ``reached``: see
    ``siblings.LogSummary``.
    """

    start_offset: int
    end_offset: int
    last_base: int
    reached: int | None = None


class Checkpoints:
    """The offset checkpoints of a log directory, as they are when this object is made.

    They are read before the partitions, so a log that a broker appends to is never shorter than they say.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        # A store is read once the log directory is known to be one; nobody writes there.
        self._contents: dict[str, bytes | KdumpError | None] = {}
        if not is_uri(directory):
            self._contents = dict.fromkeys(_CHECKPOINTS)
            with suppress(KdumpError):
                names = {entry.name for entry in files.listing(directory)} & _CHECKPOINTS.keys()
                self._contents |= {name: self._read(name) for name in names}

    def content(self, name: str) -> bytes | KdumpError | None:
        """The bytes of a checkpoint, or the error; None if it was written after this object was made."""
        return self._contents[name] if self._contents else self._read(name)

    def _read(self, name: str) -> bytes | KdumpError | None:
        path = os.path.join(self.directory, name)
        try:
            return read_whole(path)
        except KdumpError as error:
            return None if has_gone(path, error) else error


def check_log_directory(
    checkpoints: Checkpoints,
    partitions: Mapping[Partition, PartitionExtent | None],
    names: TopicNames,
) -> Iterator[Finding]:
    """Check everything in a log directory but the partitions themselves.

    Args:
        checkpoints: of the directory.
        partitions: those that have a directory. None: the extent is not known, or the lines are not those of the
            directory (``owner_of_lines``).
        names: of topics.
    """
    directory = checkpoints.directory
    try:
        entries = sorted(files.listing(directory), key=lambda entry: entry.name)
    except KdumpError as error:
        yield Finding(error.code, error.message, 0, path=directory)
        return
    folders = [entry.name for entry in entries if entry.is_directory]
    files_there = {entry.name for entry in entries if not entry.is_directory}
    for finding in check_directory_names(folders):
        yield replace(finding, path=os.path.join(directory, finding.path or ""))
    for name in sorted(files_there & _CHECKPOINTS.keys()):
        content = checkpoints.content(name)
        if content is not None:
            yield from _check_checkpoint(os.path.join(directory, name), content, partitions)
    yield from _check_topic_ids(directory, folders, names)
    yield from _check_markers(directory, files_there)


def check_directory_names(names: Iterable[str]) -> Iterator[Finding]:
    """Check the directory names of one log directory: no partition, in transit, or there twice."""
    seen: dict[Partition, str] = {}
    for name in sorted({*names} - NO_PARTITIONS):
        partition = parse_partition_directory(name)
        if partition is None:
            message = f"{no_partition_name(name)}; kdump passes it over, and a broker does not start with it"
            yield Finding(Codes.DIRECTORY_NAME, message, 0, path=name)
        elif name.endswith(_DIRECTORY_STATES):
            message = f"{partition[0]}-{partition[1]} {_STATE_TEXT[name.rpartition('-')[2]]}"
            yield Finding(Codes.DIRECTORY_STATE, message, 0, path=name)
        elif partition in seen:
            yield Finding(Codes.DUPLICATE_PARTITION, f"the same partition as {seen[partition]}", 0, path=name)
        else:
            seen[partition] = name


_STATE_TEXT: Final = {
    "delete": "is about to be deleted",
    "future": "is a copy that is being moved to this directory",
    "stray": "is not placed on this broker by the metadata",
}

_Judge = Callable[[int, PartitionExtent], Finding | None]


def _recovery_point(offset: int, extent: PartitionExtent) -> Finding | None:
    return _after_end(Codes.RECOVERY_POINT, "the recovery point", offset, extent)


def _high_watermark(offset: int, extent: PartitionExtent) -> Finding | None:
    return _after_end(Codes.HIGH_WATERMARK, "the high watermark", offset, extent)


def _log_start(offset: int, extent: PartitionExtent) -> Finding | None:
    if offset > extent.end_offset:
        message = f"the log start offset is {offset}, the log ends before {extent.end_offset}"
        return Finding(Codes.LOG_START, message, 0)
    return None


def _cleaner_offset(offset: int, extent: PartitionExtent) -> Finding | None:
    # The last segment is never cleaned, so the first offset not cleaned is at most its base.
    if offset > max(extent.last_base, extent.start_offset):
        message = f"cleaned up to {offset}, but the last segment begins at {extent.last_base}"
        return Finding(Codes.CLEANER_OFFSET, message, 0)
    return None


def _after_end(code: Codes, what: str, offset: int, extent: PartitionExtent) -> Finding | None:
    if offset <= extent.end_offset:
        return None
    message = f"{what} is {offset}, the log ends before {extent.end_offset}"
    return beyond_end(code, message, offset, extent.end_offset, extent.reached)


_CHECKPOINTS: Final[Mapping[str, _Judge]] = {
    checkpoint.RECOVERY_POINT_CHECKPOINT: _recovery_point,
    checkpoint.LOG_START_CHECKPOINT: _log_start,
    checkpoint.HIGH_WATERMARK_CHECKPOINT: _high_watermark,
    checkpoint.CLEANER_CHECKPOINT: _cleaner_offset,
}


def _check_checkpoint(
    path: str, content: bytes | KdumpError, partitions: Mapping[Partition, PartitionExtent | None]
) -> Iterator[Finding]:
    try:
        if isinstance(content, KdumpError):
            raise content
        entries = checkpoint.parse_offset_checkpoint(content)
    except KdumpError as error:
        yield _refused(path, error)
        return
    judge = _CHECKPOINTS[os.path.basename(path)]
    missing: list[str] = []
    for topic, partition, offset in entries:
        name = f"{topic}-{partition}"
        if offset < 0:
            yield Finding(Codes.TEXT_FILE, f"{name}: a negative offset, {offset}", 0, path=path)
        elif (topic, partition) not in partitions:
            missing.append(f"{name}, offset {offset}: no directory")
        elif (extent := partitions[topic, partition]) and (finding := judge(offset, extent)):
            yield replace(finding, message=f"{name}: {finding.message}", path=path)
    if missing:
        # One finding for all: a log directory that was copied in part may lack thousands.
        others = f", nor for {len(missing) - 1:,} other partitions" if len(missing) > 1 else ""
        graded = Severity.INFO if _lags_its_broker(path) else None
        yield Finding(Codes.PARTITION_MISSING, missing[0] + others, 0, path=path, graded=graded)


def _lags_its_broker(path: str) -> bool:
    """Whether a running broker has made or removed directories since it wrote a checkpoint, which takes seconds."""
    directory = os.path.dirname(path)
    if not is_held(directory):
        return False
    try:
        return FileFingerprint.of(directory).modified >= FileFingerprint.of(path).modified
    except KdumpError:
        return True


def _check_topic_ids(directory: str, folders: Iterable[str], names: TopicNames) -> Iterator[Finding]:
    """Check that all partitions of a topic have its id."""
    owners: dict[str, dict[str, str]] = defaultdict(dict)
    for name in folders:
        partition = parse_partition_directory(name)
        if partition is None or name.endswith(_DIRECTORY_STATES):
            continue
        path = os.path.join(directory, name, checkpoint.PARTITION_METADATA)
        try:
            topic_id = checkpoint.parse_topic_id(read_whole(path))
        except KdumpError:
            # Older brokers wrote none. The check of the partition reports a malformed one.
            continue
        known = owners[partition[0]]
        if known and topic_id not in known:
            other_id, other = next(iter(known.items()))
            own_text, other_text = names.text(topic_id, directory), names.text(other_id, directory)
            yield Finding(Codes.TOPIC_ID, f"topic id {own_text}, that of {other} is {other_text}", 0, path=path)
        known.setdefault(topic_id, name)


def _check_markers(directory: str, files: set[str]) -> Iterator[Finding]:
    """Check meta.properties, the clean-shutdown marker and the lock file.

    Where no file is a broker's, somebody has captured partitions in a folder: it need not have them.
    """
    if not files & {*LOG_DIRECTORY_TEXT_FILES, *LOG_DIRECTORY_MARKERS, LOCK_FILE}:
        return
    path = os.path.join(directory, checkpoint.META_PROPERTIES)
    if checkpoint.META_PROPERTIES not in files:
        yield Finding(Codes.META_PROPERTIES, "there is no meta.properties", 0, path=path)
    else:
        yield from _refusals(path, checkpoint.parse_meta_properties)
    path = os.path.join(directory, checkpoint.CLEAN_SHUTDOWN)
    if checkpoint.CLEAN_SHUTDOWN not in files:
        yield Finding(Codes.UNCLEAN_SHUTDOWN, "there is no marker of a clean shutdown", 0, path=path)
    else:
        yield from _refusals(path, checkpoint.parse_clean_shutdown)
    if LOCK_FILE in files:
        path = os.path.join(directory, LOCK_FILE)
        yield from _refusals(path, lambda data: None)
        yield Finding(Codes.LOCK_FILE, "a broker runs or ran here", 0, path=path)


def _refusals(path: str, parse: Callable[[bytes], object]) -> Iterator[Finding]:
    try:
        parse(read_whole(path))
    except KdumpError as error:
        yield _refused(path, error)


def _refused(path: str, error: KdumpError) -> Finding:
    return Finding(error.code, error.message, error.position or 0, path=path)
