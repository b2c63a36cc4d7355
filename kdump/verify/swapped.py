"""Logs of two segments that were exchanged: each has the offsets of the other one's name.

A broker notices nothing at a clean start. After another stop its recovery fails
(docs/spec/startup.md#rule-12-offsets-that-do-not-fit-a-segment).
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from kdump.codes import Codes, Finding, KdumpError
from kdump.log.names import is_uri, parse_file_name
from kdump.log.opening import open_source

OFFSET_BYTES = 8
"""The first field of every entry: its first offset, or the last one of a compressed message of magic 0 or 1."""


def first_offset_of(head: bytes) -> int | None:
    """The offset at the start of a log, None for an empty one."""
    return int.from_bytes(head[:OFFSET_BYTES], "big", signed=True) if len(head) >= OFFSET_BYTES else None


def first_offsets(paths: Iterable[str]) -> list[int | None]:
    """The offsets at the start of logs on disk; None if a log is empty or cannot be read."""
    found = []
    for path in paths:
        try:
            with open_source(path) as source:
                found.append(None if source.size is None else first_offset_of(source.read(0, OFFSET_BYTES)))
        except KdumpError:
            found.append(None)
    return found


def swapped(bases: Sequence[int], firsts: Sequence[int | None]) -> list[tuple[int, int]]:
    """Pairs of numbers of logs that were exchanged, the lower one first.

    Args:
        bases: the base offsets of the names, rising.
        firsts: the offset with which each log begins.
    """
    home: dict[int, int] = {}
    for number, first in enumerate(firsts):
        if first is not None and (place := bisect_right(bases, first) - 1) not in (number, -1):
            home[number] = place
    return [(number, other) for number, other in home.items() if number < other and home.get(other) == number]


def exchanged_logs(segments: Sequence[str]) -> dict[str, str]:
    """The other log of each one that was exchanged, by path; only for files, whose first bytes can be read.

    Args:
        segments: paths of the logs of a partition, in offset order.
    """
    names = map(parse_file_name, segments)
    bases = [name.base_offset for name in names if name is not None and name.base_offset is not None]
    if len(bases) < max(2, len(segments)) or any(map(is_uri, segments)):
        return {}
    pairs = swapped(bases, first_offsets(segments))
    return {segments[one]: segments[other] for pair in pairs for one, other in (pair, pair[::-1])}


def swapped_finding(path: str, other: str) -> Finding:
    """The one finding about the two logs."""
    message = (
        f"its contents and those of {os.path.basename(other)} are exchanged: give each the other's name, with its "
        "index files if they were exchanged too, then verify again"
    )
    return Finding(Codes.SEGMENTS_SWAPPED, message, 0, path=path)
