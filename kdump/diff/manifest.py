"""A manifest of copies: every file with its SHA-256, every partition with digests of ranges of offsets.

It is a text file: ``<sha256>  <path>`` for each file, as ``sha256sum -c`` reads it, and lines that begin with ``# ``
followed by JSON. The digest of a range is that of the bytes of its batches, one after the other, so segment boundaries
play no part in it.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from kdump import __version__
from kdump.codes import Codes, KdumpError, OnError
from kdump.diff.contents import stored_batches
from kdump.diff.copies import CopySummary, LoadedCopy, load
from kdump.diff.places import PartitionName, copies_of
from kdump.inputs import Input, PathDirectory, WorldLog
from kdump.log import files
from kdump.log.content import Content, sha256
from kdump.log.lines import lines_of
from kdump.log.opening import open_source
from kdump.rows.scalarlines import json_text
from kdump.wire.jsontext import read_json

RANGE_OFFSETS: Final = 4096
"""Offsets of a range: it holds the batches whose first offset divided by this is one number."""
_VERSION: Final = 1
MARK: Final = b'# {"type":"manifest",'
_MOST: Final = 1 << 30
"""Bytes of a manifest: 300 for each range of 4,096 offsets."""
_FILE_LINE: Final = re.compile(r"(\\?)([0-9a-f]{64})  (.*)")


class RangeDigest(NamedTuple):
    """Batches of a partition: the first and last offset that they hold, how many they and their records are."""

    first: int
    last: int
    batches: int
    records: int
    digest: str


class ListedPartition(NamedTuple):
    """A partition as a manifest has it; ``copy``: of the manifest's path."""

    name: PartitionName | None
    copy: CopySummary
    ranges: Sequence[RangeDigest]


class ListedFile(NamedTuple):
    """A file as a manifest has it."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CopyManifest:
    """What a manifest says. ``roots``: the PATHs that it was made of; ``path``: its own."""

    path: str
    roots: tuple[str, ...]
    files: tuple[ListedFile, ...]
    partitions: tuple[ListedPartition, ...]


def is_manifest(found: Input) -> bool:
    """A file begins as a manifest does. False where it cannot be read."""
    try:
        if isinstance(found, PathDirectory):
            return False
        with open_source(found.path) as source:
            return source.size is not None and source.read(0, len(MARK)) == MARK
    except KdumpError:
        return False


def manifest_lines(inputs: Iterable[Input], on_error: OnError, own: Iterable[str]) -> Iterator[str]:
    """The lines of a manifest of what some PATHs hold.

    Args:
        inputs: segments, partition directories or log directories.
        on_error: takes what is wrong with a PATH, a copy or a file; what can be read is still listed.
        own: names of the file that the lines go to, which may lie in a PATH. It is not listed.
    """
    roots, own = list(inputs), list(own)
    paths = [root.path for root in roots]
    yield _comment({"type": "manifest", "version": _VERSION, "kdump": __version__, "paths": paths})
    for root in roots:
        try:
            # Of another world there are files only.
            is_other = root.world is not None and not isinstance(root, WorldLog)
            copies = () if is_other else copies_of(root, on_error).copies
            for path in files_below(root.path, own):
                yield from _file_lines(path, on_error)
        except KdumpError as error:
            on_error(error.located(root.path))
            continue
        for place in copies:
            try:
                yield _partition_line(load(place))
            except KdumpError as error:
                on_error(error.located(place.directory))


def read_manifest(path: str) -> CopyManifest:
    """What a manifest says.

    Raises:
        KdumpError: it cannot be read, or is malformed.
    """
    roots: tuple[str, ...] = ()
    sizes: dict[str, int] = {}
    listed: list[tuple[str, str]] = []
    partitions = []
    for number, line in enumerate(_lines(path)):
        try:
            if line.startswith(b"# "):
                told = read_json(line[2:])
                match told["type"]:
                    case "manifest":
                        if told["version"] != _VERSION:
                            raise ValueError(f"version {told['version']} is not known")
                        roots = tuple(map(str, told["paths"]))
                    case "file":
                        sizes[str(told["path"])] = _int64(told["size"])
                    case "partition":
                        partitions.append(_partition(told, path))
            elif line:
                listed.append(_file(line.decode("utf-8", "surrogateescape")))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, struct.error) as error:
            message = f"line {number + 1} is none of a manifest: {error}"
            raise KdumpError(Codes.MANIFEST, message, path=path) from None
    found = tuple(ListedFile(name, sizes.get(name, -1), digest) for digest, name in listed)
    return CopyManifest(path, roots, found, tuple(partitions))


def _lines(path: str) -> Iterator[bytes]:
    """The lines of a manifest. Raises as ``read_manifest``."""
    with open_source(path) as source:
        size = source.size or 0
        if size > _MOST:
            raise KdumpError(Codes.FILE_SIZE, f"has {size:,} bytes, {_MOST:,} are the most of a manifest", path=path)
        yield from lines_of(source, size)


def ranges_of(copy: LoadedCopy, first: int, end: int) -> Iterator[RangeDigest]:
    """The ranges of a copy, of the batches between two offsets (``end`` exclusive), in the order of the log.

    Raises:
        KdumpError: a log cannot be read.
    """
    table = copy.table
    numbers = np.flatnonzero((table.first >= first) & (table.last < end))
    place = table.first // RANGE_OFFSETS
    digest = hashlib.sha256()
    current: list[int] = []

    def closed() -> RangeDigest:
        rows = np.array(current)
        records = int(np.maximum(table.rows["record_count"][rows], 0).sum())
        span = int(table.first[rows].min()), int(table.last[rows].max())
        return RangeDigest(*span, rows.size, records, digest.hexdigest())

    for stored in stored_batches(table, numbers):
        places = place[stored.numbers]
        cuts = [0, *(np.flatnonzero(places[1:] != places[:-1]) + 1).tolist(), places.size]
        for begin, stop in pairwise(cuts):
            if current and place[current[-1]] != places[begin]:
                yield closed()
                digest, current = hashlib.sha256(), []
            digest.update(stored.data[stored.bounds[begin] : stored.bounds[stop]])
            current += stored.numbers[begin:stop].tolist()
    if current:
        yield closed()


def files_below(root: str, left_out: Iterable[str]) -> Iterator[str]:
    """The files of a PATH: itself, or all in the directory and the directories in it, in order, but for some."""
    left_out = {os.path.realpath(path) for path in left_out}
    names = {os.path.basename(path) for path in left_out}
    if not files.is_directory(root):
        yield root
        return
    folders = [root]
    while folders:
        folder = folders.pop()
        entries = sorted(files.listing(folder), key=lambda entry: entry.name)
        regular = {entry.name for entry in files.regular_files(folder)}
        for path in (os.path.join(folder, entry.name) for entry in entries if entry.name in regular):
            if os.path.basename(path) not in names or os.path.realpath(path) not in left_out:
                yield path
        folders += [os.path.join(folder, entry.name) for entry in reversed(entries) if entry.is_directory]


def _file_lines(path: str, on_error: OnError) -> Iterator[str]:
    try:
        size = files.size(path)
        digest = sha256(Content.of_file(path, size))
    except KdumpError as error:
        on_error(error.located(path))
        return
    yield _comment({"type": "file", "path": path, "size": size})
    # As sha256sum writes names that would break the line.
    name = path.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    yield f"{'' if name == path else chr(92)}{digest}  {name}\n"


def _partition_line(copy: LoadedCopy) -> str:
    place = copy.place
    topic, partition = place.name or (None, None)
    ranges = list(ranges_of(copy, copy.log_start, copy.log_end))
    return _comment(
        {
            "type": "partition",
            "path": place.log or place.directory,
            "topic": topic,
            "partition": partition,
            "topicId": place.topic_id,
            "clusterId": place.cluster_id,
            "nodeId": place.node_id,
            "logStart": copy.log_start,
            "logEnd": copy.log_end,
            "highWatermark": copy.high_watermark,
            "epochs": copy.epochs,
            "batches": sum(one.batches for one in ranges),
            "records": sum(one.records for one in ranges),
            "ranges": ranges,
        }
    )


def _comment(members: dict[str, Any]) -> str:
    return f"# {json_text(members)}\n"


def _file(line: str) -> tuple[str, str]:
    match = _FILE_LINE.fullmatch(line)
    if match is None:
        raise ValueError("neither a checksum with a path, nor a remark")
    escaped, digest, name = match.groups()
    if escaped:
        name = re.sub(r"\\(.)", lambda found: {"n": "\n", "r": "\r"}.get(found[1], found[1]), name)
    return digest, name


def _partition(told: dict[str, Any], path: str) -> ListedPartition:
    """``path``: of the manifest."""
    topic = told["topic"]
    copy = CopySummary(
        path,
        str(told["path"]),
        _int64(told["logStart"]),
        # The end of a log is after its last offset, which may be the largest one.
        _int64(int(told["logEnd"]) - 1) + 1,
        _int64(told["highWatermark"]),
        tuple((_int64(epoch), _int64(start)) for epoch, start in told["epochs"]),
        _text(told["topicId"]),
        _text(told["clusterId"]),
        None if told["nodeId"] is None else _int64(told["nodeId"]),
    )
    name = None if topic is None else (str(topic), _int64(told["partition"]))
    return ListedPartition(name, copy, [_range(*one) for one in told["ranges"]])


def _range(first: int, last: int, batches: int, records: int, digest: str) -> RangeDigest:
    return RangeDigest(_int64(first), _int64(last), _int64(batches), _int64(records), bytes.fromhex(digest).hex())


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _int64(value: Any) -> int:
    number = int(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("a number has more than 64 bits")
    return number
