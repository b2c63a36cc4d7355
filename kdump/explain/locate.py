"""Which entry of a log covers a position, found as every reader finds it: from the start of the file, by lengths."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kdump.codes import Codes, KdumpError
from kdump.format.batch import CODEC_MASK, HEADER_SIZE, MAGIC_OFFSET, is_read_as_batch, parse_header
from kdump.log.names import base_of
from kdump.log.opening import open_source
from kdump.log.source import MemorySource, Source
from kdump.log.walk import Stop, Walk

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class NumberedEntry:
    """A whole entry, as long as its length field says; ``number`` counts the entries of the walk from 0."""

    number: int
    position: int
    end: int


@dataclass(frozen=True, slots=True)
class WalkEnd:
    """No entry covers the position: the walk over ``size`` bytes ended at ``position``, after ``number`` entries."""

    number: int
    position: int
    size: int
    stop: Stop


def locate(source: Source, position: int, start: int = 0) -> NumberedEntry | WalkEnd:
    """The entry that covers ``position``, or where the walk from ``start`` on ended before it.

    Raises:
        KdumpError: UNREADABLE.
    """
    walk = Walk(source, start=start)
    number = 0
    for chunk in walk.chunks():
        if position < chunk.position + chunk.end:
            index = bisect_right(chunk.starts, position - chunk.position) - 1
            start, end = next(chunk.entries(index))
            return NumberedEntry(number + index, chunk.position + start, chunk.position + end)
        number += len(chunk.starts)
    return WalkEnd(number, walk.position, walk.end, walk.stop)


def entries(source: Source, start: int = 0) -> Iterator[tuple[NumberedEntry, memoryview]]:
    """The entries from ``start`` on, each with its bytes, which are valid until the next one is asked for.

    Raises:
        KdumpError: UNREADABLE.
    """
    number = 0
    for chunk in Walk(source, start=start).chunks():
        for first, end in chunk.entries():
            yield NumberedEntry(number, chunk.position + first, chunk.position + end), chunk.data[first:end]
            number += 1


def first_nonzero(source: Source, position: int, end: int) -> int | None:
    """Position of the first byte that is not zero, None if all bytes up to ``end`` are zero.

    The holes of a sparse file are not read.
    """
    while (position := source.data_from(position)) < end:
        block = source.read(position, min(_BLOCK, end - position))
        if not block:
            return None
        rest = block.lstrip(b"\0")
        if rest:
            return position + len(block) - len(rest)
        position += len(block)
    return None


def seekable(source: Source, limit: int) -> Source:
    """``source`` itself, or the bytes of a stream in memory: an explanation reads them twice.

    Raises:
        KdumpError: UNREADABLE, also for a stream of more than ``limit`` bytes.
    """
    if source.size is not None:
        return source
    parts: list[bytes] = []
    size = 0
    while part := source.read(size, _BLOCK):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise KdumpError(Codes.UNREADABLE, f"over {limit:,} bytes from a stream: save it first", path=source.path)
    return MemorySource(source.path, b"".join(parts))


def place_of(segments: Sequence[str], offset: int) -> tuple[str, int, int]:
    """The path, the position and the first offset of the first entry whose last offset is not below ``offset``.

    Its first offset is above the one that was asked for if that is missing, as after compaction.

    Args:
        segments: the .log files of one partition, in offset order.
        offset: of a record.

    Raises:
        KdumpError: MISSING where no entry has the offset or a later one; UNREADABLE.
    """
    first = max(0, bisect_right(segments, offset, key=base_of) - 1)
    following = base_of(segments[first])
    for path in segments[first:]:
        with open_source(path) as source:
            for entry, data in entries(source):
                base = last = int.from_bytes(data[:8], "big", signed=True)
                if is_read_as_batch(data[MAGIC_OFFSET]) and len(data) >= HEADER_SIZE:
                    last = parse_header(data).last_offset
                elif data[MAGIC_OFFSET + 1] & CODEC_MASK:
                    # A wrapper has the offset of its last message.
                    base = min(following, last)
                following = last + 1
                if last >= offset:
                    return path, entry.position, base
    raise KdumpError(Codes.MISSING, f"no entry has offset {offset} or a later one", path=segments[-1])
