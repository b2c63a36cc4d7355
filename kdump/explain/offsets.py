"""The place of an offset in the segments of a partition."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from kdump.codes import Codes, KdumpError
from kdump.explain.locate import entries
from kdump.format.batch import CODEC_MASK, HEADER_SIZE, MAGIC_OFFSET, is_read_as_batch, parse_header
from kdump.log.names import base_of
from kdump.log.opening import open_source


class OffsetPlace(NamedTuple):
    """Where an entry begins that holds an offset."""

    path: str
    position: int
    first_offset: int
    """Above the offset that was asked for if that one is missing, as after compaction."""


def place_of(segments: Sequence[str], offset: int) -> OffsetPlace:
    """The first entry whose last offset is not below ``offset``.

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
                    return OffsetPlace(path, entry.position, base)
    raise KdumpError(Codes.MISSING, f"no entry has offset {offset} or a later one", path=segments[-1])
